"""Regression of topic proportions on document covariates, over draws from their posterior."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simplex_jax._src.corpus import frames, to_vocabulary
from simplex_jax._src.corpus.corpus import printable
from simplex_jax._src.evaluate import composition, covariates, plots
from simplex_jax._src.evaluate.covariates import Design, Term
from simplex_jax._src.extras import needed
from simplex_jax._src.models.lda.draws import DrawOptions, doubts, shares_of, titles_of
from simplex_jax._src.models.lda.fitting import Fit
from simplex_jax._src.models.topics.data import as_data, in_memory
from simplex_jax._src.models.topics.editing import summed
from simplex_jax._src.options import option, options
from simplex_jax._src.report.display import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEW_DOCUMENTS = 5
_HIGH = 0.5  # leverage; at 0.9, of one number far from all others, 95% intervals cover 55%
_SHOWN = 12  # topics in a plot


def _columns(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else value
    return tuple(map(str, names))


@options
class Question(DrawOptions):
    """Options of a regression on covariates."""

    by: Any = option(
        "Names of the columns to regress on, together.",
        default=None,
        check=_columns,
        unset="all",
        command=False,
    )
    every: float | None = option(
        "Group numbers, or dates by year, into bins of this width: 10 for decades.",
        default=None,
        unset="a line or curve",
    )
    smooth: int = option(
        "Degrees of freedom for numbers and dates: 1 for a line, more for a natural cubic spline.",
        default=1,
        least=1,
    )

    def __post_init__(self) -> None:
        if self.every is not None and self.smooth > 1:
            raise ValueError(
                "every groups numbers and dates, and smooth fits curves to them: give one of the "
                "two"
            )


class Effects(NamedTuple):
    """Topic proportions by covariates, over the posterior.

    Attributes:
        terms: The means, differences and slope of each column.
        mean: Posterior means, float64 [K, L], in the order of the terms.
        sd: Posterior standard deviations.
        lower: Lower ends of the central intervals.
        upper: Upper ends.
        level: Probability of the intervals.
        documents: Number of documents used.
        draws: Number of draws of topics and proportions, over all chains.
        titles: Number and leading words of each topic.
        prevalence: Share of the training tokens in each topic, [K].
        warnings: Sentences, each a reason for care.
    """

    terms: tuple[Term, ...]
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    documents: int
    draws: int
    titles: tuple[str, ...]
    prevalence: np.ndarray
    warnings: tuple[str, ...]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a record for each topic and term.

        Its keys are topic, column, term, kind, mean, sd, lower, upper, level (the probability of
        the interval) and ordered (whether the column has numbers, dates or ranges of them). A term
        is `party=R`, of the kind "mean", `party: R - D`, a "difference", or `year: slope`, a
        "slope". To make a data frame: `pandas.DataFrame(effects.rows())`.
        """
        for topic in range(len(self.mean)):
            for place, term in enumerate(self.terms):
                joint = "=" if term.kind == "mean" else ": "
                numbers = {name: getattr(self, name)[topic, place] for name in _NUMBERS}
                name = f"{term.column}{joint}{term.label}"
                told = {"column": term.column, "term": name, "kind": term.kind}
                how = {"level": self.level, "ordered": term.ordered}
                yield {"topic": topic, **told, **numbers, **how}

    def plot(self, topics: Sequence[int] | None = None) -> "Figure":
        """Plot the mean proportions by each covariate: points for groups, a band for numbers.

        Args:
            topics: Topics to plot; by default the 12 most prevalent.

        Returns:
            A figure to show or save: `effects.plot().savefig("shares.svg")`.
        """
        # Imported here because matplotlib is slow to import.
        with needed("the plot of effects"):
            from matplotlib.figure import Figure

        if topics is None:
            topics = np.argsort(-self.prevalence, kind="stable")[:_SHOWN].tolist()
        names = list(dict.fromkeys(term.column for term in self.terms))
        across = len(names) if len(names) > 1 else min(3, len(topics))
        panels = [(topic, name) for topic in topics for name in names]
        down = -(-len(panels) // across)
        figure = Figure(figsize=(4.2 * across, 2.7 * down), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes in grid[len(panels) :]:
            axes.remove()
        for axes, (topic, name) in zip(grid, panels, strict=False):
            chosen = [
                (place, term)
                for place, term in enumerate(self.terms)
                if term.column == name and term.kind == "mean"
            ]
            places = [place for place, _ in chosen]
            plots.shares_by(
                np.array([term.place for _, term in chosen]),
                *(values[topic, places] for values in (self.mean, self.lower, self.upper)),
                labels=[term.label for _, term in chosen] if chosen[0][1].grouped else None,
                name=name,
                axes=axes,
            )
            axes.spines[["top", "right"]].set_visible(False)
            title = self.titles[topic]
            axes.set_title(title, fontsize="small", loc="left", parse_math=False)
        return figure


_NUMBERS = ("mean", "sd", "lower", "upper")


def joined(known: Sequence[dict[str, Any]], more: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records of effects with those of columns that are new or were estimated again."""
    columns = {record["column"] for record in more}
    return [*(record for record in known if record["column"] not in columns), *more]


def effects(
    fitted: Fit,
    corpus: Any,
    columns: Any,
    question: Question,
    *,
    progress: Callable[[str, int, int], None] = lambda task, done, total: None,
    watch: Callable[[int, np.ndarray], None] = lambda chain, shares: None,
) -> Effects:
    """Regress the topic proportions of documents on covariates; see `lda.effects`.

    `watch` is called with the chain and the proportions of each draw, as `shares_of` yields them.
    """
    documents = in_memory(as_data(corpus, fitted.vocabulary))
    counts = to_vocabulary(documents, fitted.vocabulary).corpus.counts
    total = counts.shape[0]
    worded = np.flatnonzero(np.diff(counts.indptr))
    named = frames.columns_of(columns)
    frames.check_order(corpus, named)
    selected = {name: named[name] for name in named if question.by is None or name in question.by}
    for name, values in selected.items():
        if not isinstance(values, Sized):
            raise ValueError(f"column {name!r} must have a value for each of {total} documents")
        if len(values) != total:
            raise ValueError(
                f"column {name!r} has {len(values)} values for {total} documents: give one each"
            )
    parsed = {name: covariates.column(name, values) for name, values in selected.items()}
    design = covariates.design(
        {name: column.taken(worded) for name, column in parsed.items()},
        question.by,
        every=question.every,
        smooth=question.smooth,
        available=list(named),
    )
    parts = fitted.as_trained().parts
    means, errors = [], []
    contrasts = np.stack([term.row for term in design.terms])
    regression = composition.Regression(design.matrix, contrasts)
    for chain, shares in shares_of(fitted, counts[worded][design.rows], question, progress):
        estimate = regression.of(summed(shares, parts))
        # As everywhere, only chains that have a topic contribute to its results.
        means.append(np.where(~fitted.shared[chain][:, None], np.nan, estimate.mean))
        errors.append(estimate.error)
        watch(chain, shares)
    draws = len(means)
    pooled = composition.pool(
        np.stack(means), np.stack(errors), estimate.freedom, level=question.level
    )
    return Effects(
        terms=design.terms,
        **pooled._asdict(),
        level=question.level,
        documents=len(design.rows),
        draws=draws,
        titles=titles_of(fitted),
        prevalence=fitted.prevalence,
        warnings=tuple(
            _warnings(
                fitted, design, total, len(worded), draws, documents.names, worded[design.rows]
            )
        ),
    )


def _warnings(
    fitted: Fit,
    design: Design,
    total: int,
    worded: int,
    draws: int,
    names: Sequence[str],
    rows: np.ndarray,
) -> Iterator[str]:
    if empty := total - worded:
        yield f"{counted(empty, 'document')} without a word of the model left out"
    if missing := worded - len(design.rows):
        yield f"{counted(missing, 'document')} with a missing covariate left out"
    small = [
        f"{term.column}={term.label}" for term in design.terms if 0 < term.size < _FEW_DOCUMENTS
    ]
    if small:
        shown = ", ".join(small[:5]) + (", ..." if len(small) > 5 else "")
        yield f"fewer than {_FEW_DOCUMENTS} documents are in {shown}: their intervals are rough"
    leverage = (design.matrix**2).sum(axis=1)
    high = np.flatnonzero(leverage > _HIGH)
    if high.size and not all(term.grouped or term.kind == "difference" for term in design.terms):
        most = int(high[np.argmax(leverage[high])])
        decide = "decides" if high.size == 1 else "decide"
        yield (
            f"{counted(high.size, 'document')} with numbers far from all others, such as "
            f"{printable(names[rows[most]])!r} (leverage {leverage[most]:.2f}), nearly {decide} "
            "the fit alone, and intervals are too narrow: check the numbers, group them (every, "
            "--every), or give their logarithms"
        )
    yield from doubts(fitted, draws)
