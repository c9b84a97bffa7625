"""The chains of `benchmarks/lda_tempering.py` have the law of their power.

Each of three means fails by chance once in 10,000, with 19 degrees of freedom.
"""

from itertools import product

import jax
import jax.numpy as jnp
import lda_tempering as tempering
import numpy as np
import pytest
from scipy.special import gammaln

from simplex_jax._src.corpus.device import Documents

WORDS, LENGTHS, TOPICS, POWER = np.array([0, 1, 0, 1, 2]), (3, 2), 3, 0.6
OF = np.repeat(np.arange(2), LENGTHS)


def _counts(labels: np.ndarray) -> np.ndarray:
    counts = np.zeros((TOPICS, 3), int)
    np.add.at(counts, (labels, WORDS), 1)
    return counts


def _expected(power: float) -> np.ndarray:
    """Return the means of the statistics, by enumeration of all labels."""
    logs, values = [], []
    for state in product(range(TOPICS), repeat=5):
        labels = np.array(state)
        counts = _counts(labels)
        of_documents = np.zeros((2, TOPICS), int)
        np.add.at(of_documents, (OF, labels), 1)
        log_p = gammaln(of_documents + tempering.ALPHA).sum()
        log_p += gammaln(power * counts + tempering.BETA).sum()
        log_p -= gammaln(power * counts.sum(axis=1) + 3 * tempering.BETA).sum()
        logs.append(log_p)
        values.append(_statistics(counts.sum(axis=1)))
    weights = np.exp(np.array(logs) - max(logs))
    return weights @ np.array(values) / weights.sum()


def _statistics(tokens: np.ndarray) -> np.ndarray:
    return np.stack(
        [tokens.max(axis=-1), (tokens**2).sum(axis=-1), (tokens > 0).sum(axis=-1)], axis=-1
    )


def _standardised(power_of_topics: float) -> np.ndarray:
    """Return the deviations of a chain's means from enumeration, in standard errors."""
    starts = jnp.array([0, 3], jnp.int32)
    documents = Documents(jnp.asarray(WORDS, jnp.int32), starts, jnp.array(LENGTHS, jnp.int32))
    key = jax.random.key(0)
    memory = tempering.begin(key, documents, (TOPICS, 3))
    _, trace = tempering.sample(key, documents, memory, power_of_topics, POWER, passes=40_000)
    batches = _statistics(np.asarray(trace.tokens)).reshape(20, -1, 3).mean(axis=1)
    errors = batches.std(axis=0, ddof=1) / np.sqrt(20)
    return (batches.mean(axis=0) - _expected(POWER)) / errors


@pytest.mark.slow
@pytest.mark.parametrize(("power", "right"), [(POWER, True), (1.0, False)])
def test_chains_of_a_power(power, right):
    """The mutant leaves the power out."""
    assert bool(np.abs(_standardised(power)).max() < 5) is right


def test_the_slope_is_the_derivative_of_the_log_density():
    counts = jnp.array([[3, 0, 7], [0, 0, 1]])
    expected = jax.grad(lambda power: tempering.log_density(counts, power))(0.7)
    np.testing.assert_allclose(tempering.slope(counts, 0.7), expected, rtol=1e-5)
