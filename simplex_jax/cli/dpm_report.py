"""`simplex-jax dpm report`: the report of a run, from its files."""

from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax.cli import reports
from simplex_jax.dpm import saved
from simplex_jax.evaluate import dp_report as page
from simplex_jax.evaluate.page import Document
from simplex_jax.runtime import saved as runs


def render(directory: Path, path: Path | None = None, top_values: int = 12) -> Path:
    """Write the report of a finished run, and return its path.

    Raises:
        runs.RunError: The run has not come to its end, or its files are damaged.
    """
    model = saved.load(directory)
    summary = runs.load_json(directory / "summary.json")
    with reports.reading(directory):
        settings = model.config["settings"] | {"posterior_samples": summary["samples"]}
        if settings["alpha"] is None:
            prior = settings["alpha_shape"], settings["alpha_rate"]
            settings["alpha"] = "learned, Gamma({:g}, {:g}) a priori".format(*prior)
        names = ("alpha", "occupied", "partition", "diagnostics", "warnings")
        details: dict[str, Any] = {name: summary[name] for name in names}
        details["occupied"] = {str(int(k)): float(p) for k, p in details["occupied"].items()}
        examples = [
            [Document(str(row["name"]), float(row["share"]), row["values"]) for row in of]
            for of in summary["examples"]
        ]
        if len(examples) != len(model.sizes):
            raise ValueError("clusters of another number")
        corpus, versions = model.config["corpus"], model.config["versions"]
        if corpus["rows"] < 1 or not np.isfinite(details["alpha"]["mean"]):
            raise ValueError("numbers out of range")
    path = path or directory / "report.html"
    page.write(
        path,
        settings={k: v for k, v in settings.items() if v is not None and k[:6] != "alpha_"},
        corpus=corpus,
        versions=versions,
        metrics=runs.load_metrics(directory),
        clusters=_clusters(model, examples),
        top_values=top_values,
        **details,
    )
    return path


def _clusters(model: saved.Model, examples: list[list[Document]]) -> page.Clusters:
    names = set(page.Clusters._fields) & set(saved.Model._fields)
    found = {name: getattr(model, name) for name in names}
    return page.Clusters(**found, values=model.variables.items, examples=examples)


report = reports.command(render, "values", 12)
