"""A corpus on disk is sampled as the same one in memory."""

import chex
import numpy as np
import pytest
import scipy.sparse as sp
from support.cut_runs import Cut
from support.fits import assert_same, proportions_of

from simplex_jax._src.corpus import from_counts, store
from simplex_jax._src.models import lda, pipeline
from simplex_jax._src.models.lda import feed as model
from simplex_jax._src.models.lda import memory, options
from simplex_jax._src.models.topics import data

# Documents of one length, so that they are in the same order on the device and on the disk.
COUNTS = sp.csr_array(np.random.default_rng(0).multinomial(8, np.ones(6) / 6, 20).astype(np.int32))
OPTIONS = {"steps": 12, "batch_size": 5, "eval_every": 3, "sweeps": 1, "seed": 3}


@pytest.fixture
def stored(tmp_path):
    return store.write(tmp_path / "corpus", from_counts(COUNTS))


@pytest.mark.slow
def test_the_same_batches_give_the_same_samples(stored, monkeypatch):
    """As in memory, shown the documents that were read from the disk: not a bit differs."""
    seen, read, build = [], store.Stored.batch, model.build

    def recorded(self, ids, room):
        seen.append(ids.astype(np.int32))
        return read(self, ids, room)

    monkeypatch.setattr(store.Stored, "batch", recorded)
    streamed = lda.fit(stored, 2, **OPTIONS)
    assert streamed.settings.counts == "subsampled"
    monkeypatch.setattr(
        model, "build", lambda *arguments: (build(*arguments)[0], lambda *_: iter(seen))
    )
    held = lda.fit(COUNTS, 2, counts="subsampled", **OPTIONS)
    chex.assert_trees_all_equal(streamed.state.position, held.state.position)
    np.testing.assert_array_equal(streamed.topics, held.topics)
    np.testing.assert_array_equal(streamed.topics_sd, held.topics_sd)
    assert len({tuple(ids) for ids in seen}) > 1
    assert streamed.proportions.shape == (0, 2)
    np.testing.assert_array_equal(
        streamed.transform(stored, seed=3),
        proportions_of(streamed.topics, streamed.alpha, COUNTS, seed=3),
    )


@pytest.mark.slow
def test_a_run_goes_on_with_the_batches_it_would_have_seen(stored, tmp_path):
    given = OPTIONS | {"checkpoint": tmp_path / "run", "holdout": 3}
    lda.fit(stored, 2, hooks=[Cut(6)], **given)
    resumed = lda.fit(stored, 2, resume=True, **given)
    assert_same(resumed, lda.fit(stored, 2, holdout=3, **OPTIONS))


def test_documents_held_out_are_not_learned_from(tmp_path):
    """Of two kinds of documents with words of their own, the held-out ones are of one kind."""
    counts = sp.csr_array(np.array([[8, 0, 0, 0, 0, 0]] * 20 + [[0, 0, 0, 4, 4, 0]] * 20))
    stored = store.write(tmp_path / "corpus", from_counts(counts))
    train, (observed, target) = data.hold_out(stored, 12, seed=5)
    out = np.setdiff1d(np.arange(40), train.numbers)
    assert len(out) == 12
    np.testing.assert_array_equal((observed + target).toarray(), counts[out].toarray())
    second = data.Selection(stored, np.arange(20, 40))
    settings = options.resolve_options(
        second, None, lda.Options(2, **OPTIONS | {"steps": 60, "beta": 0.01})
    )
    plan = pipeline.Plan(stored, second, None, 20, settings, "")
    fitted = pipeline.train(lda.MODEL, plan, options.Arguments())
    assert fitted.prevalence @ fitted.topics[:, 3:5].sum(axis=1) > 0.98
    assert fitted.metrics[-1]["passes"] == 15


def test_held_out_documents_have_one_digest_wherever_they_were_read(stored):
    """One process reads a store as a whole and several by rows: they go on with the same run."""
    digests = [
        pipeline.digest_of(data.hold_out(given, 4, seed=5)[1])
        for given in (stored, data.in_memory(stored))
    ]
    assert digests[0] == digests[1]
    assert digests[0] != pipeline.digest_of(data.hold_out(stored, 4, seed=6)[1])


def test_tokens_of_a_corpus_on_disk_are_remembered_as_those_of_one_in_memory(stored):
    options = {"passes": 20, "seed": 3, "counts": "memoised"}
    on_disk = lda.fit(stored, 2, **options)
    in_memory = lda.fit(data.in_memory(stored), 2, **options)
    np.testing.assert_array_equal(on_disk.topics, in_memory.topics)


def test_memory_does_not_grow_with_the_corpus(stored, monkeypatch):
    monkeypatch.setattr(memory, "_temporaries", lambda *_: 0)
    settings = lda.resolve(stored, 2, batch_size=5)
    result = memory.estimate(stored, settings)
    assert result["corpus"] < 1000
    assert result["update"] >= 4 * 5 * 8
