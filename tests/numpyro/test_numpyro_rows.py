"""SCIR on models of few and of many rows, with exact posteriors, and on minibatches of many."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from scipy import stats
from support.statistics_checks import family

from simplex_jax._src.numpyro.scir import SCIR

pytestmark = pytest.mark.slow

ALPHA = 0.3


def mixture(x, subsample_size=None):
    """Two parts that overlap, and one too far away for any data."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(3, ALPHA)))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        parts = dist.Normal(jnp.array([-1.0, 0.5, 60.0]), 1.0)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x[rows])


def labels(x):
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(4, ALPHA)))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Categorical(p), obs=x)


def moments(x: np.ndarray) -> tuple[float, float]:
    """Posterior mean and standard deviation of w_1 / (w_1 + w_2), which w_3 tells nothing of."""
    one, two = stats.norm.pdf(x + 1), stats.norm.pdf(x - 0.5)

    def log_density(u: np.ndarray) -> np.ndarray:
        prior = (ALPHA - 1) * (np.log(u) + np.log1p(-u))
        return prior + np.array([np.log(v * one + (1 - v) * two).sum() for v in u])

    def summed(u: np.ndarray) -> tuple[float, float]:
        log_p = log_density(u)
        p = np.exp(log_p - log_p.max())
        mean = (p * u).sum() / p.sum()
        return mean, np.sqrt((p * (u - mean) ** 2).sum() / p.sum())

    mean, deviation = summed(np.linspace(0.001, 0.999, 300))
    low, high = max(mean - 8 * deviation, 1e-5), min(mean + 8 * deviation, 1 - 1e-5)
    return summed(np.linspace(low, high, 300))


def points(rows: int) -> np.ndarray:
    rng = np.random.default_rng(rows)
    return rng.normal(size=rows) + np.where(rng.uniform(size=rows) < 0.7, -1.0, 0.5)


def samples(kernel, x, num_samples: int, *rest) -> tuple[np.ndarray, MCMC]:
    mcmc = MCMC(kernel, num_warmup=200, num_samples=num_samples, progress_bar=False)
    mcmc.run(jax.random.key(0), x, *rest)
    (result,) = mcmc.get_samples().values()
    return np.asarray(result, np.float64), mcmc


def p_value(chain: np.ndarray, mean: float) -> float:
    """Of the mean of a chain, by 20 batches and Student's law."""
    batches = chain.reshape(20, -1).mean(axis=1)
    return float(2 * stats.t.sf(abs(batches.mean() - mean) / (batches.std(ddof=1) / 20**0.5), 19))


@pytest.mark.parametrize(("rows", "num_samples"), [(200, 20_000), (100_000, 2_000)])
def test_mixtures(rows, num_samples) -> None:
    """The share of the first part, and the weight of the empty part, of law Beta."""
    x = points(rows)
    result, mcmc = samples(SCIR(mixture), jnp.asarray(x, jnp.float32), num_samples)
    share = result[:, 0] / (result[:, 0] + result[:, 1])
    mean, deviation = moments(x)
    empty = ALPHA / (3 * ALPHA + rows)
    checks = {"share": p_value(share, mean), "empty": p_value(result[:, 2], empty)}
    assert not family(checks)
    assert abs(share.std() / deviation - 1) < 0.15
    assert family({"mutant": p_value(share, mean + 0.3 * deviation)})
    assert mcmc.last_state.tuning["w"].accepted > 0.3


def test_minibatches_of_many_rows() -> None:
    """The mean is right, at a cost that does not grow, and the deviation larger by some percent."""
    x = points(100_000)
    with pytest.warns(UserWarning, match=r"factor of about 1\.1"):
        result, _ = samples(SCIR(mixture, 0.003), jnp.asarray(x, jnp.float32), 20_000, 500)
    share = result[2_000:, 0] / (result[2_000:, 0] + result[2_000:, 1])
    mean, deviation = moments(x)
    assert abs(share.mean() - mean) < 3 * deviation
    assert deviation < share.std() < 3 * deviation


def test_conjugate_sites_of_many_rows_stay_exact() -> None:
    """Counts of a million rows are rounded by float32, and still are seen to be counts."""
    x = np.random.default_rng(0).choice(4, size=1_000_000, p=[0.7, 0.2, 0.1, 0.0])
    result, mcmc = samples(SCIR(labels), jnp.asarray(x), 400)
    assert mcmc.last_state.tuning["p"].exact
    a = np.bincount(x, minlength=4) + ALPHA
    law = stats.beta(a, a.sum() - a)
    z = (result.mean(axis=0) - law.mean()) / (law.std() / 400**0.5)
    assert not family(dict(enumerate(2 * stats.norm.sf(np.abs(z)))))
