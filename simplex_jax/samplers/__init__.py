"""Sampling algorithms, one per module: `State`, `Info`, `init`, `update`, `build`.

- On the simplex, from counts (`estimators`, `gradients.counts`): `scir`, `sgrld`, `sgrhmc`, `smld`,
  `rld` (four parameterisations, with and without Metropolis), and `reflected_cir` to compare with.
- On (0, inf), from the evidence of `positive`: `cir` for gamma laws, `gbm` for lognormal ones.
- On R^d, from gradients (`gradients`): `sgld`, `sghmc`, `sgnht`, `sgbd`, and `recipe` to write
  one's own; `barker`, which is exact, from a log density.
- On manifolds with known geodesics (`geometry.manifolds`), from gradients: `sggmc`, `gsgnht`, and
  `gmc`, which is exact.
- On convex sets, from gradients: `mld` with any mirror map, and `plmc` and `myula` to compare with;
  `mamla`, with a mirror map, and `mapla`, with a metric, which are exact, from a log density.
"""

from simplex_jax.samplers import (
    barker,
    cir,
    gbm,
    gmc,
    gsgnht,
    mamla,
    mapla,
    mld,
    myula,
    plmc,
    recipe,
    reflected_cir,
    rld,
    scir,
    sgbd,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    smld,
)

__all__ = [
    "barker",
    "cir",
    "gbm",
    "gmc",
    "gsgnht",
    "mamla",
    "mapla",
    "mld",
    "myula",
    "plmc",
    "recipe",
    "reflected_cir",
    "rld",
    "scir",
    "sgbd",
    "sggmc",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
    "smld",
]
