"""The report of a fitted topic model: one HTML file that needs no network and runs no script."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
import matplotlib
import numpy as np
from jax.typing import ArrayLike
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from simplex_jax.runtime import output


class Topics(NamedTuple):
    """Fitted topics.

    Attributes:
        mean: posterior mean of the word probabilities, [K, V]; rows sum to 1.
        sd: their posterior standard deviation, [K, V].
        vocabulary: the V words.
        prevalence: share of the tokens in each topic, [K]; sums to 1.
    """

    mean: ArrayLike
    sd: ArrayLike
    vocabulary: Sequence[str]
    prevalence: ArrayLike


def write(
    path: str | Path,
    *,
    settings: Mapping[str, object],
    corpus: Mapping[str, object],
    versions: Mapping[str, str],
    metrics: Sequence[Mapping[str, float | None]],
    topics: Topics,
    warnings: Sequence[str] = (),
    top_words: int = 10,
) -> None:
    """Write the report, atomically.

    Args:
        path: the HTML file to make or replace.
        settings: name -> value, as resolved for the run; shown in the order given.
        corpus: name -> value; `documents`, `tokens` and `vocabulary` are counts and have to be
            there, others (such as a digest) are shown below them.
        versions: package -> version.
        metrics: the evaluations in order, each with `documents` and `seconds` so far and
            `perplexity`, `perplexity_average` and `tokens_per_second` where measured.
        topics: the fitted topics.
        warnings: sentences to show first, for instance from `checks.topic_warnings`.
        top_words: words shown of each topic, at least 1.

    Raises:
        ValueError: topics whose shapes do not agree, or no word to show.

    Example:
        >>> import tempfile
        >>> fitted = Topics([[0.75, 0.25]], [[0.1, 0.1]], ["ion", "pump"], [1.0])
        >>> with tempfile.TemporaryDirectory() as root:
        ...     write(
        ...         Path(root) / "report.html",
        ...         settings={"topics": 1},
        ...         corpus={"documents": 3, "tokens": 12, "vocabulary": 2},
        ...         versions={"jax": "0.10.2"},
        ...         metrics=[],
        ...         topics=fitted,
        ...     )
        ...     "pump" in (Path(root) / "report.html").read_text("utf-8")
        True
    """
    template = _environment().get_template("lda_report.html")
    html = template.render(
        settings=settings,
        corpus=corpus,
        versions=versions,
        last=metrics[-1] if metrics else {},
        charts=[
            {"title": title, "svg": _chart(metrics, key, label), "alternative": label}
            for key, title, label in (
                ("documents", "Over documents", "documents visited"),
                ("seconds", "Over time", "seconds of training"),
            )
            if any(_finite(record.get("perplexity")) for record in metrics)
        ],
        topics=_rows(topics, top_words),
        warnings=warnings,
    )
    output.write_text(path, html)


def _environment() -> jinja2.Environment:
    """Templates in which every value is escaped: words and file names may hold markup."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": _count, "duration": _duration, "value": _value}
    return environment


def _rows(topics: Topics, top_words: int) -> list[dict[str, object]]:
    """The topics, the most prevalent first, each with its most probable words."""
    mean, sd = np.asarray(topics.mean), np.asarray(topics.sd)
    prevalence = np.asarray(topics.prevalence)
    expected = (prevalence.size, len(topics.vocabulary))
    if mean.shape != expected or sd.shape != expected:
        raise ValueError(
            f"topics: mean {mean.shape} and sd {sd.shape} must both have the shape {expected} "
            "of prevalence and vocabulary"
        )
    if top_words < 1:
        raise ValueError(f"top_words must be at least 1, got {top_words}")
    spread = np.nan_to_num(sd)  # without a second sample there is no deviation to show
    order = np.argsort(-mean, axis=1, kind="stable")[:, :top_words]
    scale = float(mean.max())
    return [
        {
            "number": int(k),
            "prevalence": float(prevalence[k]),
            "prevalence_bar": 100 * float(prevalence[k] / prevalence.max()),
            "words": [
                {
                    "word": topics.vocabulary[w],
                    "mean": float(mean[k, w]),
                    "sd": float(sd[k, w]),
                    "bar": 100 * float(mean[k, w]) / scale,
                    "low": 100 * max(float(mean[k, w] - spread[k, w]), 0.0) / scale,
                    "high": 100 * min(float(mean[k, w] + spread[k, w]) / scale, 1.0),
                }
                for w in order[k]
            ],
        }
        for k in np.argsort(-prevalence, kind="stable")
    ]


def _chart(metrics: Sequence[Mapping[str, float | None]], key: str, label: str) -> str:
    """Perplexity against one column of the metrics, as an SVG element."""
    style = matplotlib.rc_context(
        {
            "svg.fonttype": "none",  # text stays text, in the fonts of the page
            "svg.hashsalt": key,  # the same data give the same bytes
            "axes.edgecolor": "#9aa5ad",
            "text.color": "#4a5560",
            "axes.labelcolor": "#4a5560",
            "xtick.color": "#4a5560",
            "ytick.color": "#4a5560",
            "font.size": 10,
        }
    )
    with style:
        figure = Figure(figsize=(5.6, 3.3), layout="constrained")
        axes = figure.add_subplot()
        curves = (
            ("perplexity", "one sample", "#8fb8bb", 1.4),
            ("perplexity_average", "average of samples", "#0b6e75", 2.2),
        )
        for name, legend, colour, width in curves:
            points = [
                (record[key], record[name]) for record in metrics if _finite(record.get(name))
            ]
            if points:
                marker = "o" if len(points) < 25 else None
                x, y = zip(*points, strict=True)
                axes.plot(x, y, color=colour, lw=width, marker=marker, ms=3.5, label=legend)
        axes.set_xlabel(label)
        axes.set_ylabel("held-out perplexity")
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.12g}"))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.12g}"))
        axes.grid(axis="y", color="#e4e8ea", lw=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    svg = buffer.getvalue()
    unique = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{key}-", svg)  # on a page of two charts
    return unique[unique.index("<svg") :]


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _count(number: float | None) -> str:
    return f"{number:,.0f}" if number is not None and math.isfinite(number) else "–"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _value(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)
