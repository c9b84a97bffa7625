"""Latent assignments: SCIR with memoised counts is exact if, and only if, totals are refreshed.

The model is small enough to enumerate: six observations of three symbols, from an equal mixture of
two components whose distributions are unknown. SCIR moves both distributions, in many independent
chains that start from the posterior; their averages over time give standard errors.
With a threshold of 5 of them a test of a correct sampler fails by chance once in 10^6 seeds.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from simplex_jax._src import batches, draws, estimators
from simplex_jax._src.runtime import driver
from simplex_jax._src.samplers import scir

DATA = np.array([0, 0, 0, 0, 0, 1])
ALPHA = 0.2
CHAINS = 20_000
STEPS = {0.1: 120, 0.5: 60}


def enumerate_posterior():
    """All 64 assignments, their posterior probabilities, and what is tested given each.

    That is E (phi_00 - phi_10)^2, which no exchange of the labels changes.
    """
    assignments = np.array(list(itertools.product((0, 1), repeat=len(DATA))))
    a = ALPHA + np.asarray(count(assignments.T, DATA))
    total = a.sum(axis=-1)
    log_beta = special.gammaln(a).sum(axis=-1) - special.gammaln(total)
    mean = a[..., 0] / total
    square = mean * (a[..., 0] + 1) / (total + 1)
    value = square.sum(axis=-1) - 2 * mean.prod(axis=-1)
    return assignments, special.softmax(log_beta.sum(axis=-1)), value


def exact_draws(rng):
    """Labels [6, chains] and unnormalised distributions [chains, 2, 3] from the posterior."""
    assignments, probabilities, _ = enumerate_posterior()
    labels = assignments[rng.choice(len(assignments), CHAINS, p=probabilities)]
    return labels.T, rng.gamma(ALPHA + np.asarray(count(labels.T, DATA)))


def assign(key, position, data, previous):
    """Draw labels [n, chains] given log-probabilities [chains, 2, 3]."""
    return draws.categorical(key, jax.nn.softmax(jnp.moveaxis(position[..., data], -1, 0)))


def count(labels, data):
    """Count labels [n, chains] of the data [n] into [chains, 2, 3]."""
    return jnp.einsum("nck,nv->ckv", jax.nn.one_hot(labels, 2), jax.nn.one_hot(data, 3))


def squared_difference(state, info):
    phi = jnp.exp(state.position)
    return (phi[:, 0, 0] - phi[:, 1, 0]) ** 2


def deviation(h, total, getkey, seed):
    """Run from the posterior in batches of three; return the error in standard errors."""
    labels, start = exact_draws(np.random.default_rng(seed))
    labels, data = jnp.asarray(labels), jnp.asarray(DATA)
    estimator = estimators.memoised(assign, count, labels, count(labels, data))
    kernel = scir.build(estimator, ALPHA, h, total=total)
    _, trace = driver.run(
        getkey(),
        kernel,
        kernel.init(getkey(), jnp.asarray(start, jnp.float32)),
        batches.shuffled(batches.indexed(data), 3),
        STEPS[h],
        collect=squared_difference,
    )
    _, probabilities, values = enumerate_posterior()
    means = trace[STEPS[h] // 2 :].mean(axis=0, dtype=np.float64)
    return (means.mean() - probabilities @ values) / (means.std() / np.sqrt(CHAINS))


@pytest.mark.slow
@pytest.mark.parametrize("h", [0.1, 0.5])
def test_a_refreshed_total_is_exact_and_a_carried_one_is_not(h, getkey, seed):
    assert abs(deviation(h, "refreshed", getkey, seed)) < 5
    assert abs(deviation(h, "carried", getkey, seed)) > 8
