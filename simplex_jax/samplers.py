"""Sampling algorithms, one per module: `State`, `Info`, `init`, `update`, `build`.

`from simplex_jax.samplers import scir`, say, and `help(scir.build)`.

- On the simplex, from counts (`estimators`, `gradients.counts`): `scir`, `sgrld`, `sgrhmc`, `smld`.
- Paths and forests of probability vectors, from counts at each time or group: `dirichlet_paths`,
  exact.
- On (0, inf), from evidence: `cir` for gamma posteriors (`cir.Evidence`), `gbm` for lognormal ones
  (`gbm.LogEvidence`).
- On R^d, from gradients (`gradients`): `sgld`, `sghmc`, `sgnht`, `sgbd`, and `recipe` for your own
  sampler; from a log density: `barker`, exact.
- On manifolds with known geodesics (`geometry.manifolds`), from gradients: `sggmc`, `gsgnht`; from
  a log density: `gmc`, exact.
- On convex sets, from gradients: `mld` with any mirror map; from a log density, exact: `mamla` with
  a mirror map, `mapla` with a metric.
"""

from simplex_jax._src.border import show
from simplex_jax._src.samplers import *  # noqa: F403
from simplex_jax._src.samplers import __all__

show(__name__, *(globals()[name] for name in __all__))


def __dir__() -> list[str]:
    return __all__
