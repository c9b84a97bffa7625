"""SCVB0 against a plain transcription of its algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from baselines import scvb0
from support import tiny_lda

from simplex_jax._src.corpus import device

SHAPE = (3, 20)
ALPHA = np.array([0.1, 0.7, 0.2])
BETA = np.random.default_rng(5).gamma(0.5, size=SHAPE)


def corpus_of(rng, documents=12):
    lengths = rng.choice([0, 1, 6, 60], documents)
    shares = rng.dirichlet(np.full(20, 0.3), documents)
    return sp.csr_array(rng.multinomial(lengths, shares).astype(np.int32))


def plain(n_kw, tables, corpus_tokens, rho, burn_in):
    """Algorithm 1 of Foulds et al., "clumped", for a batch of documents {word: count}."""
    n_k = n_kw.sum(axis=1)
    total_beta = BETA.sum(axis=1)
    hat = np.zeros_like(n_kw)
    batch_tokens = sum(sum(table.values()) for table in tables)
    for table in tables:
        size = sum(table.values())
        n_dk = np.full(SHAPE[0], size / SHAPE[0])
        t = 0
        for turn in range(burn_in + 1):
            for w, m in table.items():
                gamma = (n_kw[:, w] + BETA[:, w]) / (n_k + total_beta) * (n_dk + ALPHA)
                gamma /= gamma.sum()
                kept = (1 - 1 / (10 + t) ** 0.9) ** m
                n_dk = kept * n_dk + (1 - kept) * size * gamma
                t += m
                if turn == burn_in:
                    hat[:, w] += m * gamma
    return (1 - rho) * n_kw + rho * corpus_tokens / batch_tokens * hat


def counts_of_both(build, getkey, seed, dtype, burn_in=1):
    """N after three batches, by a kernel and by the transcription."""
    rng = np.random.default_rng(seed)
    counts = corpus_of(rng)
    corpus = device.to_device(counts)
    kernel, _ = build(corpus, SHAPE, alpha=ALPHA, beta=BETA, burn_in=burn_in, batch_size=5)
    state = kernel.init(getkey(), jnp.ones(SHAPE, dtype))
    n_kw = np.asarray(state.sampler.weights, np.float64) - BETA
    rows = counts[np.asarray(corpus.order)]
    update = jax.jit(kernel.update)
    for t in range(3):
        # With the longest document, so that there are tokens.
        ids = np.append(rng.permutation(11)[:4], 11)
        tables = [dict(zip(rows[[i]].indices, rows[[i]].data.tolist(), strict=True)) for i in ids]
        n_kw = plain(n_kw, tables, counts.sum(), 10 / (1000 + t) ** 0.9, burn_in)
        state, _ = update(getkey(), state, jnp.asarray(ids))
    return np.asarray(state.sampler.weights) - BETA, n_kw


@pytest.mark.slow
@pytest.mark.parametrize("burn_in", [0, 2])
def test_double_precision_is_the_transcription(burn_in, getkey, seed):
    with jax.enable_x64(True):
        ours, expected = counts_of_both(scvb0.build, getkey, seed, np.float64, burn_in)
    # Schedules of a number of updates are float32.
    np.testing.assert_allclose(ours, expected, rtol=1e-7)


def test_single_precision_is_the_transcription(getkey, seed):
    ours, expected = counts_of_both(scvb0.build, getkey, seed, np.float32)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i >= (passes - 1) * length", "i >= 0"),
        ("(1 - rho) ** m", "(1 - rho)"),
        ("in_document, t + m,", "in_document, t + 1,"),
        ("tokens / num_topics)", "tokens)"),
        ("scale * total.T", "total.T"),
        ("(in_document + alpha)", "(in_document + 1.02 * alpha)"),
    ],
    ids=["burn-in counted", "not clumped", "time", "start", "not scaled", "alpha 2 % up"],
)
def test_mutants_are_seen(old, new, getkey, seed):
    mutant = tiny_lda.mutated(scvb0, old, new)
    ours, expected = counts_of_both(mutant.build, getkey, seed, np.float32)
    assert not np.allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_default_step_sizes_are_those_of_the_paper():
    t = np.array([0, 3, 700])
    np.testing.assert_allclose(scvb0.default_step_size()(t), 10 / (1000.0 + t) ** 0.9, rtol=1e-5)
    per_document = scvb0.default_document_step_size()(t)
    np.testing.assert_allclose(per_document, 1 / (10.0 + t) ** 0.9, rtol=1e-5)
