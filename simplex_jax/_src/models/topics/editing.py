"""Topics merged, left out, named and reordered after a fit, without a new run.

The model and its draws stay as trained. In a draw, the proportion of a merged topic is the sum of
those of its parts, and so are its prevalence and its alpha: sums of Dirichlet proportions are
Dirichlet with the sums of alpha. Its word distribution is the mixture of those of its parts by
their prevalence in the draw. Everything reported about it is a summary of these quantities over the
draws, exactly; each model says how it reads its own (`Editable._merged_from`).

A topic that is left out still explains its words: it is only not reported, so that prevalences and
the proportions of a document sum to less than 1.
"""

import abc
import dataclasses
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from simplex_jax._src.corpus import Corpus, to_vocabulary
from simplex_jax._src.evaluate.coherence import coherence
from simplex_jax._src.models import files, pipeline
from simplex_jax._src.models.records import Saved
from simplex_jax._src.models.topics.data import as_data, in_memory
from simplex_jax._src.models.topics.fits import TopicFit, leading_words, topic_lines
from simplex_jax._src.report.display import counted
from simplex_jax._src.report.examples import MOST_DOCUMENTS, representative
from simplex_jax._src.runtime import output, saved

TRAINED = "trained.npz"
"""The file of topics as trained, of a fit that has merged some or left some out."""


def summed(columns: np.ndarray, groups: Iterable[Sequence[int]]) -> np.ndarray:
    """Return the sums of columns [..., k] over groups of them, [..., K].

    Example:
        >>> summed(np.array([[1.0, 2.0, 4.0]]), [(0, 2), (1,)]).tolist()
        [[5.0, 2.0]]
    """
    return np.stack([columns[..., list(group)].sum(axis=-1) for group in groups], axis=-1)


class Trained(NamedTuple):
    """The topics of a run, before some were merged or left out."""

    topics: np.ndarray  # posterior means, float32 [k, V]
    alpha: np.ndarray  # concentration of topic proportions, [k]
    prevalence: np.ndarray  # share of each topic in the corpus, [k]
    parts: tuple[tuple[int, ...], ...]  # those that each topic of the fit consists of, K

    @property
    def reported(self) -> np.ndarray:
        """The topic of the fit that each belongs to, int [k]; -1 if it is left out."""
        result = np.full(len(self.topics), -1)
        for topic, part in enumerate(self.parts):
            result[list(part)] = topic
        return result

    def mixed(self, topics: np.ndarray, prevalence: np.ndarray) -> np.ndarray:
        """Return the word distributions in a draw, [K, V], from those as trained, [k, V]."""
        rows = np.empty((len(self.parts), topics.shape[1]), topics.dtype)
        for topic, part in enumerate(map(list, self.parts)):
            weights = prevalence[part].astype(np.float64)
            if len(part) == 1 or not weights.any():  # the draw has no token in any of them
                weights = np.ones(len(part))
            rows[topic] = (weights / weights.sum()) @ topics[part]
        return rows


def _as_list(name: str, topics: Any) -> list[Any]:
    """Return topics, or lists of them, as a list."""
    try:
        if not isinstance(topics, str | bytes):
            return list(topics)
    except TypeError:
        pass
    raise ValueError(f"{name}: give a list of topics, not {topics!r}")


def numbers(name: str, topics: Iterable[Any], number: int) -> list[int]:
    """Return numbers of topics, checked: each from 0 to `number` - 1, and none twice."""
    result: list[int] = []
    for topic in _as_list(name, topics):
        try:
            place = operator.index(topic)
        except TypeError:
            raise ValueError(f"{name}: {topic!r} is not the number of a topic") from None
        if not 0 <= place < number:
            raise ValueError(f"{name}: topic {place} is not one of 0 to {number - 1}")
        if place in result:
            raise ValueError(f"{name}: topic {place} is given twice")
        result.append(place)
    return result


def merging(groups: Iterable[Any], number: int) -> list[tuple[int, ...]]:
    """Return the parts of each topic after some are merged: one group, or several.

    A merged topic is where the first of its parts was.
    """
    given = _as_list("merge", groups)
    if given and (isinstance(given[0], str) or not isinstance(given[0], Iterable)):
        given = [given]
    if any(not isinstance(group, Iterable) or isinstance(group, str) for group in given):
        raise ValueError("merge: give one list of topics, or a list of such lists")
    merged = [numbers("merge", group, number) for group in given]
    every = numbers("merge", (k for group in merged for k in group), number)
    of = {min(group): tuple(sorted(group)) for group in merged if group}
    return [of.get(k, (k,)) for k in range(number) if k in of or k not in every]


def dropping(topics: Iterable[Any], number: int) -> list[tuple[int, ...]]:
    """Return the parts of each topic after some are left out."""
    out = numbers("drop", topics, number)
    if len(out) == number:
        raise ValueError("drop: keep at least one topic")
    return [(k,) for k in range(number) if k not in out]


def reordering(topics: Iterable[Any], number: int) -> list[tuple[int, ...]]:
    """Return the parts of each topic after some have been put first."""
    first = numbers("reorder", topics, number)
    return [(k,) for k in (*first, *(k for k in range(number) if k not in first))]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Editable(TopicFit):
    """A fit whose topics can be merged, left out, named and reordered.

    Attributes:
        topic_names: Names of topics by number, those of `rename` or of the commands.
        trained: After `merge`, `drop` or `reorder` the topics as they were trained: `topics`,
            `alpha` and `prevalence`, and `parts`, the numbers of those that each topic now consists
            of; else None.
    """

    topic_names: Mapping[int, str] = dataclasses.field(default_factory=dict)
    trained: Trained | None = None

    _TAKEN: ClassVar[tuple[str, ...]] = (
        *("topics", "topics_sd", "prevalence_sd", "stability", "coherence"),
    )
    """Attributes with an entry of each topic, which a merged one computes anew."""
    _SUMMED: ClassVar[tuple[str, ...]] = ("prevalence", "proportions")
    """Expectations along the last axis: those of a merged topic are sums, and need no draws."""
    _RANGES: ClassVar[tuple[str, ...]] = ("topics_range", "prevalence_range", "shared")
    """Attributes with an entry of each topic along the second axis."""

    def merge(
        self,
        topics: Iterable[int] | Iterable[Iterable[int]],
        *,
        corpus: Any = None,
        samples: str | Path | None = None,
    ) -> Self:
        """Return the fit with some topics merged, without a new run.

        In each sample, the proportion of a merged topic in a document is the sum of those of its
        parts, and so is its prevalence; its word distribution is the mixture of theirs by
        prevalence, in the samples that were kept. All that is reported about it, its interval and
        whether it is stable too, comes from these: nothing is approximated. Other topics keep
        their results to the bit. A merged topic is where the first of its parts was, and later
        topics move up. `proportions_error` remains that of the topics as trained.

        Args:
            topics: The topics to merge: `[3, 7]`, or several such groups, `[[3, 7], [1, 12]]`.
            corpus: The documents of the fit, as given to `fit`. Without them a merged topic has
                no coherence, and some of its documents no excerpt.
            samples: Directory of the kept samples of a loaded fit of `lda`, such as run/samples.

        Raises:
            ValueError: A topic does not exist or is given twice, the fit kept no samples or too
                few, `corpus` has other documents, or it is one of `sam`, whose topics cannot be
                merged.

        Example:
            >>> import scipy.sparse as sp
            >>> from simplex_jax import lda
            >>> counts = sp.csr_array([[9, 8, 0, 0], [7, 9, 0, 0], [0, 0, 9, 8], [0, 0, 8, 9]])
            >>> fitted = lda.fit(counts, 3, passes=40, seed=1)
            >>> merged = fitted.merge([0, 2])
            >>> merged.num_topics, merged.trained.parts
            (2, ((0, 2), (1,)))
            >>> bool(merged.prevalence[0] == fitted.prevalence[[0, 2]].sum())
            True
        """
        groups = merging(topics, self.num_topics)
        call = f".merge({[list(group) for group in groups if len(group) > 1]})"
        return edited(self, groups, corpus=corpus, samples=samples, call=call)

    def drop(self, topics: Iterable[int]) -> Self:
        """Return the fit without some topics in its results, without a new run.

        The model keeps them, and they still explain their words: predictions and the numbers of the
        other topics do not change. So prevalences, and the proportions of a document, sum to less
        than 1; divide by their sum for proportions among the topics that are left. Later topics
        move up. `dropped` has those that were left out, by the numbers that they were trained with.

        Raises:
            ValueError: A topic does not exist or is given twice, or none would be left.
        """
        groups = dropping(topics, self.num_topics)
        out = [k for k in range(self.num_topics) if (k,) not in groups]
        return edited(self, groups, call=f".drop({out})")

    def reorder(self, topics: Iterable[int]) -> Self:
        """Return the fit with these topics first, and the others after them.

        `fitted.reorder(np.argsort(-fitted.prevalence))` puts the most prevalent first.

        Raises:
            ValueError: A topic does not exist or is given twice.
        """
        groups = reordering(topics, self.num_topics)
        return edited(self, groups, call=f".reorder({[k for (k,) in groups]})")

    def rename(self, names: Mapping[int, str]) -> Self:
        """Return the fit with names for some topics, by number, for its report and tables.

        An empty name removes one. `titles` has all names.

        Raises:
            ValueError: A topic does not exist.

        Example:
            >>> import scipy.sparse as sp
            >>> from simplex_jax import lda
            >>> fitted = lda.fit(sp.csr_array([[9, 8, 0, 0], [0, 0, 9, 8]]), 2, passes=20)
            >>> fitted.rename({1: "Farms"}).titles
            ['', 'Farms']
        """
        numbers("rename", names, self.num_topics)
        given = {**self.topic_names, **{operator.index(k): str(name) for k, name in names.items()}}
        return dataclasses.replace(self, topic_names={k: name for k, name in given.items() if name})

    @property
    def titles(self) -> list[str]:
        """Name of each topic, "" for none."""
        return [self.topic_names.get(k, "") for k in range(self.num_topics)]

    @property
    def dropped(self) -> list[int]:
        """Topics, as trained, that `drop` left out."""
        return np.flatnonzero(self.as_trained().reported < 0).tolist()

    @property
    def leaves_rest(self) -> bool:
        """Whether topics were dropped, so that the proportions of a document leave their part."""
        return bool(self.dropped)

    def lines(self, words: Iterable[str] | None = None) -> list[str]:
        """Return a line for each topic, the most prevalent first, with its name if it has one.

        It has the given words of each topic, by default those with the largest entries.
        """
        if words is None:
            words = leading_words(self.topics, self.vocabulary)
        named = [
            f"[{title}] {leading}" if title else leading
            for title, leading in zip(self.titles, words, strict=True)
        ]
        return topic_lines(self.prevalence, named, stable=self.stable)

    def as_trained(self) -> Trained:
        """Return the topics before any were merged or left out."""
        if self.trained is not None:
            return self.trained
        own = tuple((k,) for k in range(self.num_topics))
        return Trained(self.topics, self.concentrations(), self.prevalence, own)

    @abc.abstractmethod
    def concentrations(self) -> np.ndarray:
        """Return the concentration of the proportions of documents in each topic, [K]."""

    def _rearranged(self, groups: Sequence[tuple[int, ...]]) -> dict[str, Any]:
        """Return further attributes of the fit whose topics are groups of those of this one."""
        return {}

    @abc.abstractmethod
    def _merged_from(
        self,
        fitted: Any,
        groups: Sequence[tuple[int, ...]],
        merged: Sequence[int],
        samples: str | Path | None,
    ) -> Self:
        """Return this fit with what the draws say of its merged topics, computed in its arrays.

        Args:
            fitted: The fit before.
            groups: The topics of `fitted` that each topic consists of.
            merged: The topics that consist of several.
            samples: Directory of the kept samples, if they are not in memory.
        """


def edited(
    fitted: Any,
    groups: Sequence[tuple[int, ...]],
    *,
    corpus: Any = None,
    samples: str | Path | None = None,
    call: str = "",
) -> Any:
    """Return a fit whose topics consist of topics of another.

    Args:
        fitted: The other fit, an `Editable`.
        groups: The topics of `fitted` that each topic consists of; the rest are left out.
        corpus: Its documents, for the coherence and the documents of merged topics.
        samples: Directory of its kept samples, if they are not in memory.
        call: How `again` names the change.
    """
    if list(groups) == [(k,) for k in range(fitted.num_topics)]:
        return fitted
    before = fitted.as_trained()
    parts = tuple(tuple(p for k in group for p in before.parts[k]) for group in groups)
    first = [group[0] for group in groups]
    merged = [topic for topic, group in enumerate(groups) if len(group) > 1]
    names = [", ".join(dict.fromkeys(_given(fitted.topic_names, group))) for group in groups]
    changes: dict[str, Any] = {
        **{name: getattr(fitted, name)[first] for name in fitted._TAKEN},
        **{name: summed(getattr(fitted, name), groups) for name in fitted._SUMMED},
        **{name: getattr(fitted, name)[:, first] for name in fitted._RANGES},
        "examples": [fitted.examples[k] for k in first] if fitted.examples else [],
        "topic_names": {topic: name for topic, name in enumerate(names) if name},
        "diagnostics": _diagnostics_of(fitted, renumbered(groups)),
        # The command edit names itself.
        "again": f"{fitted.again}{call}" if call and ".fit(" in fitted.again else "",
        "trained": before._replace(parts=parts),
        **fitted._rearranged(groups),
    }
    result = dataclasses.replace(fitted, **changes)
    if merged:
        result = result._merged_from(fitted, groups, merged, samples)
        result = _with_documents(result, fitted, groups, merged, corpus)
    model = fitted.MODEL
    old = model.warn(fitted)
    warnings = [*model.warn(result), *(text for text in fitted.warnings if text not in old)]
    return pipeline.judged(model, dataclasses.replace(result, warnings=warnings), "")


def renumbered(groups: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Return the new numbers of topics that are left as they were."""
    return {group[0]: topic for topic, group in enumerate(groups) if len(group) == 1}


def _given(names: Mapping[int, str], topics: Iterable[int]) -> list[str]:
    return [names[k] for k in topics if names.get(k)]


def _diagnostics_of(fitted: Any, numbers: Mapping[int, int]) -> dict[str, dict[str, float]]:
    """Return the diagnostics of what is not a topic, and of topics with new numbers."""
    own = [f"prevalence {k}" for k in range(fitted.num_topics)]
    rest = {name: entry for name, entry in fitted.diagnostics.items() if name not in own}
    moved = sorted(
        (new, own[old]) for old, new in numbers.items() if own[old] in fitted.diagnostics
    )
    return rest | {f"prevalence {new}": fitted.diagnostics[name] for new, name in moved}


def deviation(draws: np.ndarray) -> np.ndarray:
    """Return the standard deviation over draws [n, ...], NaN of a single one."""
    if len(draws) < 2:
        return np.full(draws.shape[1:], np.nan)
    return draws.std(axis=0, ddof=1, dtype=np.float64)


def _with_documents(
    result: Any,
    fitted: Any,
    groups: Sequence[tuple[int, ...]],
    merged: Sequence[int],
    corpus: Any,
) -> Any:
    """Return a fit with coherence and documents of its merged topics; without a corpus, of none.

    The documents with most of a topic are known from their proportions; without a corpus, only
    those of its parts have words and an excerpt.
    """
    if corpus is None:
        result.coherence[merged] = np.nan
        if result.examples:
            for topic in merged:
                known = (entry for k in groups[topic] for entry in fitted.examples[k])
                result.examples[topic] = _reranked(result, topic, known)
        return result
    documents: Corpus = in_memory(as_data(corpus, fitted.vocabulary))
    # A fit of a corpus on disk has no names.
    if fitted.names and documents.names != fitted.names:
        raise ValueError("corpus: these are not the documents of the fit: their names differ")
    counts = to_vocabulary(documents, fitted.vocabulary).corpus.counts
    tokens = counts.sum(dtype=np.int64)
    if tokens != fitted.corpus.get("tokens", tokens):
        raise ValueError("corpus: these are not the documents of the fit: their tokens differ")
    topics = result.topics[merged]
    result.coherence[merged] = coherence(topics, counts)
    if result.examples:
        shares = result.proportions[:, merged]
        found = representative(
            counts, fitted.names, fitted.vocabulary, shares, topics, documents.excerpts
        )
        for topic, entries in zip(merged, found, strict=True):
            result.examples[topic] = entries
    return result


def _reranked(result: Any, topic: int, known: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents with most of a merged topic."""
    often = Counter(result.names)
    entries = {entry["name"]: entry for entry in known if often[entry["name"]] == 1}
    shares = result.proportions[:, topic]
    best = np.argsort(-shares, kind="stable")[:MOST_DOCUMENTS]
    return [
        {"words": [], "text": "", **entries.get(name, {}), "name": name, "share": float(shares[d])}
        for d in best
        for name in [result.names[d]]
    ]


# Names and edits in the files and in the report of a run.


def summary(fitted: Editable) -> dict[str, Any]:
    """Return the entries of `summary.json` on names and edits."""
    trained = fitted.trained
    return {
        "topic_names": {str(k): name for k, name in fitted.topic_names.items()},
        "parts": None if trained is None else trained.parts,
        "trained": None if trained is None else len(trained.topics),
    }


def write(fitted: Editable, place: Path) -> None:
    """Write the topics as trained of a fit that has merged some or left some out."""
    if fitted.trained is not None:
        arrays = fitted.trained._asdict()
        output.write_npz(place / TRAINED, {n: a for n, a in arrays.items() if n != "parts"})


def restore(run: Saved) -> dict[str, Any]:
    """Return the attributes on names and edits from the files of a run."""
    names = {int(k): str(name) for k, name in run.summary["topic_names"].items()}
    return {"topic_names": names, "trained": _restored(run)}


def _restored(run: Saved) -> Trained | None:
    if run.summary["parts"] is None:
        return None
    number, words = int(run.summary["trained"]), run.arrays["topics"].shape[1]
    shapes = {"topics": (number, words), "alpha": (number,), "prevalence": (number,)}
    parts = tuple(tuple(map(int, part)) for part in run.summary["parts"])
    used = [topic for part in parts for topic in part]
    if not all(parts) or len({*used}) < len(used) or not {*used} <= {*range(number)}:
        raise ValueError("no such topics")
    return Trained(**saved.load_arrays(run.directory / TRAINED, shapes), parts=parts)


def described(fitted: Editable) -> str:
    """Return a sentence on topics that were merged or left out after the run, "" without."""
    if fitted.trained is None:
        return ""
    merged = sum(len(part) > 1 for part in fitted.trained.parts)
    done = [
        f"{counted(number, 'topic')} {'was' if number == 1 else 'were'} {what}"
        for number, what in ((merged, "merged from others"), (len(fitted.dropped), "left out"))
        if number
    ]
    return f" After the run, {' and '.join(done)}." if done else ""


def kept_names(place: Path) -> dict[int, str]:
    """Return the names of topics in the summary of a run that goes on; {} of a new one."""
    if not (place / files.SUMMARY).exists():
        return {}
    names = saved.load_json(place / files.SUMMARY).get("topic_names", {})
    return {int(topic): str(name) for topic, name in names.items()}
