"""LDA in every combination of its parts, at the edges of its domain, and with bad arguments."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support import tiny_lda

from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.runtime import driver
from simplex_jax._src.runtime.driver import run

METHODS = ("blocked", "collapsed")
SMALL = device.to_device(tiny_lda.table([[0, 0, 1], [1, 2], [2], [], [0, 1, 2, 2, 2]], 3))


def case(sampler, counts, method):
    # One method a pair of sampler and counts; of all samplers but two one of the counts.
    index = list(lda.SAMPLERS).index(sampler) + lda.COUNTS.index(counts)
    slow = METHODS[index % 2] != method or (
        sampler not in ("scir", "sgrld") and counts != "subsampled"
    )
    return pytest.param(sampler, counts, method, marks=[pytest.mark.slow] * slow)


def local_step(counts, method):
    if counts == "memoised":
        return {"local": method}
    return {"local": method, "sweeps": 3, "burn_in": 1, "expected": method == "blocked"}


def memoised(corpus, shape, method):
    config = lda.configure(shape, local=method)
    return lda_kernel.counts_of(lda_kernel.source_of(corpus, config))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "counts", "method"),
    [case(s, c, m) for s in lda.SAMPLERS for c in lda.COUNTS for m in METHODS],
)
def test_every_combination_runs_compiled_once(sampler, counts, method, getkey):
    """At beta = 1e-3, where most log-probabilities are below the least float32."""
    arguments = {"sampler": sampler, "counts": counts, "batch_size": 2}
    arguments |= local_step(counts, method)
    kernel, stream = lda.build(SMALL, (4, 3), alpha=0.01, beta=1e-3, step_size=0.01, **arguments)
    state = kernel.init(getkey(), jnp.ones((4, 3)))
    compiled = driver._program()._cache_size()
    moved, trace = run(getkey(), kernel, state, stream, 600)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved, state)
    assert int(moved.step) == 600
    assert trace.shape == (600, 4, 3)
    assert np.isfinite(trace).all()
    np.testing.assert_allclose(np.exp(trace).sum(axis=-1), 1, atol=1e-5)
    # Other settings and another number of steps of the same shapes use the same program.
    kernel, stream = lda.build(SMALL, (4, 3), alpha=0.5, beta=0.3, step_size=0.02, **arguments)
    run(getkey(), kernel, state, stream, 7)
    assert driver._program()._cache_size() == compiled + 1


@pytest.mark.parametrize("method", [pytest.param("blocked", marks=pytest.mark.slow), "collapsed"])
def test_jit_equals_eager(method, getkey):
    estimator = memoised(SMALL, (2, 3), method).with_prior([0.3, 0.3])
    log_topics = jax.nn.log_softmax(jax.random.normal(getkey(), (2, 3)))
    arguments = (getkey(), estimator.init(getkey()), log_topics, jnp.array([4, 0, 2]))
    jax.tree.map(
        np.testing.assert_array_equal,
        estimator.estimate(*arguments),
        jax.jit(estimator.estimate)(*arguments),
    )


def assign(corpus, shape, method, getkey, alpha=0.1):
    """The memory after a visit of all documents, at random topics."""
    alpha = jnp.broadcast_to(alpha, shape[0])
    estimator = memoised(corpus, shape, method).with_prior(alpha)
    log_topics = jax.nn.log_softmax(jax.random.normal(getkey(), shape))
    ids = jnp.arange(device.size(corpus))
    return jax.jit(estimator.estimate)(getkey(), estimator.init(getkey()), log_topics, ids)[1]


@pytest.mark.parametrize("method", METHODS)
def test_more_topics_than_words_long_and_empty_documents(method, getkey):
    """300 topics, whose labels are 16 bits wide, 4 words, and a document of 1e5 tokens."""
    counts = sp.csr_array([[100_000, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]])
    alpha = jnp.linspace(0.01, 1, 300)
    memory = assign(device.to_device(counts), (300, 4), method, getkey, alpha)
    assert memory.labels.dtype == jnp.uint16
    assert (np.asarray(memory.labels) < 300).all()
    np.testing.assert_array_equal(memory.counts.sum(axis=0), counts.sum(axis=0))


def test_one_topic_takes_all_words(getkey):
    memory = assign(SMALL, (1, 3), "collapsed", getkey)
    np.testing.assert_array_equal(memory.labels, 0)
    np.testing.assert_array_equal(memory.counts, [[3, 3, 5]])


def test_corpus_without_tokens_has_no_counts(getkey):
    corpus = device.to_device(sp.csr_array((3, 2), dtype=np.int32))
    assert not assign(corpus, (2, 2), "blocked", getkey).counts.any()
    config = lda.configure(
        (2, 2), counts="subsampled", local="blocked", expected=True, batch_size=2
    )
    counts = lda_kernel.counts_of(lda_kernel.source_of(corpus, config))
    estimator = counts.with_prior([0.1, 0.1])
    topics = jnp.log(jnp.full((2, 2), 0.5))
    assert not jax.jit(estimator.estimate)(
        getkey(), estimator.init(getkey()), topics, jnp.array([2, 0])
    )[0].any()


@pytest.mark.slow
def test_double_precision(getkey):
    with jax.enable_x64(True):
        kernel, stream = lda.build(SMALL, (2, 3), sampler="smld", counts="subsampled")
        state = kernel.init(getkey(), jnp.ones((2, 3)))
        state, trace = run(getkey(), kernel, state, stream, 5)
        assert trace.dtype == np.float64
        np.testing.assert_allclose(np.exp(trace).sum(axis=-1), 1, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"sampler": "gibbs"}, "sampler"),
        ({"total": "forgotten"}, r"^total .*'forgotten'$"),
        ({"total": "carried", "sampler": "smld"}, r"^total .*smld"),
        ({"counts": "exact"}, "counts"),
        ({"local": "variational"}, "local"),
        ({"sweeps": 0}, "sweeps"),
        ({"sweeps": 1.5}, "sweeps"),
        ({"sweeps": 2, "burn_in": 2, "counts": "subsampled"}, "burn_in"),
        ({"sweeps": 2, "burn_in": -1, "counts": "subsampled"}, "burn_in"),
        ({"sweeps": 2, "burn_in": 1}, "burn_in"),
        ({"local": "blocked", "expected": True}, "expected"),
        ({"expected": True, "counts": "subsampled"}, "blocked"),
        ({"alpha": "yes"}, r"^alpha .*'yes'$"),
        ({"beta": "learn-asymmetric", "counts": "subsampled"}, "memoised"),
        ({"alpha_prior": (1.0, 2.0)}, r"^alpha_prior .*fixed alpha"),
        ({"beta": "learn", "beta_prior": (1.0, 0.0)}, "beta_prior"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": [0.1, -1.0]}, "alpha"),
        ({"alpha": [0.1, 0.1, 0.1]}, "alpha"),
        ({"alpha": np.nan, "counts": "subsampled"}, "alpha"),
        ({"beta": 0.0}, "beta"),
        ({"beta": [0.1, np.inf, 0.1]}, "beta"),
        ({"beta": [0.1, 0.1]}, "beta"),
        ({"beta": "learn", "beta_prior": (1.0, [0.1, 0.2, 0.1])}, "beta_prior"),
        ({"alpha": "learn", "alpha_prior": (1.0, [0.1, 0.2])}, "alpha_prior"),
        ({"alpha": "learn", "alpha_prior": (-1.0, -10.0)}, "alpha_prior"),
        ({"alpha": "learn", "alpha_prior": 2.0}, "alpha_prior"),
        ({"alpha": "learn", "alpha_prior": (1.0,)}, "alpha_prior"),
        ({"sweeps": True}, "sweeps"),
        ({"devices": jax.devices()[:1], "counts": "subsampled"}, "devices"),
        ({"devices": jax.devices()[:1] * 2}, "devices"),
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


def test_sweeps_may_be_an_integer_of_any_kind():
    kernel, _ = lda.build(SMALL, (2, 3), sweeps=np.int64(2))
    same, _ = lda.build(SMALL, (2, 3), sweeps=2)
    assert jax.tree.structure(kernel) == jax.tree.structure(same)


def test_a_carried_total_starts_at_the_sum_of_the_weights(getkey):
    weights = jnp.array([[0.5, 1.0, 2.0], [3.0, 0.1, 0.2]])
    carried, _ = lda.build(SMALL, (2, 3), sampler="sgrld", total="carried")
    total = jnp.exp(carried.init(getkey(), weights).sampler.log_total)
    np.testing.assert_allclose(total, weights.sum(axis=1, keepdims=True), rtol=1e-6)
    refreshed, _ = lda.build(SMALL, (2, 3), sampler="sgrld")
    assert refreshed.init(getkey(), weights).sampler.log_total is None


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"one topic .*one word"):
        lda.build(SMALL, shape)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"alpha": "learn-asymmetric"}, [0, 0, 0, 1, 0, 0, 1]),
        ({"beta": "learn"}, [0, 0, 0, 1, 0, 0, 1]),
    ],
    ids=str,
)
def test_what_is_done_once_a_pass_is_done_after_each(options, expected, getkey):
    """Five documents, two a batch: three updates a pass."""
    _, stream = lda.build(SMALL, (2, 3), batch_size=2, **options)
    assert [int(stream(getkey(), jnp.int32(i)).now) for i in range(7)] == expected


@pytest.mark.slow
def test_alpha_learned_from_batches_is_common_where_asked(getkey):
    options = {"alpha": "learn", "counts": "subsampled", "batch_size": 4}
    kernel, stream = lda.build(SMALL, (3, 3), **options)
    state = kernel.init(getkey(), jnp.ones((3, 3)))
    state, _ = run(getkey(), kernel, state, stream, 5)
    assert len(set(np.asarray(state.alpha).tolist())) == 1
    assert float(state.alpha[0]) != pytest.approx(0.1)


@pytest.mark.slow
def test_double_precision_with_single_precision_topics(getkey):
    with jax.enable_x64(True):
        prior = (1.0, np.full(2, 10, np.float32))
        options = {"counts": "subsampled", "alpha": "learn-asymmetric", "alpha_prior": prior}
        kernel, stream = lda.build(SMALL, (2, 3), batch_size=2, **options)
        state = kernel.init(getkey(), jnp.ones((2, 3), jnp.float32))
        state, trace = run(getkey(), kernel, state, stream, 3)
        assert trace.dtype == np.float32


def test_documents_too_long_to_count_are_refused():
    with pytest.raises(ValueError, match="document 1 has 16777217 tokens"):
        device.to_device(sp.csr_array([[1], [2**24 + 1]]))
