"""A corpus on disk is sampled as the same one in memory."""

import chex
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax import topics
from simplex_jax.corpus import from_counts, store
from simplex_jax.topics import memory, model

# Documents of one length, so that they are in the same order on the device and on the disk.
COUNTS = sp.csr_array(np.random.default_rng(0).multinomial(8, np.ones(6) / 6, 20).astype(np.int32))
OPTIONS = {"steps": 12, "batch_size": 5, "eval_every": 3, "sweeps": 1, "burn_in": 0, "seed": 3}


@pytest.fixture
def stored(tmp_path):
    return store.write(tmp_path / "corpus", from_counts(COUNTS))


def test_the_same_batches_give_the_same_samples(stored, monkeypatch):
    """As in memory, shown the documents that were read from the disk: not a bit differs."""
    seen, read, build = [], store.Stored.batch, model.build

    def recorded(self, ids, room):
        seen.append(ids.astype(np.int32))
        return read(self, ids, room)

    monkeypatch.setattr(store.Stored, "batch", recorded)
    streamed = topics.fit(stored, 2, **OPTIONS)
    assert streamed.settings.counts == "subsampled"
    monkeypatch.setattr(
        model, "build", lambda *arguments: (build(*arguments)[0], lambda *_: iter(seen))
    )
    held = topics.fit(COUNTS, 2, counts_estimate="subsampled", **OPTIONS)
    chex.assert_trees_all_equal(streamed.state.position, held.state.position)
    chex.assert_trees_all_equal(streamed[:2], held[:2])
    assert len({tuple(ids) for ids in seen}) > 1
    assert streamed.proportions.shape == (0, 2)
    np.testing.assert_array_equal(
        topics.transform(streamed.mean, streamed.alpha, stored, seed=3),
        topics.transform(streamed.mean, streamed.alpha, COUNTS, seed=3),
    )


def test_a_run_goes_on_with_the_batches_it_would_have_seen(stored, tmp_path):
    options = OPTIONS | {"checkpoint": tmp_path / "run", "documents": COUNTS}
    topics.fit(stored, 2, hooks=[lambda event: event.step == 6], **options)
    resumed = topics.fit(stored, 2, resume=True, **options)
    whole = topics.fit(stored, 2, documents=COUNTS, **OPTIONS)
    chex.assert_trees_all_equal(resumed.state, whole.state)
    chex.assert_trees_all_equal(resumed[:5], whole[:5])


def test_only_the_documents_asked_for_are_learned_from(tmp_path):
    """Of two kinds of documents with words of their own, one is left out."""
    counts = sp.csr_array(np.array([[8, 0, 0, 0, 0, 0]] * 20 + [[0, 0, 0, 4, 4, 0]] * 20))
    stored = store.write(tmp_path / "corpus", from_counts(counts))
    options = OPTIONS | {"steps": 60, "beta": 0.01}
    fitted = topics.fit(stored, 2, among=np.arange(20, 40), **options)
    assert fitted.prevalence @ fitted.mean[:, 3:5].sum(axis=1) > 0.98
    assert fitted.metrics[-1]["passes"] == 15


def test_counts_that_remember_every_token_are_not_for_a_corpus_on_disk(stored):
    with pytest.raises(ValueError, match="is sampled with counts_estimate='subsampled'"):
        topics.fit(stored, 2, counts_estimate="memoised")


def test_memory_does_not_grow_with_the_corpus(stored, monkeypatch):
    monkeypatch.setattr(memory, "_in_passing", lambda *_: 0)
    settings = topics.resolve(stored, 2, batch_size=5)
    found = memory.estimate(stored, settings)
    assert found["corpus"] < 1000
    assert found["update"] >= 4 * 5 * 8
