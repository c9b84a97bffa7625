"""Fits of every model in single and in double precision (`jax_enable_x64`)."""

import jax
import numpy as np
import pytest

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import dpm, hdp, lda, sam
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.topics.native.library import LIBRARY

COUNTS = np.random.default_rng(0).poisson(1.0, (20, 6)) + np.eye(20, 6, dtype=int)
CORPUS = from_counts(COUNTS)
CELLS = {
    "size": np.random.default_rng(1).normal(size=20).tolist(),
    "kind": ["a", "b", None, "c"] * 5,
    "number": np.arange(20).tolist(),
}
VECTORS = np.random.default_rng(2).normal(size=(20, 6))
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)
POINTS = np.random.default_rng(3).normal(size=(20, 2))

ENGINES = ["xla", *(["native"] if LIBRARY.built() is not None else [])]
LDA = [
    *({"alpha": mode, "engine": e} for mode in ("learn", "learn-asymmetric") for e in ENGINES),
    *({"beta": mode, "engine": e} for mode in ("learn", "learn-asymmetric") for e in ENGINES),
    {"alpha": "learn-asymmetric", "beta": "learn", "chains": 2, "batch_size": 8},
    {"alpha": "learn-asymmetric", "counts": "subsampled", "batch_size": 8},
    *({"sampler": name} for name in ("scir", "sgrld", "sgrhmc", "smld")),
    {"counts": "subsampled", "batch_size": 8},
    {"local": "blocked", "batch_size": 8},
    {"seed_words": ["one: w0 w1", "two: w3"], "seed_weight": 5.0, "alpha": "learn-asymmetric"},
]
HDP = [
    *({"engine": e} for e in ENGINES),
    {"alpha": 0.5, "gamma": 1.0},
    {"chains": 2, "capacity": 4, "initial_topics": 4},
]
SAM = [
    *({"sampler": name} for name in ("sggmc", "gsgnht", "gmc-bgibbs")),
    {"local": "laplace"},
    {"alpha": "learn", "kappa1": "learn", "sigma": "learn", "start": "prior", "chains": 2},
    {"batch_size": 8},
]
DPM = [
    (CORPUS, {}),
    (CORPUS, {"chains": 2}),
    (CORPUS, {"alpha": 1.0}),
    (CORPUS, {"sampler": "scir"}),
    (CORPUS, {"sampler": "scir", "counts": "subsampled", "batch_size": 8}),
    (CELLS, {"kinds": {"number": "count"}}),
    (POINTS, {"family": families.gaussian_of(POINTS)}),
    (POINTS, {"family": families.diagonal_gaussian_of(POINTS)}),
]
FITS = [
    *(pytest.param(lda.fit, (COUNTS, 2), options, id=f"lda-{options}") for options in LDA),
    *(pytest.param(hdp.fit, (COUNTS,), options, id=f"hdp-{options}") for options in HDP),
    *(pytest.param(sam.fit, (VECTORS, 2), options, id=f"sam-{options}") for options in SAM),
    *(
        pytest.param(dpm.fit, (rows,), options, id=f"dpm-{i}")
        for i, (rows, options) in enumerate(DPM)
    ),
]


def check(fit, data, options, wide):
    with jax.enable_x64(wide):
        fitted = fit(*data, steps=4, holdout=4, seed=1, **options)
    assert np.isfinite(fitted.metrics[-1]["seconds"])
    for name in ("topics", "alpha", "beta", "proportions"):
        assert np.isfinite(getattr(fitted, name, 0.0)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"alpha": "learn-asymmetric", "engine": "xla"}, {"beta": "learn"}],
    ids=["alpha", "beta"],
)
def test_learned_concentrations_in_double_precision(options):
    """While tracing, their types did not agree."""
    check(lda.fit, (COUNTS, 2), options, wide=True)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize(("fit", "data", "options"), FITS)
def test_fits(fit, data, options, wide):
    check(fit, data, options, wide)
