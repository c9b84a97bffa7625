# %% [markdown]
# # SCIR inside numpyro
#
# `SCIR(model)` is a numpyro kernel. It finds the simplex and gamma sites of any model, and moves them without a
# bijection or a mass matrix: alone, or as a block of numpyro's `Gibbs` beside NUTS.

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from numpyro.infer.gibbs import Gibbs

from simplex_jax.evaluate import plots
from simplex_jax.numpyro import SCIR

QUICK = bool(os.environ.get("SIMPLEX_JAX_QUICK"))
WARMUP, SAMPLES = (50, 100) if QUICK else (500, 2_000)

# %% [markdown]
# ## A normal mixture with more components than needed
#
# The weights have a sparse Dirichlet prior: most of the ten components are empty.

# %%
rng = np.random.default_rng(0)
data = jnp.asarray(np.concatenate([rng.normal(-2.2, 0.5, 300), rng.normal(2.2, 0.5, 100)]))
places = jnp.linspace(-4, 4, 10)


def model(x):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(10, 0.05)))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(x)):
        parts = dist.Normal(places, scale)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(weights), parts), obs=x)


kernels = {
    "SCIR with NUTS": Gibbs([(SCIR(model), ["weights"]), (NUTS(model), None)]),
    "NUTS": NUTS(model),
}
found = {}
for name, kernel in kernels.items():
    mcmc = MCMC(kernel, num_warmup=WARMUP, num_samples=SAMPLES, progress_bar=False)
    mcmc.run(jax.random.key(0), data)
    found[name] = mcmc.get_samples()
    print(name, np.asarray(found[name]["weights"]).mean(axis=0).round(3))

# %% [markdown]
# They agree where there are data. On the empty components the logarithm of a weight ranges over dozens of powers of
# ten, which NUTS explores slowly in the coordinates of a bijection:

# %%
tiny = np.finfo(np.float32).tiny
plots.sparse_boxplots(
    {name: np.log(np.maximum(one["weights"], tiny)) for name, one in found.items()}
)
plt.show()

# %% [markdown]
# ## A minibatch in every step
#
# With `subsample_size` in a plate every step sees other rows, at a cost that does not depend on their number. The noise
# of the minibatches inflates standard deviations, by less the shorter the step size h. The warm-up learns an h at which
# they are less than 1.1 times the true ones. One sample in 2 / h is independent, so draw many.

# %%
many = jnp.asarray(rng.choice(4, size=100_000, p=[0.7, 0.2, 0.1, 0.0]))


def counted(x):
    p = numpyro.sample("p", dist.Dirichlet(jnp.full(4, 0.1)))
    with numpyro.plate("data", len(x), subsample_size=5_000) as ind:
        numpyro.sample("x", dist.Categorical(p), obs=x[ind])


mcmc = MCMC(SCIR(counted), num_warmup=2 * WARMUP, num_samples=10 * SAMPLES, progress_bar=False)
mcmc.run(jax.random.key(1), many)
mcmc.print_summary()
print(mcmc.sampler.get_diagnostics_str(mcmc.last_state))

# %% [markdown]
# The rest of numpyro (chains, `Predictive`, `deterministic` sites, ArviZ, resuming, pickling) works as with its
# own kernels. What does not, such as simplex sites of a single row inside a subsampled plate, is refused with a message
# that says what to do.
