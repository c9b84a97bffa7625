"""Document completion against what it is defined as."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.models.topics.fits import Draw
from simplex_jax._src.runtime.hooks import Event

TOPICS = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
ALPHA = np.array([0.5, 0.8])


class State(NamedTuple):
    position: jax.Array
    step: int
    alpha: jax.Array


def event(step, position, last=10, seconds=0.0):
    state = State(position, step, jnp.ones(position.shape[:-1]))
    return Event(step, 0, last, seconds, 0.0, state, (), {})


def exact_proportions(words, topics=TOPICS, alpha=ALPHA):
    """E[theta | words] by enumeration of all topic assignments."""
    k = len(alpha)
    total, mean = 0.0, np.zeros(k)
    for z in np.ndindex(*[k] * len(words)):
        n, weight = np.zeros(k), 1.0
        for topic, word in zip(z, words, strict=True):
            weight *= (alpha[topic] + n[topic]) * topics[topic, word]
            n[topic] += 1
        total += weight
        mean += weight * (alpha + n) / (alpha.sum() + len(words))
    return mean / total


def test_log_predictive_uses_the_documents_own_proportions():
    """Documents of very different lengths, so that the device order is not the order of rows."""
    observed = sp.csr_array([[0, 0, 40], [30, 0, 0], [0, 0, 0], [0, 0, 20]])
    target = sp.csr_array([[0, 2, 0], [1, 0, 0], [1, 0, 0], [0, 0, 3]])
    data = evaluation.completion(observed, target)
    log_p = evaluation.log_predictive(
        jax.random.key(0),
        jnp.log(TOPICS).astype(jnp.float32),
        jnp.asarray(ALPHA, jnp.float32),
        data,
        sweeps=400,
        burn_in=50,
    )
    theta = np.array([exact_proportions([2] * 9), exact_proportions([0] * 9), ALPHA / ALPHA.sum()])
    # Row 2 observes nothing: its predictive is that of the prior, exactly.
    np.testing.assert_allclose(np.exp(log_p[2]), (theta[2] @ TOPICS)[0], rtol=1e-5)
    # The others lean to the topic of their words.
    assert np.exp(log_p[0]) == pytest.approx(0.3, abs=0.05)
    assert np.exp(log_p[1]) > 0.55
    assert np.exp(log_p[3]) > 0.5


def test_measured_perplexity_is_near_the_exact_one_where_alpha_is_small(monkeypatch):
    """Where a chain stays with one explanation of a document, several tell of the others.

    200 documents of four observed words and twelve others; the prediction of one chain is a fifth
    too surprised, that of several at most a twentieth.
    """
    rng = np.random.default_rng(0)
    topics, alpha = rng.dirichlet(np.full(6, 0.5), 3), np.full(3, 0.01)
    labels = rng.integers(0, 3, 200)
    words = np.array([rng.choice(6, 16, p=topics[label]) for label in labels])
    halves = [
        sp.csr_array(np.array([np.bincount(row, minlength=6) for row in part]))
        for part in (words[:, :4], words[:, 4:])
    ]
    theta = np.array([exact_proportions(row, topics, alpha) for row in words[:, :4]])
    p = np.take_along_axis(theta @ topics, words[:, 4:], axis=1)
    exact = np.exp(-np.log(p).mean())

    def completed() -> float:
        return evaluation._perplexity([Draw(topics, alpha, np.arange(3))], *halves, 0) / exact - 1

    assert -0.01 < completed() < 0.05
    monkeypatch.setattr(evaluation, "CHAINS", 1)
    assert completed() > 0.1


def test_perplexity_is_the_exponential_of_minus_the_mean():
    value = evaluation.perplexity(jnp.log(jnp.array([0.5, 0.125])), jnp.array([1.0, 3.0]))
    assert value == pytest.approx(2 ** ((1 + 9) / 4))


def test_topics_that_exclude_a_word_give_a_large_number_not_nan():
    data = evaluation.completion(sp.csr_array([[1, 0]]), sp.csr_array([[0, 1]]))
    log_p = evaluation.log_predictive(
        jax.random.key(0), jnp.array([[0.0, -2000.0]]), jnp.ones(1), data
    )
    assert float(log_p[0]) == pytest.approx(-2000)
    assert evaluation.perplexity(log_p, data.counts) == np.inf


def test_average_is_of_probabilities_in_the_last_half():
    data = evaluation.completion(sp.csr_array([[1, 0]]), sp.csr_array([[0, 1]]))
    hook = evaluation.Evaluation(data, jax.random.key(0))
    seen = []
    for step, p in [(1, 0.8), (3, 0.9), (6, 0.5), (10, 0.1)]:
        happened = event(step, jnp.log(jnp.array([[1 - p, p]])))
        hook(happened)
        seen.append(happened.metrics)
    assert seen.pop(0)["perplexity_average"] == pytest.approx(1 / 0.8, rel=1e-5), "of this alone"
    assert seen[2]["perplexity"] == pytest.approx(10, rel=1e-5)
    assert seen[2]["perplexity_average"] == pytest.approx(1 / 0.3, rel=1e-5)


@pytest.mark.parametrize(
    ("observed", "target", "words"),
    [([[1, 0]], [[0, 1, 0]], "same shape"), ([[1, 0]], [[0, 0]], r"^the target ")],
)
def test_bad_completions(observed, target, words):
    with pytest.raises(ValueError, match=words):
        evaluation.completion(sp.csr_array(observed), sp.csr_array(target))


def test_average_is_over_chains_too_and_goes_on_where_it_was():
    data = evaluation.completion(sp.csr_array([[1, 0]]), sp.csr_array([[0, 1]]))
    whole, first, second = (
        evaluation.Evaluation(data, jax.random.key(0), chains=2) for _ in range(3)
    )
    events = [
        event(step, jnp.log(jnp.array([[[1 - p, p]], [[1 - q, q]]])))
        for step, p, q in [(6, 0.5, 0.1), (10, 0.2, 0.4)]
    ]
    for happened in events:
        whole(happened)
    result = events[-1].metrics
    assert result["perplexity_chain_0"] == pytest.approx(5, rel=1e-5)
    assert result["perplexity_chain_1"] == pytest.approx(2.5, rel=1e-5)
    assert result["perplexity"] == pytest.approx(12.5**0.5, rel=1e-5)
    assert result["perplexity_average"] == pytest.approx(1 / 0.3, rel=1e-5)
    first(events[0])
    second.load(first.save())
    again = events[1]._replace(metrics={})
    second(again)
    assert again.metrics == result


def test_alpha_is_that_of_the_state():
    data = evaluation.completion(sp.csr_array([[0, 0]]), sp.csr_array([[0, 1]]))
    log_p = jnp.log(jnp.array([[0.9, 0.1], [0.2, 0.8]]))
    happened = event(1, log_p)
    happened = happened._replace(state=happened.state._replace(alpha=jnp.array([3.0, 1.0])))
    evaluation.Evaluation(data, jax.random.key(0))(happened)
    assert happened.metrics["perplexity"] == pytest.approx(1 / (0.75 * 0.1 + 0.25 * 0.8), rel=1e-5)
