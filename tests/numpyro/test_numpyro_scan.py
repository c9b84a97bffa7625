"""SCIR on sites in numpyro's `scan`, whose prior at a step may depend on the step before.

The laws are known by quadrature. numpyro makes one site of the steps, so that a site enters the
parameters of its own prior.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from scipy import stats
from support import numpyro_cases as cases
from support.statistics_checks import family, mean_z

from simplex_jax._src.numpyro import density
from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.scir import SCIR

_GRID = 2001
SEEN = jnp.array([0, 6])


def shares(x):
    """Shares that wander, of labels; those of a step are about those of the step before."""

    def step(last, x):
        p = numpyro.sample("p", dist.Dirichlet(3 * last + 0.5))
        numpyro.sample("x", dist.Categorical(p), obs=x % 2)
        return p, None

    scan(step, jnp.ones(2) / 2, x)


def log_shares(x):
    def step(last, x):
        p = numpyro.sample("p", LogDirichlet(3 * jnp.exp(last) + 0.5))
        numpyro.sample("x", dist.Categorical(logits=p), obs=x % 2)
        return p, None

    scan(step, jnp.log(jnp.ones(2) / 2), x)


def apart(x):
    """Steps that have nothing to do with each other: the prior does not depend on the site."""

    def step(last, x):
        r = numpyro.sample("r", dist.Gamma(2.0, 1.0))
        numpyro.sample("x", dist.Poisson(r), obs=x)
        return last, None

    scan(step, 1.0, x)


def law_of_rates() -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of rates on a grid, and the probabilities of two of them there."""
    log_r = np.linspace(-18, 6, _GRID)
    r = np.exp(log_r)
    first = stats.gamma.pdf(r, 2, scale=1 / 2) * stats.poisson.pmf(int(SEEN[0]), r) * r
    scale = r[:, None] / 2
    second = stats.gamma.pdf(r, 2, scale=scale) * stats.poisson.pmf(int(SEEN[1]), r) * r
    return log_r, first[:, None] * second


def law_of_shares() -> tuple[np.ndarray, np.ndarray]:
    """Logits of the first share on a grid, and the probabilities of two of them there."""
    logits = np.linspace(-24, 24, _GRID)
    p = 1 / (1 + np.exp(-logits))
    volume = p * (1 - p)
    first = stats.beta.pdf(p, 2, 2) * p * volume
    second = stats.beta.pdf(p, 3 * p[:, None] + 0.5, 3 * (1 - p[:, None]) + 0.5) * p * volume
    return logits, first[:, None] * second


def logits(draws):
    p = draws["p"].astype(np.float64)
    return np.log(p[..., 0]) - np.log(p[..., 1])


class Case(NamedTuple):
    """A model, its law on a grid, and what of its draws is on that grid."""

    model: Callable
    law: Callable[[], tuple[np.ndarray, np.ndarray]]
    of: Callable[[dict[str, np.ndarray]], np.ndarray]


CASES = {
    "rates": Case(cases.rates, law_of_rates, lambda draws: np.log(draws["r"])),
    "shares": Case(shares, law_of_shares, logits),
    "log shares": Case(
        log_shares, law_of_shares, lambda draws: draws["p"][..., 0] - draws["p"][..., 1]
    ),
}


def p_values(case: Case, key) -> dict[object, float]:
    """p-values of the means of each step and of the squares about them."""
    draws, _ = cases.ends(SCIR(case.model), key, SEEN, num_chains=2000, num_warmup=300)
    values = case.of(draws).astype(np.float64)
    grid, joint = case.law()
    result = {}
    for step, other in ((0, 1), (1, 0)):
        p = joint.sum(axis=other) / joint.sum()
        mean = p @ grid
        moments = [p @ (grid - mean) ** power for power in (2, 4)]
        result["mean", step] = mean_z(values[:, step], mean, moments[0])
        squares = (values[:, step] - mean) ** 2
        result["square", step] = mean_z(squares, moments[0], moments[1] - moments[0] ** 2)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_posteriors_are_those_of_quadrature(name, getkey):
    """False alarms: at most 1e-3 for each case, up to the Edgeworth terms of `mean_z`."""
    assert not family(p_values(CASES[name], getkey()))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_prior_of_fixed_parameters_is_seen(name, getkey, monkeypatch):
    """As it was: the parameters of the prior were those of where a move starts."""
    monkeypatch.setattr(density, "recursive_sites", lambda *_: frozenset())
    assert family(p_values(CASES[name], getkey()))


@pytest.mark.slow
def test_sites_that_enter_their_own_prior(getkey):
    for model, expected in (
        (cases.rates, {"r"}),
        (shares, {"p"}),
        (log_shares, {"p"}),
        (apart, set()),
    ):
        kernel = SCIR(model)
        kernel.init(getkey(), 10, None, (SEEN,), {})
        assert kernel._inspected.least == expected
