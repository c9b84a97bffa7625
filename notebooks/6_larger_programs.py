# %% [markdown]
# # A kernel in a larger JAX program
#
# A kernel is two pure functions, `init(key, position) -> state` and `update(key, state, batch) -> (state, info)`. So it
# works wherever JAX does: in a training loop, under `vmap`, in another library's driver.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

from simplex_jax import estimators
from simplex_jax.evaluate import plots
from simplex_jax.samplers import scir

QUICK = bool(os.environ.get("SIMPLEX_JAX_QUICK"))
STEPS = 200 if QUICK else 2_000

# %% [markdown]
# ## Optimise some parameters, sample others
#
# A mixture of four lines: Adam fits their slopes and offsets, and SCIR samples their weights, with the expected
# memberships of the batch as counts. The data come from two of the lines.

# %%
key = jax.random.key(0)
x = jax.random.uniform(jax.random.fold_in(key, 0), (2_000,), minval=-1.0)
which = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.3, (2_000,))
noise = 0.1 * jax.random.normal(jax.random.fold_in(key, 2), (2_000,))
y = jnp.where(which, 1.5 * x - 1, 0.5 - x) + noise


def log_parts(lines, log_weights, batch):
    at, value = batch
    error = value[:, None] - (at[:, None] * lines["slope"] + lines["offset"])
    return log_weights - 0.5 * (error / 0.2) ** 2


def loss(lines, log_weights, batch):
    return -jax.nn.logsumexp(log_parts(lines, log_weights, batch), axis=1).mean()


optimiser = optax.adam(0.02)


@jax.jit
def train(key, lines, moments, state):
    def step(carry, i):
        lines, moments, state = carry
        key_batch, key_update = jax.random.split(jax.random.fold_in(key, i))
        ids = jax.random.choice(key_batch, 2_000, (100,), replace=False)
        batch = (x[ids], y[ids])
        value, gradient = jax.value_and_grad(loss)(lines, state.position, batch)
        change, moments = optimiser.update(gradient, moments)
        lines = optax.apply_updates(lines, change)

        def memberships(key, log_weights, batch):
            return jax.nn.softmax(log_parts(lines, log_weights, batch)).sum(axis=0)

        # The counts depend on the lines of this step: a kernel is cheap to build.
        kernel = scir.build(estimators.subsampled(memberships, size=2_000), 0.1, 0.1)
        state, _ = kernel.update(key_update, state, batch)
        return (lines, moments, state), (value, state.position)

    return jax.lax.scan(step, (lines, moments, state), jnp.arange(STEPS))


lines = {"slope": jnp.array([1.0, -1.0, 2.0, -2.0]), "offset": jnp.array([-0.5, 0.3, 0.5, -0.2])}
start = scir.build(estimators.multinomial(1), 0.1, 0.1).init(jax.random.key(1), jnp.ones(4))
(lines, _, _), (losses, log_weights) = train(jax.random.key(2), lines, optimiser.init(lines), start)
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
axes[0].plot(losses, lw=0.7)
axes[0].set(xlabel="step", ylabel="loss")
plots.sparse_boxplots(np.asarray(log_weights[STEPS // 2 :]), axes=axes[1])
figure.tight_layout()
plt.show()

# %% [markdown]
# Two lines carry the weight; only the power of ten of the other weights is known.
#
# ## Many hyperparameters at once
#
# Step sizes and concentrations are leaves of the kernel, a pytree: `vmap` over them.

# %%
counts = jnp.array([30.0, 5.0, 0.0])


@jax.jit
@jax.vmap
def mean_of(key, alpha):
    kernel = scir.build(estimators.multinomial(1), alpha, 1.0)
    state = kernel.init(key, jnp.ones(3))

    def step(state, key):
        state, _ = kernel.update(key, state, counts[None])
        return state, jnp.exp(state.position)

    return jax.lax.scan(step, state, jax.random.split(key, STEPS))[1].mean(axis=0)


alphas = jnp.array([0.01, 0.1, 1.0, 10.0])
sampled = mean_of(jax.random.split(jax.random.key(3), 4), alphas)
exact = (alphas[:, None] + counts) / (3 * alphas + 35)[:, None]
print(np.abs(sampled - exact).max().round(4), "is the largest error of the means")

# %% [markdown]
# More recipes, each a test of the library, are in `docs/recipes.md`.
