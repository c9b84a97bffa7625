"""SCIR with minibatches: deviations are as much too large as it says, and little by default.

Laws are conjugate, so that deviations are known. Those of 1,500 chains are off by more than 10%
once in 10,000 times.
"""

from functools import partial
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from support import numpyro_cases as cases

from simplex_jax._src.numpyro import density, inflation, scir, sites
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import sgld

CHAINS = 1500
LABELS = jnp.repeat(jnp.arange(3), jnp.array([120, 60, 20]))
BATCH = 10


def documents(x, subsample_size=None):
    """Rows of ten words each."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.5)))
    with numpyro.plate("rows", len(x), subsample_size=subsample_size) as rows:
        numpyro.sample("x", dist.Multinomial(10, probs=p), obs=x[rows])


def rates(y, subsample_size=None):
    """Rates of a time that is not the same in all rows."""
    r = numpyro.sample("p", dist.Gamma(2.0, 1.0).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=subsample_size) as rows:
        time = 1 + rows % 3
        numpyro.sample("y", dist.Poisson(r * time[:, None]).to_event(1), obs=y[rows])


def deviations(a: np.ndarray) -> np.ndarray:
    mean = a / a.sum()
    return np.sqrt(mean * (1 - mean) / (a.sum() + 1))


# Each of one word, as in a text of which every page has its subject.
BURSTY = 10 * np.eye(3)[np.asarray(LABELS)]
COUNTS = np.random.default_rng(0).poisson([1.0, 8.0] * (1 + np.arange(200)[:, None] % 3))


class Case(NamedTuple):
    """A model, its data, its exact deviations, and the ratio rho of its noise."""

    model: object
    data: np.ndarray
    deviations: np.ndarray
    ratio: float


ALIKE = 20 * 190 / 199
CASES = {
    "categories": Case(
        cases.categorical, LABELS, deviations(np.bincount(LABELS) + 0.5), ALIKE
    ),
    # Ten words of a row are as noisy as one that weighs ten times as much.
    "bursty": Case(documents, BURSTY, deviations(BURSTY.sum(axis=0) + 0.5), 10 * ALIKE),
    "rates": Case(
        rates, COUNTS, np.sqrt(COUNTS.sum(axis=0) + 2) / (1 + np.arange(200) % 3 + 1 / 200).sum(),
        ALIKE,
    ),
}  # fmt: skip


def result(case: Case, key: jax.Array, step_size=None, num_warmup=400) -> tuple[float, float, MCMC]:
    """Deviations over the exact ones, and the inflation that chains tell of themselves."""
    last, mcmc = cases.ends(
        SCIR(case.model, step_size), key, jnp.asarray(case.data), BATCH,
        num_chains=CHAINS, num_warmup=num_warmup, num_samples=100,
    )  # fmt: skip
    ratio = last["p"].std(axis=0) / case.deviations
    noise = mcmc.last_state.tuning["p"].noise
    return float(np.sqrt((ratio**2).mean())), float(noise.inflation.mean()), mcmc


def agrees(case: Case, key: jax.Array, step_size: float) -> bool:
    """Whether the inflation that is told is that of the formula, and that of the chains."""
    real, told, _ = result(case, key, step_size, num_warmup=40)
    exact = np.sqrt(1 + case.ratio * np.tanh(step_size / 2))
    assert abs(real / exact - 1) < 0.1
    return bool(abs(told / exact - 1) < 0.05)


@pytest.mark.filterwarnings("ignore:with minibatches of 10 of 200 rows")
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_inflation_is_measured(name, getkey, monkeypatch) -> None:
    case = CASES[name]
    assert agrees(case, getkey(), 0.2)
    # Differences have twice the variance; and the noise of a step is not that of all time.
    right = inflation.factor
    monkeypatch.setattr(inflation, "factor", lambda ratio, step: right(2 * ratio, step))
    assert not agrees(case, getkey(), 0.2)
    monkeypatch.setattr(inflation, "factor", lambda ratio, step: right(ratio, step / 2))
    assert not agrees(case, getkey(), 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_steps_that_are_learned_inflate_little(name, getkey, monkeypatch) -> None:
    case = CASES[name]
    # Learned steps are approached as 2 / t: noisy rows take a longer warm-up.
    num_warmup = 1500 if name == "bursty" else 400
    real, told, mcmc = result(case, getkey(), num_warmup=num_warmup)
    assert told < 1.1
    assert abs(real / told - 1) < 0.1
    assert "inflation 1.0" in mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    monkeypatch.setattr(scir, "_longest", lambda ratio, most=1.1: jnp.asarray(0.3))
    real, told, _ = result(case, getkey())
    assert min(real, told) > 1.5


def run(step_size=None, num_warmup=0, data=BURSTY, model=documents) -> MCMC:
    options = {"num_warmup": num_warmup, "num_samples": 30, "progress_bar": False}
    mcmc = MCMC(SCIR(model, step_size), **options)
    mcmc.run(jax.random.key(0), jnp.asarray(data), BATCH, extra_fields=["tuning.p.noise.inflation"])
    return mcmc


def test_a_step_that_is_too_long_is_told_at_the_start() -> None:
    """By the sizes of minibatches, without which nothing is said, as before."""
    kernel = SCIR(cases.categorical, 0.3)
    with pytest.warns(UserWarning, match=r"10 of 200 rows .*'p'.* about 2: .* left out"):
        state = kernel.init(jax.random.key(0), 0, None, (LABELS, BATCH), {})
    # What runs have measured, by the progress bar or afterwards.
    known = state.tuning["p"]
    noise = known.noise._replace(inflation=jnp.asarray(5.4), longest=jnp.asarray(0.0022))
    state = state._replace(tuning={"p": known._replace(noise=noise)}, i=jnp.asarray(9))
    with pytest.warns(UserWarning, match=r"deviations of 'p' .* about 5\.4: .* of at most 0\.0022"):
        shown = kernel.get_diagnostics_str(state)
    assert shown == "p minibatch, conjugate, h=0.3, inflation 5.40, clamped 0.0%"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:with minibatches of 10 of 200 rows")
def test_noise_that_sizes_do_not_tell_is_told_at_the_end() -> None:
    mcmc = run(0.05)
    with pytest.warns(UserWarning, match=r"deviations of 'p' too .* about 2"):
        shown = mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    told = mcmc.get_extra_fields()["tuning.p.noise.inflation"]
    assert f"h=0.05, inflation {told[-1]:.2f}" in shown


@pytest.mark.slow
def test_what_no_warning_is_due_to() -> None:
    """Schedules that end low, the steps of the default, and rows that are all shown."""
    for step in (lambda i: jnp.where(i < 20, 0.3, 0.01), None):
        mcmc = run(step, 20, LABELS, cases.categorical)
        assert "inflation 1.0" in mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    SCIR(documents, 0.3).init(jax.random.key(0), 0, None, (jnp.asarray(BURSTY), 200), {})


def rows(y, subsampled):
    a = numpyro.sample("a", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", len(y), subsample_size=BATCH) as shown:
        seen = numpyro.subsample(y, event_dim=0) if subsampled else y[shown]
        numpyro.sample("y", dist.Poisson(a), obs=seen)


def test_rows_that_numpyro_subsamples() -> None:
    key, args = jax.random.key(0), (jnp.arange(30), True)
    layout, _ = sites.inspect(rows, key, args, {}, None)
    target = density.Target(rows, layout, args, {}, key)
    terms = jax.eval_shape(lambda a: density.log_joint(target, {"a": a}, frozenset("a"))[0], 5.0)
    assert terms["y"].shape == (BATCH,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "build", [SCIR, partial(SGMCMC, kernel=partial(sgld.build, step_size=1e-3))]
)
def test_moves_by_rows_that_numpyro_subsamples(build) -> None:
    """They are those by rows that an index shows."""
    y, kernel, moved = jnp.arange(30), build(rows), []
    for subsampled in (True, False):
        state = kernel.init(jax.random.key(1), 1, None, (y, subsampled), {})
        moved.append(kernel.sample(state, (y, subsampled), {}).z)
    chex.assert_trees_all_equal(*moved)
