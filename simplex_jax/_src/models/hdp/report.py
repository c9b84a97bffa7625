"""The HTML report of a fitted hierarchical Dirichlet process, without scripts, and its files."""

from pathlib import Path
from typing import Any

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models.hdp.fitting import Fit, numbers_by_chain
from simplex_jax._src.models.hdp.posterior import NAMES, Draws
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.models.topics import editing, tables
from simplex_jax._src.models.topics.report import overview, topic_rows
from simplex_jax._src.report import display, page
from simplex_jax._src.report.topic_map import positions
from simplex_jax._src.runtime import output, saved
from simplex_jax._src.runtime.saved import RunError


def concentration(fitted: Fit, name: str) -> dict[str, float]:
    """Return mean, standard deviation and 95% interval of "alpha" or "gamma"."""
    mean, sd, interval = (getattr(fitted, name + part) for part in ("", "_sd", "_interval"))
    return {"mean": mean, "sd": sd, "lower": interval[0], "upper": interval[1]}


_ABSENT = (
    "{their} words are of the samples that have {them}; in their prevalence the others count as 0"
)

_SECTIONS = (
    ("overview", "Topics"),
    ("topics", "Words and documents"),
    ("map", "Map"),
    ("number", "Number of topics"),
)
_CONCENTRATIONS = {
    "alpha": "of the topic proportions of a document",
    "gamma": "of the weights of the topics",
}


def context(fitted: Fit, top_words: int) -> dict[str, Any]:
    """Return the context of the template, with `top_words` words per topic."""
    rows = topic_rows(fitted, top_words, fitted.topic_alpha, fitted.topic_alpha_sd)
    settings = fitted.settings
    _, perplexity = page.latest(fitted.metrics, "perplexity")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    return overview(fitted, rows, positions(fitted.topics), "perplexity") | {
        "lead": f"Hierarchical Dirichlet process, sampled without truncation{chains}, "
        f"seed {settings.seed}.{editing.described(fitted)}",
        "sections": _SECTIONS,
        "tiles": [
            (
                "topics in a sample",
                f"{min(fitted.num_topics_posterior)}–{max(fitted.num_topics_posterior)}",
            ),
            ("held-out perplexity", display.count(perplexity)),
        ],
        "speed": page.speed(fitted.metrics, "tokens"),
        "notes": diagnostics.chain_notes(fitted.diagnostics, fitted.shared, _ABSENT),
        "share_of": "Prevalence is the share of the tokens in a topic",
        "left_out": bool(fitted.dropped),
        "reported": float(fitted.prevalence.sum()),
        "by_chain": numbers_by_chain(fitted) if settings.chains > 1 else None,
        "number": [
            {
                "number": number,
                "share": share,
                "bar": 100 * share / max(fitted.num_topics_posterior.values()),
            }
            for number, share in sorted(fitted.num_topics_posterior.items())
        ],
        "trace": page.curves(fitted.metrics, "topics", "topics with tokens")[:1],
        "concentrations": [
            {"name": name, "of": of, "enough": diagnostics.enough(fitted.diagnostics, name)}
            | concentration(fitted, name)
            for name, of in _CONCENTRATIONS.items()
        ],
    }


REPORT = page.Report(Path(__file__).with_suffix(".html"), context, items="words", most=10)


# The files of a fitted hierarchical Dirichlet process.

_PROBABILITY = 1 + 1e-5
_LEARNED = ("alpha", "gamma")


DRAWS = "predictive.npz"


def write(fitted: Fit, place: Path) -> None:
    """Write the files of the topics and documents, and the topics of the kept samples."""
    tables.write(fitted, place, fitted.topic_alpha, names=fitted.titles)
    editing.write(fitted, place)
    output.write_npz(place / DRAWS, fitted.predictive.arrays())


def summary(fitted: Fit) -> dict[str, Any]:
    """Return the fields of `summary.json` for the process."""
    return (
        tables.summary(fitted)
        | editing.summary(fitted)
        | {
            "num_topics": len(fitted.topics),
            "num_topics_posterior": fitted.num_topics_posterior,
            "numbers": fitted.numbers,
            "concentrations": {name: concentration(fitted, name) for name in _LEARNED},
        }
    )


def sizes(run: Saved) -> dict[str, int]:
    """Return the numbers of topics, of words, and of ends of a range."""
    number = run.summary.get("num_topics")
    if not isinstance(number, int) or number < 1:
        raise RunError(f"{run.directory / 'summary.json'}: the number of topics is missing")
    return {"K": number, "V": len(saved.load_vocabulary(run.directory)), "E": 2, "R": 0}


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes of a fit from its files."""
    restored = (
        tables.restore(run)
        | editing.restore(run)
        | {
            "num_topics_posterior": _posterior(run.summary["num_topics_posterior"]),
            "numbers": [_posterior(chain) for chain in run.summary["numbers"]],
            "predictive": _draws(run),
        }
    )
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
    names=(*tables.NAMES, editing.TRAINED, DRAWS),
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
    report=REPORT,
)
