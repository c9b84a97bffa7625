"""Every model of words takes texts as it takes their counts."""

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import CorpusError, from_counts, from_texts
from simplex_jax._src.models import dpm, dtm, hdp, lda, sam

TEXTS = ["river water stream boat", "goal match team ball"] * 8
# One word each, which the limits of a vocabulary of their own would drop.
NEW = ["the river, a zebra", "ball"]
MODELS = {
    "lda": lambda data: lda.fit(data, 2, steps=5),
    "hdp": lambda data: hdp.fit(data, steps=5),
    "sam": lambda data: sam.fit(data, 2, steps=5),
    "dpm": lambda data: dpm.fit(data, steps=5),
    "dtm": lambda data: dtm.fit(data, 2, steps=5),
}
RECORDS = {model.MODEL.name: model.MODEL for model in (lda, hdp, sam, dpm, dtm)}


@pytest.mark.parametrize("name", MODELS)
def test_texts_are_their_counts(name):
    model = RECORDS[name]
    assert model.digest(model.as_data(TEXTS)) == model.digest(model.as_data(from_texts(TEXTS)))
    with pytest.raises(CorpusError, match=r"^texts: .*'river', "):
        model.as_data("river")


@pytest.mark.parametrize(
    "name",
    ["lda", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hdp", "sam", "dpm", "dtm"))],
)
def test_other_texts_are_put_to_the_words_of_a_fit(name):
    fitted = MODELS[name](TEXTS)
    words = from_texts(TEXTS).vocabulary
    shares = fitted.transform(NEW)
    np.testing.assert_array_equal(shares, fitted.transform(from_texts(NEW, vocabulary=words)))
    assert len(shares) == 2
    unknown = fitted.transform(["zebra", "river"])[:1]  # the prior
    for alone in (
        ["zebra"],
        [""],
        ["1 2 3"],
        from_texts(["zebra"], vocabulary=words),
        from_counts([[3]], ["zebra"]),
        np.zeros((1, len(words)), int),
        sp.csr_array((1, len(words)), dtype=np.int32),
    ):
        np.testing.assert_array_equal(fitted.transform(alone), unknown)
    with pytest.warns(UserWarning, match="none of its 60 tokens"):
        np.testing.assert_array_equal(fitted.transform(["zebra " * 20] * 3), unknown[[0, 0, 0]])
    with pytest.raises(CorpusError, match=r"^texts: .*'river', "):
        fitted.transform("river")
