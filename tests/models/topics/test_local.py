"""The local Gibbs steps of LDA against enumeration.

Documents are independent given the topics, so one corpus of many copies of two tiny documents
gives many exact replicas at one sweep. Unless a test says otherwise its p-values are judged by
Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a correct library fails a
test with a probability of at most 1e-3.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support import native_sweeps, tiny_lda
from support import statistics_checks as checks
from support.marks import slow_but

from simplex_jax._src.corpus import device
from simplex_jax._src.models.topics import engine

METHODS = ("blocked", "collapsed")
SWEEPS = {
    **engine.METHODS,
    **{
        f"native {kind}": functools.partial(native_sweeps.sweep, kind=kind)
        for kind in ("dense", "sparse", "integer")
    },
}
PHI = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.6, 0.1]])
ALPHA = np.array([0.3, 0.8, 1.5])
WORDS = ([0, 2], [0, 1, 1])  # as tokens lie on the device: by length, then by word
COPIES = 10_000
TOPICS = len(ALPHA)


def replicas(copies):
    return device.to_device(tiny_lda.table([d for d in WORDS for _ in range(copies)], 3))


def whole(corpus):
    return device.select(corpus, jnp.arange(device.size(corpus)))


count_labels = jax.jit(engine.count_labels, static_argnums=2)


def as_labels(labels, num_topics=TOPICS):
    return jnp.asarray(labels, engine.label_dtype(num_topics))


@functools.partial(jax.jit, static_argnames="sweep")
def sweeps(key, phi, alpha, documents, labels, times, sweep):
    """Labels after some sweeps; a sweep of the native library has a name of its own."""

    def again(i, labels):
        return sweep(jax.random.fold_in(key, i), phi, alpha, documents, labels)

    return jax.lax.fori_loop(0, times, again, labels)


def exact_labels(rng):
    """Labels of the replicas drawn from their conditional, [T]."""
    drawn = []
    for words in WORDS:
        z, p = tiny_lda.conditional(words, PHI, ALPHA)
        drawn.append(z[rng.choice(len(z), COPIES, p=p)].ravel())
    return np.concatenate(drawn)


def label_checks(labels):
    """P-values of the labels of the replicas against their conditional."""
    p_values, first = {}, 0
    for words in WORDS:
        _, p = tiny_lda.conditional(words, PHI, ALPHA)
        mine = labels[first : first + COPIES * len(words)].reshape(COPIES, len(words))
        first += COPIES * len(words)
        seen = np.bincount(tiny_lda.number(mine, TOPICS), minlength=len(p) + 1)
        p_values[tuple(words)] = checks.chi_square(seen, np.append(p, 0))
    return p_values


def conditional_checks(sweep, getkey, seed, phi=PHI, alpha=ALPHA, of=("invariant", "converges")):
    """One sweep from exact draws of the conditional, and many sweeps from no labels."""
    documents = whole(replicas(COPIES))
    starts = {
        "invariant": (exact_labels(np.random.default_rng(seed)), 1),
        "converges": (np.full(documents.tokens.shape, TOPICS), 40),
    }
    p_values = {}
    for name in of:
        labels, times = starts[name]
        drawn = sweeps(
            getkey(),
            jnp.asarray(phi / phi.max(axis=0), jnp.float32),
            jnp.asarray(alpha, jnp.float32),
            documents,
            as_labels(labels),
            times,
            sweep,
        )
        p_values |= checks.prefixed(name, label_checks(np.asarray(drawn)))
    return p_values


@pytest.mark.parametrize("method", SWEEPS)
def test_conditional_is_left_invariant_and_reached(method, getkey, seed):
    assert not checks.family(conditional_checks(SWEEPS[method], getkey, seed))


LEFT_OUT = ("collapsed", "native dense", "native sparse")


@pytest.mark.parametrize("method", slow_but(LEFT_OUT, "native sparse"))
def test_topics_without_concentration_are_left_out(method, getkey, seed):
    """As topics below the level of an update of the hierarchical Dirichlet process are."""
    places = np.array([1, 7, 17])
    likelihood, alpha = np.zeros((20, 3), np.float32), np.zeros(20, np.float32)
    likelihood[places], alpha[places] = PHI / PHI.max(axis=0), ALPHA
    start = as_labels(places[exact_labels(np.random.default_rng(seed))], 20)
    drawn = SWEEPS[method](getkey(), likelihood, alpha, whole(replicas(COPIES)), start)
    assert set(np.unique(drawn)) == set(places)
    assert not checks.family(label_checks(np.searchsorted(places, drawn)))


WRONG = {
    "alpha doubled": {"alpha": 2 * ALPHA},
    "phi of another word": {"phi": np.roll(PHI, 1, axis=1)},
    "alpha reversed": {"alpha": ALPHA[::-1]},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrong", slow_but(WRONG, "alpha doubled"))
def test_wrong_arguments_are_seen(method, wrong, getkey, seed):
    assert checks.family(conditional_checks(SWEEPS[method], getkey, seed, **WRONG[wrong]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sweep", "old", "new"),
    [
        (
            "sweep_collapsed",
            "counts = counts.at[lane, jnp.minimum(old, num_topics - 1)].add(-labelled)",
            "counts = counts.at[lane, jnp.minimum(old, num_topics - 1)].add(0 * labelled)",
        ),
        ("sweep_collapsed", "number < documents.lengths\n", "number < documents.lengths - 1\n"),
        ("sweep_collapsed", ", counts + alpha\n", ", counts + alpha[::-1]\n"),
        ("sweep_blocked", "alpha[:, None] + counts", "alpha[:, None]"),
        ("sweep_blocked", "first + step, labels, words\n\n", "first + step + 1, labels, words\n\n"),
    ],
    ids=[
        "own token kept",
        "last tokens skipped",
        "alpha of another topic",
        "labels ignored",
        "token skipped",
    ],
)
def test_mutants_are_seen(sweep, old, new, getkey, seed):
    mutant = tiny_lda.mutated(engine, old, new)
    assert checks.family(conditional_checks(getattr(mutant, sweep), getkey, seed))


def many_topic_checks(sweep, num_topics, getkey, seed):
    """P-values of documents of one word, with many topics, after 2 sweeps."""
    copies, rng = 120_000, np.random.default_rng(num_topics)
    alpha, phi = rng.exponential(size=num_topics), np.exp(-3 * rng.uniform(size=num_topics))
    phi /= phi.max()
    p = alpha * phi / (alpha @ phi)
    documents = whole(device.to_device(sp.csr_array(np.ones((copies, 1), np.int32))))
    labels = np.random.default_rng(seed).choice(num_topics, copies, p=p)
    drawn = sweeps(
        getkey(),
        jnp.asarray(phi[:, None], jnp.float32),
        jnp.asarray(alpha, jnp.float32),
        documents,
        as_labels(labels, num_topics),
        2,
        sweep,
    )
    return {"labels": checks.chi_square(np.bincount(drawn, minlength=num_topics), p)}


ONE_BY_ONE = [name for name in SWEEPS if name != "blocked"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ONE_BY_ONE)
@pytest.mark.parametrize("num_topics", [13, 150, 300])
def test_topics_are_searched_rightly(num_topics, method, getkey, seed):
    """Thirteen topics fill one row of 16 in part, 150 ten rows."""
    assert not checks.family(many_topic_checks(SWEEPS[method], num_topics, getkey, seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jnp.where(at_threshold, j, place)", "jnp.where(at_threshold, j // 2, place)"),
        ("column > 0), number, 0)", "column > 0), number, 0) * 0"),
        ("(threshold - before_it)", "threshold"),
    ],
)
def test_wrong_searches_are_seen(old, new, getkey, seed):
    mutant = tiny_lda.mutated(engine, old, new)
    assert checks.family(many_topic_checks(mutant.sweep_collapsed, 150, getkey, seed))


@pytest.mark.parametrize("method", ONE_BY_ONE)
def test_collapsed_sweep_moves_as_its_conditionals_say(method, getkey):
    """The law of a sweep from given labels: the product of the conditionals, in order of tokens."""
    likelihood = np.array([[1, 0.25, 0.125], [0.125, 0.375, 1], [0.5, 1, 0.25]])
    documents = whole(replicas(COPIES))
    start = np.concatenate([np.tile([1, 0], COPIES), np.tile([2, 2, 0], COPIES)])
    drawn = sweeps(
        getkey(),
        jnp.asarray(likelihood, jnp.float32),
        jnp.asarray(ALPHA, jnp.float32),
        documents,
        as_labels(start),
        1,
        SWEEPS[method],
    )
    labels = np.asarray(drawn[2 * COPIES :]).reshape(COPIES, 3)
    z = tiny_lda.assignments(3, TOPICS)
    p = np.ones(len(z))
    current = np.tile([2, 2, 0], (len(z), 1))
    for i, word in enumerate(WORDS[1]):
        others = tiny_lda.one_hot(np.delete(current, i, axis=1), TOPICS).sum(axis=1)
        weights = (others + ALPHA) * likelihood[:, word]
        p *= (weights / weights.sum(axis=1, keepdims=True))[np.arange(len(z)), z[:, i]]
        current[:, i] = z[:, i]
    seen = np.bincount(tiny_lda.number(labels, TOPICS), minlength=len(z))
    # One check: the false-alarm rate is 1e-3.
    assert checks.chi_square(seen, p) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("method", ONE_BY_ONE)
def test_randomness_belongs_to_the_document(method, getkey):
    """A document gets the same labels alone as among others."""
    corpus, key = replicas(400), getkey()
    phi, alpha = jnp.asarray(PHI, jnp.float32), jnp.asarray(ALPHA, jnp.float32)
    none = np.full(corpus.tokens.size, TOPICS)

    def labels(ids):
        documents = device.select(corpus, ids)
        return sweeps(key, phi, alpha, documents, as_labels(none), 2, SWEEPS[method])

    together = np.asarray(labels(jnp.arange(800)))
    some = np.asarray(labels(jnp.array([700, 3, 5])))
    mine = some < TOPICS
    assert mine.sum() == 7
    np.testing.assert_array_equal(some[mine], together[mine])


@pytest.mark.parametrize("lowering", engine.ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_labels_are_begun_by_words_and_hardly_by_one_another(method, lowering, getkey):
    """Of 30 tokens of a word that two topics explain alike, about half begin in each of them.

    One sweep with tiny concentrations leaves nearly all documents with both. A sweep from no labels
    would give each document to one topic. Of 200 documents that is plain (false alarm below 1e-9).
    """
    native_sweeps.needs(lowering)
    number, length = 200, 30
    documents = device.Documents(
        jnp.zeros(number * length, jnp.int32),
        jnp.arange(number, dtype=jnp.int32) * length,
        jnp.full(number, length, jnp.int32),
    )
    none = engine.no_labels(number * length, 2)

    def with_both(labels):
        swept = engine.sweeps(
            *(getkey(), jnp.log(jnp.full((2, 1), 0.5)), jnp.full(2, 1e-6), documents, labels),
            times=1,
            tally=True,
            method=method,
            engine=lowering,
        )
        return float((swept.documents > 0).all(axis=0).mean())

    assert with_both(None) > 0.9
    assert with_both(none) < 0.1


def test_sweeps_are_at_least_one(getkey):
    corpus = replicas(1)
    documents = device.select(corpus, jnp.arange(2))
    with pytest.raises(ValueError, match=r"times .* 1; it is 0"):
        engine.sweeps(getkey(), jnp.log(PHI), jnp.asarray(ALPHA), documents, None, times=0)


@pytest.mark.slow
@pytest.mark.parametrize("method", SWEEPS)
def test_documents_do_not_mix(method, getkey):
    """At alpha = 1e-9 and flat topics a document of one topic stays so; false alarm below 1e-4."""
    lengths = np.random.default_rng(0).choice([0, 2, 3, 40], 6000)
    corpus = device.to_device(tiny_lda.table([[0] * n for n in lengths], 3))
    ids = np.random.default_rng(1).permutation(len(lengths))  # longest and shortest side by side
    documents = device.select(corpus, jnp.asarray(ids))
    own = np.repeat(np.arange(len(lengths)) * 7 % TOPICS, np.diff(corpus.starts))
    assert own.size > 2 * device.CHUNK
    labels = sweeps(
        getkey(),
        jnp.ones((TOPICS, 3)),
        jnp.full(TOPICS, 1e-9),
        documents,
        as_labels(own),
        1,
        SWEEPS[method],
    )
    np.testing.assert_array_equal(labels, own)


swept = jax.jit(
    engine.sweeps,
    static_argnames=("times", "burn_in", "method", "count", "tally", "engine"),
)


def recount(labels, documents):
    """Counts of topics in the documents [K, B], and of topics and words [K, V]."""
    by_document = np.zeros((TOPICS, len(documents.starts)))
    by_word = np.zeros((TOPICS, 3))
    for b, (first, length) in enumerate(zip(documents.starts, documents.lengths, strict=True)):
        for place in range(int(first), int(first) + int(length)):
            if labels[place] < TOPICS:
                by_document[labels[place], b] += 1
                by_word[labels[place], documents.tokens[place]] += 1
    return by_document, by_word


@pytest.mark.parametrize("counted", ["changes", "labels"])
@pytest.mark.parametrize(
    ("method", "lowering"), [("blocked", "xla"), ("collapsed", "xla"), ("collapsed", "native")]
)
@settings(max_examples=6, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=6, max_size=6),
    ids=st.permutations(range(8)),  # 6 and 7 are no documents
    none=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_counts_are_those_of_the_labels(method, lowering, counted, rows, ids, none, seed):
    native_sweeps.needs(lowering)
    corpus = device.to_device(tiny_lda.table([*rows, [0] * (30 - sum(map(len, rows)))], 3))
    chosen = [i if i < 6 else i + 1 for i in ids[:4]]
    documents = device.select(corpus, jnp.array(chosen))
    rng = np.random.default_rng(seed)
    labels = np.where(rng.uniform(size=30) < 0.3 * none, TOPICS, rng.integers(0, TOPICS, 30))
    host = jax.tree.map(np.asarray, documents)
    by_document, by_word = recount(labels, host)
    np.testing.assert_array_equal(count_labels(as_labels(labels), documents, TOPICS), by_document)
    after = swept(
        jax.random.key(seed),
        jnp.log(jnp.asarray(PHI, jnp.float32)),
        jnp.asarray(ALPHA, jnp.float32),
        documents,
        as_labels(labels),
        jnp.full((TOPICS, 3), 100),
        times=2,
        burn_in=1,
        method=method,
        count=counted,
        tally=True,
        engine=lowering,
    )
    new_by_document, new_by_word = recount(np.asarray(after.labels), host)
    np.testing.assert_array_equal(after.documents, new_by_document)
    np.testing.assert_array_equal(after.documents.sum(axis=0), host.lengths)
    added = new_by_word - by_word if counted == "changes" else new_by_word
    np.testing.assert_array_equal(after.words - 100, added)
    # Labels of other documents are untouched.
    mine = np.zeros(30, bool)
    for first, length in zip(host.starts, host.lengths, strict=True):
        mine[first : first + length] = True
    np.testing.assert_array_equal(np.asarray(after.labels)[~mine], labels[~mine])


@pytest.mark.slow
def test_expected_counts_have_the_mean_of_the_labels_and_less_noise(getkey, seed):
    copies, runs = 20, 2000
    corpus = replicas(copies)
    documents = whole(corpus)
    start = as_labels(np.random.default_rng(seed).integers(0, TOPICS, corpus.tokens.size))
    arguments = jnp.asarray(PHI, jnp.float32), jnp.asarray(ALPHA, jnp.float32), documents, start

    @jax.jit
    @jax.vmap
    def both(key):
        labels, expected = engine.sweep_expected(key, *arguments, jnp.zeros((TOPICS, 3)))
        return expected, jnp.zeros((TOPICS, 3)).at[labels, corpus.tokens].add(1)

    expected, drawn = map(np.asarray, both(jax.random.split(getkey(), runs)))
    np.testing.assert_allclose(expected.sum(axis=1), drawn.sum(axis=1), rtol=1e-5)
    difference = expected - drawn
    assert not checks.family(
        {
            cell: checks.mean_z(difference[:, *cell], 0.0, difference[:, *cell].var())
            for cell in np.ndindex(TOPICS, 3)
        }
    )
    # Law of total variance, cell by cell; a variance of 2000 runs is known to 3%.
    assert (expected.var(axis=0) < 0.9 * drawn.var(axis=0)).all()


@pytest.mark.parametrize(("num_topics", "dtype"), [(1, "uint8"), (255, "uint8"), (256, "uint16")])
def test_label_dtype_holds_every_topic_and_none(num_topics, dtype):
    assert engine.label_dtype(num_topics) == dtype
    labels = engine.no_labels(4, num_topics)
    assert labels.dtype == dtype
    assert (labels == num_topics).all()


def test_likelihood_is_relative_to_the_likeliest_topic():
    nothing = -jnp.inf
    log_topics = jnp.array([[-1e4, -1.0, nothing, nothing], [-1e4 - 1, -2.0, 0.0, nothing]])
    likelihood = engine.likelihood_of(log_topics)
    e = np.exp(-1)
    np.testing.assert_allclose(likelihood, [[1, 1, 0, 1], [e, e, 1, 1]], rtol=1e-3)
