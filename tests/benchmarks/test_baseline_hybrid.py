"""Hybrid variational-Gibbs inference: its local step against enumeration.

Documents are independent given the weights, so one corpus of many copies of two tiny documents
gives many exact replicas. p-values are judged by Holm's procedure at 1e-3
(`statistics_checks.family`): with a fresh seed a correct library fails a test with a probability of
at most that.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from baselines import hybrid, natural
from baselines.hybrid import Local
from scipy import special
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src.corpus import device

WORDS = ([0, 2], [0, 1, 1])
COPIES, RUNS = 400, 250
ALPHA = np.array([0.3, 1.2])
# Small weights, of which the mean of the logarithm is far from the logarithm of the mean.
WEIGHTS = np.array([[0.4, 1.5, 0.1], [0.2, 0.3, 2.0]])
BETA, RHO = np.array([0.5, 0.2, 0.1]), 0.3
CORPUS = device.to_device(tiny_lda.table([d for d in WORDS for _ in range(COPIES)], 3))
# Labels have forgotten their first draws after these, and are drawn ten times more.
LOCAL = Local(sweeps=40, burn_in=30)


def expected_weights():
    """E of the weights after a step, by summing over all labels of each document."""
    phi = np.exp(special.digamma(WEIGHTS) - special.digamma(WEIGHTS.sum(axis=1, keepdims=True)))
    counts = np.zeros((2, 3))
    for words in WORDS:
        z, p = tiny_lda.conditional(words, phi, ALPHA)
        hot = np.einsum("snk,nw->skw", tiny_lda.one_hot(z, 2), tiny_lda.one_hot(words, 3))
        counts += COPIES * np.tensordot(p, hot, 1)
    return (1 - RHO) * WEIGHTS + RHO * (BETA + counts)


@jax.jit
def weights_after(kernel, keys, state, ids):
    return jax.lax.map(lambda key: kernel.update(key, state, ids)[0].sampler.weights, keys)


def weight_checks(getkey, build=hybrid.build, ids=None, **wrong):
    """P-values of the mean weights after one step, over independent runs."""
    options = {"alpha": ALPHA, "beta": BETA, "local_step": LOCAL, "step_size": RHO} | wrong
    ids = jnp.arange(2 * COPIES) if ids is None else ids
    kernel, _ = build(CORPUS, (2, 3), batch_size=len(ids), **options)
    state = kernel.init(getkey(), jnp.ones((2, 3)))
    weights = jnp.asarray(WEIGHTS, jnp.float32)
    state = state._replace(sampler=state.sampler._replace(weights=weights))
    result = np.asarray(weights_after(kernel, jax.random.split(getkey(), RUNS), state, ids))
    result = result.astype(np.float64)
    expected = expected_weights()
    # The counts are rounded to float32 when they are averaged.
    return {
        cell: checks.mean_z(
            result[:, *cell], expected[cell], result[:, *cell].var(), 1e-6 * expected[cell]
        )
        for cell in np.ndindex(2, 3)
    }


@pytest.mark.slow
def test_a_step_has_the_enumerated_mean(getkey):
    assert not checks.family(weight_checks(getkey))


@pytest.mark.slow
def test_a_batch_stands_for_the_corpus(getkey):
    ids = jnp.arange(0, 2 * COPIES, 4)
    assert not checks.family(weight_checks(getkey, ids=ids))


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 1.1 * ALPHA},
        {"alpha": ALPHA[::-1]},
        {"beta": BETA[::-1]},
        {"step_size": 1.02 * RHO},
        {"local_step": Local(sweeps=1)},
    ],
    ids=["alpha 10 % up", "alpha reversed", "beta reversed", "step 2 % up", "no burn-in"],
)
def test_wrong_arguments_are_seen(wrong, getkey):
    assert checks.family(weight_checks(getkey, **wrong))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("natural.geometric", "natural.arithmetic"),
        # As if the batch were all documents.
        (
            "lda_kernel.source_of(corpus, config)",
            "lda_kernel.dataclasses.replace("
            "lda_kernel.source_of(corpus, config), documents=batch_size)",
        ),
    ],
    ids=["log of the mean", "not scaled"],
)
def test_mutants_are_seen(old, new, getkey):
    mutant = tiny_lda.mutated(hybrid, old, new)
    ids = jnp.arange(0, 2 * COPIES, 4)
    assert checks.family(weight_checks(getkey, build=mutant.build, ids=ids))


def test_expectations_of_topics():
    """E log phi and log E phi of Dirichlet(lambda), small and large."""
    weights = np.array([[1e-3, 2.0, 1e6], [0.4, 30.0, 7.0]])
    total = weights.sum(axis=1, keepdims=True)
    geometric = special.digamma(weights) - special.digamma(total)
    result = natural.geometric(jnp.asarray(weights, jnp.float32))
    np.testing.assert_allclose(result, geometric, rtol=2e-6, atol=1e-6)
    result = natural.arithmetic(jnp.asarray(weights, jnp.float32))
    np.testing.assert_allclose(result, np.log(weights / total), rtol=2e-6, atol=1e-6)
