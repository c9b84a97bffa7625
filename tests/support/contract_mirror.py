"""Small problems for the kernels on constrained spaces."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from baselines import convex, myula, plmc

from simplex_jax._src import batches, estimators, gradients
from simplex_jax._src.geometry import mirror
from simplex_jax._src.samplers import mamla, mapla, mld, smld
from support.contract_case import Case

LABELS = np.array([0] * 8 + [1] + [3])
POINTS = np.linspace(-1, 2, 20)[:, None] * np.array([0.2, 0.5, 1.0])


def _case(build: Callable, position, data, step_size: float) -> Case:
    return Case(build(step_size), position, batches.uniform(data, 4), build)


def _points() -> estimators.Estimator:
    """The mean of normal points under a normal prior."""
    return gradients.posterior(
        lambda x: -(x**2).sum() / 2, lambda x, batch: -((batch - x[None]) ** 2).sum() / 2, size=20
    )


def _labels_given_x() -> estimators.Estimator:
    return gradients.posterior(
        lambda x: -0.9 * jnp.log(x).sum(), lambda x, batch: jnp.log(x)[batch].sum(), size=10
    )


def _labels_given_y() -> estimators.Estimator:
    def log_x(y):
        return jax.nn.log_softmax(jnp.append(y, jnp.zeros((), y.dtype)))

    return gradients.posterior(
        lambda y: 0.1 * log_x(y).sum(), lambda y, batch: log_x(y)[batch].sum(), size=10
    )


def _barrier(x: jax.Array) -> jax.Array:
    return -jnp.log(1 + x).sum() - jnp.log(3 - x.sum())


def _diagonal(x: jax.Array) -> jax.Array:
    return jnp.diag(1 + x**2)


def _plmc(projection: convex.Projection, position) -> Case:
    estimator = _points()
    return _case(lambda h: plmc.build(estimator, projection, h), position, POINTS, 0.005)


def _myula(projection: convex.Projection, position) -> Case:
    estimator = _points()
    return _case(
        lambda h: myula.build(estimator, projection, h, smoothing=0.01), position, POINTS, 0.005
    )


def _mld(estimator: estimators.Estimator, maps, position, data, form: str = "primal") -> Case:
    return _case(lambda h: mld.build(estimator, maps, h, form=form), position, data, 0.01)


def _posterior(position, batch: jax.Array) -> jax.Array:
    leaves = jax.tree.leaves(position)
    return -sum((x**2).sum() + ((batch[None] - x.reshape(-1, 1, 3)) ** 2).sum() for x in leaves) / 2


def _exact(build: Callable, geometry, position) -> Case:
    def rebuild(step_size):
        return build(_posterior, geometry, step_size, needs_batch=True)

    return Case(rebuild(0.02), position, batches.full(POINTS), rebuild)


def _smld(**options) -> Case:
    estimator = estimators.categorical(len(LABELS))
    return _case(lambda h: smld.build(estimator, 0.1, h, **options), jnp.full(5, 0.2), LABELS, 0.01)


CASES: dict[str, Callable[[], Case]] = {
    "plmc": lambda: _plmc(convex.simplex(), jnp.full(3, 1 / 3)),
    "plmc box": lambda: _plmc(convex.box(0.0, jnp.inf), jnp.ones(3)),
    "myula": lambda: _myula(convex.ball(), jnp.zeros(3)),
    "mld": lambda: _mld(_labels_given_x(), mirror.simplex(0), jnp.full(5, 0.2), LABELS),
    "mld simplex dual": lambda: _mld(
        _labels_given_y(), mirror.simplex(), jnp.full(5, 0.2), LABELS, "dual"
    ),
    "mld hypercube": lambda: _mld(_points(), mirror.hypercube(-1.0, 2.0), jnp.zeros(3), POINTS),
    "mld ball": lambda: _mld(_points(), mirror.ball(), jnp.full(3, 0.1), POINTS),
    "mld own": lambda: _mld(_points(), mirror.from_convex(_barrier), jnp.zeros(3), POINTS),
    "mamla": lambda: _exact(mamla.build, mirror.hypercube(-1.0, 2.0), jnp.zeros(3)),
    "mamla ball": lambda: _exact(mamla.build, mirror.ball(), jnp.full(3, 0.1)),
    "mamla own": lambda: _exact(mamla.build, mirror.from_convex(_barrier), jnp.zeros(3)),
    "mapla": lambda: _exact(mapla.build, _diagonal, jnp.zeros(3)),
    "mapla tree": lambda: _exact(
        mapla.build, _diagonal, {"a": jnp.zeros(3), "b": jnp.ones((1, 3))}
    ),
    "smld": _smld,
    "smld reference": lambda: _smld(reference=0),
    "smld linearised": lambda: _smld(reference=0, linearised=True),
}
