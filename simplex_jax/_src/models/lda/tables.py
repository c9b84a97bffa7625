"""The files of a fitted topic model."""

from typing import Any

import numpy as np

from simplex_jax._src.models.lda import report
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.topics import tables


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the entries of `summary.json` for a topic model."""
    return tables.summary(fitted) | {"order": fitted.order, "stiffness": fitted.stiffness}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    topics = run.settings.num_topics
    return tables.restore(run) | {
        "order": np.asarray(run.summary["order"], int).reshape(-1, topics),
        "stiffness": float(run.summary["stiffness"]),
    }


FILES = Files(
    names=tables.NAMES,
    arrays={
        tables.TOPICS: {
            "topics": Array("KV"),
            "topics_sd": Array("KV", unknown=True),
            "topics_range": Array("EKR"),
            "prevalence": Array("K"),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK"),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "beta": Array("V", positive=True),
            "beta_sd": Array("V", unknown=True),
            "stability": Array("K", unknown=True),
        }
    },
    sizes=tables.sizes,
    write=tables.write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)
