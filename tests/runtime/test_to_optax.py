"""Kernels within optax: the same numbers as by themselves, and beside optimised parameters."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import statistics_checks as checks

from simplex_jax import gradients, to_optax
from simplex_jax.samplers import (
    barker,
    cir,
    dirichlet_paths,
    gmc,
    scir,
    sgbd,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    smld,
)

X = jnp.array([0, 0, 0, 1, 2, 2, 0, 1])
N = len(X)
SCHEDULE = optax.polynomial_schedule(0.1, 0.01, 1, 5)


def of_reals(mu):
    return -((X - mu) ** 2).sum() / 2


def of_counts(log_p, batch):
    return log_p[batch].sum()


EUCLIDEAN = {
    "sgld": partial(sgld.build, step_size=SCHEDULE),
    "sghmc": partial(sghmc.build, step_size=0.01, friction=1.0),
    "sgnht": partial(sgnht.build, step_size=0.01, friction=1.0),
    "sgbd": partial(sgbd.build, step_size=0.1),
}
SIMPLEX = {
    "scir": partial(scir.build, alpha=0.5, step_size=SCHEDULE),
    "sgrld": partial(sgrld.build, alpha=0.5, step_size=0.1),
    "sgrhmc": partial(sgrhmc.build, alpha=0.5, step_size=0.1, friction=1.0),
    "smld": partial(smld.build, alpha=0.5, step_size=0.1),
}


def run(transformation, loss, params, steps):
    """The parameters after each step of a jitted loop that donates all it has."""

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state):
        updates, state = transformation.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    state, trace = transformation.init(params), []
    for _ in range(steps):
        params, state = step(params, state)
        trace.append(jax.tree.map(np.asarray, params))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trace), state


@pytest.mark.parametrize("name", [*EUCLIDEAN, *SIMPLEX])
def test_the_numbers_are_those_of_the_kernel(name):
    """Of several updates, for the average of a loss."""
    found, expected = trace_and_kernel(name, N)
    chex.assert_trees_all_close(found, expected, rtol=1e-3, atol=1e-5)


def test_a_forgotten_number_of_data_is_seen():
    found, expected = trace_and_kernel("scir", 1)
    assert not np.allclose(found, expected, rtol=1e-3, atol=1e-5)


def trace_and_kernel(name, size):
    if name in EUCLIDEAN:
        build, params = EUCLIDEAN[name], jnp.array(0.3)
        estimator = gradients.density(of_reals)
        loss = lambda mu: -of_reals(mu) / N  # noqa: E731
        kernel, start, batch = build(estimator), params, None
    else:
        build, params = SIMPLEX[name], jnp.log(jnp.array([0.2, 0.5, 0.3]))
        kernel = build(gradients.counts(of_counts, size=N))
        loss = lambda log_p: -of_counts(log_p, X) / N  # noqa: E731
        start, batch = jnp.exp(params), X
    key_init, key = jax.random.split(jax.random.key(1))
    state, expected = kernel.init(key_init, start), []
    for _ in range(3):
        key_update, key = jax.random.split(key)
        state, _ = kernel.update(key_update, state, batch)
        expected.append(state.position)
    trace, _ = run(to_optax(build, jax.random.key(1), size), loss, params, 3)
    return trace, jnp.stack(expected)


def test_some_parameters_are_sampled_and_others_optimised():
    """By multi_transform, with a schedule for Adam and clipping of what it optimises.

    False alarms: 1e-3. The weights have a Dirichlet posterior, and SCIR is exact.
    """

    def loss(params):
        return -(of_counts(params["log_p"], X) - ((params["mu"] - 2) ** 2).sum()) / N

    sampled = to_optax(scir.build, jax.random.key(0), N, alpha=0.5, step_size=2.0)
    optimised = optax.chain(optax.clip(1.0), optax.adam(optax.cosine_decay_schedule(0.2, 400)))
    labels = {"log_p": "sample", "mu": "optimise"}
    both = optax.multi_transform({"sample": sampled, "optimise": optimised}, labels)
    params = {"log_p": jnp.log(jnp.full(3, 1 / 3)), "mu": jnp.zeros(2)}

    def step(carry, _):
        params, state = carry
        updates, state = both.update(jax.grad(loss)(params), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params["log_p"]

    (params, state), trace = jax.lax.scan(step, (params, both.init(params)), length=4_000)
    np.testing.assert_allclose(params["mu"], 2, atol=1e-2)
    info = state.inner_states["sample"].inner_state.info
    assert float(jax.tree.leaves(info)[0]) == 2.0  # the step size
    shares = np.exp(trace[::4])  # e^-8 of the correlation is left
    posterior = np.array([4.5, 2.5, 2.5])
    mean = posterior / posterior.sum()
    variance = mean * (1 - mean) / (posterior.sum() + 1)
    p_values = {j: checks.mean_z(shares[:, j], mean[j], variance[j]) for j in range(3)}
    assert not checks.family(p_values)


def test_a_preconditioner_frozen_from_rms():
    """Learned by `scale_by_rms` in a warm-up: both scales are then sampled at one step size.

    20,000 steps of h = 0.1 are worth about 1,000 draws, which are good to 2%, and the bias is 3%:
    false alarms are below 1e-6. Without the preconditioner the chain diverges.
    """
    sd = jnp.array([0.01, 1.0])

    def loss(x):
        return ((x / sd) ** 2).sum() / 2

    warm_up = optax.chain(optax.scale_by_rms(decay=0.99), optax.scale(0.0))
    noise = jax.random.normal(jax.random.key(3), (500, 2))
    state = warm_up.init(jnp.zeros(2))
    for draw in sd * noise:  # a chain near the mode would give such positions
        _, state = warm_up.update(jax.grad(loss)(draw), state)
    mass = 1 / (state[0].nu)
    sampler = to_optax(sgld.build, jax.random.key(0), step_size=0.1, preconditioner=mass)

    def step(carry, _):
        x, state = carry
        updates, state = sampler.update(jax.grad(loss)(x), state, x)
        x = optax.apply_updates(x, updates)
        return (x, state), x

    start = jnp.zeros(2)
    _, trace = jax.lax.scan(step, (start, sampler.init(start)), length=20_000)
    np.testing.assert_allclose(trace[500:].std(axis=0) / sd, 1, atol=0.15)


def test_what_is_refused():
    sampler = to_optax(scir.build, jax.random.key(0), alpha=0.5, step_size=1.0)
    with pytest.raises(ValueError, match="normalised log-probabilities"):
        sampler.init(jnp.zeros(3))
    start = jnp.log(jnp.full(3, 1 / 3))
    with pytest.raises(ValueError, match="parameters"):
        sampler.update(start, sampler.init(start))
    with pytest.raises(ValueError, match="size"):
        to_optax(sgld.build, jax.random.key(0), -1, step_size=0.1)
    for build in SIMPLEX.values():
        with pytest.raises(ValueError, match=r"-inf at index \(2,\)"):
            to_optax(build, jax.random.key(0)).init(jnp.log(jnp.array([0.5, 0.5, 0.0])))
    for build in (barker.build, gmc.build, cir.build, partial(dirichlet_paths.build, gaps=1.0)):
        with pytest.raises(ValueError, match=r"^to_optax .*\.build$"):
            to_optax(build, jax.random.key(0))
    for dtype in (jnp.bfloat16, jnp.float16):
        with pytest.raises(ValueError, match=f"32 .* {jnp.dtype(dtype).name}"):
            to_optax(sgld.build, jax.random.key(0), step_size=0.1).init(jnp.zeros(3, dtype))


def test_what_a_kernel_keeps_beside_the_position_starts_at_the_parameters():
    options = {"alpha": 1.0, "step_size": 1e-8, "linearised": True, "reference": 0}
    sampler = to_optax(smld.build, jax.random.key(0), **options)
    start = jnp.log(jnp.array([0.7, 0.2, 0.1]))
    updates, _ = sampler.update(jnp.zeros(3), sampler.init(start), start)
    np.testing.assert_allclose(updates, 0, atol=2e-3)
