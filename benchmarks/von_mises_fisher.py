"""Speed of von Mises-Fisher draws and densities against TFP and SciPy, in one run.

    python benchmarks/von_mises_fisher.py [--repeats N] [--keep FILE]

Each setting is a dimension, a concentration and a number of draws about one mean that is no axis.
Candidates alternate in every repeat and medians are compared, so that load on the machine affects
all alike; the first call, which compiles, is reported separately. The floor is the cost of the
normals alone: as many as there are coordinates, from JAX. The last columns are the largest errors
of a norm and of the log density, against this library in float64. TFP (`pip install tfp-nightly`)
is optional; SciPy is skipped at large dimensions, where a call takes half a minute.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kept
import numpy as np
from scipy import stats

from simplex_jax._src import draws
from simplex_jax._src.geometry import von_mises_fisher as vmf

SETTINGS = ((2, 10.0, 200_000), (3, 10.0, 200_000), (10, 100.0, 50_000), (500, 1e3, 2_000))
SETTINGS += ((5_000, 3e4, 200),)
MOST_FOR_SCIPY = 500


def candidates(p: int, k: float, size: int) -> dict[str, Callable]:
    """Return name -> function of a seed that draws [size, p]."""
    mean = np.random.default_rng(0).standard_normal(p).astype(np.float32)
    mean = jnp.asarray(mean / np.linalg.norm(mean))
    concentration = jnp.float32(k)
    normal = jax.jit(lambda key: jax.random.normal(key, (size, p)))
    result = {
        "simplex_jax": lambda seed: draws.von_mises_fisher(
            jax.random.key(seed), mean, concentration, (size,)
        ),
        "floor: JAX normals": lambda seed: normal(jax.random.key(seed)),
    }
    try:
        from tensorflow_probability.substrates.jax import distributions as tfd

        peer = jax.jit(lambda key: tfd.VonMisesFisher(mean, concentration).sample(size, seed=key))
        result["TFP"] = lambda seed: peer(jax.random.key(seed))
    except ImportError:
        pass
    if p <= MOST_FOR_SCIPY:  # it forms a rotation matrix, by a QR decomposition, at each call
        unit = np.asarray(mean, np.float64)
        law = stats.vonmises_fisher(unit / np.linalg.norm(unit), k)
        result["SciPy"] = lambda seed: law.rvs(size, random_state=seed)
    return result


def densities(p: int, k: float, x: np.ndarray) -> dict[str, float]:
    """Return the largest error of each candidate's log density at x, in nats."""
    mean = np.random.default_rng(0).standard_normal(p).astype(np.float32)
    mean = mean / np.linalg.norm(mean)
    with jax.enable_x64(True):
        arguments = (np.asarray(array, np.float64) for array in (x, mean, k))
        exact = np.asarray(vmf.log_density(*arguments))
    result = {"simplex_jax": np.asarray(vmf.log_density(x, mean, np.float32(k)))}
    try:
        from tensorflow_probability.substrates.jax import distributions as tfd

        law = tfd.VonMisesFisher(jnp.asarray(mean), jnp.float32(k))
        result["TFP"] = np.asarray(law.log_prob(x))
    except ImportError:
        pass
    if p <= MOST_FOR_SCIPY:
        unit = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
        centre = mean.astype(np.float64) / np.linalg.norm(mean.astype(np.float64))
        with np.errstate(all="ignore"):
            result["SciPy"] = stats.vonmises_fisher(centre, k).logpdf(unit)
    return {name: float(np.max(np.abs(value - exact))) for name, value in result.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()

    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    print(f"us per draw, median of {options.repeats}; ratios to simplex_jax")
    table: list[dict[str, Any]] = []
    for p, k, size in SETTINGS:
        rows: dict[str, dict] = {}
        functions = candidates(p, k, size)
        for name, function in functions.items():
            started = time.perf_counter()
            x = np.asarray(jax.block_until_ready(function(0)), np.float64)
            first = time.perf_counter() - started
            norm = float(np.abs(np.linalg.norm(x, axis=1) - 1).max())
            rows[name] = {"first_call_s": first, "norm_error": norm, "times": []}
        for repeat in range(options.repeats):
            for name, function in functions.items():
                started = time.perf_counter()
                jax.block_until_ready(function(repeat + 1))
                rows[name]["times"].append(time.perf_counter() - started)
        x = np.asarray(functions["simplex_jax"](0))[:200]
        errors = densities(p, k, x)
        print(f"p = {p:,}, k = {k:g}, {size:,} draws")
        for name, row in rows.items():
            row["us"] = float(np.median(row.pop("times"))) / size * 1e6
            row["log_density_error"] = errors.get(name)
            norm = "" if name.startswith("floor") else f"{row['norm_error']:.0e}"
            error = f"{errors[name]:.0e}" if name in errors else ""
            print(
                f"  {name:<20}{row['us']:11.3f}{row['us'] / rows['simplex_jax']['us']:9.2f}"
                f"{row['first_call_s']:8.2f} s first  {norm:>6}{error:>8}",
                flush=True,
            )
            table.append({"dimension": p, "concentration": k, "function": name, **row})
    if options.keep:
        kept.write(options.keep, table)


if __name__ == "__main__":
    main()
