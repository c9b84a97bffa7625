# %% [markdown]
# # Why sparse simplices break Langevin, and SCIR does not
#
# Ten categories and 1,000 observations: 800, 100 and 100 in three categories, none in the other seven. With a
# Dirichlet(0.1) prior the posterior is Dirichlet(800.1, 100.1, 100.1, 0.1, ..., 0.1), so we know the truth. Real data
# look like the seven empty categories: most words are not in a topic, most links are not there, most clusters are
# empty.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from simplex_jax import batches, chains, draws, estimators, evaluate, run
from simplex_jax.evaluate import plots
from simplex_jax.samplers import scir, sgrld

QUICK = bool(os.environ.get("SIMPLEX_JAX_QUICK"))
STEPS = 400 if QUICK else 4_000
CHAINS = 4

counts = jnp.array([800, 100, 100, 0, 0, 0, 0, 0, 0, 0])
concentration = 0.1 + counts
x = jnp.repeat(jnp.arange(10), counts, total_repeat_length=1000)
exact = draws.log_dirichlet(jax.random.key(0), concentration, (CHAINS * STEPS // 2,))

# %% [markdown]
# The probability of a category that was never seen is not just small, as 0.001 is. Its logarithm is spread over dozens
# of powers of ten:

# %%
print(np.quantile(np.asarray(exact)[:, 5] / np.log(10), [0.025, 0.5, 0.975]).round(1))

# %% [markdown]
# ## Two samplers, the same batches
#
# Both see 100 observations at a time, and estimate the counts of all 1,000 from them. SGRLD takes Euler steps of a
# Langevin diffusion and reflects at zero. SCIR draws the transition of a Cox-Ingersoll-Ross process exactly. Step sizes
# are near the best for each.

# %%
estimator = estimators.categorical(size=1000)
kernels = {
    "SCIR": scir.build(estimator, alpha=0.1, step_size=0.05),
    "SGRLD": sgrld.build(estimator, alpha=0.1, step_size=0.0005),
}
samples = {"exact": exact}
for name, kernel in kernels.items():
    many = chains(kernel, CHAINS)
    state = many.init(jax.random.key(1), jnp.ones(10))
    _, trace = run(
        jax.random.key(2), many, state, batches.uniform(x, 100), num_steps=STEPS, chunk=STEPS
    )
    samples[name] = trace[STEPS // 2 :].reshape(-1, 10)

plots.sparse_boxplots(samples)
plt.title("log-probabilities of ten categories")
plt.show()

# %% [markdown]
# Three boxes agree where there are data. On the empty categories SGRLD stops: its steps cannot follow a density that
# goes to infinity at the boundary, and halving the step size hardly helps. SCIR's draws match the truth.
#
# ## In one number
#
# The Rosenblatt transform makes the samples uniform if, and only if, they follow the posterior. The largest distance
# between their distribution function and the diagonal:

# %%
for name, log_p in samples.items():
    uniform = evaluate.rosenblatt(log_p, concentration)
    found = np.array([stats.kstest(u, "uniform").statistic for u in uniform.T])
    print(f"{name:6s} dense {found[0]:.3f}  sparse {found[3:].mean():.3f}")

# %% [markdown]
# ## What is left: the noise of the batches
#
# With all data in a batch SCIR has no error, at any step size. A batch adds variance to the samples, by an amount known
# in closed form, Var[a_hat] tanh(h / 2). Smaller steps or larger batches remove it, as does `estimators.memoised` for
# latent data that are visited again. `docs/experiments.md` compares these samplers over batch sizes, step sizes and
# data.
