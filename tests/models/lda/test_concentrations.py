"""Learned concentrations against the joint law of concentrations, topics, labels and words.

Everything starts from exact draws of the joint law and must stay there. P-values are judged by
Holm's procedure at 1e-3 (`statistics_checks.family`): with a fresh seed a correct library fails a
test with a probability of at most 1e-3.
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
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.topics import concentrations
from simplex_jax._src.models.topics.concentrations import Prior

CHAINS = 30_000
LENGTHS = np.array([0, 1, 3, 4])
TOTALS, MOST = jnp.array([0, 1, 2, 6]), 6
MEANS = {"alpha": 0.7, "beta": 0.4}


@functools.partial(jax.jit, static_argnames="how")
def gibbs(key, c, totals, mean, how):
    """Counts given the concentrations, then these given the counts, five times; chains [n]."""

    def one(key, c):
        def again(i, c):
            key_p, key_n, key_aux, key_c = jax.random.split(jax.random.fold_in(key, i), 4)
            log_p = draws.log_dirichlet(key_p, c, totals.shape)
            labels = draws.categorical(key_n, jnp.exp(log_p)[:, None, :], (totals.size, MOST))
            kept = jnp.arange(MOST) < totals[:, None]
            counts = (jax.nn.one_hot(labels, c.size) * kept[..., None]).sum(axis=1).T
            known = concentrations.evidence(key_aux, c, counts)
            return concentrations.move(key_c, c, known, Prior(mean), how)

        return jax.lax.fori_loop(0, 5, again, c)

    return jax.vmap(one)(jax.random.split(key, c.shape[0]), c)


@pytest.mark.slow
@pytest.mark.parametrize("how", concentrations.LEARN)
def test_concentrations_keep_their_prior(how, getkey, seed):
    """Geweke (2004): counts drawn given the concentrations leave these at their prior."""
    rng = np.random.default_rng(seed)
    size = (CHAINS, 1) if how == "learn" else (CHAINS, 3)
    c = np.broadcast_to(rng.exponential(0.8, size), (CHAINS, 3))
    mean = jnp.float32(0.8)
    ends = np.asarray(gibbs(getkey(), jnp.asarray(c, jnp.float32), TOTALS, mean, how), np.float64)
    columns = ends[:, :1] if how == "learn" else ends

    def p_values(expected):
        return {
            (k, name): checks.mean_z(value, expect, value.var())
            for k, column in enumerate(columns.T)
            for name, value, expect in (
                ("mean", column, expected),
                ("log", np.log(column), np.log(expected) - np.euler_gamma),
                ("square", column**2, 2 * expected**2),
            )
        }

    assert not checks.family(p_values(0.8))
    assert checks.family(p_values(0.84)), "the check has no power"


def joint(rng, size, learn_alpha, learn_beta):
    """Draws of alpha, beta, log phi, labels and words from their joint law."""

    def concentration(mean, length, how):
        if how is None:
            return np.full((size, length), mean)
        width = 1 if how == "learn" else length
        return np.broadcast_to(rng.exponential(mean, (size, width)), (size, length))

    alpha = concentration(MEANS["alpha"], 2, learn_alpha)
    beta = concentration(MEANS["beta"], 3, learn_beta)
    log_phi = tiny_lda.log_dirichlet(rng, np.broadcast_to(beta[:, None], (size, 2, 3)))
    theta = np.exp(
        tiny_lda.log_dirichlet(rng, np.broadcast_to(alpha[:, None], (size, LENGTHS.size, 2)))
    )
    z = (rng.uniform(size=(size, LENGTHS.sum())) > np.repeat(theta[..., 0], LENGTHS, axis=1)) * 1
    ends = np.cumsum(np.exp(log_phi), axis=-1)[np.arange(size)[:, None], z]
    words = (rng.uniform(size=(*z.shape, 1)) > ends[..., :2]).sum(axis=-1)
    return alpha, beta, log_phi, z, words


@functools.partial(jax.jit, static_argnames=("options",))
def moved(key, alpha, beta, log_phi, labels, words, means, options):
    starts = jnp.asarray(np.concatenate([[0], np.cumsum(LENGTHS)]), jnp.int32)

    def one(key, alpha, beta, log_phi, labels, words):
        corpus = device.DeviceCorpus(words, starts, jnp.arange(LENGTHS.size, dtype=jnp.int32))
        given = dict(options) | {
            f"{name}_prior" if name in dict(options) else name: (
                (1.0, 1 / mean) if name in dict(options) else mean
            )
            for name, mean in means.items()
        }
        kernel, stream = lda.build(corpus, (2, 3), batch_size=2, **given)
        state = kernel.init(key, jnp.ones((2, 3)))
        counts = jnp.zeros((2, 3), jnp.int32).at[labels, words].add(1)
        memory = lda_kernel.Memory(labels.astype(jnp.uint8), counts)
        state = state._replace(
            position=log_phi, alpha=alpha, beta=beta, sampler=state.sampler._replace(memory=memory)
        )

        def step(i, state):
            return kernel.update(jax.random.fold_in(key, i), state, stream(key, state.step))[0]

        state = jax.lax.fori_loop(0, 9, step, state)
        return state.alpha, state.beta, state.position, state.sampler.memory.labels

    keys = jax.random.split(key, alpha.shape[0])
    return jax.vmap(one)(keys, alpha, beta, log_phi, labels, words)


def features(alpha, beta, log_phi, z, words):
    alpha, beta, log_phi = (np.asarray(x, np.float64) for x in (alpha, beta, log_phi))
    z = np.asarray(z)
    phi = np.exp(log_phi)
    own = phi[np.arange(len(z))[:, None], z, words]
    same = (z[:, 1] == z[:, 2]) * 1.0
    return {
        "alpha": alpha[:, 0],
        "log alpha": np.log(alpha[:, 0]),
        "other alpha": alpha[:, 1],
        "beta": beta[:, 0],
        "log beta": np.log(beta[:, 0]),
        "last beta": beta[:, 2],
        "log phi": np.maximum(log_phi, -50).sum(axis=(1, 2)),
        "own": own.mean(axis=1),
        "together": same,
        "alpha and labels": np.log(alpha[:, 0]) * same,
        "beta and words": np.log(beta[:, 1]) * (words[:, 2] == words[:, 3]),
        "beta and topics": np.log(beta[:, 1]) * phi[:, 0, 1],
        "labels": z.mean(axis=1),
        "alpha and first": np.log(alpha[:, 1]) * z[:, 0],
    }


def joint_checks(getkey, seed, learn_alpha, learn_beta, factor=1.0):
    rng = np.random.default_rng(seed)
    alpha, beta, log_phi, z, words = joint(rng, CHAINS, learn_alpha, learn_beta)
    learned = {"alpha": learn_alpha, "beta": learn_beta}
    options = tuple((name, how) for name, how in learned.items() if how)
    ends = moved(
        getkey(),
        *(jnp.asarray(x, jnp.float32) for x in (alpha, beta, log_phi)),
        jnp.asarray(z, jnp.int32),
        jnp.asarray(words, jnp.int32),
        {name: factor * mean for name, mean in MEANS.items()},
        options,
    )
    ours = features(*ends, words)
    theirs = features(*joint(rng, 5 * CHAINS, learn_alpha, learn_beta))
    return {
        name: checks.mean_z(
            value,
            theirs[name].mean(),
            value.var() + theirs[name].var() / 5,
        )
        for name, value in ours.items()
        if value.var() > 1e-9
    }


@pytest.mark.parametrize(
    ("learn_alpha", "learn_beta"),
    [
        ("learn-asymmetric", "learn"),
        pytest.param("learn", "learn-asymmetric", marks=pytest.mark.slow),
    ],
)
def test_learning_leaves_the_joint_law_invariant(learn_alpha, learn_beta, getkey, seed):
    assert not checks.family(joint_checks(getkey, seed, learn_alpha, learn_beta))


@pytest.mark.slow
def test_wrong_priors_are_seen(getkey, seed):
    assert checks.family(joint_checks(getkey, seed, "learn-asymmetric", "learn", factor=1.1))


@pytest.mark.parametrize("how", concentrations.LEARN)
def test_estimated_evidence_moves_alpha_by_its_cir_process(how, getkey):
    """The stationary law of short steps is the Gamma law of the evidence; false alarm 4e-4."""
    known = concentrations.Evidence(jnp.array([3.0, 0.0]), jnp.float32(-1.5))
    prior = Prior(jnp.full(2, 0.5))

    @jax.vmap
    def chain(key):
        def step(i, c):
            return concentrations.move(
                jax.random.fold_in(key, i), c, known, prior, how, jnp.float32(0.2)
            )

        return jax.lax.fori_loop(0, 60, step, jnp.ones(2))

    c = np.asarray(jax.jit(chain)(jax.random.split(getkey(), 20_000)), np.float64)
    laws = [(4, 3.5), (1, 3.5)] if how == "learn-asymmetric" else [(4, 5.0), (4, 5.0)]
    for column, (shape, rate) in zip(c.T, laws, strict=True):
        mean, variance = shape / rate, shape / rate**2
        assert checks.mean_z(column, mean, variance) > 1e-4
        assert checks.mean_z(column, 1.1 * mean, variance) < 1e-4
