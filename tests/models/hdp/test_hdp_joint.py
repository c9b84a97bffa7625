"""Prior and posterior together: the joint test of Geweke (2004) of the hierarchical process.

Chains start from draws of everything from the prior. Updates given the words, and new words given
labels and topics, leave their joint law alone: what comes out is compared with other draws from the
prior. False-alarm rate: 1e-3 a test.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src import draws
from simplex_jax._src.corpus import device
from simplex_jax._src.models.hdp import kernel
from simplex_jax._src.models.hdp.kernel import Prior

V, CAPACITY, CHAINS, TURNS = 4, 64, 8_000, 4
LENGTHS = (3, 4, 6)
CORPUS = device.to_device(tiny_lda.table([[0] * length for length in LENGTHS], V))
DOCUMENTS = np.repeat(np.arange(3), LENGTHS)
ALPHA, GAMMA, BETA = Prior(1.2, 4.0), Prior(1.0, 4.0), 0.5


def gamma_of(key, prior):
    return jnp.exp(draws.loggamma(key, prior.shape)) * prior.mean / prior.shape


def words_of(key, state):
    return jax.random.categorical(key, state.position[state.labels]).astype(jnp.int32)


def counts_of(labels, words):
    return jnp.zeros((CAPACITY, V), jnp.int32).at[labels, words].add(1)


def joint(key):
    """A draw of everything, of sticks until a rest that no document will ever have."""
    keys = jax.random.split(key, 7)
    alpha, gamma = gamma_of(keys[0], ALPHA), gamma_of(keys[1], GAMMA)
    log_stay = -jax.random.exponential(keys[2], (CAPACITY,)) / gamma
    left = jnp.append(0, jnp.cumsum(log_stay))
    log_weights = left[:-1] + jnp.log(-jnp.expm1(log_stay))
    # Draws are right from 1e-6 on, and topics of less have a token in a millionth of the chains.
    concentrations = jnp.maximum(alpha * jnp.exp(log_weights), 1e-6)
    log_shares = draws.log_dirichlet(keys[3], concentrations, (3,))
    labels = jax.random.categorical(keys[4], log_shares[DOCUMENTS]).astype(jnp.uint16)
    state = kernel.State(
        position=draws.log_dirichlet(keys[5], jnp.full((CAPACITY, V), BETA)),
        step=jnp.int32(0),
        log_weights=log_weights,
        log_rest=left[-1],
        alpha=alpha,
        gamma=gamma,
        labels=labels,
        counts=jnp.zeros((CAPACITY, V), jnp.int32),
        needed=jnp.int32(0),
    )
    words = words_of(keys[6], state)
    return words, state._replace(counts=counts_of(labels, words))


@functools.partial(jax.jit, static_argnames="update")
def successive(update, model, keys):
    """Alternate updates and new words, in all chains."""

    def chain(key):
        def turn(i, carry):
            words, state = carry
            key_update, key_words = jax.random.split(jax.random.fold_in(key, i))
            state, _ = update(model, key_update, state, CORPUS._replace(tokens=words))
            words = words_of(key_words, state)
            return words, state._replace(counts=counts_of(state.labels, words))

        return jax.lax.fori_loop(0, TURNS, turn, joint(jax.random.fold_in(key, TURNS)))

    return jax.vmap(chain)(keys)


def features(words, state):
    words, labels = np.asarray(words), np.asarray(state.labels).astype(int)
    weights = np.exp(np.asarray(state.log_weights, np.float64))
    alpha, gamma = (np.asarray(x, np.float64) for x in (state.alpha, state.gamma))
    topics = (labels[:, :, None] == np.arange(CAPACITY)).any(axis=1).sum(axis=1)
    own = np.take_along_axis(weights, labels, axis=1)
    values = {
        **{"alpha": alpha, "gamma": gamma, "log alpha": np.log(alpha), "log gamma": np.log(gamma)},
        **{"topics": topics, "gamma topics": gamma * topics, "squares": (weights**2).sum(axis=1)},
        "alpha topics": alpha * topics,
    }
    for i in range(0, 13, 2):
        fit = np.exp(np.asarray(state.position)[np.arange(len(words)), labels[:, i], words[:, i]])
        values["weight", i], values["fit", i] = own[:, i], fit
        for j in range(1, 13, 3):
            together = labels[:, i] == labels[:, j]
            values["together", i, j] = together
            values["same", i, j] = together * (words[:, i] == words[:, j])
    return {name: np.asarray(value, np.float64) for name, value in values.items()}


def rejected(getkey, module=kernel, beta=BETA):
    built, _ = kernel.build(
        CORPUS, alpha=ALPHA, gamma=GAMMA, beta=beta, capacity=CAPACITY, engine="xla"
    )
    keys = jax.random.split(getkey(), CHAINS)
    words, state = successive(module._update_chains, built.update.args[0], keys)
    assert (np.asarray(state.step) < TURNS).mean() < 1e-3  # of those that wanted more room
    seen = features(words, state)
    expected = features(*jax.jit(jax.vmap(joint))(jax.random.split(getkey(), 3 * CHAINS)))
    p_values = {}
    for name, value in seen.items():
        variance = value.var() + expected[name].var() / 3
        if variance > 0:
            p_values[name] = checks.mean_z(value, expected[name].mean(), variance)
    return checks.family(p_values)


@pytest.mark.slow
def test_updates_and_words_together_keep_the_prior(getkey):
    assert not rejected(getkey)
    assert rejected(getkey, beta=0.6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sits & inside", "jnp.ones_like(sits) & inside"),
        ("jnp.where(waits, 0, documents.lengths)", "documents.lengths"),
        ("model.beta + state.counts", "model.beta + jnp.maximum(state.counts - 1, 0)"),
    ],
)
def test_planted_bugs_are_seen(old, new, getkey):
    assert rejected(getkey, module=tiny_lda.mutated(kernel, old, new))
