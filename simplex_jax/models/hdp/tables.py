"""The files of a fitted hierarchical Dirichlet process."""

from typing import Any

from simplex_jax.models.hdp import report
from simplex_jax.models.hdp.fitting import Fit
from simplex_jax.models.records import Array, Files, Saved
from simplex_jax.models.topics import tables
from simplex_jax.runtime import saved
from simplex_jax.runtime.saved import RunError

_PROBABILITY = 1 + 1e-5


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for the process."""
    return tables.summary(fitted) | {
        "topics": len(fitted.mean),
        "number": fitted.number,
        "concentrations": fitted.concentrations,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return the numbers of topics, words, and ends of a range."""
    topics = run.summary.get("topics")
    if not isinstance(topics, int) or topics < 1:
        raise RunError(f"{run.directory / 'summary.json'}: the number of topics is missing")
    return {"K": topics, "V": len(saved.load_vocabulary(run.directory)), "E": 2, "R": 0}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    concentrations = run.summary["concentrations"]
    return tables.restore(run) | {
        "number": {int(k): float(p) for k, p in run.summary["number"].items()},
        "concentrations": {
            name: {end: _number(concentrations[name][end]) for end in report.ENDS}
            for name in ("alpha", "gamma")
        },
    }


def _number(value: float | None) -> float:
    return float("nan" if value is None else value)


FILES = Files(
    names=tables.NAMES,
    arrays={
        tables.TOPICS: {
            "mean": Array("KV", most=_PROBABILITY),
            "sd": Array("KV"),
            "mean_range": Array("EKR"),
            "prevalence": Array("K", most=_PROBABILITY),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK", most=_PROBABILITY),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "present": Array("K", most=_PROBABILITY),
            "stability": Array("K", most=_PROBABILITY),
        }
    },
    sizes=sizes,
    write=tables.write,
    summary=summary,
    restore=restore,
    report=report.REPORT,
)
