"""The files of a fitted topic model."""

from typing import Any

import numpy as np

from simplex_jax.models.files import Array, Files, Saved, example
from simplex_jax.models.lda import report
from simplex_jax.models.lda.fitting import Fit
from simplex_jax.models.topics.tables import NAMES, SHARES, write
from simplex_jax.runtime import saved
from simplex_jax.runtime.saved import RunError

TOPICS = "topics.npz"


def summary(fitted: Fit) -> dict[str, Any]:
    """Return what `summary.json` holds of a topic model."""
    return {
        "coherence_npmi": fitted.coherence,
        "documents": fitted.examples,
        "order": fitted.order,
        "shared": fitted.shared,
        "stiffness": fitted.stiffness,
        "empty": fitted.empty,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return numbers of topics and words."""
    words = saved.load_vocabulary(run.directory)
    return {"K": run.settings.num_topics, "V": len(words)}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    arrays, path = run.arrays, run.directory / TOPICS
    if not np.allclose(arrays["mean"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{path}: the topics of mean do not sum to 1")
    topics = run.settings.num_topics
    coherence = np.asarray(run.summary["coherence_npmi"], np.float64)
    examples = run.summary["documents"]
    if coherence.shape != (topics,) or len(examples) not in (0, topics):
        raise ValueError("topics of another number")
    names, shares, errors = saved.load_proportions(run.directory / SHARES, topics)
    return {
        **arrays,
        "vocabulary": saved.load_vocabulary(run.directory),
        "names": names,
        "proportions": shares,
        "proportions_error": errors,
        "coherence": coherence,
        "examples": [[example(entry) for entry in entries] for entries in examples],
        "order": np.asarray(run.summary["order"], int).reshape(-1, topics),
        "shared": np.asarray(run.summary["shared"], bool).reshape(-1, topics),
        "stiffness": float(run.summary["stiffness"]),
        "empty": int(run.summary["empty"]),
    }


FILES = Files(
    names=NAMES,
    arrays={
        TOPICS: {
            "mean": Array("KV"),
            "sd": Array("KV", unknown=True),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "beta": Array("V", positive=True),
            "beta_sd": Array("V", unknown=True),
            "stability": Array("K", unknown=True),
        }
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)
