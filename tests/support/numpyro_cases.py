"""Small numpyro models with known posteriors, and independent chains of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC
from scipy import special, stats

from simplex_jax._src.numpyro.distributions import LogDirichlet

LABELS = jnp.array([0] * 12 + [1] * 5 + [2])
POINTS = np.random.default_rng(5).normal(size=30) + np.where(np.arange(30) < 22, -1.0, 0.5)
CENTRES = jnp.array([-1.0, 0.5, 3.0])
ALPHA = 0.3


def categorical(x, subsample_size=None):
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.5)))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", dist.Categorical(p), obs=x[rows])


def mixture(x, subsample_size=None):
    """A sparse mixture with nothing drawn from its third part."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(3, ALPHA)))
    numpyro.deterministic("largest", w.max())
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        parts = dist.Normal(CENTRES, 1.0)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x[rows])


def empties(x):
    """A mixture with six parts too far away for any data."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(8, 0.1)))
    centres = jnp.concatenate([CENTRES[:2], jnp.linspace(50.0, 60.0, 6)])
    with numpyro.plate("rows", len(x)):
        parts = dist.Normal(centres, 1.0)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x)


def sums(y):
    """Counts of sums of two rates: a factorisation with known factors."""
    r = numpyro.sample("r", dist.Gamma(jnp.array([0.5, 2.0]), 1.0).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(jnp.array([[1.0, 2.0], [1.0, 0.2]]) @ r), obs=y)


def tilted(counts, exposure):
    """Counts, and probabilities penalised by their exposures."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, ALPHA)))
    numpyro.factor("x", counts @ jnp.log(p) - exposure @ p)


def rates(x):
    """Counts whose rate follows a gamma Markov chain."""

    def step(last, x):
        r = numpyro.sample("r", dist.Gamma(2.0, 2.0 / last))
        numpyro.sample("x", dist.Poisson(r), obs=x)
        return r, None

    scan(step, 1.0, x)


def learned(x):
    """A concentration learned from a sparse vector."""
    a = numpyro.sample("a", dist.Gamma(2.0, 4.0))
    p = numpyro.sample("p", LogDirichlet(jnp.full(6, 1.0) * a))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Categorical(logits=p), obs=x)


def ends(
    kernel: Any,
    key: jax.Array,
    *data: Any,
    num_chains: int = 1500,
    num_warmup: int = 80,
    num_samples: int = 10,
) -> tuple[dict[str, np.ndarray], MCMC]:
    """The last samples of independent chains, and the run."""
    mcmc = MCMC(
        kernel,
        num_warmup=num_warmup,
        num_samples=num_samples,
        num_chains=num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(key, *data)
    result = mcmc.get_samples(group_by_chain=True)
    last = {name: np.asarray(value[:, -1], np.float64) for name, value in result.items()}
    return last, mcmc


def posterior(
    log_likelihood: Callable[..., np.ndarray], *quantiles: Callable, nodes: int = 600
) -> Callable[[np.ndarray], np.ndarray]:
    """The distribution function of u_1 given the data, for a prior that is uniform in u.

    By the midpoint rule in the prior's quantiles, in which the likelihood is bounded.
    """
    u = (np.arange(nodes) + 0.5) / nodes
    grid = np.meshgrid(*[u] * len(quantiles), indexing="ij")
    log_l = log_likelihood(*(q(g) for q, g in zip(quantiles, grid, strict=True)))
    weights = np.exp(log_l - log_l.max())
    mass = weights.reshape(nodes, -1).sum(axis=1)
    cdf = np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])
    return lambda at: np.interp(at, np.arange(nodes + 1) / nodes, cdf)


def mixture_uniform(w: np.ndarray, part: int = 0) -> np.ndarray:
    """Values that are uniform if a part's weight has its posterior in `mixture`."""
    order = [part, *(j for j in range(3) if j != part)]
    densities = stats.norm.pdf(POINTS[:, None] - np.asarray(CENTRES)[order])

    def log_likelihood(first, share):
        second = (1 - first) * share
        parts = np.stack([first, second, 1 - first - second], axis=-1)
        return np.log(parts @ densities.T).sum(axis=-1)

    prior = stats.beta(ALPHA, 2 * ALPHA)
    cdf = posterior(log_likelihood, prior.ppf, stats.beta(ALPHA, ALPHA).ppf, nodes=400)
    return cdf(prior.cdf(w[:, part]))


def sums_uniform(r: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Values that are uniform if r_1 has its posterior in `sums`."""

    def log_likelihood(one, two):
        rates = np.stack([one + 2 * two, one + 0.2 * two], axis=-1)
        return (y * np.log(rates) - rates).sum(axis=-1)

    laws = stats.gamma(0.5), stats.gamma(2.0)
    return posterior(log_likelihood, laws[0].ppf, laws[1].ppf)(laws[0].cdf(r[:, 0]))


def tilted_uniform(p: np.ndarray, part: int, counts: np.ndarray, exposure: np.ndarray):
    """Values that are uniform if a probability has its posterior in `tilted`."""
    order = [part, *(j for j in range(3) if j != part)]

    def log_likelihood(first, share):
        second = (1 - first) * share
        p = np.stack([first, second, 1 - first - second], axis=-1)
        return -(p @ exposure[order])

    a = ALPHA + counts[order]
    prior = stats.beta(a[0], a[1:].sum())
    cdf = posterior(log_likelihood, prior.ppf, stats.beta(a[1], a[2]).ppf, nodes=1200)
    return cdf(prior.cdf(p[:, part]))


def learned_uniform(a: np.ndarray, counts: np.ndarray, law: Any = None) -> np.ndarray:
    """Values that are uniform if the concentration has its posterior in `learned`.

    With another prior, one of SciPy's, if given.
    """
    law = law or stats.gamma(2.0, scale=1 / 4.0)

    def log_likelihood(a):
        total = special.gammaln(6 * a) - special.gammaln(6 * a + counts.sum())
        return total + (special.gammaln(a[..., None] + counts) - special.gammaln(a[..., None])).sum(
            -1
        )

    return posterior(log_likelihood, law.ppf, nodes=20_000)(law.cdf(a))
