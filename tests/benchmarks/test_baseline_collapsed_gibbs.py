"""Collapsed Gibbs sampling against its conditionals and the enumerated posterior.

Many chains on one tiny corpus go side by side. With a fresh seed the test of invariance fails a
correct library with a probability of at most 1e-5, the others of at most 1e-3
(`statistics_checks.family`).
"""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from baselines import collapsed_gibbs
from support import invariance, tiny_lda
from support import statistics_checks as checks

from simplex_jax._src import base
from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.runtime import driver

ALPHA, BETA = np.array([0.4, 0.9]), np.array([0.1, 0.3, 0.5])
CORPUS = device.to_device(tiny_lda.table([[], [2], [1, 2], [0, 0, 1]], 3))
POSTERIOR = tiny_lda.posterior(CORPUS, ALPHA, BETA)
NONE = np.full(6, 2)
CHAINS = 200_000


@jax.jit
def sweeps(kernel, key, state, ids, times):
    def again(i, state):
        return kernel.update(jax.random.fold_in(key, i), state, ids)[0]

    return jax.lax.fori_loop(0, times, again, state)


def run(build, key, labels, times, **wrong):
    """Labels [n, N] after sweeps over the corpus from labels [n, N] with their counts."""
    kernel, stream = build(CORPUS, (2, 3), **{"alpha": ALPHA, "beta": BETA} | wrong)
    many = base.chains(kernel, len(labels))
    state = many.init(key, jnp.ones((2, 3)))
    counts = np.einsum(
        "cnk,nw->ckw", tiny_lda.one_hot(labels, 2), tiny_lda.one_hot(CORPUS.tokens, 3)
    )
    memory = state.sampler.memory._replace(
        labels=jnp.asarray(labels, jnp.uint8), counts=jnp.asarray(counts, jnp.int32)
    )
    state = state._replace(sampler=state.sampler._replace(memory=memory))
    ids = stream(jax.random.fold_in(key, 1), 0)
    return np.asarray(sweeps(many, key, state, ids, times).sampler.memory.labels)


def law_of_a_sweep(start, beta=BETA):
    """Probabilities of all assignments after a sweep, the product of the conditionals."""
    beta = np.broadcast_to(beta, (2, 3))
    z = tiny_lda.assignments(6, 2)
    document = np.repeat(np.arange(4), np.diff(CORPUS.starts))
    words = np.asarray(CORPUS.tokens)
    p = np.ones(len(z))
    for s, target in enumerate(z):
        current = start.copy()
        for i, word in enumerate(words):
            others = np.arange(6) != i
            hot = tiny_lda.one_hot(current, 2) * others[:, None]
            mass = (ALPHA + hot[document == document[i]].sum(axis=0)) * (
                beta[:, word] + hot[words == word].sum(axis=0)
            )
            mass /= beta.sum(axis=1) + hot.sum(axis=0)
            p[s] *= mass[target[i]] / mass.sum()
            current[i] = target[i]
    return p


def chi_square(labels, p):
    seen = np.bincount(tiny_lda.number(labels, 2), minlength=len(p) + 1)
    return checks.chi_square(seen, np.append(p, 0))


STARTS = {"labels": np.array([0, 1, 1, 0, 0, 1]), "none": NONE}


def transition_checks(build, getkey, **wrong):
    return {
        name: chi_square(
            run(build, getkey(), np.tile(start, (CHAINS, 1)), 1, **wrong), law_of_a_sweep(start)
        )
        for name, start in STARTS.items()
    }


@pytest.mark.slow
def test_a_sweep_moves_as_its_conditionals_say(getkey):
    assert not checks.family(transition_checks(collapsed_gibbs.build, getkey))


@pytest.mark.slow
def test_concentrations_of_topics_may_differ(getkey):
    beta = np.stack([BETA, 3 * BETA[::-1]])
    start = STARTS["labels"]
    labels = run(collapsed_gibbs.build, getkey(), np.tile(start, (CHAINS, 1)), 1, beta=beta)
    p_values = {
        "right": chi_square(labels, law_of_a_sweep(start, beta)),
        "exchanged": chi_square(labels, law_of_a_sweep(start, beta[::-1])),
    }
    assert set(checks.family(p_values)) == {"exchanged"}


@pytest.mark.slow
def test_chunks_of_tokens_change_nothing(getkey):
    """In chunks of four, of which the last is not full."""
    module = tiny_lda.mutated(collapsed_gibbs, "min(CHUNK,", "min(4,")
    assert not checks.family(transition_checks(module.build, getkey))
    start, key = np.tile(NONE, (50, 1)), getkey()
    labels = [run(build, key, start, 2) for build in (module.build, collapsed_gibbs.build)]
    np.testing.assert_array_equal(*labels)


@pytest.mark.slow
def test_posterior_is_left_invariant(getkey, seed):
    rng = np.random.default_rng(seed)

    def sample_and_test(samples):
        z = POSTERIOR.z[rng.choice(len(POSTERIOR.z), samples, p=POSTERIOR.probabilities)]
        labels = run(collapsed_gibbs.build, getkey(), z, 3)
        return {"labels": chi_square(labels, POSTERIOR.probabilities)}

    assert not invariance.rejects(sample_and_test, samples=CHAINS)


@pytest.mark.slow
def test_posterior_is_reached_from_no_labels(getkey):
    """60 sweeps leave no trace of the start above the noise."""
    labels = run(collapsed_gibbs.build, getkey(), np.tile(NONE, (CHAINS, 1)), 60)
    assert chi_square(labels, POSTERIOR.probabilities) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_at(tables.words, w) - old", "_at(tables.words, w)"),
        ("_at(tables.documents, d) - old", "_at(tables.documents, d)"),
        ("of_topic + come,", "tables.topics,"),
        ("(total_beta + of_topic)", "(1.2 * total_beta + of_topic)"),
        ("_at(u, i) * sums[-1]", "0.98 * _at(u, i) * sums[-1]"),
    ],
    ids=["own word kept", "own topic kept", "totals stale", "beta 20 % up in the total", "uniform"],
)
def test_mutants_are_seen(old, new, getkey):
    assert checks.family(
        transition_checks(tiny_lda.mutated(collapsed_gibbs, old, new).build, getkey)
    )


@pytest.mark.slow
def test_wrong_concentrations_are_seen(getkey):
    assert checks.family(transition_checks(collapsed_gibbs.build, getkey, alpha=1.1 * ALPHA))
    assert checks.family(transition_checks(collapsed_gibbs.build, getkey, beta=1.1 * BETA))


@pytest.mark.slow
@pytest.mark.parametrize(("num_topics", "batch_size"), [(16, None), (300, 50)])
def test_counts_are_those_of_the_labels(num_topics, batch_size, getkey, seed):
    rng = np.random.default_rng(seed)
    counts = sp.csr_array(rng.poisson(rng.gamma(0.1, 20, (120, 90))))
    corpus, shape = device.to_device(counts), (num_topics, 90)
    assert corpus.tokens.size > device.CHUNK, "more than one chunk"
    kernel, stream = collapsed_gibbs.build(
        corpus, shape, alpha=1e-3, beta=1e-3, batch_size=batch_size
    )
    state = kernel.init(getkey(), jnp.ones(shape))
    state, moved = driver.run(
        getkey(), kernel, state, stream, 3, collect=lambda state, info: info.sampler.moved
    )
    labels, result = state.sampler.memory
    expected = np.zeros(shape)
    np.add.at(expected, (np.asarray(labels), np.asarray(corpus.tokens)), 1)
    np.testing.assert_array_equal(result, expected)
    mean = (1e-3 + expected) / (1e-3 + expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(state.position), mean, rtol=1e-4)
    np.testing.assert_allclose(lda.mean_topics(state), mean, rtol=1e-4)
    assert np.isfinite(state.position).all()
    assert moved[0] == 1, "the first visit gives every token a topic"
    assert 0 < moved[-1] <= 1


@pytest.mark.slow
def test_kernel_keeps_its_promises(getkey):
    """No key is used twice, the structure is kept, other data of one shape need no new trace."""
    corpus = CORPUS._replace(tokens=CORPUS.tokens[::-1])
    build = functools.partial(collapsed_gibbs.build, shape=(2, 3))
    kernel, stream = build(CORPUS)
    with jax.debug_key_reuse(True):
        state = kernel.init(getkey(), jnp.ones((2, 3)))
        ids, key = stream(getkey(), 0), getkey()
        moved, info = jax.jit(kernel.update)(key, state, ids)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved, state)
    assert float(info.topic_tokens.sum()) == 6
    traces = []

    def counted(key, step):
        traces.append(1)
        return stream(key, step)

    driver.run(getkey(), kernel, state, counted, 3)
    traced = len(traces)
    driver.run(getkey(), build(corpus, alpha=0.7, beta=0.2)[0], state, counted, 3)
    assert len(traces) == traced


@pytest.mark.slow
def test_double_precision_is_kept(getkey):
    with jax.enable_x64(True):
        kernel, stream = collapsed_gibbs.build(CORPUS, (2, 3))
        state = kernel.init(getkey(), jnp.ones((2, 3)))
        state, trace = driver.run(getkey(), kernel, state, stream, 3)
        assert trace.dtype == np.float64
