"""The labels of documents by `LDAGibbs`, and the laws of their counts, against enumeration.

Unless a test says otherwise its p-values are judged by Holm's procedure at 1e-3
(`statistics_checks.family`): with a fresh seed a correct library fails a test with a probability of
at most 1e-3.
"""

import itertools
import pickle

import chex
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from support import native_sweeps, tiny_lda
from support import statistics_checks as checks
from support.marks import slow_but
from support.numpyro_lda import block, documents_of, kept_in, swept_with, words_of

from simplex_jax._src.corpus import from_counts
from simplex_jax._src.numpyro import lda_gibbs, sites
from simplex_jax._src.numpyro.lda_gibbs import TopicCounts, WordCounts

ENGINES = ("native", "xla")
PHI = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
ALPHA = np.array([[0.3, 0.8], [1.5, 0.4]])  # of even and of odd rows
WORDS = ([0, 1, 1], [0, 2])  # rows are not in order of length
COPIES = 6001  # an odd number: the order of the device changes which rows are even


def known(lengths, alpha, phi):
    """Labels of documents, given the topics and the concentrations."""
    counts = documents_of(lengths, alpha)
    words_of(counts, phi)
    numpyro.deterministic("first", counts[0])


def recounted(kernel, labels):
    """Counts of labels, by documents [D, K] and words [K, V], and the labels of each document."""
    corpus = jax.tree.map(np.asarray, kernel._corpus)
    shape = 2, kernel._num_words
    documents, words = np.zeros((len(corpus.order), 2), int), np.zeros(shape, int)
    np.add.at(words, (labels, corpus.tokens), 1)
    of_row = {}
    for row, (first, last) in zip(corpus.order, itertools.pairwise(corpus.starts), strict=True):
        of_row[row] = labels[first:last]
        documents[row] = np.bincount(labels[first:last], minlength=2)
    return documents, words, [of_row[row] for row in range(len(corpus.order))]


def label_checks(key, alpha, engine, steps=8, phi=PHI):
    """P-values of the labels of many copies of two documents, after some steps from the start.

    `alpha` has a row for even and one for odd documents, or one for both.
    """
    native_sweeps.needs(engine)
    rows = [words for words in WORDS for _ in range(COPIES)]
    counts = tiny_lda.table(rows, 3)
    lengths = jnp.asarray(counts.sum(axis=1))
    given = np.tile(alpha, (COPIES, 1)) if len(alpha) == 2 else alpha[0]
    arguments = lengths, jnp.asarray(given, jnp.float32), jnp.asarray(phi, jnp.float32)
    kernel = block(known, counts, sweeps=2, engine=engine)
    state = kernel.init(key, 0, None, arguments, {})
    step = lambda _, state: kernel.sample(state, arguments, {})  # noqa: E731
    state = jax.jit(lambda state: jax.lax.fori_loop(0, steps, step, state))(state)
    documents, words, labels = recounted(kernel, np.asarray(state.labels))
    p_values = {
        "counts of documents": float((documents == state.z["n"]).all()),
        "counts of words": float((words == state.z["m"]).all()),
    }
    for i, of_words in enumerate(WORDS):
        for j, of_documents in enumerate(alpha):
            _, p = tiny_lda.conditional(of_words, PHI, of_documents)
            numbers = range(i * COPIES, (i + 1) * COPIES)
            mine = np.array([labels[row] for row in numbers if row % len(alpha) == j])
            seen = np.bincount(tiny_lda.number(mine, 2), minlength=len(p) + 1)
            p_values[i, j] = checks.chi_square(seen, np.append(p, 0))
    return p_values


@pytest.mark.parametrize("rows", [1, 2], ids=["of all documents", "of each document"])
@pytest.mark.parametrize("engine", slow_but(ENGINES, "native"))
def test_labels_have_their_law(engine, rows, getkey):
    assert not checks.family(label_checks(getkey(), ALPHA[:rows], engine))


MUTANTS = {
    "alpha in another order": (2, "alpha[corpus.order]", "alpha"),
    "documents in another order": (1, ".at[corpus.order]", ".at[:]"),
    "counts of words as they were": (1, ".set(counts), words)", ".set(counts), before.words)"),
    "alpha of another topic": (1, "alpha[0],", "alpha[0][::-1],"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_sweep_is_seen(mutant, getkey, monkeypatch):
    rows, old, new = MUTANTS[mutant]
    swept_with(old, new)(monkeypatch)
    assert checks.family(label_checks(getkey(), ALPHA[:rows], "xla"))


@pytest.mark.slow
def test_a_label_that_counts_for_itself_is_seen(getkey, monkeypatch):
    kept_in(monkeypatch)
    assert checks.family(label_checks(getkey(), ALPHA[:1], "xla"))


@pytest.mark.parametrize("engine", slow_but(ENGINES, "native"))
def test_concentrations_of_each_document_that_are_equal(engine, getkey):
    """Labels are those of common ones, to the bit."""
    native_sweeps.needs(engine)
    counts = tiny_lda.table([*WORDS, [], [1], *WORDS], 3)
    lengths, key = counts.sum(axis=1), getkey()
    states = []
    for alpha in (ALPHA[0], np.tile(ALPHA[0], (len(lengths), 1))):
        arguments = lengths, jnp.asarray(alpha, jnp.float32), jnp.asarray(PHI, jnp.float32)
        kernel = block(known, counts, engine=engine)
        state = kernel.init(key, 0, None, arguments, {})
        states.append(kernel.sample(state, arguments, {}))
    chex.assert_trees_all_equal(*(state[:3] for state in states))
    np.testing.assert_array_equal(states[0].z["n"].sum(axis=1), lengths)
    assert (np.asarray(states[0].labels) < 2).all()


def test_known_topics_alone(getkey):
    """A run of ``MCMC`` without other sites, and what the progress bar shows."""
    counts = from_counts([[9, 1, 0], [0, 2, 8]])
    lengths = jnp.asarray(counts.counts.sum(axis=1))
    kernel = block(known, counts)
    mcmc = MCMC(kernel, num_warmup=10, num_samples=200, progress_bar=False)
    mcmc.run(getkey(), lengths, jnp.full(2, 0.5), jnp.asarray(PHI, jnp.float32))
    samples = mcmc.get_samples()
    assert samples["n"].shape == (200, 2, 2)
    assert samples["m"].shape == (200, 2, 3)
    assert samples["n"].dtype == samples["m"].dtype == jnp.int32
    np.testing.assert_array_equal(samples["n"].sum(axis=1), samples["m"].sum(axis=2))
    np.testing.assert_array_equal(samples["first"], samples["n"][:, 0])
    shown = mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    assert shown == f"labels moved {float(mcmc.last_state.moved):.1%}"
    again = pickle.loads(pickle.dumps(mcmc))  # noqa: S301
    np.testing.assert_array_equal(again.get_samples()["n"], samples["n"])


# Laws of counts.
PROBABILITIES = np.array([[0.5, 0.0, 0.2, 0.3], [0.0, 0.0, 1.0, 0.0]])
TOTALS = np.array([4, 3])
VALUE = np.array([[1, 0, 2, 1], [0, 0, 3, 0]])


def compositions(total, size):
    """All counts of a total, [n, size]."""
    return np.array(
        [c for c in itertools.product(range(total + 1), repeat=size) if sum(c) == total]
    )


def count_checks(key, law, size=40_000):
    """P-values of draws of two rows of counts of four categories; probabilities add up to 1."""
    draws = np.asarray(law.sample(key, (size,)))
    p_values = {}
    for row, total in enumerate(TOTALS):
        every = compositions(total, 4)
        value = np.tile(VALUE, (len(every), 1, 1))
        value[:, row] = every
        p = np.exp(np.asarray(law.log_prob(jnp.asarray(value)), np.float64))[:, row]
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-5)
        base = (total + 1) ** np.arange(4)
        place = {number: i for i, number in enumerate(every @ base)}
        seen = [place.get(number, len(every)) for number in draws[:, row] @ base]
        seen = np.bincount(seen, minlength=len(every) + 1)
        p_values[row] = checks.chi_square(seen, np.append(p / p.sum(), 0))
    return p_values


LAWS = {
    "words": WordCounts(TOTALS, jnp.asarray(PROBABILITIES, jnp.float32)),
    "words by logarithms": WordCounts(
        TOTALS, log_topics=jnp.log(jnp.asarray(np.maximum(PROBABILITIES, 1e-30), jnp.float32))
    ),
    "topics": TopicCounts(TOTALS, jnp.array([0.2, 1.0, 0.01, 3.0])),
    "topics of each document": TopicCounts(
        TOTALS, jnp.array([[0.2, 1.0, 0.01, 3.0], [2.0, 0.5, 0.1, 0.3]])
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_of_counts(name, getkey):
    assert not checks.family(count_checks(getkey(), LAWS[name]))


@pytest.mark.parametrize(
    ("old", "new"),
    [("left / jnp", "right / jnp"), ("shares[::-1]", "shares")],
    ids=["halves", "levels"],
)
def test_a_wrong_split_is_seen(old, new, getkey, monkeypatch):
    mutant = tiny_lda.mutated(lda_gibbs, old, new)
    monkeypatch.setattr(lda_gibbs, "_multinomial", mutant._multinomial)
    assert checks.family(count_checks(getkey(), LAWS["words"]))


def test_densities_of_counts_are_those_of_numpyro():
    value = jnp.asarray(VALUE)
    topics = jnp.asarray(PROBABILITIES, jnp.float32)
    expected = dist.Multinomial(TOTALS, topics).log_prob(value)
    np.testing.assert_allclose(WordCounts(TOTALS, topics).log_prob(value), expected, rtol=1e-5)
    alpha = jnp.array([0.2, 1.0, 0.01, 3.0])
    expected = dist.DirichletMultinomial(alpha, TOTALS).log_prob(value)
    np.testing.assert_allclose(TopicCounts(TOTALS, alpha).log_prob(value), expected, rtol=1e-5)


def test_a_word_that_does_not_occur_leaves_no_gradient():
    """Not NaN, where its probability is 0."""

    def log_prob(topics):
        return WordCounts(TOTALS, topics).log_prob(jnp.asarray(VALUE)).sum()

    gradient = jax.grad(log_prob)(jnp.asarray(PROBABILITIES, jnp.float32))
    expected = np.divide(VALUE, PROBABILITIES, where=VALUE > 0, out=np.zeros((2, 4)))
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_a_probability_that_was_raised_is_none():
    """Not even by rounding is a label drawn where `SCIR` shows a number for one that underflows."""
    y = jnp.log(jnp.array([[0.25, 0.75, 0.0]])).at[0, 2].set(-200.0)
    topics = sites.SIMPLEX.constrain(y)
    assert topics[0, 2] > 0
    assert WordCounts(1, topics).logs()[0, 2] == -jnp.inf
    np.testing.assert_array_equal(WordCounts(1, log_topics=y).logs(), y)


def test_one_category_and_no_tokens(getkey):
    assert WordCounts(jnp.array([7]), jnp.ones((1, 1))).sample(getkey()).tolist() == [[7]]
    counts = TopicCounts(jnp.zeros(2, jnp.int32), jnp.ones(3)).sample(getkey())
    np.testing.assert_array_equal(counts, np.zeros((2, 3)))
