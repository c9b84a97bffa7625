"""`SGMCMC` with kernels of every kind, on sites whose posterior mean is known.

The log likelihood is linear in a statistic of the site, and its minibatches are halves of the rows.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import numpyro_cases as cases
import pytest
from statistics_checks import family, mean_z

from simplex_jax.geometry import convex, mirror
from simplex_jax.numpyro_distributions import VonMisesFisher
from simplex_jax.numpyro_kernels import SGMCMC
from simplex_jax.samplers import (
    mld,
    myula,
    plmc,
    recipe,
    sggmc,
    sghmc,
    sgnht,
    sgrhmc,
)

ROWS = jnp.linspace(-0.5, 0.65, 20)
TOTAL = 1.5


class Kind(NamedTuple):
    """A site u with a prior, the statistic t in its posterior prior(u) exp(1.5 t(u)), its mean."""

    prior: Callable[[], dist.Distribution]
    statistic: Callable[[jax.Array], jax.Array]
    mean: np.ndarray


NORTH = jnp.array([0.0, 0.0, 1.0])
NATURAL = np.array([TOTAL, 0.0, 1.0])
LENGTH = float(np.linalg.norm(NATURAL))
KINDS = {
    "real": Kind(lambda: dist.Normal(0, 1), lambda u: u, np.array(TOTAL)),
    "positive": Kind(lambda: dist.Gamma(5.0, 2.0), jnp.log, np.array(6.5 / 2)),
    "cube": Kind(
        lambda: dist.Uniform(-1, 1).expand([2]).to_event(1),
        lambda u: u[0],
        np.array([1 / np.tanh(TOTAL) - 1 / TOTAL, 0]),
    ),
    "simplex": Kind(
        lambda: dist.Dirichlet(jnp.array([4.0, 5.0, 6.0])),
        lambda u: jnp.log(u[0]),
        np.array([5.5, 5.0, 6.0]) / 16.5,
    ),
    "sphere": Kind(
        lambda: VonMisesFisher(NORTH, 1.0),
        lambda u: u[0],
        NATURAL / LENGTH * (1 / np.tanh(LENGTH) - 1 / LENGTH),
    ),
}
LONG = {"num_warmup": 3000, "num_chains": 500}


class Case(NamedTuple):
    """A kernel, the kind of its site, the bias that its step leaves, and options of the run."""

    kind: str
    build: Callable
    bias: float = 0.02
    options: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    "sghmc": Case("real", partial(sghmc.build, step_size=0.1)),
    "sgnht": Case("real", partial(sgnht.build, step_size=0.05), options={"num_warmup": 400}),
    "recipe": Case("real", partial(recipe.build, step_size=0.02, diffusion=lambda z, v: v)),
    "sghmc, positive": Case("positive", partial(sghmc.build, step_size=0.1), 0.05),
    "mld, cube": Case("cube", partial(mld.build, mirror=mirror.hypercube(), step_size=0.01)),
    "mld, simplex": Case("simplex", partial(mld.build, mirror=mirror.simplex(), step_size=0.01)),
    "plmc": Case(
        "cube", partial(plmc.build, projection=convex.box(-1, 1), step_size=4e-4), options=LONG
    ),
    "myula": Case(
        "cube",
        partial(myula.build, projection=convex.box(-1, 1), step_size=4e-4, smoothing=1e-3),
        options=LONG,
    ),
    "sggmc": Case("sphere", partial(sggmc.build, step_size=0.1)),
    "sgrhmc": Case("simplex", partial(sgrhmc.build, step_size=0.05)),
}
QUICK = ("sghmc", "mld, cube", "sggmc")


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_the_posterior_mean(name, getkey) -> None:
    case = CASES[name]
    kind = KINDS[case.kind]

    def model(x):
        u = numpyro.sample("u", kind.prior())
        with numpyro.plate("rows", len(x), subsample_size=10) as rows:
            numpyro.factor("x", kind.statistic(u) * x[rows])

    options = {"num_chains": 1000, "num_warmup": 250, "num_samples": 1} | case.options
    found, _ = cases.ends(SGMCMC(model, case.build), getkey(), ROWS, **options)
    u = found["u"].reshape(len(found["u"]), -1)

    def checks(mean: np.ndarray) -> dict[object, float]:
        return {
            j: mean_z(u[:, j], value, u[:, j].var(), case.bias)
            for j, value in enumerate(np.atleast_1d(mean))
        }

    assert not family(checks(kind.mean))
    assert family(checks(np.asarray(kind.prior().mean)))
