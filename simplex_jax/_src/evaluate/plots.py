"""Plots of chains, posteriors and topics. Each function draws on axes and returns them.

Without `axes`, `matplotlib.pyplot` makes a new figure, `axes.figure`. Names, words and labels are
drawn literally: a dollar sign does not start a formula.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate import compare, diagnostics
from simplex_jax._src.evaluate.coherence import top_words
from simplex_jax._src.evaluate.diagnostics import finite
from simplex_jax._src.evaluate.intervals import beta_interval, normal_interval
from simplex_jax._src.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "comparison",
    "perplexity",
    "sparse_boxplots",
    "sphere",
    "topic_intervals",
    "trace",
    "triangle",
]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Colours that colour-blind readers can distinguish (Okabe and Ito)."""

_SOFT = "#666666"
_LABELS, _ROOM = 12, 40  # most labels on an axis, and letters that fit side by side


def trace(samples: ArrayLike, name: str = "", axes: "Axes | None" = None) -> "Axes":
    """Plot the trace of a scalar, a line for each chain, with R-hat and effective sample size.

    Args:
        samples: [chains, samples], or [samples] of a single chain.
        name: Name of the scalar.
        axes: Where to draw.

    Raises:
        ValueError: The samples have more than two axes.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.evaluate import plots
        >>> axes = plots.trace(np.random.default_rng(0).normal(size=(4, 100)), "log weight")
        >>> len(axes.lines)
        4
    """
    chains = np.atleast_2d(np.asarray(samples, np.float64))
    summary = diagnostics.summary({name: chains})[name]
    axes = _axes(axes)
    for number, chain in enumerate(chains):
        axes.plot(chain, color=COLOURS[number % len(COLOURS)], lw=0.7, alpha=0.8)
    numbers = [("R-hat", "rhat", ".3f"), ("effective size", "ess", ",.0f")]
    title = [
        f"{label} {summary[key]:{form}}" for label, key, form in numbers if finite(summary[key])
    ]
    axes.set_title(", ".join(title), loc="right", fontsize="small", color=_SOFT)
    axes.set_xlabel("sample")
    axes.set_ylabel(name, parse_math=False)
    axes.margins(x=0.01)
    return axes


def sparse_boxplots(
    log_p: ArrayLike | Mapping[str, ArrayLike],
    names: Sequence[str] | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """Draw box plots of the log-probabilities of each category, labelled in powers of ten.

    Boxes cover half of the samples, whiskers 95%; outliers are not drawn. The log scale shows how a
    sampler treats categories that are nearly zero.

    Args:
        log_p: Log-probabilities [n, K]; or several such samples by name, to compare them.
        names: Names of the categories.
        axes: Where to draw.

    Raises:
        ValueError: The samples are not [n, K] with one K.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> from simplex_jax.evaluate import plots
        >>> log_p = draws.log_dirichlet(jax.random.key(0), jnp.array([0.01, 1.0]), (500,))
        >>> axes = plots.sparse_boxplots({"exact": log_p}, names=["rare", "common"])
        >>> [tick.get_text() for tick in axes.get_xticklabels()]
        ['rare', 'common']
    """
    samples = log_p if isinstance(log_p, Mapping) else {"": log_p}
    arrays = {name: np.asarray(array, np.float64) / np.log(10) for name, array in samples.items()}
    if not arrays or len({array.shape[1:] for array in arrays.values()}) != 1:
        raise ValueError("log_p must be [n, K], or several of them with one K")
    categories = {array.shape[1] if array.ndim == 2 else 0 for array in arrays.values()}.pop()
    if categories == 0 or (names is not None and len(names) != categories):
        raise ValueError(f"log_p must be [n, K], with K names; K is {categories}")
    axes = _axes(axes)
    from matplotlib.ticker import MaxNLocator  # which is there if there are axes

    width = 0.8 / len(arrays)
    for number, (name, array) in enumerate(arrays.items()):
        colour = COLOURS[number % len(COLOURS)]
        shift = (number - (len(arrays) - 1) / 2) * width
        boxes = axes.boxplot(
            array,
            positions=np.arange(categories) + shift,
            widths=0.85 * width,
            whis=(2.5, 97.5),
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": colour, "alpha": 0.45, "edgecolor": colour},
            medianprops={"color": colour, "lw": 1.6},
            whiskerprops={"color": colour},
            capprops={"color": colour},
        )
        boxes["boxes"][0].set_label(name)
    labels = [str(j) for j in range(categories)] if names is None else names
    axes.set_xticks(range(categories), labels, parse_math=False)
    axes.set(xlim=(-0.6, categories - 0.4), ylabel="probability")
    axes.yaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$")
    axes.grid(axis="y", lw=0.5, alpha=0.5)
    if len(arrays) > 1:
        _legend(axes)
    return axes


def perplexity(
    metrics: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Mapping[str, Any]]],
    key: str = "passes",
    measure: str = "perplexity",
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot held-out perplexity during training: thin for one sample, thick for the average.

    Args:
        metrics: `Fit.metrics`, or those of several runs by name.
        key: Entry of a record for the x axis, such as "seconds", "passes" or "documents".
        measure: "perplexity", or "log_perplexity" for spherical models; the average is the entry
            with the suffix `_average`.
        axes: Where to draw.

    Raises:
        ValueError: No record has the measure, or one with the measure lacks the key.

    Example:
        >>> from simplex_jax.evaluate import plots
        >>> records = [{"passes": 1.0, "perplexity": 900.0}, {"passes": 2.0, "perplexity": 700.0}]
        >>> axes = plots.perplexity({"SCIR": records})
        >>> axes.get_ylabel()
        'held-out perplexity'
    """
    runs = metrics if isinstance(metrics, Mapping) else {"": metrics}
    axes = _axes(axes)
    for number, (name, records) in enumerate(runs.items()):
        colour = COLOURS[number % len(COLOURS)]
        curves = ((measure, 1.0, 0.6, "one sample"), (f"{measure}_average", 2.2, 1.0, "average"))
        for entry, width, alpha, kind in curves:
            points = [record for record in records if finite(record.get(entry))]
            if not all(key in record for record in points):
                raise ValueError(
                    f"key must be an entry of all records with {entry}; {key!r} is not"
                )
            if points:
                label = f"{name}, {kind}" if name else kind
                x, y = ([record[column] for record in points] for column in (key, entry))
                axes.plot(x, y, color=colour, lw=width, alpha=alpha, label=label)
    if not axes.lines:
        raise ValueError(f"no record has {measure}: fit with held-out documents")
    axes.set_xlabel({"seconds": "seconds of training"}.get(key, key), parse_math=False)
    axes.set_ylabel("held-out " + measure.replace("_", "-"), parse_math=False)
    axes.yaxis.set_major_formatter("{x:,.12g}")
    axes.grid(axis="y", lw=0.5, alpha=0.5)
    if len(axes.lines) > 1:
        _legend(axes)
    return axes


def topic_intervals(
    mean: ArrayLike,
    sd: ArrayLike,
    vocabulary: Sequence[str],
    *,
    top: int = 10,
    level: float = 0.95,
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot the top words of a topic with their credible intervals.

    Args:
        mean: Posterior mean of the topic's words, [V]: probabilities, or loadings of either sign.
        sd: Their posterior standard deviations, [V]; NaN if unknown, which draws no interval.
        vocabulary: The V words.
        top: Number of words: the most probable, or those with the largest loadings.
        level: Posterior probability of the intervals, those of a beta distribution for
            probabilities and of a normal one for loadings.
        axes: Where to draw.

    Raises:
        ValueError: The shapes do not fit.

    Example:
        >>> from simplex_jax.evaluate import plots
        >>> axes = plots.topic_intervals([0.5, 0.4, 0.1], [0.1, 0.05, 0.02], ["a", "b", "c"], top=2)
        >>> [tick.get_text() for tick in axes.get_yticklabels()]
        ['a', 'b']
    """
    means, deviations = np.asarray(mean, np.float64), np.asarray(sd, np.float64)
    if means.ndim != 1 or deviations.shape != means.shape or len(vocabulary) != len(means):
        raise ValueError(
            f"mean, sd and vocabulary must be of one length; they are {means.shape}, "
            f"{deviations.shape} and {len(vocabulary)}"
        )
    signed = bool((means < 0).any())
    (words,) = top_words(np.abs(means)[None], top)
    interval = normal_interval if signed else beta_interval
    lower, upper = interval(means[words], deviations[words], level)
    bars = np.isfinite(deviations[words])
    axes = _axes(axes)
    places = np.arange(len(words))
    axes.hlines(places[bars], lower[bars], upper[bars], color=COLOURS[0], lw=2.5, alpha=0.5)
    axes.plot(means[words], places, "o", color=COLOURS[0], ms=5)
    axes.set_yticks(places, [vocabulary[word] for word in words], parse_math=False)
    axes.set_ylim(len(words) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    if signed:
        axes.axvline(0, color=_SOFT, lw=0.8)
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel(f"{'loading' if signed else 'probability'}, with {100 * level:g}% interval")
    axes.grid(axis="x", lw=0.5, alpha=0.5)
    return axes


def shares_by(
    places: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    name: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot the mean share of a topic by a covariate: a line with a band, or points with bars.

    Args:
        places: Values of the covariate, or positions of groups, [n].
        mean: Mean shares, [n].
        lower: Lower ends of their intervals, [n].
        upper: Upper ends, [n].
        labels: Names of the groups; if there are many, only some are drawn. None for numbers.
        name: Name of the covariate.
        axes: Where to draw.

    Raises:
        ValueError: The lengths differ, or are 0.

    Example:
        >>> from simplex_jax.evaluate import plots
        >>> axes = plots.shares_by(
        ...     [0, 1], [0.2, 0.3], [0.1, 0.25], [0.3, 0.35], labels=["D", "R"], name="party")
        >>> [tick.get_text() for tick in axes.get_xticklabels()]
        ['D', 'R']
    """
    x, y, low, high = (np.asarray(a, np.float64) for a in (places, mean, lower, upper))
    if not (x.shape == y.shape == low.shape == high.shape and x.ndim == 1 and x.size) or (
        labels is not None and len(labels) != len(x)
    ):
        raise ValueError("places, mean, lower, upper and labels must be of one length, at least 1")
    axes = _axes(axes)
    if labels is None:
        axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.25, lw=0)
        axes.plot(x, y, color=COLOURS[0], lw=1.6)
        axes.margins(x=0)
    else:
        axes.vlines(x, low, high, color=COLOURS[0], lw=2.5, alpha=0.5)
        axes.plot(x, y, "o", color=COLOURS[0], ms=4)
        step = -(-len(x) // _LABELS)
        texts = [str(label) for label in labels[::step]]
        axes.set_xticks(x[::step], texts, parse_math=False)
        if sum(map(len, texts)) > _ROOM:
            axes.tick_params(axis="x", rotation=60)
    axes.set_xlabel(name, parse_math=False)
    axes.set(ylim=(min(0.0, low.min()), 1.05 * high.max()), ylabel="share")
    axes.grid(axis="y", lw=0.5, alpha=0.5)
    return axes


def curves(
    places: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    names: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    name: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot several quantities by time, as lines with bands, or by group, as points with bars.

    Args:
        places: Times, or positions of groups, [n].
        mean: Means of m quantities, [n, m].
        lower: Lower ends of their intervals, [n, m]; NaN for none.
        upper: Upper ends, [n, m].
        names: Names of the quantities, for the legend.
        labels: Names of the groups; None for times.
        name: What the quantities are.
        axes: Where to draw.
    """
    x, ends = np.asarray(places, np.float64), (np.asarray(lower), np.asarray(upper))
    axes = _axes(axes)
    for i, quantity in enumerate(names):
        colour, y = COLOURS[i % len(COLOURS)], np.asarray(mean)[:, i]
        if labels is None:
            axes.plot(x, y, color=colour, lw=1.6, label=quantity)
            axes.fill_between(x, ends[0][:, i], ends[1][:, i], color=colour, alpha=0.2, lw=0)
        else:
            beside = x + 0.1 * (i - (len(names) - 1) / 2)
            axes.plot(beside, y, "o", color=colour, ms=4, label=quantity)
            axes.vlines(beside, ends[0][:, i], ends[1][:, i], color=colour, lw=2, alpha=0.5)
    if labels is not None:
        axes.set_xticks(x, list(labels), rotation=60, parse_math=False)
    axes.set(ylabel=name, ylim=(0, None))
    axes.grid(axis="y", lw=0.5, alpha=0.5)
    _legend(axes)
    return axes


def comparison(
    entries: Sequence[compare.Entry],
    axes: "Sequence[Axes] | None" = None,
    *,
    heldout: str = "held-out perplexity",
    coherence: str = "coherence (NPMI)",
) -> np.ndarray:
    """Plot held-out measure and coherence against the number of topics, with standard errors.

    Args:
        entries: Results of `evaluate.compare`. Points are single fits.
        axes: Two axes to draw on.
        heldout: Name of the held-out measure.
        coherence: Name of the coherence.

    Returns:
        The two axes, an object array [2].

    Raises:
        ValueError: There are no entries.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import evaluate
        >>> from simplex_jax.evaluate import plots
        >>> def fit(k, seed):  # lda.fit(train, k, seed=seed, holdout=100, holdout_seed=0)
        ...     topics = np.random.default_rng(seed).dirichlet(np.ones(4), size=k)
        ...     return evaluate.Topics(topics, [{"perplexity_average": 4 / k + seed}])
        >>> entries = evaluate.compare(fit, [1, 2], np.ones((9, 4), int), repeats=2, top=2)
        >>> left, right = plots.comparison(entries)
        >>> left.get_xlabel()
        'topics'
    """
    if not entries:
        raise ValueError("entries must have at least one number of topics")
    pair = figure(columns=2) if axes is None else np.asarray(axes)
    sizes = [entry.num_topics for entry in entries]
    for panel, name, column in ((pair[0], heldout, "heldout"), (pair[1], coherence, "coherence")):
        values = [getattr(entry, column) for entry in entries]
        estimates = [compare.estimate(value) for value in values]
        for size, value in zip(sizes, values, strict=True):
            panel.plot([size] * len(value), value, ".", color=_SOFT, alpha=0.5, ms=5)
        panel.errorbar(
            sizes,
            [one.mean for one in estimates],
            yerr=[np.nan_to_num(one.error) for one in estimates],
            color=COLOURS[0],
            marker="o",
            ms=5,
            capsize=3,
        )
        panel.set_xscale("log")
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.set_xlabel("topics")
        panel.set_ylabel(name, parse_math=False)
        panel.yaxis.set_major_formatter("{x:,.12g}")
        panel.grid(axis="y", lw=0.5, alpha=0.5)
    return pair


def figure(columns: int = 1, width: float = 5.6, height: float = 3.6) -> np.ndarray:
    """Return the axes of a new figure, [columns], each `width` by `height` inches."""
    with needed("evaluate.plots"):
        from matplotlib import pyplot  # here, since it is slow to import, and selects a display

    size = (width * columns, height)
    _, axes = pyplot.subplots(1, columns, squeeze=False, figsize=size, layout="constrained")
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
    return axes[0]


def _axes(axes: "Axes | None") -> "Axes":
    return figure()[0] if axes is None else axes


def _legend(axes: "Axes") -> None:
    for text in axes.legend(frameon=False, fontsize="small").get_texts():
        text.set_parse_math(False)


_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
_GRID = 160  # grid points along a side, for a density
_BESIDE = np.array([0.0, 0.0, 0.35])


def triangle(
    probabilities: ArrayLike,
    *,
    log_density: Callable[[np.ndarray], ArrayLike] | None = None,
    names: Sequence[str] = ("1", "2", "3"),
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot samples on the simplex of three categories, as an equilateral triangle.

    Args:
        probabilities: [n, 3]; exponentiate log-probabilities first.
        log_density: `(probabilities [m, 3]) -> [m]`, up to a constant and with respect to the
            uniform distribution on the simplex; shaded behind the samples.
        names: Names of the three corners, where a category has probability 1.
        axes: Where to draw.

    Raises:
        ValueError: Not probabilities [n, 3], or not three names.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.evaluate import plots
        >>> p = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], size=100)
        >>> axes = plots.triangle(p, log_density=lambda p: np.log(p) @ [0.0, 1.0, 2.0])
        >>> axes.get_aspect()
        1.0
    """
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 2 or p.shape[1] != 3 or not (np.abs(p.sum(axis=1) - 1) < 1e-3).all():
        raise ValueError(f"probabilities must be [n, 3] with rows that sum to 1; not {p.shape}")
    if p.size and p.min() < -1e-3:
        raise ValueError(f"probabilities must be at least 0; the smallest is {p.min():.3g}")
    if len(names) != 3:
        raise ValueError(f"names must have three entries; it has {len(names)}")
    axes = _bare(axes)
    if log_density is not None:
        _shade(axes, log_density)
    axes.plot(*_CORNERS[[0, 1, 2, 0]].T, color="#444444", lw=1, solid_joinstyle="round")
    axes.scatter(*(p @ _CORNERS).T, **_dots(len(p)), color=COLOURS[0])
    for name, (x, y), below in zip(names, _CORNERS, (True, True, False), strict=True):
        up = "top" if below else "bottom"
        height = y - 0.03 if below else y + 0.03
        axes.text(x, height, name, va=up, ha="center", parse_math=False)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.96))
    return axes


def _shade(axes: "Axes", log_density: Callable[[np.ndarray], ArrayLike]) -> None:
    """Shade a density, evaluated at cell centres, which are never corners."""
    x, y = np.meshgrid((np.arange(_GRID) + 0.5) / _GRID, (np.arange(_GRID) + 0.5) / _GRID)
    points = np.stack([x.ravel(), y.ravel() * _CORNERS[2, 1]], axis=-1)
    third = points[:, 1] / _CORNERS[2, 1]
    second = points[:, 0] - third / 2
    p = np.stack([1 - second - third, second, third], axis=-1)
    inside = (p > 0).all(axis=1)
    values = np.full(len(p), np.nan)
    logs = np.asarray(log_density(p[inside]), np.float64)
    # If the density is infinite at an edge, only the highest cells would be visible.
    values[inside] = np.exp(np.minimum(logs - np.quantile(logs, 0.98), 0))
    extent = (0, 1, 0, _CORNERS[2, 1])
    picture = values.reshape(_GRID, _GRID)
    axes.imshow(picture, origin="lower", extent=extent, cmap="Greys", vmin=0, vmax=1.6, zorder=0)


def sphere(x: ArrayLike, *, centre: ArrayLike | None = None, axes: "Axes | None" = None) -> "Axes":
    """Plot unit vectors in space, seen from far away; those on the far side are faint.

    Args:
        x: Unit vectors [n, 3].
        centre: Direction from which they are seen, [3]; by default slightly off their mean, so that
            it is not at the centre.
        axes: Where to draw.

    Raises:
        ValueError: Not unit vectors [n, 3], or a centre without a direction.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.evaluate import plots
        >>> x = np.random.default_rng(0).normal(size=(100, 3))
        >>> axes = plots.sphere(x / np.linalg.norm(x, axis=1, keepdims=True))
        >>> axes.get_aspect()
        1.0
    """
    points = np.asarray(x, np.float64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"x must be unit vectors [n, 3]; its shape is {points.shape}")
    if not (np.abs(np.linalg.norm(points, axis=1) - 1) < 1e-3).all():
        raise ValueError("x must be unit vectors: divide them by their lengths")
    view = _view(points.mean(axis=0) + _BESIDE if centre is None else centre)
    axes = _bare(axes)
    angle = np.linspace(0, 2 * np.pi, 361)
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    for height in np.sin(np.deg2rad([-60, -30, 0, 30, 60])):
        _line(axes, (ring * np.sqrt(1 - height**2) + [0, 0, height]) @ view.T)
    for longitude in np.deg2rad(np.arange(0, 180, 30)):
        meridian = np.array([np.cos(longitude), np.sin(longitude), 0.0])
        _line(axes, (ring[:, :1] * meridian + ring[:, 1:2] * [0, 0, 1]) @ view.T)
    axes.plot(np.cos(angle), np.sin(angle), color="#444444", lw=1)
    projected = points @ view.T
    front = projected[:, 2] >= 0
    for part, colour in ((~front, "#9bbcd6"), (front, COLOURS[0])):
        axes.scatter(*projected[part, :2].T, **_dots(len(points)), color=colour)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    return axes


def _view(direction: ArrayLike) -> np.ndarray:
    """Return the rotation of a direction to the third axis, towards the viewer, with z up."""
    normal = np.asarray(direction, np.float64)
    length = np.linalg.norm(normal)
    if normal.shape != (3,) or not 0 < length < np.inf:
        raise ValueError(f"centre must be a direction, [3]; it is {direction}")
    normal = normal / length
    up = np.array([0.0, 0.0, 1.0]) if abs(normal[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, normal)
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(normal, right), normal])


def _line(axes: "Axes", curve: np.ndarray) -> None:
    """Draw the near side of a curve."""
    visible = np.where(curve[:, 2:] >= 0, curve[:, :2], np.nan)
    axes.plot(*visible.T, color="#cccccc", lw=0.6, zorder=0)


def _dots(n: int) -> dict[str, Any]:
    """Return size and opacity for n dots: the more dots, the smaller and fainter."""
    crowd = min(max(n / 200, 1.0), 50.0)
    return {"s": 16 / crowd**0.5, "alpha": max(0.8 / crowd**0.4, 0.12), "linewidths": 0}


def _bare(axes: "Axes | None") -> "Axes":
    if axes is None:
        (axes,) = figure(width=4.2, height=4.0)
    axes.set_aspect(1)
    axes.set_axis_off()
    return axes
