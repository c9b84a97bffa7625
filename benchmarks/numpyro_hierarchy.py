"""A hierarchical Dirichlet-multinomial: NUTS on probabilities that underflow, SCIR, and the truth.

Rows of counts x_i ~ Multinomial(n, p_i), p_i ~ Dirichlet(c b), b ~ Dirichlet(1), c ~ Gamma(2, 0.1).
With the p_i summed out, NUTS samples c and b alone, which are well behaved: that is the truth here.

usage: python benchmarks/numpyro_hierarchy.py [--keep FILE]
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import kept
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

from simplex_jax.numpyro import SCIR

ROWS, CATEGORIES, TRIALS = 40, 20, 30


def data() -> np.ndarray:
    """Return counts whose rows are sparse: c = 5 over weights that fall like 1 / k^1.5."""
    rng = np.random.default_rng(0)
    weights = np.arange(1, CATEGORIES + 1) ** -1.5
    p = rng.dirichlet(5 * weights / weights.sum(), size=ROWS)
    return np.array([rng.multinomial(TRIALS, row / row.sum()) for row in p])


def hierarchy(x, summed: bool = False):
    """The model; `summed` integrates the probabilities of the rows."""
    c = numpyro.sample("c", dist.Gamma(2.0, 0.1))
    b = numpyro.sample("b", dist.Dirichlet(jnp.ones(CATEGORIES)))
    with numpyro.plate("rows", len(x)):
        if summed:
            numpyro.sample("x", dist.DirichletMultinomial(c * b, TRIALS), obs=x)
        else:
            p = numpyro.sample("p", dist.Dirichlet(c * b))
            numpyro.sample("x", dist.Multinomial(TRIALS, p), obs=x)


def measure(kernel, samples: int, *args) -> dict[str, float]:
    """Return mean, deviation, R-hat, effective size and seconds of c over four chains."""
    mcmc = MCMC(
        kernel,
        num_warmup=samples // 2,
        num_samples=samples,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    began = time.perf_counter()
    mcmc.run(jax.random.key(1), *args, extra_fields=())
    c = np.asarray(mcmc.get_samples(group_by_chain=True)["c"], np.float64)
    return {
        "mean": float(c.mean()),
        "sd": float(c.std()),
        "r_hat": float(split_gelman_rubin(c)),
        "ess": float(effective_sample_size(c)),
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    x = jnp.asarray(data())
    kernels = {
        "NUTS, rows summed out": (NUTS(hierarchy), given.samples, (x, True)),
        "NUTS": (NUTS(hierarchy), given.samples, (x,)),
        "SCIR": (SCIR(hierarchy), 2 * given.samples, (x,)),  # its steps are cheaper
    }
    rows = []
    for name, (kernel, samples, arguments) in kernels.items():
        rows.append({"kernel": name} | measure(kernel, samples, *arguments))
        print(rows[-1], flush=True)
    if given.keep:
        kept.write(given.keep, rows, samples=given.samples)


if __name__ == "__main__":
    main()
