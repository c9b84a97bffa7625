"""`simplex-jax sam report`: the report of a run, from its files."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax.cli import describe, options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.evaluate import spherical_report as page
from simplex_jax.evaluate.page import Document
from simplex_jax.runtime import saved as runs
from simplex_jax.spherical import saved


@click.command("report")
@click.argument("directory", type=options.PATH)
@click.option("--top-words", default=12, type=click.IntRange(1), help="Words of each topic.")
@click.option("--out", type=options.PATH, help="File to write.  [default: DIRECTORY/report.html]")
@options.common_options
@one_line_errors
def report(directory: Path, top_words: int, out: Path | None, quiet: bool) -> None:
    """Write the report of the run in DIRECTORY anew.

    It is one HTML file that needs no network and runs no script.
    """
    written = render(directory, out, top_words)
    describe.speaker(quiet)(f"written to {written}")


def render(directory: Path, path: Path | None = None, top_words: int = 12) -> Path:
    """Write the report of a finished run, and return its path.

    Raises:
        runs.RunError: The run has not come to its end, or its files are damaged.
    """
    model = saved.load(directory)
    summary = runs.load_json(directory / "summary.json")
    try:
        topics = _topics(model, summary)
        settings = model.config["settings"] | {"posterior_samples": summary["samples"]}
        for name in settings["learn"]:
            settings[name] = f"{getattr(model, name):.6g} (sd {getattr(model, f'{name}_sd'):.2g})"
        settings["learn"] = ", ".join(settings["learn"]) or None
        details = {name: summary[name] for name in ("diagnostics", "warnings")}
        corpus, versions = model.config["corpus"], model.config["versions"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise runs.RunError(
            f"{directory}: config.json or summary.json is damaged, or of another version"
        ) from None
    path = path or directory / "report.html"
    page.write(
        path,
        settings={name: value for name, value in settings.items() if value is not None},
        corpus=corpus,
        versions=versions,
        metrics=runs.load_metrics(directory),
        topics=topics,
        top_words=top_words,
        **details,
    )
    return path


def _topics(model: saved.Model, summary: dict[str, Any]) -> page.Topics:
    coherence = np.asarray(summary["coherence_npmi"], np.float64)
    documents = [
        [Document(entry["name"], entry["share"], entry["words"]) for entry in entries]
        for entries in summary["documents"]
    ]
    if coherence.shape != model.length.shape or len(documents) not in (0, len(coherence)):
        raise ValueError("topics of another number")
    return page.Topics(
        mean=model.mean,
        sd=model.sd,
        length=model.length,
        vocabulary=model.vocabulary,
        prevalence=model.prevalence,
        prevalence_sd=model.prevalence_sd,
        coherence=coherence,
        stability=model.stability,
        documents=documents,
    )
