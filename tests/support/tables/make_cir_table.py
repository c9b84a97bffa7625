"""Make cir.csv: 40-digit values of the CIR transition law, with mpmath.

    python tests/tables/make_cir_table.py > tests/tables/cir.csv

With Y ~ Gamma(a + N), N ~ Poisson(r): log P(Y <= y) and log P(Y > y) for y = exp(log_y). The
inputs are float64 numbers, taken as exact. The regularised incomplete gamma functions of the
Poisson sum come from one series and the recurrence P(b, y) = P(b + 1, y) + y^b e^-y /
Gamma(b + 1), started at the far end where it is stable. All with 100 digits, so that the
complement of P keeps 40 as long as it is above 1e-60.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 100


def cdf(shape: float, rate: float, log_y: float) -> mp.mpf:
    """P(Y <= y) for Y ~ Gamma(shape + Poisson(rate)), a sum of positive terms."""
    a, r, y = mp.mpf(shape), mp.mpf(rate), mp.exp(mp.mpf(log_y))
    width = 25 * np.sqrt(rate) + 100
    low, high = max(0, int(rate - width)), int(rate + width)
    # P(a + n, y) is the sum over m >= n of t_m = y^(a + m) e^-y / Gamma(a + m + 1).
    term = mp.exp((a + high) * mp.log(y) - y - mp.loggamma(a + high + 1))
    lower, tail, m = mp.mpf(0), term, high
    while tail > lower * mp.mpf(10) ** -95 or a + m < y:
        lower += tail
        m += 1
        tail *= y / (a + m)
    weight = mp.exp(-r + high * mp.log(r) - mp.loggamma(high + 1))
    total = weight * lower
    for n in range(high - 1, low - 1, -1):
        term *= (a + n + 1) / y
        lower += term
        weight *= (n + 1) / r
        total += weight * lower
    return total


def points(shape: float, rate: float) -> list[float]:
    """Values of log y: over the body of the law, and far down its lower tail if that has mass."""
    mean, sd = shape + rate, np.sqrt(shape + 2 * rate)
    values = [mean + z * sd for z in (-5.0, -2.0, 0.5, 3.0, 8.0)]
    logs = [float(np.log(v)) for v in values if v > 0]
    if rate <= 10 and shape <= 1:
        logs += [-1e6, -1e4, -700.0, -40.0, -5.0]
    return logs


def main() -> None:
    """Write the table to standard output."""
    print("shape,rate,log_y,log_cdf,log_sf")
    for shape in (1e-4, 1e-2, 0.1, 1.0, 10.0, 1e3):
        for rate in (5e-4, 0.05, 0.5, 5.0, 50.0, 5e3, 5e5):
            for log_y in points(shape, rate):
                p = cdf(shape, rate, log_y)
                logs = (mp.nstr(mp.log(v), 40) for v in (p, 1 - p))
                print(f"{shape!r},{rate!r},{log_y!r},{','.join(logs)}")


if __name__ == "__main__":
    main()
