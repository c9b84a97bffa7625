"""The page that all models share: base template, bars with intervals, and mixing table."""

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate.diagnostics import ENOUGH, LARGE_RHAT, finite
from simplex_jax._src.evaluate.matching import SAME
from simplex_jax._src.extras import needed
from simplex_jax._src.report import charts, display

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"

MOST_DIAGNOSTICS = 12
AXES = (("passes", "passes over the corpus"), ("seconds", "seconds of training"))
"""Columns of the metrics for the x-axes of curves, and their names."""


class Script(NamedTuple):
    """The optional script of a page, and its data."""

    code: "Markup"  # the code
    digest: str  # its SHA-256 in base64, for the content security policy of the page
    data: "Markup"  # JSON that cannot close the enclosing element


class Report(NamedTuple):
    """The page of a model."""

    template: Path  # its template, which extends `base.html`
    # `(fit, most) -> variables of the template`: "title", "lead" (a sentence on the model),
    # "sections" (id and name of each), "tiles" of its quality (label and text of each) and
    # optionally "speed" and "notes" (sentences), "effects" and "script" (a `Script`).
    context: Callable[[Any, int], dict[str, Any]]
    items: str  # plural noun for descriptors of a topic or cluster: "words" or "values"
    most: int  # their default number


def render(
    report: Report, fitted: Any, settings: Mapping[str, Any], most: int | None = None
) -> str:
    """Return the page of a fit: one HTML file that needs no network.

    Settings without a value are left out; `most` words or values describe each topic.
    """
    most = report.most if most is None else most
    if most < 1:
        raise ValueError(f"top_{report.items} must be at least 1; it is {most}")
    context = {
        "settings": {k: v for k, v in settings.items() if v is not None and v != []},
        "corpus": fitted.corpus,
        "versions": fitted.versions,
        "again": fitted.again,
        "warnings": fitted.warnings,
        "verdict": fitted.verdict,
        "name": fitted.corpus.get("name"),
        "about": about(fitted.corpus),
        "notes": [],
        "effects": [],
        "speed": None,
        "script": None,
        "same": SAME,
        **mixing(fitted.diagnostics),
        **report.context(fitted, most),
    }
    template = _environment(report.template.parent).get_template(report.template.name)
    # Names of files that are not UTF-8 come with surrogates, which no UTF-8 has.
    return template.render(context).encode("utf-8", "backslashreplace").decode()


@functools.cache
def _environment(folder: Path) -> "jinja2.Environment":
    """Return templates that escape every value: words and file names may contain markup."""
    with needed("the report"):
        import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= display.FILTERS
    return environment


def about(corpus: Mapping[str, Any]) -> str:
    """Return the sizes of the data of a run in words.

    Example:
        >>> about({"documents": 1234, "vocabulary": 6, "held_out": 0, "digest": "a1"})
        '1,234 documents, 6 words'
    """
    sizes = [
        display.counted(corpus[name], noun)
        for name, noun in (("documents", "document"), ("rows", "row"), ("tokens", "token"))
        if name in corpus
    ]
    if "vocabulary" in corpus:
        sizes.append(display.counted(corpus["vocabulary"], "word"))
    if "variables" in corpus:
        sizes.append(display.counted(corpus["variables"], "column"))
    return ", ".join(sizes)


def speed(metrics: Sequence[Mapping[str, Any]], unit: str) -> str | None:
    """Return a sentence on the time of training, and on tokens or other units a second."""
    last = metrics[-1] if metrics else {}
    if not finite(last.get("seconds")):
        return None
    rate = last.get(f"{unit}_per_second")
    words = f", {display.count(rate)} {unit} a second" if finite(rate) else ""
    return f"It was trained for {display.duration(last['seconds'])}{words}."


def script(name: str, data: Any) -> Script:
    """Return a script of the templates with its data, which may contain any text."""
    with needed("the report"):
        from markupsafe import Markup

    code = (_TEMPLATES / name).read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII, even U+2028
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Script(Markup(code), digest, Markup(text))


def curves(
    metrics: Sequence[Mapping[str, Any]], measure: str, name: str, level: float | None = None
) -> list[dict[str, Any]]:
    """Return curves (see `charts.curves`) of a measure, if any, against passes and seconds."""
    if not any(finite(record.get(measure)) for record in metrics):
        return []
    return [
        {
            "svg": charts.curves(metrics, key, label, measure, name, level),
            "label": f"{name[:1].upper()}{name[1:]} against {label}",
        }
        for key, label in AXES
        if all(key in record for record in metrics)
    ]


def latest(
    metrics: Sequence[Mapping[str, Any]], measure: str
) -> tuple[Mapping[str, Any], float | None]:
    """Return the last record and its measure, that of the average if available."""
    last = metrics[-1] if metrics else {}
    average = last.get(f"{measure}_average")
    return last, last.get(measure) if average is None else average


def bars(
    mean: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    scale: float,
    *,
    over_chains: ArrayLike = False,
) -> list[dict[str, Any]]:
    """Return bars with intervals, in per cent of the scale; no interval where its ends are NaN.

    Those `over_chains` are ranges of the chains' means.
    """
    return [
        {
            "mean": float(m),
            "bar": 100 * float(m) / scale,
            "interval": None if np.isnan(low) else (float(low), float(high)),
            "over_chains": bool(ranged),
            "low": 100 * float(low) / scale,
            "width": 100 * float(high - low) / scale,
        }
        for m, low, high, ranged in zip(
            mean, lower, upper, np.broadcast_to(over_chains, np.shape(mean)), strict=True
        )
    ]


def mixing(
    diagnostics: Mapping[str, Mapping[str, float | None]] | None,
) -> dict[str, Any]:
    """Return the variables of the template `mixing.html`: the quantities that mix worst."""
    rows = [
        (name, measured(entry.get("rhat")), measured(entry.get("ess")))
        for name, entry in (diagnostics or {}).items()
    ]
    rows.sort(key=lambda row: -1.0 if row[2] is None else row[2])
    return {
        "diagnostics": rows[:MOST_DIAGNOSTICS],
        "more_diagnostics": max(0, len(rows) - MOST_DIAGNOSTICS),
        "enough": ENOUGH,
        "large_rhat": LARGE_RHAT,
    }


def chains(shared: np.ndarray) -> str | None:
    """Return how many of several chains share a topic; None for one chain."""
    return f"{shared.sum()} of {shared.size}" if shared.size > 1 else None


def measured(value: float | None) -> float | None:
    """Return a measurement, or None if it is missing or not finite."""
    return value if finite(value) else None
