"""What a run of the hierarchical Dirichlet process gathers, and summaries of its samples."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self, overload

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.evaluate import matching, partitions
from simplex_jax._src.models.hdp.kernel import State
from simplex_jax._src.models.hdp.options import Options
from simplex_jax._src.models.heldout import measured, metrics
from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.models.topics.data import Size
from simplex_jax._src.models.topics.evaluation import Completion
from simplex_jax._src.models.topics.fits import Draw
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.gathering import Gathered, Kept, Posterior
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.session import Records
from simplex_jax._src.runtime.windows import window_of

TRACED = ("alpha", "gamma", "topics")
"""Label-invariant quantities, comparable between chains and samples."""

_SAME = 0.7  # of counts of one sample, which are noisier than posterior means (`matching.SAME`)


def gather(settings: Options, heldout: bool) -> Posterior:
    """Return the hook that gathers the traces, including the log predictive if it is measured."""
    chains = settings.chains
    names = [*TRACED, "log_predictive"] if heldout else TRACED

    def sample(event: Event) -> gathering.Sample:
        traced = _numbers(event, chains)
        return gathering.Sample({name: traced[name] for name in ("alpha", "gamma")}, {}, traced)

    def evaluated(event: Event) -> dict[str, np.ndarray]:
        return {"log_predictive": -np.log(measured(event, "perplexity", chains))} if heldout else {}

    def make() -> Gathered:
        moments = {name: Moments((chains,)) for name in ("alpha", "gamma")}
        return Gathered(moments, dict.fromkeys(names, (chains,)))

    return Posterior(sample, make, window_of(settings), evaluated)


def _numbers(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the traced numbers of an event, [C] each."""
    return {
        "alpha": np.asarray(event.state.alpha, np.float64).reshape(chains),
        "gamma": np.asarray(event.state.gamma, np.float64).reshape(chains),
        "topics": np.asarray(event.info.topics).reshape(chains),
    }


def read(event: Event, chains: int) -> dict[str, np.ndarray]:
    """Return the sample of an event: labels [C, T], and concentrations alpha b [C, K]."""
    state: State = event.state
    _, concentrations = topics_of(state)
    return {
        "labels": np.asarray(state.labels).reshape(chains, -1),
        "concentrations": np.asarray(concentrations).reshape(chains, -1),
    }


def topics_of(state: State) -> tuple[jax.Array, jax.Array]:
    """Return log topics and concentrations of document shares; chains are the first axis."""
    return state.position, state.alpha[..., None] * jnp.exp(state.log_weights)


def keep(settings: Options) -> Kept:
    """Return the hook that keeps thinned samples, in memory."""
    assert settings.keep_samples is not None  # settled
    return Kept(
        lambda event: read(event, settings.chains), settings.keep_samples, window_of(settings), None
    )


def held_out(data: Completion, key: jax.Array, settings: Options) -> evaluation.Evaluation:
    """Return the hook that measures the perplexity of held-out documents.

    Topics outside the state predict nothing: they weigh less than one token.
    """
    window = window_of(settings)
    return evaluation.Evaluation(data, key, settings.chains, window, settings.engine, topics_of)


def records(settings: Options, size: Size) -> Records:
    """Return the hook that records evaluations: traces, throughput, share of waiting documents."""
    chains = settings.chains

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        record: dict[str, float] = {
            "tokens_per_second": round(passes * size.tokens / max(event.seconds, 1e-9)),
            "capacity": int(event.state.counts.shape[-2]),
            "waited": float(np.mean(np.asarray(event.info.waited))),
        }
        for name, values in _numbers(event, chains).items():
            record[name] = float(values.mean())
            record |= zip(metrics(name, chains), map(float, values), strict=True)
        return record

    return Records(size.documents, size.documents, measure)


# Topics of posterior samples, reported or not, to predict documents with.

_INTEGERS = ("data", "indices", "indptr", "reported", "ends", "reference")
NAMES = (*_INTEGERS, "alpha", "unseen")
"""The arrays of a file of draws."""


@dataclasses.dataclass(frozen=True, eq=False)
class Draws(Sequence[Draw]):
    """Topics of M posterior samples: N topics in all, those of a sample one below the other.

    A sample also has topics without tokens, which predict all words alike.
    """

    counts: sp.csr_array  # tokens of each topic and word, int32 [N, V]
    alpha: np.ndarray  # concentration of each topic in the proportions of a document, float64 [N]
    reported: np.ndarray  # the topic of the fit that each is, int32 [N]; -1 if not reported
    ends: np.ndarray  # number of topics of each sample and all before it, int64 [M]
    unseen: np.ndarray  # concentration of all topics without tokens, float64 [M]
    reference: np.ndarray  # the sample whose topics are reported, int64 [1]; -1 if it is left out
    beta: float  # concentration of words

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> Draw: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Draw]: ...

    def __getitem__(self, index: int | slice) -> Draw | Sequence[Draw]:
        """Return the topics of a sample given its labels, in as many rows as those of the others.

        Given the labels a topic is Dirichlet(beta + n), of which this is the mean.
        """
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        end = self.ends[index]
        first = self.ends[index - 1] if index % len(self) else 0
        own, words = end - first, self.counts.shape[1]
        rows = int(np.diff(self.ends, prepend=0).max()) + 1
        topics = np.zeros((rows, words), np.float32)
        topics[:own] = self.counts[first:end].toarray()
        topics += self.beta
        topics /= topics.sum(axis=1, keepdims=True)
        alpha, reported = np.zeros(rows), np.full(rows, -1, np.int32)
        alpha[: own + 1] = *self.alpha[first:end], self.unseen[index]
        reported[:own] = self.reported[first:end]
        return Draw(topics, alpha, reported)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a file of draws, by name."""
        counts = {name: getattr(self.counts, name) for name in ("data", "indices", "indptr")}
        return counts | {name: getattr(self, name) for name in NAMES if name not in counts}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, np.ndarray], beta: float, words: int, topics: int
    ) -> Self:
        """Return the draws of `arrays`, of V words, for a fit of K topics.

        Numbers that contradict each other raise a ValueError.
        """
        for name in NAMES:
            kind = "i" if name in _INTEGERS else "f"
            if arrays[name].dtype.kind != kind or arrays[name].ndim != 1:
                raise ValueError(f"{name} has the wrong type")
        ends, alpha, reported = arrays["ends"], arrays["alpha"], arrays["reported"]
        shape = (len(alpha), words)
        counts = sp.csr_array(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape, dtype=np.int32
        )
        counts.check_format()
        sound = (
            len(reported) == len(alpha)
            and len(arrays["unseen"]) == len(ends) > 0
            and (np.diff(ends, prepend=0) > 0).all()
            and ends[-1] == len(alpha)
            and (counts.data > 0).all()
            and ((reported >= -1) & (reported < topics)).all()
            and arrays["reference"].shape == (1,)
            and -1 <= arrays["reference"][0] < len(ends)
            and all((x > 0).all() and np.isfinite(x).all() for x in (alpha, arrays["unseen"]))
        )
        if not sound:
            raise ValueError("numbers out of range")
        return cls(counts, alpha, reported, ends, arrays["unseen"], arrays["reference"], beta)

    def joined(self, topic: int) -> "Joined":
        """Return what each sample says of a topic that is reported, of one or more of its own.

        Given the labels, topics are independent with distributions Dirichlet(beta + n), and one
        that was merged is their mixture by their tokens.
        """
        samples, words = len(self), self.counts.shape[1]
        topics, variances = np.zeros((2, samples, words))
        prevalence, alpha = np.zeros((2, samples))
        tables = np.zeros((samples, words), np.float32)
        first = 0
        for sample, end in enumerate(self.ends):
            own = first + np.flatnonzero(self.reported[first:end] == topic)
            if own.size:
                rows = self.counts[own].toarray().astype(np.float64)
                sizes = rows.sum(axis=1)
                weights = (sizes / sizes.sum())[:, None]
                totals = (sizes + self.beta * words)[:, None]
                means = (rows + self.beta) / totals
                topics[sample] = (weights * means).sum(axis=0)
                variances[sample] = (weights**2 * means * (1 - means) / (totals + 1)).sum(axis=0)
                prevalence[sample] = sizes.sum() / self.counts[first:end].sum()
                alpha[sample] = self.alpha[own].sum()
                tables[sample] = rows.sum(axis=0)
            first = end
        has = prevalence > 0
        reference = tables[self.reference]
        similarity = matching.affinity_of_tables(reference, tables[has]).mean()
        mean = topics[has].mean(axis=0)
        sd = np.sqrt(topics[has].var(axis=0) + variances[has].mean(axis=0))
        return Joined(mean, sd, prevalence, alpha, has, float(similarity))


class Joined(NamedTuple):
    """A topic in M samples, of one topic of theirs or of several."""

    mean: np.ndarray  # posterior mean of its words, over the samples that have it, [V]
    sd: np.ndarray  # posterior standard deviation, [V]
    prevalence: np.ndarray  # share of the tokens in each sample, 0 without it, [M]
    alpha: np.ndarray  # concentration in the proportions of documents, likewise
    present: np.ndarray  # whether a sample has it, bool [M]
    similarity: float  # mean affinity of its words to those in the reference


# Posterior summaries of topics.
#
# Topic numbers are not comparable between samples or chains. The topics of each kept sample are
# therefore matched, by the words of their tokens, to those of a reference, the sample whose
# partition of the tokens is nearest to all others (`partitions.medoid`). Topics of the reference
# that at least half of the samples have are reported. The shares of documents are those in the
# samples: in each, the tokens of a document at the topics that match the reported ones, averaged
# over the samples.

LEAST_PRESENT = 0.5
"""Topics in at least this share of the samples are reported."""

_AT_ONCE = 2**22  # maximum entries of topics, or of shares, processed together
_MOST_BYTES = 2**28  # of the draws: evenly spaced ones are left out above
_LEAST = 1e-6  # least concentration of topics without tokens


class Summary(NamedTuple):
    """Topics that most samples have, the most prevalent first."""

    mean: np.ndarray  # posterior mean, float32 [K, V]
    sd: np.ndarray  # posterior standard deviation, float32 [K, V]
    prevalence: np.ndarray  # share of the tokens in each sample, 0 without it, [S, chains, K]
    concentrations: np.ndarray  # alpha b in each sample, likewise
    present: np.ndarray  # whether a sample has it, bool [S, chains, K]
    similarity: np.ndarray  # mean affinity to the matched topics of other samples, [K]
    matched: np.ndarray  # the topic above of each label, or -1, int32 [S, chains, C]
    draws: Draws  # all topics of each sample


def summarise(
    labels: np.ndarray, concentrations: np.ndarray, tokens: np.ndarray, words: int, beta: float
) -> Summary:
    """Summarise samples of labels [S, chains, T] and concentrations [S, chains, C].

    The tokens are word indices below `words`, [T]. Given the labels a topic is Dirichlet(beta + n);
    its mean and variance are averaged over the samples that have the topic.
    """
    samples, chains = labels.shape[:2]
    middle = np.unravel_index(partitions.medoid(labels.reshape(-1, len(tokens))), (samples, chains))
    reference, number = _counts(labels[middle], tokens, words)
    shape = (samples, chains, len(number))
    prevalence, weights = np.zeros(shape), np.zeros(shape)
    similarity = np.zeros(shape)
    mean, square, variance = (np.zeros(reference.shape) for _ in range(3))
    partner = np.full(concentrations.shape, -1, np.int32)  # the topic of the reference
    tables = []
    rows = max(1, _AT_ONCE // words)
    for s, c in np.ndindex(samples, chains):
        counts, own = _counts(labels[s, c], tokens, words)
        tables.append((counts, own))
        order, alike = matching.match(reference, counts, matching.affinity_of_tables)
        has = np.flatnonzero(alike >= _SAME)
        partners = order[has]
        similarity[s, c, has] = alike[has]
        prevalence[s, c, has] = counts[partners].sum(axis=1) / max(len(tokens), 1)
        weights[s, c, has] = concentrations[s, c, own[partners]]
        partner[s, c, own[partners]] = has
        for first in range(0, len(has), rows):
            some = has[first : first + rows]
            shapes = counts[order[some]].toarray().astype(np.float64) + beta
            total = shapes.sum(axis=1, keepdims=True)
            topic = shapes / total
            mean[some] += topic
            square[some] += topic**2
            variance[some] += topic * (1 - topic) / (total + 1)
    present = similarity > 0
    times = present.sum(axis=(0, 1))
    mean, square, variance = (array / times[:, None] for array in (mean, square, variance))
    sd = np.sqrt(np.maximum(square - mean**2, 0) + variance)
    lasting = np.flatnonzero(times >= LEAST_PRESENT * samples * chains)
    # If no topic lasts, report all of the reference.
    lasting = lasting if lasting.size else np.arange(len(number))
    lasting = lasting[np.argsort(-prevalence[..., lasting].mean(axis=(0, 1)), kind="stable")]
    # With a last entry for -1
    place = np.full(len(number) + 1, -1, np.int32)
    place[lasting] = np.arange(lasting.size)
    matched = place[partner]
    return Summary(
        mean[lasting].astype(np.float32),
        sd[lasting].astype(np.float32),
        prevalence[..., lasting],
        weights[..., lasting],
        present[..., lasting],
        similarity.sum(axis=(0, 1))[lasting] / times[lasting],
        matched,
        _draws_of(
            tables,
            concentrations.reshape(len(tables), -1),
            matched,
            int(np.ravel_multi_index(middle, (samples, chains))),
            beta,
        ),
    )


def _draws_of(
    tables: list[tuple[sp.csr_array, np.ndarray]],
    concentrations: np.ndarray,
    matched: np.ndarray,
    reference: int,
    beta: float,
) -> Draws:
    """Return the topics of the samples [M], from their counts and labels."""
    size = sum(counts.data.nbytes + counts.indices.nbytes for counts, _ in tables)
    most = max(1, int(len(tables) * min(1, _MOST_BYTES / size)))
    some = np.unique(np.linspace(0, len(tables) - 1, most).round().astype(int))
    matched = matched.reshape(len(tables), -1)
    alpha = [concentrations[m, tables[m][1]].astype(np.float64) for m in some]
    # Concentrations are those of topics with and without tokens.
    totals = concentrations[some].sum(axis=1, dtype=np.float64)
    return Draws(
        counts=sp.vstack([tables[m][0] for m in some], format="csr").astype(np.int32),
        alpha=np.concatenate(alpha),
        reported=np.concatenate([matched[m, tables[m][1]] for m in some]),
        ends=np.cumsum([len(tables[m][1]) for m in some]),
        unseen=np.maximum(totals - [own.sum() for own in alpha], _LEAST),
        reference=np.append(np.flatnonzero(some == reference), -1)[:1],
        beta=beta,
    )


def shares(
    labels: np.ndarray,
    concentrations: np.ndarray,
    summary: Summary,
    lengths: np.ndarray,
    progress: Callable[[int], object] = lambda done: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of documents in the reported topics, and their errors, float32.

    In a sample with n_dk tokens of document d at a topic of concentration a_k, the mean of the
    share is (a_k + n_dk) / (sum of a + length). The shares [D, K] are the averages over the
    samples, and their errors [D] the standard errors of the largest spread over the samples, as if
    these were independent; NaN for a single sample.

    Args:
        labels: Labels of the samples, [S, chains, T], document after document.
        concentrations: Concentrations of the labels, [S, chains, C].
        summary: Their summary.
        lengths: Number of tokens of each document, [D].
        progress: Called with the number of documents done.
    """
    number, topics = labels.shape[0] * labels.shape[1], len(summary.mean)
    labels, matched = labels.reshape(number, -1), summary.matched.reshape(number, -1)
    alpha = summary.concentrations.reshape(number, topics)
    totals = concentrations.reshape(number, -1).sum(axis=1, dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    means = np.empty((len(lengths), topics), np.float32)
    errors = np.full(len(lengths), np.nan, np.float32)
    rows = max(1, _AT_ONCE // topics)
    for first in range(0, len(lengths), rows):
        own = lengths[first : first + rows]
        last = first + len(own)
        document = np.repeat(np.arange(len(own)), own)
        total, squares = np.zeros((2, len(own), topics))
        for m in range(number):
            topic = matched[m][labels[m, starts[first] : starts[last]]]
            inside = topic >= 0
            cells = document[inside] * topics + topic[inside]
            counts = np.bincount(cells, minlength=total.size).reshape(total.shape)
            share = (alpha[m] + counts) / (totals[m] + own[:, None])
            total += share
            squares += share**2
        means[first:last] = total / number
        if number > 1:
            variance = np.maximum(squares / number - (total / number) ** 2, 0).max(axis=1)
            errors[first:last] = np.sqrt(variance / (number - 1))
        progress(last)
    return means, errors


def _counts(labels: np.ndarray, tokens: np.ndarray, words: int) -> tuple[sp.csr_array, np.ndarray]:
    """Return token counts of nonempty topics by word, float32 [K, V], and their labels."""
    own, rows = np.unique(labels, return_inverse=True)
    ones = np.ones(len(tokens), np.float32)
    return sp.csr_array((ones, (rows, tokens)), shape=(len(own), words)), own
