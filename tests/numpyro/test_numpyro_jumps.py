"""SCIR on likelihoods that jump: constraints, thresholds, changepoints, which no gradient sees.

Each law is known by quadrature in the quantiles of the prior. With 100,000 rows in single precision
a jump is told from rounding, and rounding is not taken for a jump.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from scipy import stats
from support import numpyro_cases as cases
from support.statistics_checks import dkwm, family, mean_z, variance_z

from simplex_jax._src.numpyro import tuning
from simplex_jax._src.numpyro.scir import SCIR


def ordered():
    """Components are told apart by their order, as labels of a mixture often are."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(3, 2.0)))
    numpyro.factor("order", jnp.where(w[0] < w[1], 0.0, -jnp.inf))


def threshold():
    r = numpyro.sample("r", dist.Gamma(2.0, 1.0))
    numpyro.factor("above", jnp.where(r > 2, 3.0, 0.0))


def changepoint():
    w = numpyro.sample("w", dist.Dirichlet(jnp.full(2, 2.0)))
    rate = jnp.where(w[0] > 0.5, 5.0, 1.0)
    with numpyro.plate("rows", 2):
        numpyro.sample("x", dist.Poisson(rate), obs=jnp.array([2, 3]))


def two_rates():
    """Conjugate on either side of a threshold, with an exposure of its own."""
    r = numpyro.sample("r", dist.Gamma(2.0, 1.0))
    numpyro.sample("x", dist.Poisson(jnp.where(r > 2, 3 * r, r)), obs=4)


def bounded():
    """No draw of a unit exponential is likely to lie above the data."""
    r = numpyro.sample("r", dist.Gamma(5.0, 1.0))
    with numpyro.plate("rows", 3):
        numpyro.sample("x", dist.Uniform(0.0, r), obs=jnp.array([1.0, 2.0, 3.0]))


class Case(NamedTuple):
    """A model, and what of its draws has a uniform law."""

    model: Callable
    uniform: Callable[[dict[str, np.ndarray]], np.ndarray]
    num_chains: int = 1500


def by_quadrature(
    log_likelihood: Callable, law: stats.rv_continuous, value: Callable
) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    cdf = cases.posterior(log_likelihood, law.ppf, nodes=100_000)
    return lambda last: cdf(law.cdf(value(last)))


def rate_of(last: dict[str, np.ndarray]) -> np.ndarray:
    return last["r"]


CASES = {
    "ordered": Case(
        ordered,
        # The share of two components has a symmetric law, of which one half is left.
        lambda last: 2 * stats.beta(2, 2).cdf(last["w"][:, 0] / last["w"][:, :2].sum(axis=1)),
    ),
    "threshold": Case(
        threshold, by_quadrature(lambda r: np.where(r > 2, 3.0, 0), stats.gamma(2), rate_of)
    ),
    "changepoint": Case(
        changepoint,
        by_quadrature(
            lambda w: sum(stats.poisson(np.where(w > 0.5, 5, 1)).logpmf(x) for x in (2, 3)),
            stats.beta(2, 2),
            lambda last: last["w"][:, 0],
        ),
        # The probability of either side is 0.512 and 0.488: one half is five errors off.
        num_chains=40_000,
    ),
    "two rates": Case(
        two_rates,
        by_quadrature(
            lambda r: stats.poisson(np.where(r > 2, 3 * r, r)).logpmf(4), stats.gamma(2), rate_of
        ),
    ),
    "bounded": Case(
        bounded,
        by_quadrature(lambda r: np.where(r > 3, -3 * np.log(r), -np.inf), stats.gamma(5), rate_of),
    ),
}


def checks(name: str, key: jax.Array) -> dict[object, float]:
    """P-values of independent draws, at their nominal rates."""
    case = CASES[name]
    last, mcmc = cases.ends(SCIR(case.model), key, num_chains=case.num_chains)
    u = case.uniform(last)
    result: dict[object, float] = {
        "dkwm": dkwm(u, lambda x: np.clip(x, 0, 1)),
        "mean": mean_z(u, 0.5, 1 / 12),
        "variance": variance_z(u, 0.5, 1 / 12, 1 / 80),
    }
    exact = float(next(iter(mcmc.last_state.tuning.values())).exact.mean())
    return {"exact": exact, **result}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_jumps_are_sampled(name, getkey) -> None:
    result = checks(name, getkey())
    assert result.pop("exact") == 0
    assert not family(result)


@pytest.fixture
def no_confirmation(monkeypatch) -> Iterator[None]:
    """Take every log density for that of an exact move, which programs compiled before do not."""
    jax.clear_caches()
    monkeypatch.setattr(tuning, "confirms", lambda log_ratio, bound: jnp.ones((), bool))
    yield
    jax.clear_caches()


@pytest.mark.slow
@pytest.mark.usefixtures("no_confirmation")
@pytest.mark.parametrize("name", ["ordered", "threshold", "changepoint"])
def test_a_log_density_that_is_not_looked_at_is_seen(name, getkey) -> None:
    """As where equal shapes were enough to accept a move: this is the prior, or worse."""
    result = checks(name, getkey())
    assert result.pop("exact") == 1
    assert family(result)


@pytest.mark.slow
def test_uncorrected_moves_respect_constraints(getkey) -> None:
    last, _ = cases.ends(SCIR(ordered, metropolis=False), getkey(), num_chains=200)
    assert (last["w"][:, 0] < last["w"][:, 1]).all()


ROWS = 100_000
SHARES = np.array([0.7, 0.2, 0.1, 0.0])


def categories(x, jump=0.0):
    """Categories, and a jump of the log density near the median of the first probability."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(4, 0.3)))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Categorical(p), obs=x)
    numpyro.factor("jump", jnp.where(p[0] > jnp.mean(x == 0), jump, 0.0))


def multinomial(x):
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(4, 0.3)))
    numpyro.sample("x", dist.Multinomial(total_count=ROWS, probs=p), obs=x)


def counted(x):
    r = numpyro.sample("p", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Poisson(r), obs=x)


def precision(x):
    r = numpyro.sample("p", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("x", dist.Normal(0.3, 1 / jnp.sqrt(r)), obs=x)


def categories_of(rng: np.random.Generator) -> jax.Array:
    return jnp.asarray(rng.choice(4, size=ROWS, p=SHARES))


MANY = {
    "categories": (categories, categories_of, 0.2),
    "multinomial": (multinomial, lambda rng: jnp.asarray(rng.multinomial(ROWS, SHARES)), 0.8),
    "counted": (counted, lambda rng: jnp.asarray(rng.poisson(3.3, size=ROWS)), 1.0),
    "precision": (precision, lambda rng: jnp.asarray(rng.normal(size=ROWS), jnp.float32), 0.2),
}


def steps(model: Callable, num_steps: int, *data) -> tuple[jax.Array, SCIR, object]:
    """A site after each step, from far away on."""
    kernel = SCIR(model)
    state = kernel.init(jax.random.key(0), 0, None, data, {})

    def step(state, _):
        state = kernel.sample(state, data, {})
        return state, state.z["p"]

    last, path = jax.lax.scan(step, state, length=num_steps)
    return path, kernel, last


@pytest.mark.slow
@pytest.mark.parametrize("name", MANY)
def test_rounding_rejects_no_move_of_many_rows(name) -> None:
    """The bound holds, and is small enough to say something."""
    model, data_of, bound = MANY[name]
    path, kernel, last = steps(model, 50, data_of(np.random.default_rng(0)))
    site = last.tuning["p"]
    assert site.exact
    assert (jnp.diff(path.reshape(50, -1)[:, 0]) != 0).all()
    assert 0.01 < site.bound < bound
    shown = kernel.get_diagnostics_str(last)
    assert shown == f"p exact within {site.bound:.2g} nats"


@pytest.mark.slow
def test_a_bound_without_sums_is_too_small(monkeypatch) -> None:
    """Rounding would decide: that of 100,000 rows is above that of a few numbers."""
    right = tuning.error_bound
    monkeypatch.setattr(tuning, "error_bound", lambda *sizes: 0.01 * right(*sizes))
    _, _, last = steps(categories, 50, categories_of(np.random.default_rng(0)))
    assert not last.tuning["p"].exact


@pytest.mark.slow
def test_a_jump_among_many_rows_is_sampled() -> None:
    """Half a nat of 80,000: the odds of the sides of the median are those of the jump."""
    x = categories_of(np.random.default_rng(0))
    a = np.bincount(x, minlength=4) + 0.3
    above = stats.beta(a[0], a[1:].sum()).sf(float(jnp.mean(x == 0)))
    odds = above / (1 - above) * np.exp(0.5)
    mcmc = MCMC(SCIR(categories), num_warmup=100, num_samples=4000, progress_bar=False)
    mcmc.run(jax.random.key(0), x, 0.5)
    assert not mcmc.last_state.tuning["p"].exact
    side = np.asarray(mcmc.get_samples()["p"][:, 0] > jnp.mean(x == 0), np.float64)
    batches = side.reshape(20, -1).mean(axis=1)

    def p_value(mean: float) -> float:
        z = (batches.mean() - mean) / (batches.std(ddof=1) / 20**0.5)
        return float(2 * stats.t.sf(abs(z), 19))

    assert not family({"side": p_value(odds / (1 + odds))})
    assert family({"without": p_value(above)})
