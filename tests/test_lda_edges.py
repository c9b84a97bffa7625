"""LDA in every combination of its parts, at the edges of its domain, and with bad arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import tiny_lda

from simplex_jax import run
from simplex_jax.corpus import device
from simplex_jax.models import lda
from simplex_jax.runtime import driver

METHODS = ("blocked", "collapsed")
SMALL = device.to_device(tiny_lda.table([[0, 0, 1], [1, 2], [2], [], [0, 1, 2, 2, 2]], 3))


def case(sampler, counts, method):
    # One method a pair of sampler and counts meets every pair of parts; the rest is slow.
    index = lda.SAMPLERS.index(sampler) + lda.COUNTS.index(counts)
    slow = METHODS[index % 2] != method
    return pytest.param(sampler, counts, method, marks=[pytest.mark.slow] * slow)


def how(counts, method):
    if counts == "memoised":
        return lda.Local(method)
    return lda.Local(method, sweeps=3, burn_in=1, expected=counts == "control-variate")


@pytest.mark.parametrize(
    ("sampler", "counts", "method"),
    [case(s, c, m) for s in lda.SAMPLERS for c in lda.COUNTS for m in METHODS],
)
def test_every_combination_runs_compiled_once(sampler, counts, method, getkey):
    """At beta = 1e-3, where most log-probabilities are below the least float32."""
    arguments = {"sampler": sampler, "counts": counts, "how": how(counts, method), "batch_size": 2}
    kernel, stream = lda.build(SMALL, (4, 3), alpha=0.01, beta=1e-3, step_size=0.01, **arguments)
    state = kernel.init(getkey(), jnp.ones((4, 3)))
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
    compiled = driver._advance._cache_size()
    state, trace = run(getkey(), kernel, state, stream, 600)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == shapes
    assert int(state.step) == 600
    assert trace.shape == (600, 4, 3)
    assert np.isfinite(trace).all()
    np.testing.assert_allclose(np.exp(trace).sum(axis=-1), 1, atol=1e-5)
    # Other settings and another number of steps of the same shapes use the same program.
    kernel, stream = lda.build(SMALL, (4, 3), alpha=0.5, beta=0.3, step_size=0.02, **arguments)
    run(getkey(), kernel, state, stream, 7)
    assert driver._advance._cache_size() == compiled + 1


@pytest.mark.parametrize(
    ("counts", "method"), [("memoised", "collapsed"), ("subsampled", "blocked")]
)
def test_jit_equals_eager(counts, method, getkey):
    kernel, stream = lda.build(SMALL, (2, 3), counts=counts, how=how(counts, method), batch_size=3)
    state, key = kernel.init(getkey(), jnp.ones((2, 3))), getkey()
    batch = stream(getkey(), 0)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5),
        kernel.update(key, state, batch),
        jax.jit(kernel.update)(key, state, batch),
    )


@pytest.mark.parametrize("method", METHODS)
def test_more_topics_than_words_long_and_empty_documents(method, getkey):
    """300 topics, whose labels are 16 bits wide, 4 words, and a document of 1e5 tokens."""
    counts = sp.csr_array([[100_000, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]])
    corpus = device.to_device(counts)
    alpha, beta = jnp.linspace(0.01, 1, 300), jnp.array([1e-3, 0.1, 1.0, 10.0])
    kernel, stream = lda.build(
        corpus, (300, 4), alpha=alpha, beta=beta, how=lda.Local(method), batch_size=4
    )
    state = kernel.init(getkey(), jax.random.uniform(getkey(), (300, 4)))
    assert state.memory.labels.dtype == jnp.uint16
    state, _ = run(getkey(), kernel, state, stream, 3)
    assert np.isfinite(state.position).all()
    np.testing.assert_array_equal(state.memory.counts.sum(axis=0), counts.sum(axis=0))
    assert (np.asarray(state.memory.labels) < 300).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_topic_takes_all_words(method, getkey):
    kernel, stream = lda.build(SMALL, (1, 3), how=lda.Local(method), batch_size=5)
    state = kernel.init(getkey(), jnp.ones((1, 3)))
    state, _ = kernel.update(getkey(), state, stream(getkey(), 0))
    np.testing.assert_array_equal(state.memory.counts, [[3, 3, 5]])


def test_corpus_without_tokens_gives_the_prior(getkey):
    corpus = device.to_device(sp.csr_array((3, 2), dtype=np.int32))
    kernel, stream = lda.build(corpus, (500, 2), beta=jnp.array([1.0, 3.0]), batch_size=3)
    state = kernel.init(getkey(), jnp.ones((500, 2)))
    state, _ = run(getkey(), kernel, state, stream, 5)
    assert int(state.memory.counts.sum()) == 0
    # A mean of 500 Beta(1, 3) draws, sd 0.19: a false alarm at five standard errors.
    assert abs(float(jnp.exp(state.position[:, 0]).mean()) - 0.25) < 5 * 0.194 / np.sqrt(500)


def test_word_impossible_under_all_topics(getkey):
    """Topics given to start from may leave out a word of the corpus."""
    for counts in ("memoised", "control-variate"):
        kernel, stream = lda.build(SMALL, (2, 3), counts=counts, how=how(counts, "blocked"))
        state = kernel.init(getkey(), jnp.array([[1.0, 1, 0], [2, 1, 0]]))
        state, _ = kernel.update(getkey(), state, stream(getkey(), 0))
        assert np.isfinite(state.position).all()


def test_double_precision(getkey):
    with jax.enable_x64(True):
        kernel, stream = lda.build(
            SMALL, (2, 3), counts="control-variate", how=lda.Local("blocked")
        )
        state = kernel.init(getkey(), jnp.ones((2, 3)))
        state, trace = run(getkey(), kernel, state, stream, 5)
        assert trace.dtype == np.float64
        np.testing.assert_allclose(np.exp(trace).sum(axis=-1), 1, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"sampler": "gibbs"}, "sampler"),
        ({"counts": "exact"}, "counts"),
        ({"how": lda.Local("variational")}, "method"),
        ({"how": lda.Local(sweeps=0)}, "sweeps"),
        ({"how": lda.Local(sweeps=1.5)}, "sweeps"),
        ({"how": lda.Local(sweeps=2, burn_in=2), "counts": "subsampled"}, "burn_in"),
        ({"how": lda.Local(sweeps=2, burn_in=-1), "counts": "control-variate"}, "burn_in"),
        ({"how": lda.Local(sweeps=2, burn_in=1)}, "burn_in"),
        ({"how": lda.Local(expected=True)}, "expected"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": [0.1, -1.0]}, "alpha"),
        ({"alpha": [0.1, 0.1, 0.1]}, "alpha"),
        ({"alpha": np.nan, "counts": "subsampled"}, "alpha"),
        ({"beta": 0.0}, "beta"),
        ({"beta": [0.1, np.inf, 0.1]}, "beta"),
        ({"beta": [0.1, 0.1]}, "beta"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 6}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"step_size": -1.0}, "step_size"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        lda.build(SMALL, (2, 3), **arguments)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_shape_is_refused(shape):
    with pytest.raises(ValueError, match="at least one topic and one word"):
        lda.build(SMALL, shape)
