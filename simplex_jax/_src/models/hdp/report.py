"""The report of a fitted hierarchical Dirichlet process: an HTML file without scripts."""

from pathlib import Path
from typing import Any

from simplex_jax._src.evaluate import diagnostics
from simplex_jax._src.models.hdp.fitting import Fit
from simplex_jax._src.models.topics.report import overview, topic_rows
from simplex_jax._src.report import display, page
from simplex_jax._src.report.topic_map import positions


def numbers_by_chain(fitted: Fit) -> str:
    """Return the numbers of topics in the samples of each chain, and where it started."""
    starts = fitted.settings.starts()
    ranges = [f"{min(n)} to {max(n)}" if len(n) > 1 else f"{min(n)}" for n in fitted.numbers]
    return ", ".join(
        f"{numbers} from a start with {start}"
        for numbers, start in zip(ranges, starts, strict=True)
    )


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
        f"seed {settings.seed}.",
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
