"""Sampling algorithms, one per module: `State`, `Info`, `init`, `update`, `build`.

- On the simplex, from counts (`estimators`, `gradients.counts`): `scir`, `sgrld`, `sgrhmc`, `smld`,
  `rld` (four parameterisations, with and without Metropolis), and `reflected_cir` to compare with.
- On (0, inf), from the evidence of `positive`: `cir` for gamma laws, `gbm` for lognormal ones.
- On R^d, from gradients (`gradients`): `sgld`, `sghmc`, `sgnht`, and `recipe` to write one's own.
- On manifolds with known geodesics (`geometry.manifolds`), from gradients: `sggmc`, `gsgnht`, and
  `gmc`, which is exact.
- On convex sets, from gradients: `mld` with any mirror map, and `plmc` and `myula` to compare with.
"""

from simplex_jax.samplers import (
    cir,
    gbm,
    gmc,
    gsgnht,
    mld,
    myula,
    plmc,
    recipe,
    reflected_cir,
    rld,
    scir,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    smld,
)

__all__ = [
    "cir",
    "gbm",
    "gmc",
    "gsgnht",
    "mld",
    "myula",
    "plmc",
    "recipe",
    "reflected_cir",
    "rld",
    "scir",
    "sggmc",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
    "smld",
]
