"""Batches that stream by an `LDA`: saved and gone on with, and what is refused."""

import chex
import numpy as np
import pytest
from sklearn.base import clone

from simplex_jax._src import schedules
from simplex_jax._src.models.lda import model as lda
from simplex_jax.sklearn import LDA

COUNTS = np.array([[9, 8, 0, 0], [7, 9, 1, 0], [0, 0, 9, 8], [0, 1, 8, 9]] * 2)
MODEL = LDA(2, alpha="learn-asymmetric", total_samples=8, random_state=0)


def stream(model, updates):
    for _ in range(updates):
        model.partial_fit(COUNTS)
    return model


@pytest.fixture(scope="module")
def streamed():
    return stream(clone(MODEL), 5)


def goes_on_as_it_would_have(model, saved, path):
    saved.save(path)
    back, whole = LDA.load(path).partial_fit(COUNTS), stream(clone(model), 6)
    np.testing.assert_array_equal(back.components_, whole.components_)
    np.testing.assert_array_equal(back.alpha_, whole.alpha_)
    # It can be saved again, and has the topics themselves beside their mean.
    back.save(path)
    twice = LDA.load(path)
    chex.assert_trees_all_equal(twice._stream, whole._stream)
    assert back.n_updates_ == twice.n_updates_ == 6


@pytest.mark.slow
def test_a_saved_stream_goes_on_to_the_same_bits(streamed, tmp_path):
    assert (streamed.alpha_ != 0.1).all()
    goes_on_as_it_would_have(MODEL, streamed, tmp_path / "model.npz")


@pytest.mark.slow
def test_a_saved_stream_keeps_its_momenta(tmp_path):
    model = clone(MODEL).set_params(sampler="sgrhmc")
    goes_on_as_it_would_have(model, stream(clone(model), 5), tmp_path / "model.npz")


@pytest.mark.slow
def test_step_sizes_may_be_a_schedule(streamed, tmp_path):
    """The default is one: the same, given, gives the same topics."""
    given = schedules.polynomial_decay(*lda.default_step("scir", "subsampled"))
    model = clone(MODEL).set_params(step_size=given)
    np.testing.assert_array_equal(stream(model, 5).components_, streamed.components_)
    with pytest.raises(ValueError, match=r"\(A, TAU, KAPPA\), not a function"):
        model.fit(COUNTS)
    with pytest.raises(ValueError, match="JSON"):
        model.save(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"beta": "learn"}, r"learns beta: .*partial_fit"),
        ({"beta": "learn-asymmetric"}, "learns beta"),
        ({"beta": "learned"}, r"^beta .*'learned'$"),
        ({"alpha": "learned"}, r"^alpha .*'learned'$"),
        ({"alpha": [0.1, 0.2, 0.3]}, r"alpha .* 2 .* 3"),
        ({"beta": [0.1, 0.2]}, r"beta .* 4 .* 2"),
        ({"n_components": 0}, r"n_components .* 1"),
        ({"n_chains": 2}, "partial_fit runs one chain"),
        ({"counts": "memoised"}, r"^partial_fit .*'subsampled'; it is 'memoised'$"),
        ({"counts": "memoised"}, r"^partial_fit .*'memoised'$"),
    ],
)
def test_bad_parameters_are_told(params, message):
    with pytest.raises(ValueError, match=message):
        LDA(**{"n_components": 2, "random_state": 0, **params}).partial_fit(COUNTS)


@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 3},
        {"alpha": 0.1},
        {"alpha": "learn"},
        {"beta": [0.1, 0.1, 0.1, 0.2]},
        *({"sampler": sampler} for sampler in lda.SAMPLERS if sampler != "scir"),
    ],
    ids=str,
)
def test_what_a_stream_began_with_stays(streamed, tmp_path, params):
    before = streamed.components_.copy()
    streamed.save(tmp_path / "model.npz")
    for model in (streamed, LDA.load(tmp_path / "model.npz")):
        try:
            (name,) = params
            with pytest.raises(ValueError, match=f"^{name} .*partial_fit"):
                model.set_params(**params).partial_fit(COUNTS)
        finally:
            model.set_params(**MODEL.get_params())
        np.testing.assert_array_equal(model.components_, before)
