"""Correlations of topics over documents: which rise and fall together.

The proportions of a document sum to 1, so that if one topic takes more of it, less is left for all
others: their plain correlations are negative, about -1 / (K - 1), even if topics have nothing to do
with each other. Compared instead is the proportion of one topic with the share of another in the
rest of the document,

    r = corr(theta_i, theta_j / (1 - theta_i)),

averaged over both directions. For every Dirichlet distribution, whose proportions depend on each
other through their sum alone, the two are independent (Connor and Mosimann 1969: it is neutral), so
that r = 0. Logarithms of ratios, as in centred log-ratios, would be those of proportions near 0,
which say only that a topic is absent, and are nearly all that most documents have.

Each r is that of proportions drawn from their posterior, in each kept draw of the topics, and its
error that of a sample of D documents, by its influence function; the posterior is the mixture over
the draws on the scale of Fisher's z, as for `composition.pool`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.evaluate import composition
from simplex_jax._src.extras import needed
from simplex_jax._src.models.lda.draws import DrawOptions, doubts, shares_of, titles_of
from simplex_jax._src.models.topics.editing import summed
from simplex_jax._src.models.topics.proportions import counts_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_FEW_TOKENS = 50
_LEAST = 5  # documents
_SHOWN = 40  # topics in a picture
NUMBERS = ("mean", "lower", "upper")
"""The numbers of a pair."""


class Correlations(NamedTuple):
    """Correlations of topics over documents.

    Attributes:
        mean: Posterior means, float64 [K, K], symmetric; NaN of a topic with itself, or without a
            chain that has both.
        lower: Lower ends of the central intervals.
        upper: Upper ends.
        level: Probability of the intervals.
        documents: Number of documents used.
        draws: Number of draws of topics and proportions, over all chains.
        titles: Number and leading words of each topic.
        prevalence: Share of the training tokens in each topic, [K].
        warnings: Sentences, each a reason for care.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    documents: int
    draws: int
    titles: tuple[str, ...]
    prevalence: np.ndarray
    warnings: tuple[str, ...]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a record for each pair of topics: first, second, mean, lower, upper, level.

        To make a data frame: `pandas.DataFrame(correlations.rows())`.
        """
        for first, second in zip(*np.triu_indices(len(self.mean), k=1), strict=True):
            numbers = {n: float(getattr(self, n)[first, second]) for n in NUMBERS}
            if np.isfinite(numbers["mean"]):
                yield {"first": int(first), "second": int(second), **numbers, "level": self.level}

    def plot(self, topics: Sequence[int] | None = None) -> "Figure":
        """Plot the table, topics that rise and fall together side by side.

        A dot marks pairs whose interval does not hold 0.

        Args:
            topics: Topics to plot, in this order; by default the 40 most prevalent.

        Returns:
            A figure to show or save: `correlations.plot().savefig("correlations.svg")`.
        """
        with needed("the plot of correlations"):
            from matplotlib.figure import Figure

        chosen = placed(self.mean, self.prevalence) if topics is None else list(topics)
        own = np.ix_(chosen, chosen)
        mean, apart = self.mean[own], (self.lower[own] > 0) | (self.upper[own] < 0)
        side = 2.5 + 0.22 * len(chosen)
        figure = Figure(figsize=(side + 1.5, side), layout="constrained")
        axes = figure.subplots()
        most = max(0.05, float(np.nanmax(np.abs(mean), initial=0.05)))
        image = axes.imshow(mean, cmap="RdBu_r", vmin=-most, vmax=most)
        rows, columns = np.nonzero(apart)
        axes.plot(columns, rows, "k.", ms=3)
        axes.set_xticks(range(len(chosen)), [str(k) for k in chosen], fontsize="x-small")
        axes.set_yticks(range(len(chosen)))
        axes.set_yticklabels([self.titles[k] for k in chosen], fontsize="x-small", parse_math=False)
        figure.colorbar(image, ax=axes, label="correlation over documents", shrink=0.8)
        return figure


def placed(mean: np.ndarray, prevalence: np.ndarray, most: int = _SHOWN) -> list[int]:
    """Return the most prevalent topics, in an order that puts correlated ones side by side."""
    from scipy.cluster import hierarchy  # here, since it is slow to import
    from scipy.spatial.distance import squareform

    chosen = np.sort(np.argsort(-prevalence, kind="stable")[:most])
    if len(chosen) < 3:
        return chosen.tolist()
    apart = 1 - np.nan_to_num(mean[np.ix_(chosen, chosen)])
    np.fill_diagonal(apart, 0)
    tree = hierarchy.linkage(squareform(apart, checks=False), "average", optimal_ordering=True)
    return chosen[hierarchy.leaves_list(tree)].tolist()


class Pairs:
    """The correlations of a fit's topics, gathered draw by draw of the proportions."""

    def __init__(self, fitted: Any) -> None:
        self._fitted = fitted
        self._means: list[np.ndarray] = []
        self._errors: list[np.ndarray] = []
        self._documents = 0
        parts = fitted.as_trained().parts
        # Topics that are left out are a part of the rest of a document.
        self._groups = [*parts, tuple(fitted.dropped)] if fitted.dropped else [*parts]
        if len(self._groups) < 3:
            raise ValueError(
                "with two topics one rises as the other falls: correlations need three or more"
            )
        self._pairs = np.triu_indices(len(parts), k=1)

    @staticmethod
    def possible(fitted: Any, documents: int) -> bool:
        """Return whether there are topics and documents enough."""
        return fitted.num_topics + bool(fitted.dropped) > 2 and documents >= _LEAST

    def add(self, chain: int, shares: np.ndarray) -> None:
        """Add a draw of a chain: proportions [D, k] of topics as trained."""
        self._documents = len(shares)
        if len(shares) < _LEAST:
            raise ValueError(
                f"correlations need {_LEAST} documents or more with a word of the model; there are "
                f"{len(shares)}"
            )
        r, error = (np.asarray(x, np.float64) for x in _correlate(summed(shares, self._groups)))
        r, error = r[self._pairs], error[self._pairs]
        has = self._fitted.shared[chain]
        first, second = self._pairs
        known = has[first] & has[second] & np.isfinite(r)
        inside = np.clip(r, -1 + 1e-6, 1 - 1e-6)
        self._means.append(np.where(known, np.arctanh(inside), np.nan))
        self._errors.append(np.where(known, error / (1 - inside**2), 0.0))

    def result(self, level: float, warnings: Sequence[str] = ()) -> Correlations:
        """Return the correlations over all draws."""
        fitted, means, errors = self._fitted, np.stack(self._means), np.stack(self._errors)
        known = np.isfinite(means).any(axis=0)
        freedom = max(3, self._documents - 3)
        pooled = composition.pool(means[:, known], errors[:, known], freedom, level=level)
        first, second = (rows[known] for rows in self._pairs)

        def table(values: np.ndarray) -> np.ndarray:
            result = np.full((fitted.num_topics, fitted.num_topics), np.nan)
            result[first, second] = result[second, first] = np.tanh(values)
            return result

        return Correlations(
            mean=table(pooled.mean),
            lower=table(pooled.lower),
            upper=table(pooled.upper),
            level=level,
            documents=self._documents,
            draws=len(means),
            titles=titles_of(fitted),
            prevalence=fitted.prevalence,
            warnings=tuple(warnings),
        )


def _relative(shares: jax.Array, rest: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return shares of the rest, by document along the last axis, and of which they are known.

    With small concentrations a rest can underflow to 0. It says nothing of its parts, so that they
    are taken to be the mean over the other documents.
    """
    known = rest >= jnp.finfo(rest.dtype).tiny
    parts = shares / jnp.where(known, rest, 1)
    return jnp.where(known, parts, _mean(parts, known)), known


def _mean(x: jax.Array, known: jax.Array) -> jax.Array:
    return jnp.mean(x, axis=-1, keepdims=True, where=known)


@jax.jit
def _correlate(shares: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the correlations of shares [D, K] over documents, and their errors, [K, K].

    The error is that of the average of both directions, from the influence of each document.
    """
    documents = shares.shape[0]
    # Sums of all others, each added up by itself: 1 minus a share near 1 would be rounding.
    zero = jnp.zeros((documents, 1), shares.dtype)
    left = jnp.concatenate([zero, jnp.cumsum(shares, axis=1)[:, :-1]], axis=1)
    right = jnp.concatenate([jnp.cumsum(shares[:, :0:-1], axis=1)[:, ::-1], zero], axis=1)
    # Documents come last, since XLA sums along the last axis several times as fast.
    rest = (left + right).T
    shares = shares.T
    topics = jnp.arange(len(shares))

    def centred(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        mean = jnp.mean(x, axis=1)
        apart = x - mean[:, None]
        return mean, jnp.sqrt(jnp.mean(apart**2, axis=1)), apart

    _, deviation, apart = centred(shares)
    own = apart / deviation[:, None]

    def one_way(topic: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        mean, sd, apart = centred(_relative(shares, rest[topic])[0])
        return mean, sd, jnp.mean(own[topic] * apart, axis=1) / sd

    # By the topic with which others are compared, and the others.
    mean, sd, r = jax.lax.map(one_way, topics)

    def error(topic: jax.Array) -> jax.Array:
        influence = jnp.zeros_like(shares)
        for x, (ratio, known), at in (
            (own[topic], _relative(shares, rest[topic]), (topic,)),
            (own, _relative(shares[topic], rest), (slice(None), topic)),
        ):
            y = (ratio - mean[at][:, None]) / sd[at][:, None]
            # y is 0 where it is not known, so that only the others have a part in the product.
            influence += (x - _mean(x, known)) * y - r[at][:, None] * (x**2 + y**2) / 2
        return jnp.sqrt(jnp.mean((influence / 2) ** 2, axis=1) / (documents - 1))

    return (r + r.T) / 2, jax.lax.map(error, topics)


def correlate(
    fitted: Any,
    corpus: Any,
    asked: DrawOptions,
    progress: Callable[[str, int, int], None] = lambda task, done, total: None,
) -> Correlations:
    """Return the correlations of topics over documents; see `Fit.correlate`."""
    counts = counts_of(corpus, fitted)
    worded = counts[np.flatnonzero(np.diff(counts.indptr))]
    pairs = Pairs(fitted)
    for chain, shares in shares_of(fitted, worded, asked, progress):
        pairs.add(chain, shares)
    result = pairs.result(asked.level)
    length = worded.sum() / max(worded.shape[0], 1)
    return result._replace(warnings=tuple(_warnings(fitted, result.draws, length)))


def _warnings(fitted: Any, draws: int, length: float) -> Iterator[str]:
    if length < _FEW_TOKENS:
        yield (
            f"documents have {length:.0f} tokens in the mean, which leave their proportions "
            "uncertain: correlations are nearer to 0 than those of longer documents would be"
        )
    yield from doubts(fitted, draws)
