"""The comparison of HDPs: what its judge says of topics, whichever model they are of."""

import importlib
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support.paths import BENCHMARKS

FIRST, SECOND = np.array([[0.5, 0.25, 0.25]]), np.array([[0.25, 0.25, 0.5]])
TARGET = sp.csr_array([[2, 0, 1], [0, 1, 0]])


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("hdp_topics")


@pytest.fixture
def judge(benchmark):
    observed = sp.csr_array([[1, 0, 1], [0, 1, 0]])
    task = SimpleNamespace(observed=observed, target=TARGET)
    return benchmark.Judge(task, seed=0)


def perplexity(topic):
    return np.exp(-np.log(topic[0]) @ TARGET.sum(axis=0) / TARGET.sum())


def test_one_topic_predicts_its_words_and_averages_are_of_predictions(benchmark, judge):
    for topic in (FIRST, SECOND):
        judge.add(benchmark.Topics(topic, np.array([0.1]), np.array([9.0])))
    figures = judge.figures()
    assert figures["single"] == pytest.approx(perplexity(SECOND), rel=1e-5)
    assert figures["averaged"] == pytest.approx(perplexity((FIRST + SECOND) / 2), rel=1e-5)
    assert (figures["topics"], figures["judged"]) == (1, 2)


def test_topics_that_hold_nearly_all_tokens_are_counted(benchmark, judge):
    table = np.full((4, 3), 1 / 3)
    tokens = np.array([5.0, 600.0, 395.0, 0.0])
    judge.add(benchmark.Topics(table, np.full(4, 0.1), tokens))
    figures = judge.figures()
    assert (figures["topics"], figures["with_tokens"]) == (2, 3)
    assert figures["single"] == pytest.approx(3, rel=1e-5)
    assert figures["averaged"] is None, "there is one only"


def test_judged_are_points_of_the_second_half_and_the_end(benchmark, judge):
    judged = []
    for second in range(201):
        if judge.due(second, 200):
            judge.add(benchmark.Topics(FIRST, np.array([0.1]), np.array([9.0])))
            judged.append(second)
    assert judged == list(range(100, 201, 4))


def test_a_state_of_ours_is_smoothed_and_what_peers_keep_is_read(benchmark, tmp_path):
    state = SimpleNamespace(
        counts=jnp.array([[3, 0], [0, 0]]),
        alpha=jnp.array(2.0),
        log_weights=jnp.log(jnp.array([0.75, 0.25])),
    )
    benchmark.keep(tmp_path, 1, benchmark.of_hdp(state), 4, 2.5)
    result, when = benchmark.read(tmp_path / "001.npz")
    np.testing.assert_allclose(result.topics, [[3.05 / 3.1, 0.05 / 3.1], [0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(result.alpha, [1.5, 0.5], rtol=1e-6)
    np.testing.assert_array_equal(result.tokens, [3, 0])
    assert when == {"passes": 4, "training_seconds": 2.5}
