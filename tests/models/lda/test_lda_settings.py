"""Settings of a fit: defaults filled in, priors in every form, every bad option named."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support import native_sweeps

from simplex_jax._src.corpus import from_counts, store
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import memory, model
from simplex_jax._src.models.lda import options as lda_options
from simplex_jax._src.models.lda.kernel import Memory
from simplex_jax._src.models.options import as_json, from_json
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import library as libraries
from simplex_jax._src.runtime import devices

COUNTS = sp.csr_array(np.array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]] * 5))


def test_defaults_depend_on_the_counts():
    memoised = lda.resolve(COUNTS, 2)
    assert (memoised.local, memoised.sweeps) == ("collapsed", 1)
    assert isinstance(memoised.step_size, float)
    subsampled = lda.resolve(COUNTS, 2, counts="subsampled")
    assert (subsampled.local, subsampled.sweeps) == ("collapsed", 10)
    assert subsampled.step_size == (0.5, 10, 0.33)
    assert lda.resolve(COUNTS, 2, passes=3, batch_size=6).steps == 12
    assert lda.resolve(COUNTS, 2, step_size=0.2).step_size == 0.2


def test_a_concentration_beside_which_no_token_is_seen_is_refused():
    for name in ("alpha", "beta"):
        assert getattr(lda.resolve(COUNTS, 2, **{name: 2.0**24}), name) == 2**24
        for value in (1e30, [1e30] + [1.0] * (1 if name == "alpha" else 3)):
            with pytest.raises(ValueError, match=rf"^{name} .* 16,777,216; .* 1e\+30"):
                lda.resolve(COUNTS, 2, **{name: value})


def test_a_step_of_any_length_draws_from_the_full_conditional():
    """The decay of the old weights, e^-h, is 0 in float32 from about 100 on."""
    first, second = (lda.fit(COUNTS, 2, step_size=h, steps=3, holdout=0) for h in (200, 1e30))
    np.testing.assert_array_equal(first.topics, second.topics)


def test_more_topics_than_tokens_are_refused():
    tokens = int(COUNTS.sum())
    assert lda.resolve(COUNTS, tokens).num_topics == tokens
    with pytest.raises(ValueError, match=f"^num_topics .* {tokens}, "):
        lda.resolve(COUNTS, tokens + 1)


def test_a_run_towards_a_goal_has_several_chains_where_they_have_the_time(monkeypatch):
    assert lda.resolve(COUNTS, 2).chains == 4
    assert lda.resolve(COUNTS, 2, passes=9).chains == 1
    assert lda.resolve(COUNTS, 2, counts="subsampled").chains == 1
    assert lda.resolve(COUNTS, 2, chains=3).chains == 3
    size = COUNTS.sum() + 2 * COUNTS.shape[1]
    for work, chains in ((4 * size, 4), (4 * size - 1, 2), (2 * size - 1, 1)):
        monkeypatch.setattr(lda_options, "_WORK", work)
        assert lda.resolve(COUNTS, 2).chains == chains


def test_settled_options_settle_to_themselves():
    """What `config.json` holds is what a run that goes on resolves to."""
    sgrld = {"sampler": "sgrld"}
    for given in ({}, {"counts": "subsampled"}, {"seconds": 3.0}, {"alpha": "learn"}, sgrld):
        settled = lda.resolve(COUNTS, 2, **given)
        assert lda.resolve(COUNTS, **vars(settled)) == settled


def test_concentrations_are_numbers_or_learned():
    given = lda.resolve(COUNTS, 2, alpha=[0.1, 0.3], beta=1)
    assert (given.alpha, given.beta) == ((0.1, 0.3), 1.0)
    fixed = lda_options.configure(given, 4)
    np.testing.assert_allclose(fixed.alpha, [0.1, 0.3])
    assert (fixed.learn_alpha, fixed.learn_beta) == (None, None)
    for words in (("learn-asymmetric", "learn"), ("learn", "learn-asymmetric")):
        settings = lda.resolve(COUNTS, 2, **dict(zip(("alpha", "beta"), words, strict=True)))
        learned = lda_options.configure(settings, 4)
        assert (learned.learn_alpha, learned.learn_beta) == words
        np.testing.assert_allclose(learned.alpha, [0.1, 0.1])
        np.testing.assert_allclose(learned.beta, [0.05] * 4)


def test_settings_go_into_json_and_back():
    settings = lda.resolve(
        COUNTS, 2, alpha=np.array([0.1, 0.3]), beta=np.float32(0.5), seed=3, counts="subsampled"
    )
    text = json.dumps(as_json(settings))
    assert json.loads(text)["alpha"] == [0.1, 0.3]
    assert from_json(lda.Options, json.loads(text)) == settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_topics": 0}, "num_topics"),
        ({"num_topics": 2, "alpha": -1.0}, "alpha"),
        ({"num_topics": 2, "alpha": float("nan")}, "alpha"),
        (
            {"num_topics": 2, "alpha": [0.1, 0.2, 0.3]},
            r"alpha .* 2 .* 3",
        ),
        ({"num_topics": 2, "alpha": "learn-vector"}, r"^alpha .*'learn-vector'$"),
        ({"num_topics": 2, "beta": 0.0}, "^beta"),
        (
            {"num_topics": 2, "beta": [0.1, 0.1]},
            r"beta .* 4 .* 2",
        ),
        ({"num_topics": 2, "beta": [None]}, "^beta"),
        ({"num_topics": 2, "beta": "learn", "counts": "subsampled"}, "beta can be"),
        ({"num_topics": 2, "sampler": "hmc"}, "sampler"),
        ({"num_topics": 2, "counts": "none"}, r"^counts .*'none'$"),
        ({"num_topics": 2, "local": "none"}, r"^local .*'none'$"),
        ({"num_topics": 2, "passes": 1, "steps": 2}, "at most one"),
        ({"num_topics": 2, "seconds": -1.0}, "seconds"),
        ({"num_topics": 2, "batch_size": 21}, "batch_size"),
        ({"num_topics": 2, "eval_every": 0}, "eval_every"),
        ({"num_topics": 2, "step_size": 0.0}, r"^step_size .*0\.0$"),
        ({"num_topics": 2, "step_size": [0.1, 0.2]}, r"step_size .* \(A, TAU"),
        ({"num_topics": 2, "step_size": "fast"}, r"^step_size .*'fast'$"),
        ({"num_topics": 2, "step_size": lambda step: 0.1}, "step_size must be .* not a function"),
        ({"num_topics": 2, "passes": 1e30}, r"^1e\+30 steps .* 2,147,483,647"),
        ({"num_topics": 2, "steps": 2.7}, "steps"),
        ({"num_topics": 2, "chains": 0}, "chains"),
        ({"num_topics": 2, "keep_samples": -1}, "keep_samples"),
        ({"num_topics": 2, "seed": 2**70}, "seed"),
        ({"num_topics": 2, "seed": 1.5}, "seed"),
        ({"num_topics": 2, "batch_size": 2.5}, "batch_size"),
        ({"num_topics": 2, "devices": 0}, "devices"),
        ({"num_topics": 2, "devices": 1.0}, "devices"),
        ({"num_topics": 2, "devices": 10**6}, r"^devices .*1000000$"),
        ({"num_topics": 2, "devices": 0, "counts": "subsampled"}, "devices"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        lda.resolve(COUNTS, **options)


@pytest.mark.slow
def test_memory_is_that_of_the_arrays():
    """Memoised: tokens, the two arrays of documents, labels, and K V in float and in counts."""
    counts = sp.csr_array(np.random.default_rng(0).poisson(2, (100, 300)).astype(np.int32))
    tokens, num_topics = int(counts.sum()), 5
    settings = lda.resolve(counts, num_topics, chains=1)
    result = memory.estimate(from_counts(counts), settings, heldout=(counts[:9], counts[:9]))
    assert result["corpus"] == pytest.approx(4 * (tokens + 200), rel=0.05)
    assert result["state"] == pytest.approx(2 * (tokens + 8 * num_topics * 300), rel=0.1)
    assert result.pop("samples") == 20 * 4 * num_topics * 300
    assert result["total"] == sum(result.values()) - result["total"]
    assert result.pop("documents") == 0  # names of a corpus in memory lie there already
    assert min(result.values()) > 0


def test_a_vocabulary_of_one_word_is_refused_before_training():
    with pytest.raises(ValueError, match=r"min_df.* corpus\.TextOptions"):
        lda.fit(np.ones((10, 1), int), 2)


def test_default_batches_of_a_pass_are_about_as_large_as_each_other(seed):
    rng = np.random.default_rng(seed)
    for _ in range(2_000):
        documents, length = int(rng.integers(1, 200_000)), int(rng.integers(1, 300))
        shape = int(rng.integers(1, 1_000)), int(rng.integers(1, 50_000))
        size = model.default_batch_size(documents, documents * length, shape)
        least = min(documents, 4 * shape[0] * shape[1] / length)
        assert least <= size <= documents
        assert size == documents or size % 64 == 0
        assert documents % size == 0 or documents % size >= size // 2


def test_a_topic_may_have_more_tokens_than_int32():
    """The sum of int32, which was taken before, is -2147483638 for the first."""
    most = 2**31 - 1
    counts = jnp.array([[2**30 + 5, 2**30 + 5], [1, 2], [most, most], [0, 2**24 + 1]], jnp.int32)
    memory = Memory(jnp.zeros(1, jnp.uint8), counts)
    exact = np.asarray(counts, np.int64).sum(axis=1)
    assert memory.topic_tokens.tolist() == exact.astype(np.float32).tolist()
    assert counts.sum(axis=1).tolist() != exact.tolist()


def test_a_word_of_more_tokens_than_int32_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lda_options, "_MOST_COUNTED", int(COUNTS.sum(axis=0).max()))
    lda.resolve(COUNTS, 2)
    monkeypatch.setattr(lda_options, "_MOST_COUNTED", int(COUNTS.sum(axis=0).max()) - 1)
    monkeypatch.setattr(lda_options, "_ENTRIES", 7)
    stored = store.write(tmp_path / "store", from_counts(COUNTS))
    for data in (COUNTS, stored):
        with pytest.raises(ValueError, match=r"at most .* tokens per word; 'w\d' has .* leave it"):
            lda.resolve(data, 2, counts="memoised")
    lda.resolve(COUNTS, 2, counts="subsampled")


def test_more_topics_than_native_labels_can_number():
    most = libraries.most_topics()  # on CPUs 2^16 - 1, on GPUs fewer
    assert engine.resolve(None, most) == engine.resolve()
    assert engine.resolve(None, most + 1) == "xla"
    native_sweeps.needs("native")
    with pytest.raises(ValueError, match=f"num_topics is {most + 1:,}: use 'xla'"):
        engine.resolve("native", most + 1)


def test_the_announcement_says_why_there_is_no_native_engine(monkeypatch):
    monkeypatch.setattr(engine.library, "works", lambda: False)
    assert engine.described("xla").startswith("xla engine (")


@pytest.mark.parametrize("options", [{"passes": 3.0}, {}, {"counts": "subsampled", "passes": 3.0}])
def test_a_run_that_does_not_fit_is_refused(options, monkeypatch):
    """What arithmetic alone finds is most of what the compiled program needs."""
    rng = np.random.default_rng(0)
    corpus = from_counts(sp.csr_array(rng.poisson(0.05, (300, 4000)).astype(np.int32)))
    settings = lda.resolve(corpus, 300, **options)
    needed = memory.estimate(corpus, settings)["total"]
    monkeypatch.setattr(devices, "memory", lambda: int(1.01 * needed))
    memory.check(corpus, settings)
    monkeypatch.setattr(devices, "memory", lambda: int(0.6 * needed))
    with pytest.raises(ValueError, match=r"MiB of memory .*MiB: "):
        memory.check(corpus, settings)


def test_more_topics_than_draws_can_tell_apart_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "_MOST_NUMBERS", 40)
    counts = sp.csr_array(np.ones((3, 5), np.int32))
    memory.check(from_counts(counts), lda.resolve(counts, 8))
    with pytest.raises(ValueError, match=r"^9 topics of 5 words .* 40 numbers"):
        memory.check(from_counts(counts), lda.resolve(counts, 9))


@pytest.mark.parametrize("words", [3, 5])
def test_a_kernel_is_built_for_the_words_of_the_corpus(words):
    """Words beyond the shape would be counted as the last one."""
    with pytest.raises(ValueError, match=rf"shape must be \(K, 4\).*\(2, {words}\)"):
        lda.build(np.array([[3, 2, 0, 0], [0, 0, 2, 3]]), (2, words))
