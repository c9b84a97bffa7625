"""The corpora of the LDA comparison, each with held-out documents cut in halves."""

import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msweb
import numpy as np
import scipy.sparse as sp
from lda_recorder import load_common

from simplex_jax._src import corpus
from simplex_jax._src.corpus import Corpus

NAMES = (
    *("synth", "news20", "nips", "ap", "wikipedia", "wikipedia-1000"),
    *("sotu", "news20-all", "wikipedia-5000", "msweb"),
)
_HELD_OUT = 1_000  # scored documents, at most


class Task(NamedTuple):
    """A corpus and how to fit it.

    Attributes:
        name: One of `NAMES`.
        train: Counts to learn from, [D, V].
        observed: Counts of one half of each held-out document.
        target: Counts of the other half.
        num_topics: K.
        seconds: Training time after which a tool is stopped.
        marks: Perplexities whose first times are tabulated; () to derive them from the results.
    """

    name: str
    train: sp.csr_array
    observed: sp.csr_array
    target: sp.csr_array
    num_topics: int
    seconds: float
    marks: tuple[int, ...]


def training_counts(name: str, peers: Path, data: Path) -> sp.csr_array:
    """Return the counts to learn from, [D, V]: of "sotu", the embedded corpus, and "msweb" all."""
    if name == "sotu":
        return corpus.embedded_corpus().counts
    if name == "msweb":
        return msweb.read(data / "msweb" / "anonymous-msweb.data").counts
    return load(name, peers, data, quick=False).train


def load(name: str, peers: Path, data: Path, quick: bool) -> Task:
    """Read and prepare a corpus; `quick` cuts it to 1,000 documents, 100 held-out ones, K = 10."""
    if name in ("synth", "news20"):
        marks = {
            "synth": (2400, 2200, 2000, 1840, 1750, 1700, 1657),
            "news20": (3500, 3200, 3000, 2730, 2600, 2500, 2400),
        }
        parts = [sp.csr_array(part) for part in load_common(peers).load(name)]
        task = Task(name, *parts, num_topics=50, seconds=150, marks=marks[name])
    elif name == "nips":
        task = _held_out(name, nips(data / "nips0-12.tar.xz"), 100, seconds=300)
    elif name == "ap":
        everything = corpus.read(data / "ap" / "ap.dat", vocabulary=data / "ap" / "vocab.txt")
        task = _held_out(name, everything, 200, seconds=60)
    elif name == "sotu":
        task = _held_out(name, corpus.embedded_corpus(), 1000, seconds=60)
    elif name == "news20-all":
        task = _held_out(name, words_of(data / "20news-bydate.tar.xz", "train", 1), 1000, 150)
    elif name == "msweb":
        visits = msweb.read(data / "msweb" / "anonymous-msweb.data").counts
        everything = corpus.from_counts(visits[visits.sum(axis=1) > 1])  # others have no halves
        task = _held_out(name, everything, 1000, seconds=60)
    elif name == "wikipedia-5000":
        folder = data / "wikipedia"
        file = folder / "docword.wikipedia.train.txt.gz"
        everything = corpus.read(file, vocabulary=folder / "vocab.wikipedia.txt")
        some = corpus.from_counts(everything.counts[:5000], everything.vocabulary)
        task = _held_out(name, some, 500, seconds=60)
    else:
        folder = data / "wikipedia"
        vocabulary = folder / "vocab.wikipedia.txt"
        train, heldout = (
            corpus.read(folder / f"docword.wikipedia.{part}.txt.gz", vocabulary=vocabulary)
            for part in ("train", "test")
        )
        halves = corpus.split_tokens(heldout.counts[:_HELD_OUT], seed=0)
        num_topics = 1000 if name == "wikipedia-1000" else 200
        task = Task(name, train.counts, *halves, num_topics=num_topics, seconds=600, marks=())
    task = _of_words_shown(task)
    if not quick:
        return task
    return task._replace(
        train=task.train[:1000],
        observed=task.observed[:100],
        target=task.target[:100],
        num_topics=10,
        marks=(),
    )


def _held_out(name: str, everything: Corpus, number: int, seconds: float) -> Task:
    train, heldout = corpus.holdout(everything, number, seed=0)
    halves = corpus.split_tokens(heldout.counts, seed=0)
    return Task(name, train.counts, *halves, num_topics=50, seconds=seconds, marks=())


def _of_words_shown(task: Task) -> Task:
    """Drop the words that no training document contains.

    Some tools give them no probability, others what the prior does. Scored on them, the first would
    trail by much (9% on AP) for no difference in their topics.
    """
    shown = np.asarray(task.train.sum(axis=0) > 0)
    parts = (task.train[:, shown], task.observed[:, shown], task.target[:, shown])
    return task._replace(**dict(zip(("train", "observed", "target"), parts, strict=True)))


def nips(path: Path) -> Corpus:
    """Papers of NIPS 0-12: words of three or more letters that occur more than ten times."""
    return words_of(path, "", 10)


def words_of(path: Path, within: str, least: int) -> Corpus:
    """Files of an archive whose names contain a word: words of three or more letters.

    Of these, those that occur more than `least` times.
    """
    papers, names = [], []
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if within in member.name else None
            if file is not None:  # latin-1, because most files are not UTF-8
                text = file.read().decode("latin-1").lower()
                papers.append(Counter(re.findall("[a-z]{3,}", text)))
                names.append(member.name)
    seen: Counter[str] = Counter()
    for paper in papers:
        seen.update(paper)
    words = sorted(word for word, count in seen.items() if count > least)
    number = {word: i for i, word in enumerate(words)}
    entries = [
        (row, number[word], count)
        for row, paper in enumerate(papers)
        for word, count in paper.items()
        if word in number
    ]
    rows, columns, data = np.array(entries).T
    counts = sp.csr_array((data, (rows, columns)), shape=(len(papers), len(words)))
    return corpus.from_counts(counts, words, names)
