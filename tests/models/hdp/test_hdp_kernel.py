"""The Gibbs sampler of the hierarchical Dirichlet process against the enumerated posterior.

Exact draws of labels, weights and concentrations are pushed through updates of two documents of two
and three words. What comes out is compared with all partitions of the tokens, and with other exact
draws. False-alarm rate: 1e-3 a test.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support import statistics_checks as checks
from support import tiny_hdp, tiny_lda

from simplex_jax._src.corpus import device
from simplex_jax._src.models.hdp import kernel
from simplex_jax._src.models.hdp.kernel import Prior
from simplex_jax._src.models.topics import concentrations
from simplex_jax._src.models.topics import engine as engines

CORPUS = device.to_device(tiny_lda.table([[0, 1], [0, 0, 2]], 3))
WORDS, DOCUMENTS = np.asarray(CORPUS.tokens), np.array([0, 0, 1, 1, 1])
ALPHA, GAMMA, BETA = tiny_hdp.Prior(1.0, 3.0), tiny_hdp.Prior(1.5, 3.0), 0.4
CAPACITY = 48


@functools.cache
def law():
    return tiny_hdp.posterior(WORDS, DOCUMENTS, 3, BETA, ALPHA, GAMMA)


def start(drawn):
    """States of the draws, whose topics are drawn first of all by an update."""
    size, tokens = drawn.labels.shape
    room = ((0, 0), (0, CAPACITY - tokens))
    weights = np.pad(drawn.weights, room)
    hot = drawn.labels[:, :, None] == np.arange(CAPACITY)
    counts = np.einsum("snk,nw->skw", hot, np.eye(3, dtype=int)[WORDS])
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return kernel.State(
        position=jnp.zeros((size, CAPACITY, 3)),
        step=jnp.zeros(size, jnp.int32),
        log_weights=jnp.asarray(log_weights, jnp.float32),
        log_rest=jnp.asarray(np.log(drawn.rest), jnp.float32),
        alpha=jnp.asarray(drawn.alpha, jnp.float32),
        gamma=jnp.asarray(drawn.gamma, jnp.float32),
        labels=jnp.asarray(drawn.labels, jnp.uint16),
        counts=jnp.asarray(counts, jnp.int32),
        needed=jnp.zeros(size, jnp.int32),
    )


@functools.partial(jax.jit, static_argnames=("update", "turns"))
def pushed(update, model, keys, states, turns):
    """States after some updates."""

    def one(key, state):
        def turn(i, state):
            return update(model, jax.random.fold_in(key, i), state, CORPUS)[0]

        return jax.lax.fori_loop(0, turns, turn, state)

    return jax.vmap(one)(keys, states)


def model_of(engine="xla", alpha=ALPHA, gamma=GAMMA):
    built, _ = kernel.build(
        CORPUS,
        alpha=Prior(alpha.mean, alpha.shape),
        gamma=Prior(gamma.mean, gamma.shape),
        beta=BETA,
        capacity=CAPACITY,
        engine=engine,
    )
    # Priors are static in a program unless they are arrays.
    return jax.tree.map(jnp.asarray, built.update.args[0])


def rejected(seed, key, size, *, module=kernel, model=None, turns=1):
    """Compare draws that were pushed through updates with the law; the checks at fault."""
    rng = np.random.default_rng(seed)
    exact, fresh = law(), tiny_hdp.draw(law(), rng, 3 * size)
    states = start(tiny_hdp.draw(exact, rng, size))
    model = model or model_of()
    states = pushed(module._update_chains, model, jax.random.split(key, size), states, turns)
    labels = np.asarray(states.labels)
    assert (np.asarray(states.step) < turns).mean() < 1e-3  # of those that wanted more room
    partition = tiny_hdp.numbers_of(exact, labels)
    observed = np.bincount(partition, minlength=len(exact.partitions))
    p_values = {"partition": checks.chi_square(observed, exact.probabilities)}
    hot = exact.partitions[:, :, None] == np.arange(5)
    counts = np.einsum("pnk,nw->pkw", hot, np.eye(3)[WORDS]) + BETA
    fit = counts / counts.sum(axis=2, keepdims=True)
    for i in range(5):
        own = fit[np.arange(len(fit)), exact.partitions[:, i], WORDS[i]]
        seen = np.exp(np.asarray(states.position)[np.arange(size), labels[:, i], WORDS[i]])
        p_values["word", i] = checks.mean_z(seen, exact.probabilities @ own, seen.var())
    mine = features(np.exp(states.log_weights), labels, states.alpha, states.gamma)
    theirs = features(fresh.weights, fresh.labels, fresh.alpha, fresh.gamma)
    for name, value in mine.items():
        variance = value.var() + theirs[name].var() / 3
        p_values[name] = checks.mean_z(value, theirs[name].mean(), variance)
    return checks.family(p_values)


def features(weights, labels, alpha, gamma):
    """What is compared with exact draws, by name."""
    weights, alpha, gamma = (np.asarray(x, np.float64) for x in (weights, alpha, gamma))
    occupied = (labels[:, :, None] == np.arange(weights.shape[1])).any(axis=1)
    values = {
        "alpha": alpha,
        "log alpha": np.log(alpha),
        "gamma": gamma,
        "log gamma": np.log(gamma),
        "both": alpha * gamma,
        "topics": occupied.sum(axis=1),
        "gamma topics": gamma * occupied.sum(axis=1),
        "rest": 1 - (weights * occupied).sum(axis=1),
        "squares": (weights**2 * occupied).sum(axis=1),
    }
    for i in range(5):
        own = np.take_along_axis(weights, labels[:, i : i + 1].astype(int), axis=1)[:, 0]
        values["weight", i] = own
        values["alpha weight", i] = alpha * own
    return values


def test_an_update_leaves_the_posterior_alone(seed, getkey):
    assert not rejected(seed, getkey(), 5_000)
    # Another prior in the same program, which is what a wrong formula comes to.
    assert rejected(seed, getkey(), 5_000, model=model_of(gamma=tiny_hdp.Prior(2.5, 3.0)))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["xla", "native"])
def test_updates_leave_the_posterior_alone(engine, seed, getkey):
    if engine not in (engines.resolve(None), "xla"):
        pytest.skip("there is no native library here")
    assert not rejected(seed, getkey(), 40_000, model=model_of(engine), turns=3)


MUTANTS = {
    "rest forgotten": (
        "total = jnp.logaddexp(jax.nn.logsumexp(log_shares), log_rest)",
        "total = jax.nn.logsumexp(log_shares)",
    ),
    "tokens for tables": ("sits & inside", "jnp.ones_like(sits) & inside"),
    "stale counts": (
        "labels=swept.labels, counts=swept.words), waited",
        "labels=swept.labels), waited",
    ),
    "nobody waits": ("jnp.where(waits, 0, documents.lengths)", "documents.lengths"),
    "a level below the least weight": (
        "log_level = _log_level(keys[2], corpus, state.alpha.dtype)",
        "log_level = _log_level(keys[2], corpus, state.alpha.dtype) + jnp.log(5.0) + jnp.min("
        "jnp.where(tables > 0, state.log_weights, 0))",
    ),
    "sticks of one size": (
        "log_sticks = log_left[:-1] + jnp.log(-jnp.expm1(log_stay))",
        "log_sticks = log_left[:-1] + log_stay",
    ),
    "gamma by tables": ("topics = jnp.sum(tables > 0)", "topics = jnp.sum(tables)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_planted_bugs_are_seen(mutant, seed, getkey):
    module = tiny_lda.mutated(kernel, *MUTANTS[mutant])
    assert rejected(seed, getkey(), 40_000, module=module, turns=3)


@pytest.mark.slow
def test_tables_of_many_cells_are_counted_alike(seed, getkey):
    """Whether documents and topics fit into one number or not; and a document without words."""
    other = tiny_lda.mutated(kernel, "device.size(corpus) * capacity < 2**31", "False")
    rng = np.random.default_rng(seed)
    counts = sp.csr_array(rng.poisson(2.0, (40, 6)) * (rng.random((40, 1)) < 0.8))
    corpus = device.to_device(counts)
    labels = jnp.asarray(rng.integers(0, 5, corpus.tokens.size), jnp.uint16)
    key, concentration = getkey(), jnp.array([0.1, 0.5, 1.0, 3.0, 30.0, 1.0])
    tables = kernel._tables(key, concentration, labels, corpus)
    np.testing.assert_array_equal(tables, other._tables(key, concentration, labels, corpus))
    # As many as tokens at most, as documents at least, and none where there are no tokens.
    documents = np.repeat(np.arange(40), np.diff(corpus.starts))
    least = [len(set(documents[np.asarray(labels) == k])) for k in range(5)]
    assert (tables[:5] >= np.array(least)).all()
    assert (tables[:5] <= np.bincount(labels, minlength=5)).all()
    assert tables[5] == 0


def beta_p_values(module, getkey, **numbers):
    """-c log x of variables x of Beta(c, 1), with a large c too, against an exponential law."""
    p_values = {}
    for c in (0.5, 1e4, 1e8):
        logs = module.log_beta(getkey(), jnp.float32(c), jnp.ones(20_000, int), **numbers)
        x = -c * np.asarray(logs, np.float64)
        p_values[c, "mean"] = checks.mean_z(x, 1.0, 1.0)
        p_values[c, "square"] = checks.mean_z(x**2, 2.0, 20.0)
    return p_values


@pytest.mark.parametrize("numbers", [{}, {"numbers": np.arange(20_000)}], ids=["places", "numbers"])
def test_logs_of_beta_variables_near_one_have_all_their_digits(numbers, getkey):
    """A difference of logs has lost them at 1e8, where a learned alpha grew a thousandfold."""
    assert not checks.family(beta_p_values(concentrations, getkey, **numbers))
    new, old = "-jax.nn.softplus(log_y - log_x)", "log_x - jnp.logaddexp(log_x, log_y)"
    mutant = tiny_lda.mutated(concentrations, new, old)
    assert checks.family(beta_p_values(mutant, getkey, **numbers))
