"""LDA against the enumerated posterior of a tiny corpus, and at its edges.

Chains start from exact draws of the posterior, which an exact sampler leaves invariant: after any
number of steps they are independent exact draws. Unless a test says otherwise its p-values are
judged by Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a correct library
fails a test with a probability of at most 1e-3.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from baselines import control_variate
from support import statistics_checks as checks
from support import tiny_lda
from support.marks import slow_but

from simplex_jax._src import base, batches, draws
from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.samplers import scir

METHODS = ("blocked", "collapsed")
SLOW_IF_BLOCKED = slow_but(["blocked", "collapsed"], "collapsed")
ALPHA, BETA = np.array([0.4, 0.9]), np.array([0.1, 0.3, 0.5])
SHAPE = (2, 3)
COUNTS = tiny_lda.table([[], [2], [1, 2], [0, 0, 1]], 3)  # in the order of the device
CORPUS = device.to_device(COUNTS)
POSTERIOR = tiny_lda.posterior(CORPUS, ALPHA, BETA)
CHAINS = 40_000


def nothing(state, info):
    return ()


# The chains lie side by side in one corpus: that of chain c has words 3 c, 3 c + 1 and 3 c + 2, and
# the copies of a document follow one another.
rows = [sp.kron(sp.eye_array(CHAINS), COUNTS[[d]]) for d in range(COUNTS.shape[0])]
MANY = device.to_device(sp.vstack(rows, format="csr").astype(np.int32))
CHAIN = np.concatenate([np.repeat(np.arange(CHAINS), n) for n in COUNTS.sum(axis=1)])


def flat(z):
    """Labels [CHAINS, N] of the chains in the order of the tokens side by side."""
    parts = [z[:, first:last].ravel() for first, last in itertools.pairwise(CORPUS.starts)]
    return jnp.asarray(np.concatenate(parts))


def by_chain(values):
    """The reverse of `flat`."""
    values = np.asarray(values)
    ends = CHAINS * np.asarray(CORPUS.starts)
    parts = [values[a:b].reshape(CHAINS, (b - a) // CHAINS) for a, b in itertools.pairwise(ends)]
    return np.concatenate(parts, axis=1)


def count(labels, tokens):
    return jnp.zeros((2, 3 * CHAINS), jnp.int32).at[labels, tokens].add(1)


def estimate_side_by_side(estimate, *arguments):
    """Show an estimator of one corpus the topics [CHAINS, K, V] of all chains."""
    *others, position, ids = arguments
    counts, memory = estimate(*others, jnp.moveaxis(position, 0, 1).reshape(2, -1), ids)
    return jnp.moveaxis(counts.reshape(2, CHAINS, 3), 1, 0), memory


def build(method, h, alpha=ALPHA, beta=BETA, corpus=MANY, total="refreshed"):
    """Memoised SCIR of all chains; a batch is one document of each."""
    wide = lda.configure((2, 3 * CHAINS), local=method)
    inner = lda_kernel.counts_of(lda_kernel.source_of(corpus, wide))
    counts = lda_kernel.Counts(inner.init, base.bind(estimate_side_by_side, inner.estimate))
    config = lda.configure(SHAPE, alpha=alpha, beta=beta, step_size=h, total=total)
    return lda_kernel.kernel(counts, config)


def with_memory(state, labels, tokens):
    memory = lda_kernel.Memory(labels, count(labels, tokens))
    return state._replace(sampler=state.sampler._replace(memory=memory))


def posterior_checks(kernel, num_steps, getkey, seed):
    """P-values of the features of chains that started from exact draws, after some steps.

    A carried total starts from an exact draw, too.
    """
    rng = np.random.default_rng(seed)
    z, log_phi = tiny_lda.draw(POSTERIOR, rng, CHAINS)
    tokens = np.stack([(z == k).sum(axis=1) for k in range(SHAPE[0])], axis=1)
    totals = rng.gamma(BETA.sum() + tokens)[:, :, None]
    start = kernel.init(getkey(), jnp.asarray(totals / 3 * np.ones(SHAPE), jnp.float32))
    start = start._replace(position=jnp.asarray(log_phi, jnp.float32))
    state = with_memory(start, flat(z).astype(jnp.uint8), MANY.tokens)
    stream = device.block_stream(device.size(MANY), CHAINS)
    state, _ = run(getkey(), kernel, state, stream, num_steps, collect=nothing)
    memory = state.sampler.memory
    np.testing.assert_array_equal(memory.counts, count(memory.labels, MANY.tokens))
    return feature_checks(state)


def feature_checks(state):
    labels = by_chain(state.sampler.memory.labels)
    seen = tiny_lda.observed(POSTERIOR, labels, state.position, BETA)
    expected = tiny_lda.exact(POSTERIOR, BETA)
    return {name: checks.mean_z(value, expected[name], value.var()) for name, value in seen.items()}


# Elapsed times of 3 and more, and more steps than documents.
STEPS = {0.1: 30, 0.5: 20, 5.0: 12}


@pytest.mark.slow
@pytest.mark.parametrize("h", slow_but(STEPS, 0.5))
@pytest.mark.parametrize("method", SLOW_IF_BLOCKED)
def test_memoised_scir_leaves_the_posterior_invariant(method, h, getkey, seed):
    assert not checks.family(posterior_checks(build(method, h), STEPS[h], getkey, seed))


@pytest.mark.parametrize("method", SLOW_IF_BLOCKED)
@pytest.mark.parametrize(
    "wrong",
    [{"beta": 1.02 * BETA}, {"alpha": 1.2 * ALPHA}, {"alpha": ALPHA[::-1]}],
    ids=["beta 2 % up", "alpha 20 % up", "alpha reversed"],
)
def test_wrong_hyperparameters_are_seen(method, wrong, getkey, seed):
    assert checks.family(posterior_checks(build(method, 0.5, **wrong), 20, getkey, seed))


@pytest.mark.slow
def test_carrying_the_total_is_biased(getkey, seed):
    assert checks.family(
        posterior_checks(build("collapsed", 0.1, total="carried"), 60, getkey, seed)
    )


@pytest.mark.slow
def test_memoised_scir_reaches_the_posterior(getkey):
    """From equal topics and no labels; 75 passes leave no trace of the start above the noise."""
    kernel, stream = build("collapsed", 5.0), device.block_stream(device.size(MANY), CHAINS)
    state = kernel.init(getkey(), jnp.ones((CHAINS, *SHAPE)))
    assert (np.asarray(state.sampler.memory.labels) == SHAPE[0]).all()
    state, _ = run(getkey(), kernel, state, stream, 300, collect=nothing)
    assert not checks.family(feature_checks(state))


def test_reference_draws_have_the_enumerated_moments(seed):
    z, log_phi = tiny_lda.draw(POSTERIOR, np.random.default_rng(seed), 100_000)
    expected = tiny_lda.exact(POSTERIOR, BETA)
    assert not checks.family(
        {
            name: checks.mean_z(value, expected[name], value.var())
            for name, value in tiny_lda.observed(POSTERIOR, z, log_phi, BETA).items()
        }
    )


@functools.partial(jax.jit, static_argnames="method")
def successive(key, log_phi, labels, words, alpha, beta, num_steps, method):
    """Alternate the kernel with new words given its labels and topics, in all chains."""

    def step(i, carry):
        log_phi, labels, words = carry
        tokens = 3 * CHAIN + words
        kernel = build(method, 0.7, alpha, beta, MANY._replace(tokens=tokens))
        key_batch, key_move, key_words = jax.random.split(jax.random.fold_in(key, i), 3)
        inner = lda_kernel.Memory(labels, count(labels, tokens))
        sampler = scir.State(None, None, inner, None)
        state = lda_kernel.State(log_phi, jnp.int32(0), alpha, beta, sampler)
        document = jax.random.randint(key_batch, (), 0, COUNTS.shape[0])
        batch = document * CHAINS + jnp.arange(CHAINS)
        state, _ = kernel.update(key_move, state, batch)
        labels = state.sampler.memory.labels
        words = draws.categorical(key_words, jnp.exp(state.position)[CHAIN, labels])
        return state.position, labels, words

    return jax.lax.fori_loop(0, num_steps, step, (log_phi, labels, words))


def marginal(rng, size):
    """Draws of topics, labels and words from their joint prior."""
    log_phi = tiny_lda.log_dirichlet(rng, np.broadcast_to(BETA, (size, *SHAPE)))
    lengths = np.diff(CORPUS.starts)
    theta = np.exp(tiny_lda.log_dirichlet(rng, np.broadcast_to(ALPHA, (size, len(lengths), 2))))
    z = (
        rng.uniform(size=(size, lengths.sum())) > np.repeat(theta[:, :, 0], lengths, axis=1)
    ).astype(int)
    ends = np.cumsum(np.exp(log_phi), axis=-1)[np.arange(size)[:, None], z]
    words = (rng.uniform(size=(*z.shape, 1)) > ends[..., :2]).sum(axis=-1)
    return log_phi, z, words


def joint_features(log_phi, z, words):
    """Functions of topics, labels and words."""
    log_phi = np.asarray(log_phi, np.float64)
    z, words = np.asarray(z), np.asarray(words)
    own = log_phi[np.arange(len(z))[:, None], z, words]
    values = {
        "log phi": (BETA * log_phi).sum(axis=(1, 2)),
        "own log": np.maximum(own, -50).sum(axis=1),
    }
    for k, w in np.ndindex(SHAPE):
        values["phi", k, w] = np.exp(log_phi[:, k, w])
        values["count", k, w] = ((z == k) & (words == w)).sum(axis=1)
        values["count times phi", k, w] = values["count", k, w] * values["phi", k, w]
    for i in range(z.shape[1]):
        values["likelihood", i] = np.exp(own[:, i])
        for j in range(i):
            values["together", i, j] = z[:, i] == z[:, j]
            values["same", i, j] = (z[:, i] == z[:, j]) & (words[:, i] == words[:, j])
    return values


def joint_zs(method, getkey, seed, alpha=ALPHA, beta=BETA):
    """Geweke (2004): two ways to simulate topics, labels and words together must agree.

    The chains start from the joint prior, so that their ends are independent draws of it: their
    effective sample size is their number.
    """
    rng = np.random.default_rng(seed)
    log_phi, z, words = marginal(rng, CHAINS)
    ends = successive(
        getkey(),
        jnp.asarray(log_phi, jnp.float32),
        flat(z).astype(jnp.uint8),
        flat(words).astype(jnp.int32),
        jnp.asarray(alpha, jnp.float32),
        jnp.asarray(beta, jnp.float32),
        20,
        method,
    )
    ours = joint_features(ends[0], by_chain(ends[1]), by_chain(ends[2]))
    theirs = joint_features(*marginal(rng, 5 * CHAINS))
    return {
        name: abs(value.mean() - theirs[name].mean())
        / np.sqrt(value.var() / len(value) + theirs[name].var() / len(theirs[name]))
        for name, value in ours.items()
    }


@pytest.mark.parametrize("method", SLOW_IF_BLOCKED)
def test_joint_distribution(method, getkey, seed):
    """Below 4.5 for all of some 50 functions: a false-alarm rate below 4e-4."""
    zs = joint_zs(method, getkey, seed)
    assert len(zs) >= 20
    assert max(zs.values()) < 4.5, zs
    for wrong in ({"alpha": 2 * ALPHA}, {"alpha": ALPHA[::-1]}, {"beta": 1.1 * BETA}):
        assert max(joint_zs(method, getkey, seed, **wrong).values()) > 4.5, wrong


TALLY = lda_kernel.Tally(jnp.zeros(2), None)
LOG_PHI = np.log([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
NEAR = np.log([[0.58, 0.3, 0.12], [0.12, 0.28, 0.6]])


def expected_counts(log_phi):
    """The exact full-data counts at given topics, by enumeration."""
    counts = np.zeros(SHAPE)
    starts = np.asarray(CORPUS.starts)
    for first, last in itertools.pairwise(starts):
        words = np.asarray(CORPUS.tokens[first:last])
        z, p = tiny_lda.conditional(words, np.exp(log_phi), ALPHA)
        one_hot = tiny_lda.one_hot(z, 2)
        counts += np.einsum("s,snk,nw->kw", p, one_hot, tiny_lda.one_hot(words, 3))
    return counts


@jax.jit
def estimates(keys, estimator, stream, memory):
    def one(key):
        key_stream, key_estimate = jax.random.split(key)
        batch = stream(key_stream, 0)
        log_phi = jnp.asarray(LOG_PHI, jnp.float32)
        return estimator.estimate(key_estimate, memory, log_phi, batch)[0]

    return jax.vmap(one)(keys)


def cell_checks(counts, expected):
    counts = np.asarray(counts, np.float64)
    return {
        cell: checks.mean_z(counts[:, *cell], expected[cell], counts[:, *cell].var())
        for cell in np.ndindex(SHAPE)
    }


# The burn-in from no labels leaves no trace of the start on documents of three tokens.
HOW = {
    "blocked": {"local": "blocked", "sweeps": 24, "burn_in": 20, "expected": True},
    "collapsed": {"local": "collapsed", "sweeps": 12, "burn_in": 8},
}


def source(batch_size, **how):
    config = lda.configure(SHAPE, counts="subsampled", batch_size=batch_size, **how)
    return lda_kernel.source_of(CORPUS, config)


@pytest.mark.parametrize(
    ("method", "batch_size"), slow_but([("blocked", 4), ("collapsed", 2)], ("collapsed", 2))
)
def test_subsampled_counts_are_unbiased(method, batch_size, getkey):
    exact = expected_counts(LOG_PHI)
    counts = lda_kernel.counts_of(source(batch_size, **HOW[method]))
    estimator = counts.with_prior(ALPHA)
    stream = device.uniform_stream(CORPUS, batch_size)
    counts = np.asarray(estimates(jax.random.split(getkey(), 2500), estimator, stream, TALLY))
    assert not checks.family(cell_checks(counts, exact))
    assert checks.family(cell_checks(1.1 * counts, exact)), "the check has no power"
    if batch_size == device.size(CORPUS):
        np.testing.assert_allclose(counts.sum(axis=(1, 2)), CORPUS.tokens.size, rtol=1e-5)


def unmoved(stream, key, step):
    return batches.Visit(stream(key, step), jnp.array(False))


@pytest.mark.slow
@pytest.mark.parametrize("method", SLOW_IF_BLOCKED)
def test_control_variate_is_unbiased_and_quieter_near_its_reference(method, getkey):
    keys = jax.random.split(getkey(), 2500)
    stream = device.uniform_stream(CORPUS, 2)
    batches_of_two = source(2, **HOW[method])
    reference = control_variate.Reference(
        jnp.asarray(NEAR, jnp.float32),
        jnp.asarray(expected_counts(NEAR), jnp.float32),
        jnp.zeros(2),
    )
    estimator = control_variate.control_variate(batches_of_two).with_prior(ALPHA)
    controlled = estimates(keys, estimator, base.bind(unmoved, stream), reference)
    assert not checks.family(cell_checks(controlled, expected_counts(LOG_PHI)))
    assert checks.family(cell_checks(controlled, expected_counts(NEAR))), "the check has no power"
    subsampled = lda_kernel.counts_of(batches_of_two).with_prior(ALPHA)
    plain = estimates(keys, subsampled, stream, TALLY)
    assert (np.asarray(controlled).var(axis=0) < 0.5 * np.asarray(plain).var(axis=0)).all()


def test_control_variate_moves_its_reference(getkey):
    counts = control_variate.control_variate(source(3, sweeps=1))
    estimator = counts.with_prior(ALPHA)
    reference, moved = estimator.init(getkey()), []
    estimate = jax.jit(estimator.estimate)
    for step in range(4):
        log_phi = jnp.asarray(LOG_PHI - 1e-3 * step, jnp.float32)
        visit = batches.Visit(jnp.array([3, 0, 1]), jnp.array(step % 2 == 0))
        counts, reference = estimate(getkey(), reference, log_phi, visit)
        moved.append(bool((reference.log_topics == log_phi).all()))
        assert float(reference.counts.sum()) == 6
        assert float(counts.sum()) == pytest.approx(6)
    assert moved == [True, False, True, False]
