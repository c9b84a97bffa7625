"""The files of a fitted hierarchical Dirichlet process."""

from typing import Any

from simplex_jax._src.models.hdp import report
from simplex_jax._src.models.hdp.fitting import Fit
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.topics import tables
from simplex_jax._src.runtime import saved
from simplex_jax._src.runtime.saved import RunError

_PROBABILITY = 1 + 1e-5


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for the process."""
    return tables.summary(fitted) | {
        "num_topics": len(fitted.topics),
        "rest": len(fitted.rest),
        "num_topics_posterior": fitted.num_topics_posterior,
        "numbers": fitted.numbers,
        "concentrations": fitted.concentrations,
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return the numbers of topics, reported and not, of words, and of ends of a range."""
    sizes = {"V": len(saved.load_vocabulary(run.directory)), "E": 2, "R": 0}
    for axis, name in (("K", "num_topics"), ("O", "rest")):
        number = run.summary.get(name)
        if not isinstance(number, int) or number < 1:
            raise RunError(f"{run.directory / 'summary.json'}: the number of topics is missing")
        sizes[axis] = number
    return sizes


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    concentrations = run.summary["concentrations"]
    return tables.restore(run) | {
        "num_topics_posterior": _posterior(run.summary["num_topics_posterior"]),
        "numbers": [_posterior(chain) for chain in run.summary["numbers"]],
        "concentrations": {
            name: {end: _number(concentrations[name][end]) for end in report.ENDS}
            for name in ("alpha", "gamma")
        },
    }


def _posterior(number: dict[str, float]) -> dict[int, float]:
    return {int(k): float(p) for k, p in number.items()}


def _number(value: float | None) -> float:
    return float("nan" if value is None else value)


FILES = Files(
    names=tables.NAMES,
    arrays={
        tables.TOPICS: {
            "topics": Array("KV", most=_PROBABILITY),
            "topics_sd": Array("KV"),
            "topics_range": Array("EKR"),
            "prevalence": Array("K", most=_PROBABILITY),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK", most=_PROBABILITY),
            "alpha": Array("K", positive=True),
            "alpha_sd": Array("K", unknown=True),
            "rest": Array("OV", most=_PROBABILITY),
            "rest_alpha": Array("O", positive=True),
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
