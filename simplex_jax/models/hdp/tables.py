"""The files of a fitted hierarchical Dirichlet process."""

from typing import Any

import numpy as np

from simplex_jax.models.files import Array, Files, Saved, example
from simplex_jax.models.hdp import report
from simplex_jax.models.hdp.fitting import Fit
from simplex_jax.models.topics.tables import NAMES, SHARES, write
from simplex_jax.runtime import saved
from simplex_jax.runtime.saved import RunError

TOPICS = "topics.npz"

_PROBABILITY = 1 + 1e-5


def summary(fitted: Fit) -> dict[str, Any]:
    """Return what `summary.json` holds of the process."""
    return {
        "topics": len(fitted.mean),
        "number": fitted.number,
        "concentrations": fitted.concentrations,
        "coherence_npmi": fitted.coherence,
        "documents": fitted.examples,
        "shared": fitted.shared,
        "empty": fitted.empty,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return numbers of topics and words."""
    topics = run.summary.get("topics")
    if not isinstance(topics, int) or topics < 1:
        raise RunError(
            f"{run.directory / 'summary.json'}: it does not say how many topics there are"
        )
    return {"K": topics, "V": len(saved.load_vocabulary(run.directory))}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    arrays, path = run.arrays, run.directory / TOPICS
    if not np.allclose(arrays["mean"].sum(axis=1, dtype=np.float64), 1, atol=1e-3):
        raise RunError(f"{path}: the topics of mean do not sum to 1")
    topics = len(arrays["mean"])
    coherence = np.asarray(run.summary["coherence_npmi"], np.float64)
    examples = run.summary["documents"]
    if coherence.shape != (topics,) or len(examples) not in (0, topics):
        raise ValueError("topics of another number")
    names, shares, errors = saved.load_proportions(run.directory / SHARES, topics)
    return {
        **arrays,
        "number": {int(k): float(p) for k, p in run.summary["number"].items()},
        "concentrations": {
            name: {end: float(run.summary["concentrations"][name][end]) for end in report.ENDS}
            for name in ("alpha", "gamma")
        },
        "vocabulary": saved.load_vocabulary(run.directory),
        "names": names,
        "proportions": shares,
        "proportions_error": errors,
        "coherence": coherence,
        "examples": [[example(entry) for entry in entries] for entries in examples],
        "shared": np.asarray(run.summary["shared"], bool).reshape(-1, topics),
        "empty": int(run.summary["empty"]),
    }


FILES = Files(
    names=NAMES,
    arrays={
        TOPICS: {
            "mean": Array("KV", most=_PROBABILITY),
            "sd": Array("KV"),
            "prevalence": Array("K", most=_PROBABILITY),
            "prevalence_sd": Array("K"),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K"),
            "present": Array("K", most=_PROBABILITY),
            "stability": Array("K", most=_PROBABILITY),
        }
    },
    sizes=sizes,
    write=write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)
