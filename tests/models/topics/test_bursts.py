"""Topics of a document's own: sweeps and tables of words, in both engines.

False-alarm rate: 1e-3 a test. Joint tests of all updates with bursts are in test_dtm_model.py.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src.corpus.device import Documents
from simplex_jax._src.models.dtm import fitting
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import calls, library
from simplex_jax._src.models.topics.proportions import shards

ENGINES = [
    pytest.param(
        "native", marks=pytest.mark.skipif(not library.works(), reason="native code is not built")
    ),
    "xla",
]
ALPHA = np.array([0.6, 0.3], np.float32)
TOPICS = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
WORDS = np.array([0, 0, 2, 2, 2])
OWN = 0.8


def side_by_side(lengths, num_words, seed=0):
    """Documents whose equal words are side by side."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(num_words, n, p=rng.dirichlet(np.ones(num_words)))) for n in lengths]
    starts = np.cumsum([0, *lengths])[:-1]
    tokens = np.concatenate([*rows, [0]])
    arrays = (tokens, starts, np.asarray(lengths), rng.permutation(len(lengths)))
    return Documents(*(jnp.asarray(x, jnp.int32) for x in arrays))


def exact(own):
    """The distribution of the labels of WORDS, by enumeration; `own` None is without bursts."""
    log_p = []
    for labels in tiny_lda.assignments(len(WORDS), 2):
        total = 0.0
        for k in range(2):
            n = np.bincount(WORDS[labels == k], minlength=3)
            total += special.gammaln(ALPHA[k] + n.sum()) - special.gammaln(ALPHA[k])
            if own is None:
                total += n @ np.log(TOPICS[k])
            else:
                a = own * TOPICS[k]
                total += (special.gammaln(a + n) - special.gammaln(a)).sum()
                total += math.lgamma(own) - math.lgamma(own + n.sum())
        log_p.append(total)
    return special.softmax(log_p)


@pytest.mark.parametrize("lowering", [ENGINES[0], pytest.param("xla", marks=pytest.mark.slow)])
def test_labels_have_their_distribution(lowering, getkey):
    copies = 40_000
    documents = Documents(
        jnp.tile(jnp.asarray(WORDS, jnp.int32), copies),
        jnp.arange(copies, dtype=jnp.int32) * len(WORDS),
        jnp.full(copies, len(WORDS), jnp.int32),
    )
    log_topics = jnp.log(jnp.asarray(TOPICS, jnp.float32))
    labels = engine.sweeps(
        getkey(),
        log_topics,
        jnp.asarray(ALPHA),
        documents,
        None,
        times=40,
        engine=lowering,
        bursts=engine.bursts_of(jnp.float32(OWN), log_topics),
    ).labels
    seen = np.bincount(tiny_lda.number(labels.reshape(copies, -1), 2), minlength=2 ** len(WORDS))
    assert checks.chi_square(seen, exact(OWN)) > 1e-3
    assert checks.chi_square(seen, exact(None)) < 1e-6


@pytest.mark.skipif(not library.works(), reason="native code is not built")
@pytest.mark.parametrize("num_topics", [1, 3, 40])
def test_engines_and_vectors_of_every_width_draw_the_same(num_topics, seed):
    rng = np.random.default_rng(seed)
    documents = side_by_side([0, 1, 1, 5, 9, 30, 70, 200], 20, seed)
    topics = rng.dirichlet(np.full(20, 0.3), num_topics)
    log_topics = jnp.log(jnp.asarray(np.maximum(topics, 1e-30), jnp.float32))
    bursts = engine.bursts_of(jnp.float32(2.0), log_topics)
    alpha = jnp.asarray(rng.gamma(1, 1, num_topics), jnp.float32)
    start = engine.no_labels(len(documents.tokens), num_topics)
    key = jax.random.key(seed)
    by_xla = engine.sweeps(
        key, log_topics, alpha, documents, start, times=3, engine="xla", bursts=bursts
    ).labels
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(3))
    for width in (4, 8, 16):
        labels, _, _ = calls.sweep(
            keys,
            calls.lay_out(log_topics),
            alpha,
            documents,
            start,
            jnp.zeros((0, 0), jnp.int32),
            burn_in=0,
            count="nothing",
            tally=False,
            bursts=bursts,
            width=width,
        )
        assert np.mean(np.asarray(labels) != np.asarray(by_xla)) < 0.01


@pytest.mark.parametrize("lowering", ENGINES)
def test_tables_and_ranks_are_those_of_the_labels(lowering, getkey):
    slices, num_topics, num_words, own = 2, 3, 4, 1.7
    documents = side_by_side([30, 40, 0, 25, 60, 20], num_words)
    documents = Documents(
        documents.tokens, *(x.reshape(slices, 3) for x in documents[1:] if x is not None)
    )
    rng = np.random.default_rng(1)
    labels = rng.integers(0, num_topics + 1, len(documents.tokens)).astype(np.uint8)
    topics = rng.dirichlet(np.ones(num_words), (num_topics, slices))
    mean, ranks = np.zeros((num_topics, slices, num_words)), np.zeros(64, int)
    fixed = np.zeros_like(mean)
    for t in range(slices):
        for start, length in zip(documents.starts[t], documents.lengths[t], strict=True):
            row, words = labels[start : start + length], documents.tokens[start : start + length]
            for k in range(num_topics):
                n = np.bincount(np.asarray(words)[row == k], minlength=num_words)
                ranks[: n.sum()] += 1
                for w in range(num_words):
                    a = own * topics[k, t, w]
                    mean[k, t, w] += (a / (a + np.arange(n[w]))).sum()
                    fixed[k, t, w] += n[w] > 0

    @jax.jit
    def draw(key):
        return engine.word_tables(
            key,
            jnp.log(jnp.asarray(topics, jnp.float32)),
            jnp.float32(own),
            documents,
            jnp.asarray(labels),
            64,
            engine=lowering,
        )

    drawn, seen = jax.lax.map(draw, jax.random.split(getkey(), 4_000))
    assert (np.asarray(seen) == ranks).all()
    drawn = np.asarray(drawn, float)
    p_values = {}
    for at in np.ndindex(*mean.shape):
        if (variance := drawn[:, *at].var()) > 0:
            p_values[at] = checks.mean_z(drawn[:, *at], mean[at], variance)
        else:
            assert drawn[0, *at] == mean[at]
    assert len(p_values) > 10
    assert not checks.family(p_values)
    assert (drawn >= fixed).all()


@pytest.mark.slow
def test_gpus_with_native_code_predict_as_xla_does(monkeypatch):
    """Their native sweeps have no bursts, and the two engines read topics in different forms."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(23, 0.2), 3)
    counts = sp.csr_array(rng.poisson(1.0, (7, 23)))
    place = np.zeros(7, int)

    def infer(engine):
        shares = [x.proportions for x in shards(topics, 0.3, counts, engine=engine, own=3.0)]
        perplexity = fitting.perplexity_of(
            topics[None], np.full((1, 3), 0.3), 3.0, counts, place, seed=1
        )
        return np.concatenate(shares), perplexity

    monkeypatch.setattr(library, "works", lambda: False)
    expected = infer("xla")
    jax.clear_caches()
    monkeypatch.setattr(library, "works", lambda: True)
    monkeypatch.setattr(library, "platform", lambda: "cuda")
    monkeypatch.setattr(library, "most_topics", lambda: 192)
    seen = infer(None)
    jax.clear_caches()
    np.testing.assert_allclose(seen[0], expected[0], atol=1e-6)
    assert seen[1] == pytest.approx(expected[1], rel=1e-6)


def test_other_sweeps_are_refused(getkey):
    log_topics = jnp.log(jnp.asarray(TOPICS, jnp.float32))
    with pytest.raises(ValueError, match="collapsed"):
        engine.sweeps(
            getkey(),
            log_topics,
            jnp.asarray(ALPHA),
            side_by_side([3], 3),
            None,
            times=1,
            method="blocked",
            bursts=engine.bursts_of(jnp.float32(1.0), log_topics),
        )
