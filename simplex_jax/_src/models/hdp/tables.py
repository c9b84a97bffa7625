"""The files of a fitted hierarchical Dirichlet process."""

from pathlib import Path
from typing import Any

from simplex_jax._src.models.hdp import report
from simplex_jax._src.models.hdp.draws import NAMES, Draws
from simplex_jax._src.models.hdp.fitting import Fit
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.topics import tables
from simplex_jax._src.runtime import output, saved
from simplex_jax._src.runtime.saved import RunError

_PROBABILITY = 1 + 1e-5
_LEARNED = ("alpha", "gamma")


DRAWS = "predictive.npz"


def write(fitted: Fit, place: Path) -> None:
    """Write the files of the topics and documents, and the topics of the kept samples."""
    tables.write(fitted, place, fitted.topic_alpha, rest=True)
    output.write_npz(place / DRAWS, fitted.predictive.arrays())


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for the process."""
    return tables.summary(fitted) | {
        "num_topics": len(fitted.topics),
        "num_topics_posterior": fitted.num_topics_posterior,
        "numbers": fitted.numbers,
        "concentrations": {name: report.concentration(fitted, name) for name in _LEARNED},
    }


def sizes(run: Saved) -> dict[str, int]:
    """Return the numbers of topics, of words, and of ends of a range."""
    number = run.summary.get("num_topics")
    if not isinstance(number, int) or number < 1:
        raise RunError(f"{run.directory / 'summary.json'}: the number of topics is missing")
    return {"K": number, "V": len(saved.load_vocabulary(run.directory)), "E": 2, "R": 0}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    restored = tables.restore(run) | {
        "num_topics_posterior": _posterior(run.summary["num_topics_posterior"]),
        "numbers": [_posterior(chain) for chain in run.summary["numbers"]],
        "predictive": _draws(run),
    }
    for name in _LEARNED:
        ends = {end: _number(x) for end, x in run.summary["concentrations"][name].items()}
        restored |= {name: ends["mean"], f"{name}_sd": ends["sd"]}
        restored[f"{name}_interval"] = (ends["lower"], ends["upper"])
    return restored


def _draws(run: Saved) -> Draws:
    path = run.directory / DRAWS
    arrays = saved.load_npz(path, NAMES)
    words, topics = run.arrays["topics"].shape[::-1]
    try:
        return Draws.restored(arrays, run.settings.beta, words, topics)
    except ValueError as error:
        raise RunError(f"{path}: the file is damaged ({error})") from None


def _posterior(number: dict[str, float]) -> dict[int, float]:
    return {int(k): float(p) for k, p in number.items()}


def _number(value: float | None) -> float:
    return float("nan" if value is None else value)


FILES = Files(
    names=(*tables.NAMES, DRAWS),
    arrays={
        tables.TOPICS: {
            "topics": Array("KV", most=_PROBABILITY),
            "topics_sd": Array("KV"),
            "topics_range": Array("EKR"),
            "prevalence": Array("K", most=_PROBABILITY),
            "prevalence_sd": Array("K", unknown=True),
            "prevalence_range": Array("EK", most=_PROBABILITY),
            "topic_alpha": Array("K", positive=True),
            "topic_alpha_sd": Array("K", unknown=True),
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
