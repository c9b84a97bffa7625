# %% [markdown]
# # Topics of texts, from end to end
#
# Text in, topics with their uncertainty out. The texts are paragraphs of the State of the Union; read yours with
# `corpus.read("folder/")`, which knows many formats, or `corpus.from_texts`.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np

from simplex_jax import corpus, evaluate, lda
from simplex_jax.evaluate import plots

QUICK = bool(os.environ.get("SIMPLEX_JAX_QUICK"))
PASSES = 10 if QUICK else 100
TOPICS = 8 if QUICK else 20

texts = corpus.embedded_corpus()
if QUICK:
    texts = corpus.from_counts(texts.counts[::40], texts.vocabulary)
texts, new = corpus.holdout(texts, len(texts.names) // 10, seed=0)
print(texts.counts.shape, int(texts.counts.sum()), "words")

# %% [markdown]
# ## Fit
#
# Memoised SCIR is the default: exact, with minibatches. Learning the concentrations improves topics more than any fixed
# choice of them. Four chains, as `simplex-jax lda` has them, show which topics are found again. A tenth of the documents is
# held out and predicted.

# %%
options = {"passes": PASSES, "alpha": "learn-asymmetric", "holdout": None, "holdout_seed": 0}
fitted = lda.fit(texts, TOPICS, chains=4, seed=0, keep_samples=20, **options)
plots.perplexity(fitted.metrics)
plt.show()

# %% [markdown]
# ## Topics, with their uncertainty

# %%
words = np.array(texts.vocabulary)
for topic in np.argsort(-fitted.prevalence)[:8]:
    top = ", ".join(words[fitted.topics[topic].argsort()[::-1][:8]])
    print(
        f"{fitted.prevalence[topic]:5.1%}  found again {fitted.stability[topic]:.2f}  "
        f"NPMI {fitted.coherence[topic]:.2f}  {top}"
    )

# %%
first = int(np.argmax(fitted.prevalence))
plots.topic_intervals(fitted.topics[first], fitted.topics_sd[first], texts.vocabulary, top=12)
plt.show()

# %% [markdown]
# "Found again" is how much the matched topics of the chains have in common: 1 where they are the same. A topic that
# not all chains found is a guess, whatever its words say; `fitted.stable` says which all of them found.
#
# ## New documents

# %%
shares = fitted.transform(new)
strongest = shares.max(axis=1).argsort()[::-1][:3]
for document in strongest:
    topic = shares[document].argmax()
    print(f"{new.names[document]}: {shares[document, topic]:.0%} of topic {topic}")

# %% [markdown]
# ## How many topics?
#
# Held-out perplexity and coherence of several numbers, each fitted twice. They seldom agree: perplexity wants more
# topics than people want to read.

# %%
entries = evaluate.compare(
    lambda k, seed: lda.fit(texts, k, seed=seed, **{**options, "passes": max(5, PASSES // 3)}),
    [8] if QUICK else [10, 20, 40],
    new.counts,
    repeats=2,
)
plots.comparison(entries)
plt.show()
