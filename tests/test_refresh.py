"""Latent assignments: SCIR with memoised counts is exact if, and only if, totals are refreshed.

The model is small enough to enumerate: six observations of three symbols, from a mixture of two
components with unknown weights and unknown distributions. One SCIR kernel moves both, in many
independent chains that start from the posterior; their averages over time give standard errors.
With a threshold of 5 of them a test of a correct sampler fails by chance once in 10^6 seeds.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from simplex_jax import batches, draws, estimators
from simplex_jax.runtime import driver
from simplex_jax.samplers import scir

DATA = np.array([0, 0, 0, 0, 0, 1])
ALPHA = {"weights": 1.0, "symbols": 0.2}
CHAINS = 20_000
STEPS = {0.1: 120, 0.5: 60}


def counts_of(labels):
    symbols = np.zeros((2, 3))
    np.add.at(symbols, (labels, DATA), 1)
    return np.bincount(labels, minlength=2), symbols


def log_beta(a):
    return special.gammaln(a).sum(axis=-1) - special.gammaln(a.sum(axis=-1))


def enumerate_posterior():
    """All 64 assignments, their posterior probabilities, and what is tested given each.

    That is E (phi_00 - phi_10)^2, which no exchange of the labels changes.
    """
    assignments = np.array(list(itertools.product((0, 1), repeat=len(DATA))))
    log_weights, values = [], []
    for labels in assignments:
        sizes, symbols = counts_of(labels)
        a = ALPHA["symbols"] + symbols
        log_weights.append(log_beta(ALPHA["weights"] + sizes) + log_beta(a).sum())
        total = a.sum(axis=-1)
        mean = a[:, 0] / total
        square = mean * (a[:, 0] + 1) / (total + 1)
        values.append(square.sum() - 2 * mean.prod())
    return assignments, special.softmax(log_weights), np.array(values)


def exact_draws(rng):
    """Labels [6, chains], weights [chains, 2] and symbols [chains, 2, 3] from the posterior."""
    assignments, probabilities, _ = enumerate_posterior()
    labels = assignments[rng.choice(len(assignments), CHAINS, p=probabilities)]
    member = np.eye(2)[labels]
    weights = rng.gamma(ALPHA["weights"] + member.sum(axis=1))
    symbols = rng.gamma(ALPHA["symbols"] + np.einsum("cnk,nv->ckv", member, np.eye(3)[DATA]))
    return labels.T, {"weights": weights, "symbols": symbols}


def assign(key, position, data, previous):
    """Draw labels [n, chains] from weights [chains, 2] and symbols [chains, 2, 3]."""
    log_joint = position["weights"] + jnp.moveaxis(position["symbols"][..., data], -1, 0)
    return draws.categorical(key, jax.nn.softmax(log_joint))


def count(labels, data):
    member = jax.nn.one_hot(labels, 2)
    return {
        "weights": member.sum(axis=0),
        "symbols": jnp.einsum("nck,nv->ckv", member, jax.nn.one_hot(data, 3)),
    }


def squared_difference(state, info):
    phi = jnp.exp(state.position["symbols"])
    return (phi[:, 0, 0] - phi[:, 1, 0]) ** 2


def deviation(h, total, getkey, seed):
    """Run from the posterior in batches of three; return the error in standard errors."""
    labels, start = exact_draws(np.random.default_rng(seed))
    labels, data = jnp.asarray(labels), jnp.asarray(DATA)
    estimator = estimators.memoised(assign, count, labels, count(labels, data))
    kernel = scir.build(estimator, ALPHA, h, total=total)
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), start)
    _, trace = driver.run(
        getkey(),
        kernel,
        kernel.init(getkey(), start),
        batches.shuffled(batches.indexed(data), 3),
        STEPS[h],
        collect=squared_difference,
    )
    _, probabilities, values = enumerate_posterior()
    means = trace[STEPS[h] // 2 :].mean(axis=0, dtype=np.float64)
    return (means.mean() - probabilities @ values) / (means.std() / np.sqrt(CHAINS))


@pytest.mark.parametrize("h", STEPS)
def test_a_refreshed_total_is_exact_and_a_carried_one_is_not(h, getkey, seed):
    assert abs(deviation(h, "refreshed", getkey, seed)) < 5
    assert abs(deviation(h, "carried", getkey, seed)) > 8
