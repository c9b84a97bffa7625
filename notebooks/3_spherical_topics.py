# %% [markdown]
# # Topics that are directions
#
# The spherical admixture model treats documents as unit vectors, here tf-idf, and gives every word a signed loading, so
# a topic can say that a word is absent. Topics live on a sphere; geodesic Hamiltonian dynamics samples them.

# %%
import os

import jax
import matplotlib.pyplot as plt
import numpy as np

from simplex_jax import corpus, draws, sam
from simplex_jax.evaluate import plots

QUICK = bool(os.environ.get("SIMPLEX_JAX_QUICK"))

# %% [markdown]
# ## The distribution behind it
#
# The von Mises-Fisher distribution is the normal distribution of directions. Its draws are exact at any dimension and
# concentration:

# %%
x = draws.von_mises_fisher(jax.random.key(0), np.array([0.0, 0.6, 0.8]), 30.0, (1000,))
plots.sphere(x)
plt.show()

# %% [markdown]
# ## Fit
#
# Counts become tf-idf vectors:

# %%
texts = corpus.embedded_corpus()
some = np.random.default_rng(0).permutation(texts.counts.shape[0])[: 150 if QUICK else 1_500]
chosen = corpus.from_counts(texts.counts[some], texts.vocabulary)
counts = corpus.cut(chosen, min_df=3, max_df=0.5, max_vocabulary=500 if QUICK else 1_500)
fitted = sam.fit(counts, 5 if QUICK else 15, passes=20 if QUICK else 400, seed=0)
last = fitted.metrics[-1]
print(f"kinetic energy {last['kinetic']:.2f} (1 at equilibrium), fit {last['fit']:.2f}")

# %% [markdown]
# ## Words that are present, and words that are absent

# %%
words = np.array(fitted.vocabulary)
for topic in np.argsort(-fitted.prevalence)[:6]:
    order = fitted.topics[topic].argsort()
    there, absent = words[order[::-1][:7]], words[order[:4]]
    print(f"{fitted.prevalence[topic]:5.1%}  {', '.join(there)}   but not {', '.join(absent)}")

# %%
plots.trace(np.array([record["kinetic"] for record in fitted.metrics]), "kinetic energy")
plt.show()
