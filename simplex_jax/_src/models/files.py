"""The directory of a run: writing the fit of any model, and reading it with full checks."""

import math
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src.models.options import RunOptions, as_json, from_json
from simplex_jax._src.models.records import Array, F, Model, O, Saved, versions
from simplex_jax._src.report import page
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import gathering, lock, output, sample_files, saved
from simplex_jax._src.runtime.saved import RunError

CONFIG, SUMMARY, METRICS, REPORT = "config.json", "summary.json", "metrics.jsonl", "report.html"


def names_of(model: Model) -> tuple[str, ...]:
    """Return the names of all files of a run, besides checkpoints and samples."""
    return (CONFIG, METRICS, SUMMARY, REPORT, *model.files.arrays, *model.files.names)


def config_of(
    model: Model,
    settings: RunOptions,
    corpus: Mapping[str, Any],
    source: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the contents of `config.json`.

    The source is the command's input and its reading options; None for a fit from Python.
    """
    return {
        "command": model.name,
        "format": saved.FORMAT,
        "source": source,
        "settings": as_json(settings),
        "corpus": dict(corpus),
        "versions": versions(),
        **more,
    }


def save(
    model: Model[O, F],
    fitted: F,
    place: Path,
    *,
    overwrite: bool = False,
    config: Mapping[str, Any] | None = None,
    samples: Path | None = None,
) -> Path:
    """Write a fit to a directory of its own; see `Fit.save`.

    Its configuration and the directory of its samples may be those of a run of a command.
    """
    if config is None:
        config = config_of(model, fitted.settings, fitted.corpus, again=fitted.again)
    model.files.values(fitted)  # Raises errors before an earlier run is removed.
    if saved.VOCABULARY in names_of(model):
        directories.check_words(vars(fitted)["vocabulary"])
    with directories.claim(place, config, names_of(model), overwrite=overwrite) as claimed:
        lines = "".join(output.json_line(record) for record in fitted.metrics)
        output.write_text(claimed / METRICS, lines)
        if samples is None:
            gathering.write_samples(claimed / directories.SAMPLES, fitted.samples)
        else:
            sample_files.copy(samples, claimed / directories.SAMPLES)
        write(model, fitted, claimed)
    return place


def write(model: Model[O, F], fitted: F, place: Path) -> None:
    """Write the results of a fit into the directory of its run, each file atomically."""
    values = model.files.values(fitted)
    for file, names in model.files.arrays.items():
        arrays = {name: np.asarray(values[name]) for name in names}
        floats = {n: x if x.dtype.kind == "f" else x.astype(np.float64) for n, x in arrays.items()}
        output.write_npz(place / file, floats)
    model.files.write(fitted, place)
    summary = {
        "num_samples": fitted.num_samples,
        "interrupted": fitted.interrupted is not None,
        "done": fitted.done,
        "diagnostics": {n: _with_inf(entry) for n, entry in fitted.diagnostics.items()},
        "warnings": fitted.warnings,
        "verdict": fitted.verdict,
        "ended": fitted.ended,
    }
    output.write_json(place / SUMMARY, summary | model.files.summary(fitted))
    report(model, fitted, place)


def amend(model: Model[O, F], place: Path, entry: str, change: Callable[[F], F]) -> F:
    """Change an entry of the summary of a finished run, and the tables with it; return the fit.

    The run is read again, since another command may have changed it meanwhile.
    """
    with lock.locked(place):
        fitted = change(load(model, place))
        changed = {entry: model.files.summary(fitted)[entry]}
        output.write_json(place / SUMMARY, saved.load_json(place / SUMMARY) | changed)
        model.files.write(fitted, place)
    return fitted


def finished(model: Model, place: Path) -> bool:
    """Return whether a run has ended and still has its results; otherwise it must continue."""
    return saved.finished(place) and all((place / file).exists() for file in model.files.arrays)


def load(model: Model[O, F], place: Path) -> F:
    """Read a fit from the directory of a run; see `Fit.load`."""
    config = saved.load_config(place, model.name)
    settings = settings_of(model, config["settings"], place)
    result = next(iter(model.files.arrays))
    if not (place / result).exists():
        raise RunError(
            f"{place}: the run has not finished (there is no {result}): wait until it ends, or "
            f"continue it with simplex-jax {model.name} --resume {shlex.quote(str(place))}"
        )
    summary = saved.load_json(place / SUMMARY)
    run = Saved(place, settings, config["corpus"], summary, {})
    try:
        arrays = _arrays(model, run)
        restored = model.files.restore(run._replace(arrays=arrays))
        common: dict[str, Any] = {
            "num_samples": int(summary["num_samples"]),
            "diagnostics": {
                name: {key: float(value) for key, value in _with_nan(entry).items()}
                for name, entry in summary["diagnostics"].items()
            },
            "warnings": [str(sentence) for sentence in summary["warnings"]],
            "verdict": [str(sentence) for sentence in summary["verdict"]],
            "ended": str(summary["ended"]),
            "done": {str(name): int(number) for name, number in summary["done"].items()},
            "again": str(config.get("again", "")),
        }
    except RunError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise RunError(
            f"{place}: config.json or summary.json is damaged or from another version"
        ) from None
    metrics = [_with_nan(record) for record in saved.load_metrics(place)]
    return model.fit(
        **common,
        **restored,
        metrics=metrics,
        settings=settings,
        corpus=config["corpus"],
        versions=config["versions"],
    )


def _with_inf(entry: Mapping[str, float]) -> dict[str, float | str]:
    """Return numbers with a text for infinity: R-hat of chains that each stand still."""
    return {name: "inf" if value == math.inf else value for name, value in entry.items()}


def _with_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers read from JSON with NaN in place of null."""
    return {name: math.nan if value is None else value for name, value in record.items()}


def settings_of(model: Model[O, F], values: Any, place: Path) -> O:
    """Return the options in `config.json` of a run, or raise a RunError."""
    try:
        return from_json(model.options, values)
    except ValueError as error:
        raise RunError(
            f"{place / CONFIG}: the settings are damaged or from another version ({error})"
        ) from None


def _arrays(model: Model[O, F], run: Saved[O]) -> dict[str, np.ndarray]:
    """Read all arrays, checking shapes and ranges."""
    sizes = model.files.sizes(run)
    arrays: dict[str, np.ndarray] = {}
    for file, declared in model.files.arrays.items():
        path = run.directory / file
        shapes = {name: tuple(sizes[a] for a in array.axes) for name, array in declared.items()}
        arrays |= saved.load_arrays(path, shapes)
        for name, array in declared.items():
            _check_range(path, name, arrays[name], array)
    return arrays


def _check_range(path: Path, name: str, values: np.ndarray, declared: Array) -> None:
    low = values > declared.least if declared.positive else values >= declared.least
    sound = low & (values <= declared.most) & (values < np.inf)
    if declared.unknown:
        sound |= np.isnan(values)
    if not sound.all():
        raise RunError(f"{path}: {name} has numbers out of range")


def example(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a representative document of a topic from its entry in `summary.json`.

    Runs of earlier versions have no excerpt of the text.
    """
    words = [str(word) for word in entry["words"]]
    name, share, text = str(entry["name"]), float(entry["share"]), str(entry.get("text", ""))
    return {"name": name, "share": share, "words": words, "text": text}


def report(model: Model[O, F], fitted: F, path: Path, most: int | None = None) -> Path:
    """Write the report of a fit, see `Fit.report`, with `most` words or values of each topic."""
    path = path / REPORT if path.is_dir() else path
    settings = as_json(fitted.settings) | {"posterior_samples": fitted.num_samples}
    output.write_text(path, page.render(model.files.report, fitted, settings, most))
    return path
