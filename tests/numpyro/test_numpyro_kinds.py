"""`SGMCMC` with kernels of every kind, on sites whose posterior moments are known.

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
import pytest
from numpyro.distributions import constraints
from numpyro.infer import MCMC
from support import numpyro_cases as cases
from support.statistics_checks import family, mean_z

from simplex_jax._src.geometry import mirror
from simplex_jax._src.numpyro.distributions import VonMisesFisher
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import mld, recipe, sggmc, sghmc, sgnht, sgrhmc, sgrld

ROWS = jnp.linspace(-0.1, 0.7, 20)
TOTAL = 6.0


class Kind(NamedTuple):
    """A site u with a prior and a statistic t.

    `posterior` gives means and variances of the law prior(u) exp(total t(u)).
    """

    prior: Callable[[], dist.Distribution]
    statistic: Callable[[jax.Array], jax.Array]
    posterior: Callable[[float], tuple[np.ndarray, np.ndarray]]


def moments(law: dist.Distribution) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(law.mean, np.float64), np.asarray(law.variance, np.float64)


def cube(total: float) -> tuple[np.ndarray, np.ndarray]:
    mean = 1 / np.tanh(total) - 1 / total
    return np.array([mean, 0]), np.array([1 / total**2 - 1 / np.sinh(total) ** 2, 1 / 3])


def sphere(total: float) -> tuple[np.ndarray, np.ndarray]:
    natural = jnp.array([total, 0.0, 1.0])
    length = jnp.linalg.norm(natural)
    return moments(VonMisesFisher(natural / length, length))


KINDS = {
    "real": Kind(lambda: dist.Normal(0, 1), lambda u: u, lambda t: moments(dist.Normal(t, 1.0))),
    "positive": Kind(
        lambda: dist.Gamma(5.0, 2.0), jnp.log, lambda t: moments(dist.Gamma(5.0 + t, 2.0))
    ),
    "cube": Kind(lambda: dist.Uniform(-1, 1).expand([2]).to_event(1), lambda u: u[0], cube),
    "simplex": Kind(
        lambda: dist.Dirichlet(jnp.array([4.0, 5.0, 6.0])),
        lambda u: jnp.log(u[0]),
        lambda t: moments(dist.Dirichlet(jnp.array([4.0 + t, 5.0, 6.0]))),
    ),
    "sphere": Kind(lambda: VonMisesFisher(jnp.array([0.0, 0.0, 1.0]), 1.0), lambda u: u[0], sphere),
}
LONG = {"num_warmup": 3000}


class Case(NamedTuple):
    """A kernel, the kind of its site, and options of the run.

    Its step leaves a bias of so many standard deviations in the mean, and of twice as many
    variances in the variance.
    """

    kind: str
    build: Callable
    bias: float = 0.1
    options: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    "sghmc": Case("real", partial(sghmc.build, step_size=0.03), options={"num_warmup": 600}),
    "sgnht": Case("real", partial(sgnht.build, step_size=0.05), options={"num_warmup": 400}),
    "recipe": Case("real", partial(recipe.build, step_size=0.02, diffusion=lambda z, v: v)),
    "sghmc, positive": Case(
        "positive", partial(sghmc.build, step_size=0.03), options={"num_warmup": 600}
    ),
    "mld, cube": Case("cube", partial(mld.build, mirror=mirror.hypercube(), step_size=0.01)),
    "mld, simplex": Case("simplex", partial(mld.build, mirror=mirror.simplex(), step_size=0.01)),
    "sggmc": Case("sphere", partial(sggmc.build, step_size=0.1)),
    "sgrhmc": Case("simplex", partial(sgrhmc.build, step_size=0.05)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_moments_of_the_posterior(name, getkey) -> None:
    case = CASES[name]
    kind = KINDS[case.kind]

    def model(x):
        u = numpyro.sample("u", kind.prior())
        with numpyro.plate("rows", len(x), subsample_size=10) as rows:
            numpyro.factor("x", kind.statistic(u) * x[rows])

    options = {"num_chains": 1000, "num_warmup": 250, "num_samples": 1} | case.options
    result, _ = cases.ends(SGMCMC(model, case.build), getkey(), ROWS, **options)
    u = result["u"].reshape(len(result["u"]), -1)

    def checks(mean: np.ndarray, variance: np.ndarray) -> dict[object, float]:
        result = {}
        for j, (m, v) in enumerate(zip(np.ravel(mean), np.ravel(variance), strict=True)):
            squares = (u[:, j] - u[:, j].mean()) ** 2
            result["mean", j] = mean_z(u[:, j], m, squares.mean(), case.bias * v**0.5)
            result["variance", j] = mean_z(squares, v, squares.var(), 2 * case.bias * v)
        return result

    mean, variance = kind.posterior(TOTAL)
    assert not family(checks(mean, variance))
    # A minibatch that is not scaled to all rows, and noise of the wrong size.
    assert family(checks(*kind.posterior(TOTAL / 2)))
    assert family(checks(mean, 1.6 * variance))
    assert family(checks(mean, variance / 1.6))


@pytest.mark.parametrize(
    "kernel", [SCIR, partial(SGMCMC, kernel=partial(sgrld.build, step_size=0.01))]
)
def test_a_uniform_prior_is_a_dirichlet_one(kernel):
    """`ImproperUniform` wraps the constraint; the chain is that of the conjugate model."""
    labels = jnp.array([0, 0, 0, 1, 2, 0])

    def chain(law):
        def model():
            p = numpyro.sample("p", law)
            with numpyro.plate("rows", len(labels)):
                numpyro.sample("labels", dist.Categorical(p), obs=labels)

        mcmc = MCMC(kernel(model), num_warmup=10, num_samples=50, progress_bar=False)
        mcmc.run(jax.random.key(0), init_params={"p": jnp.ones(3) / 3})
        return mcmc.get_samples()["p"]

    uniform = chain(dist.ImproperUniform(constraints.simplex, (), (3,)))
    np.testing.assert_allclose(uniform, chain(dist.Dirichlet(jnp.ones(3))), rtol=1e-4)
