"""Speed and error of log I_nu(x) and its ratio against TensorFlow Probability and SciPy.

    python benchmarks/bessel.py [--size N] [--repeats N] [--keep FILE]

Orders and arguments are drawn log-uniformly from 0.5..5e4 and 1e-3..1e6. Candidates alternate in
every repeat and medians are compared, so that load on the machine affects all alike. The first
call, which compiles, is reported separately. Errors are against this library in float64, itself
tested against a table of 40 digits; TFP (`pip install tfp-nightly`) is optional.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import kept
import numpy as np
from log_bessel import log_iv
from scipy import special

from simplex_jax._src.geometry import bessel


def candidates(order: np.ndarray, x: np.ndarray) -> dict[str, Callable]:
    """Return name -> function without arguments; names end in what it computes."""
    result = {}
    for dtype in (np.float32, np.float64):
        a, b = jnp.asarray(order, dtype), jnp.asarray(x, dtype)
        half = a[0]
        name = np.dtype(dtype).name
        own = {
            "log I": jax.jit(log_iv),
            "log I, gradient": jax.jit(jax.grad(lambda a, b: log_iv(a, b).sum(), 1)),
            "ratio": jax.jit(bessel.ratio),
        }
        for what, function in own.items():
            result[f"simplex_jax {name} {what}"] = lambda f=function, a=a, b=b: f(a, b)
        result[f"simplex_jax {name} log I, one order"] = lambda f=own["log I"], a=half, b=b: f(a, b)
        try:
            from tensorflow_probability.substrates.jax import math
        except ImportError:
            continue
        ive = jax.jit(lambda a, b: math.log_bessel_ive(a, b) + b)
        slope = jax.jit(jax.grad(lambda a, b: (math.log_bessel_ive(a, b) + b).sum(), 1))
        rate = jax.jit(math.bessel_iv_ratio)
        result[f"TFP {name} log I"] = lambda f=ive, a=a, b=b: f(a, b)
        result[f"TFP {name} log I, gradient"] = lambda f=slope, a=a, b=b: f(a, b)
        # TFP's ratio is I_nu / I_{nu - 1}.
        result[f"TFP {name} ratio"] = lambda f=rate, a=a, b=b: f(a + 1, b)
    result["SciPy float64 log I"] = lambda: np.log(special.ive(order, x)) + x
    return result


def measure(functions: dict[str, Callable], size: int, repeats: int) -> dict[str, dict]:
    table: dict[str, dict] = {}
    for name, function in functions.items():
        started = time.perf_counter()
        value = np.asarray(jax.block_until_ready(function()), np.float64)
        table[name] = {"first_call_s": time.perf_counter() - started, "value": value, "times": []}
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.perf_counter()
            jax.block_until_ready(function())
            table[name]["times"].append(time.perf_counter() - started)
    for row in table.values():
        row["ns"] = float(np.median(row.pop("times"))) / size * 1e9
    return table


def errors(table: dict[str, dict]) -> None:
    """Replace values by the largest error over max(1, |exact|), and the non-finite share."""
    exact = {}
    for what in ("log I", "log I, gradient", "ratio"):
        exact[what] = table[f"simplex_jax float64 {what}"]["value"]
    for name, row in table.items():
        value = row.pop("value")
        truth = exact.get(name.split("64 ")[-1].split("32 ")[-1])
        if truth is None:
            continue
        finite = np.isfinite(value)
        error = np.abs(value - truth)[finite] / np.maximum(1, np.abs(truth[finite]))
        row["error"] = float(error.max())
        row["not_finite"] = float(1 - finite.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    # Arguments are float32 numbers, so that both precisions compute the same values.
    order = np.exp(rng.uniform(np.log(0.5), np.log(5e4), options.size)).astype(np.float32)
    x = np.exp(rng.uniform(np.log(1e-3), np.log(1e6), options.size)).astype(np.float32)
    functions = candidates(order.astype(np.float64), x.astype(np.float64))
    table = measure(functions, options.size, options.repeats)
    errors(table)
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    print(
        f"{options.size:,} orders in 0.5..5e4, arguments in 1e-3..1e6; median of {options.repeats}"
    )
    print(f"{'':<44}{'ns each':>9}{'x own':>8}{'first s':>9}{'error':>10}{'not finite':>12}")
    for name, row in table.items():
        own = table.get("simplex_jax " + name.split(" ", 1)[1])
        times = row["ns"] / own["ns"] if own else float("nan")
        error = f"{row['error']:.1e}" if "error" in row else ""
        lost = f"{row['not_finite']:.1%}" if "not_finite" in row else ""
        print(
            f"{name:<44}{row['ns']:9.1f}{times:8.1f}{row['first_call_s']:9.2f}{error:>10}{lost:>12}"
        )
    if options.keep:
        kept.write(options.keep, [{"function": name, **row} for name, row in table.items()])


if __name__ == "__main__":
    main()
