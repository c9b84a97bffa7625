"""JAX's flags against implicit promotion of ranks and of dtypes find nothing in the library.

Both act while a program is traced, so nothing has to run.
"""

import jax
import jax.numpy as jnp
import pytest
from baselines import convex, transitions
from support.contracts import CASES, KERNELS
from support.draw_cases import CASES as DRAWS
from support.draw_cases import values_of

from simplex_jax._src import draws, estimators, gradient_noise, gradients, step_sizes
from simplex_jax._src.geometry import bessel, manifolds, mirror
from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.samplers import scir

FLAGS = {
    "ranks": lambda: jax.numpy_rank_promotion("raise"),
    "dtypes": lambda: jax.numpy_dtype_promotion("strict"),
}
either_flag = pytest.mark.parametrize("flag", FLAGS)
# The other kernels are no samplers of the package.
SAMPLERS = [case for case in CASES if case[0] not in ("contract_baselines", "contract_sam_vi")]

KEY = jax.random.key(0)
ROWS, MATRICES = jnp.full((5, 2, 3), 0.3), jnp.ones((5, 3, 2))
UNIT = jnp.full((5, 4, 3), 3**-0.5)


@either_flag
@pytest.mark.parametrize(
    "name",
    [pytest.param(case, marks=[] if case in KERNELS else pytest.mark.slow) for case in SAMPLERS],
    ids=" ".join,
)
def test_samplers(name, flag):
    with FLAGS[flag]():
        case = CASES[name]()
        state = case.kernel.init(KEY, case.position)
        jax.eval_shape(lambda: case.kernel.update(KEY, state, case.stream(KEY, 0)))


@either_flag
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name, flag):
    """Counts of customers and categories are floats where the parameters are."""
    with FLAGS[flag]():
        jax.eval_shape(lambda: DRAWS[name](KEY, *values_of(DRAWS[name]), shape=(5, 6)))


def ranks():
    """Calls whose arguments have different ranks, as users may give them."""
    k, directions = jnp.ones(4), jnp.eye(3)[0]
    yield from (
        lambda: draws.von_mises_fisher(KEY, UNIT, k),
        lambda: draws.von_mises_fisher(KEY, directions, k),
        lambda: draws.cir(KEY, jnp.zeros((3, 4)), k, 0.5),
        lambda: bessel.log_series(jnp.ones((3, 1)), k),
        lambda: bessel.log_series_difference(0.5, jnp.ones((3, 4)), k),
        lambda: vmf.log_density(UNIT, directions, k),
        lambda: vmf.kl(UNIT, 1.0, directions, k),
        lambda: vmf.resultant(UNIT),
        lambda: vmf.fit(3, k / 2, jnp.full((2, 4), 0.5)),
        lambda: vmf.variances(3, k),
        lambda: vmf.entropy(3, k),
        lambda: transitions.cir(k, jnp.ones((3, 4)), 0.5, rate=k),
        lambda: transitions.scir_over_batches(k, jnp.ones((3, 4)), 0.5, 10, k),
        lambda: transitions.ornstein_uhlenbeck(k, jnp.ones((3, 4)), 2.0, k),
        lambda: transitions.geometric_brownian(k, 0.1, jnp.ones((3, 4))),
        lambda: transitions.scir_log_mgf(k / 10, k, jnp.ones((5, 3, 4)), 0.5),
        lambda: step_sizes.for_inflation(jnp.ones((3, 4)), k),
        lambda: transitions.stationary_inflation(jnp.ones((3, 4)), k),
    )
    for projection in (
        convex.simplex(jnp.ones(2)),
        convex.ball(jnp.ones(2)),
        convex.box(jnp.zeros(3), 1.0),
    ):
        yield lambda projection=projection: convex.contains(projection, ROWS)
    for maps, x in (
        (mirror.hypercube(jnp.zeros(3), jnp.ones(3)), ROWS),
        (mirror.ball(jnp.ones(2)), ROWS / 2),
        (mirror.simplex(), ROWS / 2),
    ):
        for name in ("log_det", "correction", "inside"):
            yield lambda maps=maps, x=x, name=name: moved(maps, name, x)
    for space, x in (
        (manifolds.sphere(), UNIT),
        (manifolds.stiefel(), MATRICES),
        (manifolds.simplex_flat(), ROWS),
    ):
        yield lambda space=space, x=x: space.flow(x, space.project(x, jnp.ones_like(x)), 0.1)
        yield lambda space=space, x=x: space.point(KEY, x)


def moved(maps, name, x):
    y = maps.dual(x)
    return getattr(maps, name)(*((x,) if name == "inside" else (x, y)))


@pytest.mark.slow
@either_flag
def test_arguments_of_different_ranks(flag):
    with FLAGS[flag]():
        for call in ranks():
            call()


@either_flag
def test_estimates_of_gradients_and_their_variances(flag):
    data = jnp.arange(6.0).reshape(6, 1)

    def log_likelihood(mean, x):
        return -jnp.sum((x - mean[None]) ** 2)

    with FLAGS[flag]():
        gradients.full_gradient(log_likelihood, jnp.ones(1), data, block_size=4)
        fisher = gradient_noise.fisher(log_likelihood, 6, matrix=True)
        assert fisher(jnp.ones(1), data).shape == (1, 1)
        estimator = estimators.categorical(6)
        labels = jnp.zeros((3, 2), jnp.int32)
        log_weights = jnp.zeros((2, 4))
        gradient_noise.variance(estimator, KEY, log_weights, lambda key, step: labels, 3)


def test_the_flags_see_planted_promotions():
    kernel = scir.build(estimators.subsampled(lambda key, x, batch: batch + x, 3), 0.5, 0.1)
    state = kernel.init(KEY, jnp.ones((2, 3)))
    for flag, batch in (("ranks", jnp.ones(3)), ("dtypes", jnp.ones((2, 3), jnp.int32))):
        with FLAGS[flag](), pytest.raises((ValueError, TypeError), match="promotion"):
            kernel.update(KEY, state, batch)
