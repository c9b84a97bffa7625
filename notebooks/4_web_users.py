# %% [markdown]
# # Groups of web users, without saying how many
#
# A Dirichlet-process mixture infers the number of clusters along with the clusters, by slice sampling, without
# truncation. The data are the pages of a web site that each user visited: the UCI archive's Microsoft data if you have
# them (`MSWEB=path/anonymous-msweb.data`), otherwise users simulated from six groups.

# %%
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from simplex_jax import dpm
from simplex_jax.corpus import from_counts
from simplex_jax.evaluate import plots

QUICK = bool(os.environ.get("SIMPLEX_JAX_QUICK"))
path = Path(os.environ.get("MSWEB", "../../shared/data/msweb/anonymous-msweb.data"))

if path.exists():
    sys.path.append("../benchmarks")
    import msweb

    users = msweb.read(path)
    counts, pages = users.counts, users.vocabulary
else:
    rng = np.random.default_rng(0)
    groups = rng.dirichlet(np.full(60, 0.1), size=6)
    member = rng.choice(6, size=5_000, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03])
    counts = sp.csr_array(rng.multinomial(1 + rng.poisson(4, 5_000), groups[member]))
    pages = tuple(f"page {i}" for i in range(60))
order = np.random.default_rng(1).permutation(counts.shape[0])[: 1_000 if QUICK else 6_000]
users = from_counts(sp.csr_array(counts[order]), pages)
print(users.counts.shape, int(users.counts.sum()), "visits")

# %% [markdown]
# ## Fit
#
# The labels of all users are kept, so an update from any batch is an exact Gibbs step.

# %%
fitted = dpm.fit(
    users,
    holdout=len(order) // 6,
    passes=20 if QUICK else 200,
    batch_size=500,
    chains=2,
    seed=0,
)
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for name, where in zip(("num_clusters", "alpha"), axes, strict=True):
    plots.trace(fitted.traces[name].T, name, axes=where)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## The clusters
#
# Sizes with their posterior intervals, and the most visited pages.

# %%
clusters = fitted.clusters
print(f"concentration {fitted.alpha:.2f} ± {fitted.alpha_sd:.2f}")
for cluster in range(min(8, len(clusters.sizes))):
    top = [pages[page] for page in np.argsort(-clusters.profiles[cluster])[:5]]
    size = f"{clusters.sizes[cluster]:.0f} ({clusters.lower[cluster]:.0f} to {clusters.upper[cluster]:.0f})"
    print(f"{size:>20s} users: {'; '.join(top)}")
