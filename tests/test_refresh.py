"""Latent assignments: SCIR with memoised counts is exact if, and only if, totals are refreshed.

The model is small enough to enumerate: six observations of three symbols, from a mixture of two
components with unknown weights and unknown distributions. Both weights and distributions are moved
by one SCIR kernel, in many independent chains, whose averages over time give standard errors.
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

DATA = np.array([0, 0, 0, 1, 1, 2])
ALPHA = {"weights": 0.5, "symbols": 0.5}
CHAINS = 10_000
STEPS = {0.1: 200, 0.5: 100}


def counts_of(labels):
    labels = np.asarray(labels)
    symbols = np.zeros((2, 3))
    np.add.at(symbols, (labels, DATA), 1)
    return np.bincount(labels, minlength=2), symbols


def log_beta(a):
    return special.gammaln(a).sum(axis=-1) - special.gammaln(a.sum(axis=-1))


def exact_expectation():
    """E (phi_00 - phi_10)^2, which no exchange of the labels changes, over all 64 assignments."""
    weights, values = [], []
    for labels in itertools.product((0, 1), repeat=len(DATA)):
        sizes, symbols = counts_of(labels)
        a = ALPHA["symbols"] + symbols
        weights.append(log_beta(ALPHA["weights"] + sizes) + log_beta(a).sum())
        total = a.sum(axis=-1)
        mean = a[:, 0] / total
        square = mean * (a[:, 0] + 1) / (total + 1)
        values.append(square.sum() - 2 * mean.prod())
    return float(special.softmax(weights) @ values)


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


def deviation(h, total, getkey):
    """The error of the sampled expectation in standard errors, from batches of three."""
    labels = jnp.broadcast_to(jnp.array([[0], [1], [0], [1], [0], [1]]), (6, CHAINS))
    data = jnp.asarray(DATA)
    estimator = estimators.memoised(assign, count, labels, count(labels, data))
    kernel = scir.build(estimator, ALPHA, h, total=total)
    start = {"weights": jnp.ones((CHAINS, 2)), "symbols": jnp.ones((CHAINS, 2, 3))}
    state, trace = driver.run(
        getkey(),
        kernel,
        kernel.init(getkey(), start),
        batches.shuffled(batches.indexed(data), 3),
        STEPS[h],
        collect=squared_difference,
    )
    values = trace[STEPS[h] // 4 :].mean(axis=0, dtype=np.float64)
    return (values.mean() - exact_expectation()) / (values.std() / np.sqrt(CHAINS))


@pytest.mark.parametrize("h", STEPS)
def test_a_refreshed_total_is_exact_and_a_carried_one_is_not(h, getkey):
    assert abs(deviation(h, "refreshed", getkey)) < 5
    assert abs(deviation(h, "carried", getkey)) > 8
