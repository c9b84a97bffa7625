"""`simplex-jax lda report`: the report of a run, from its files."""

from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.cli import reports
from simplex_jax.evaluate import report as page
from simplex_jax.runtime import saved as runs
from simplex_jax.topics import saved


def render(directory: Path, path: Path | None = None, top_words: int = 10) -> Path:
    """Write the report of a finished run, and return its path.

    Raises:
        runs.RunError: The run has not come to its end, or its files are damaged.
    """
    model = saved.load(directory)
    summary = runs.load_json(directory / "summary.json")
    with reports.reading(directory):
        topics = _topics(model, summary)
        settings = model.config["settings"] | {"posterior_samples": summary["samples"]}
        details = {name: summary[name] for name in ("diagnostics", "warnings")}
        corpus, versions = model.config["corpus"], model.config["versions"]
    path = path or directory / "report.html"
    page.write(
        path,
        settings={name: value for name, value in settings.items() if value is not None},
        corpus=corpus,
        versions=versions,
        metrics=runs.load_metrics(directory),
        topics=topics,
        alpha=page.Concentration(model.alpha, model.alpha_sd),
        beta=page.Concentration(model.beta, model.beta_sd),
        top_words=top_words,
        **details,
    )
    return path


def _topics(model: saved.Model, summary: dict[str, Any]) -> page.Topics:
    coherence = np.asarray(summary["coherence_npmi"], np.float64)
    if coherence.shape != model.alpha.shape:
        raise ValueError("topics of another number")
    return page.Topics(
        mean=model.mean,
        sd=model.sd,
        vocabulary=model.vocabulary,
        prevalence=model.prevalence,
        prevalence_sd=model.prevalence_sd,
        coherence=coherence,
        stability=model.stability,
        documents=reports.documents(summary, len(coherence)),
    )


report = reports.command(render, "words", 10)
