"""Make bessel.csv: 40-digit values of modified Bessel functions, with mpmath.

    python tests/tables/make_bessel_table.py > tests/tables/bessel.csv

The inputs are float32 numbers, taken as exact. I_nu(x) = (x / 2)^nu sum_k t_k with t_k =
(x^2 / 4)^k / (k! Gamma(nu + k + 1)): terms that are all positive and have one maximum, from which
they are summed both ways until they are 1e-50 of it. With 70 digits, so that 40 are left of all
columns: log I, log(Gamma(nu + 1) (2 / x)^nu I), and the ratio I_{nu+1} / I_nu.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 70
SMALLEST = mp.mpf(10) ** -50

ORDERS = (0, 0.5, 1, 3, 9, 15.99, 16, 19.99, 20, 49, 149, 499, 1499, 2499, 9999, 24999, 5e4, 1e5)
POINTS = (1e-3, 0.1, 0.5, 2, 7, 15.99, 16, 20, 50, 200, 1e3, 3e3, 1e4, 3e4, 2e5, 1e6, 1e7)


def log_sum(order: mp.mpf, x: mp.mpf) -> mp.mpf:
    """Return the logarithm of the sum of t_k."""
    square = x * x / 4
    # t_k / t_{k-1} = square / (k (order + k)) is 1 here.
    peak = int(mp.floor((mp.sqrt(order**2 + x * x) - order) / 2))
    total = term = mp.mpf(1)
    for k in range(peak, 0, -1):
        term *= k * (order + k) / square
        total += term
        if term < SMALLEST:
            break
    term, k = mp.mpf(1), peak
    while term > SMALLEST:
        k += 1
        term *= square / (k * (order + k))
        total += term
    largest = peak * mp.log(square) - mp.loggamma(peak + 1) - mp.loggamma(order + peak + 1)
    return largest + mp.log(total)


def main() -> None:
    """Write the table to standard output."""
    print("order,x,log_iv,log_series,ratio")
    for order in map(np.float32, ORDERS):
        # At large orders log I has its zero near 0.663 times the order.
        for x in map(np.float32, sorted({*POINTS, 0.66274 * float(order) or 19.99})):
            nu, y = mp.mpf(float(order)), mp.mpf(float(x))
            here = log_sum(nu, y)
            log_iv = nu * mp.log(y / 2) + here
            following = (nu + 1) * mp.log(y / 2) + log_sum(nu + 1, y)
            values = (log_iv, here + mp.loggamma(nu + 1), mp.exp(following - log_iv))
            columns = ",".join(mp.nstr(value, 40) for value in values)
            print(f"{float(order)!r},{float(x)!r},{columns}")


if __name__ == "__main__":
    main()
