"""Held-out perplexity of topics in slices against those of LDA and of other packages, and speed.

    python benchmarks/dtm.py [CASE...] [--models lda one-slice without-bursts dtm
        tomotopy gensim topica topica-content] [--seeds 3] [--passes 1500] [--topics 30]
        [--words N] [--data DIR] [--peers DIR] [--keep FILE]
    python benchmarks/dtm.py --speed [--keep FILE]

Cases: the State of the Union, the embedded corpus, by "decade", "half-decade", "year" and
"president"; "news20" by newsgroup, "nips" by volume and "ap" by month, of --data. A tenth of the
documents of each case is held out; with "-whole" after the name, all documents of every fourth
slice, whose topics the model draws between its neighbours ("half-decade-whole"); with "-unknown",
the slices of the held-out documents are not given ("news20-unknown"). Without names, those of
`CASES` run.

From one half of each held-out document its topic proportions are inferred, given the posterior mean
topics of its slice, and the other half is predicted (`fitting.perplexity_of`): all models by the
same code. `one-slice` and `dtm` expect words that occur in a document to occur in it again; the
others do not, so `one-slice` is what `dtm` is to be compared with for its slices alone. All learn
alpha and beta if they can; ours run in one chain. `seconds` is the time of the whole fit by the
clock, and `processor_seconds` that of all its threads. Peers are imported from --peers, and run on
cases with slices of their kind only, which held-out documents must have. --words keeps the most
frequent words of each case only, for peers that take hours. The rows in --keep stay, so that a run
that was ended goes on where it was, if the code is the same; those of other lengths, topics or
words are others.

--speed: milliseconds a pass of one chain of `dtm` and `lda` on the embedded corpus, by the
difference of two lengths: what happens once does not count.
"""

import argparse
import itertools
import os
import re
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import kept
import numpy as np
import scipy.sparse as sp

from simplex_jax import corpus, dtm, lda
from simplex_jax._src.corpus import split
from simplex_jax._src.models.dtm import fitting

DATA = Path(os.environ.get("SIMPLEX_JAX_DATA", Path(__file__).parents[2] / "shared" / "data"))
# First year of each president's addresses, as far as one year tells.
PRESIDENTS = {
    "Wilson": 1913,
    "Harding": 1921,
    "Coolidge": 1923,
    "Hoover": 1929,
    "Roosevelt": 1934,
    "Truman": 1946,
    "Eisenhower": 1953,
    "Kennedy": 1961,
    "Johnson": 1964,
    "Nixon": 1970,
    "Ford": 1975,
    "Carter": 1978,
    "Reagan": 1981,
    "Bush": 1989,
    "Clinton": 1993,
    "Bush the younger": 2001,
    "Obama": 2009,
}
OPTIONS = corpus.TextOptions(max_vocabulary=5000)  # of the larger corpora
CASES = (
    *("decade", "half-decade", "half-decade-whole", "year", "president", "president-unknown"),
    *("news20", "news20-unknown", "nips", "ap"),
)


class Case(NamedTuple):
    """Training documents, held-out ones, and their columns, by the arguments of `dtm.fit`."""

    train: corpus.Corpus
    columns: dict[str, Any]
    held: corpus.Corpus
    held_columns: dict[str, Any]
    predict: list[float]


class Score(NamedTuple):
    """Mean topics by slice, [T, K, V], and concentrations, [T, K]; or of all slices without T."""

    topics: np.ndarray
    alpha: np.ndarray
    own: float | None = None


def state_of_the_union(by: str) -> tuple[corpus.Corpus, dict[str, Any]]:
    """Return the embedded corpus and its column."""
    texts, years = corpus.embedded_corpus(), np.asarray(corpus.embedded_years())
    if by == "president":
        first = np.array(list(PRESIDENTS.values()))
        names = np.array(list(PRESIDENTS))
        return texts, {"groups": names[np.searchsorted(first, years, side="right") - 1]}
    width = {"year": 1, "half-decade": 5, "decade": 10}[by]
    return texts, {"times": years // width * width + width // 2}


def news20(data: Path) -> tuple[corpus.Corpus, dict[str, Any]]:
    """Return the messages of both parts, without headers, and their newsgroups."""
    texts, groups = [], []
    with tarfile.open(data / "20news-bydate.tar.xz", "r:xz") as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                message = file.read().decode("latin-1")
                texts.append(message.partition("\n\n")[2])
                groups.append(member.name.split("/")[-2])
    return corpus.from_texts(texts, options=OPTIONS), {"groups": np.array(groups)}


def nips(data: Path) -> tuple[corpus.Corpus, dict[str, Any]]:
    """Return the papers and their volumes."""
    texts, volumes = [], []
    with tarfile.open(data / "nips0-12.tar.xz", "r:xz") as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                texts.append(file.read().decode("latin-1"))
                volumes.append(int(member.name.split("/")[-2].removeprefix("nips")))
    return corpus.from_texts(texts, options=OPTIONS), {"times": np.array(volumes, float)}


def ap(data: Path) -> tuple[corpus.Corpus, dict[str, Any]]:
    """Return the articles and their months, by the dates in their numbers."""
    whole = (data / "ap" / "ap.txt").read_text(encoding="latin-1")
    found = re.findall(r"<DOCNO> AP(\d\d)(\d\d)\d\d-\d+ </DOCNO>\s*<TEXT>(.*?)</TEXT>", whole, re.S)
    months = np.array([12.0 * int(year) + int(month) for year, month, _ in found])
    texts = [text for _, _, text in found]
    return corpus.from_texts(texts, options=OPTIONS), {"times": months}


def load(name: str, data: Path, seed: int, words: int | None) -> Case:
    """Return a case: a name of a corpus and its slices, and what is held out."""
    by, _, how = (
        name.partition("-")
        if not name.startswith("half-decade")
        else ("half-decade", "", name.removeprefix("half-decade").removeprefix("-"))
    )
    readers: dict[str, Callable[[Path], Any]] = {"news20": news20, "nips": nips, "ap": ap}
    texts, columns = readers[by](data) if by in readers else state_of_the_union(by)
    if words is not None:
        frequent = np.sort(np.argsort(-texts.counts.sum(axis=0), kind="stable")[:words])
        names = [texts.vocabulary[word] for word in frequent]
        texts = corpus.from_counts(sp.csr_array(texts.counts)[:, frequent], names, texts.names)
    ((column, values),) = columns.items()
    predict: list[float] = []
    if how == "whole":
        predict = list(np.unique(values)[2::4])
        out = np.isin(values, predict)
    else:
        out = split.held_out(len(texts.names), len(texts.names) // 10, seed)
    train, held = (split.rows(texts, rows) for rows in (~out, out))
    known = {} if how == "unknown" else {column: values[out]}
    return Case(train, {column: values[~out]}, held, known, [float(t) for t in predict])


def by_lda(case: Case, shared: dict[str, Any]) -> Score:
    """Fit LDA."""
    fitted = lda.fit(
        case.train, alpha="learn-asymmetric", beta="learn", chains=1, keep_samples=0, **shared
    )
    return Score(fitted.topics, fitted.alpha)


def by_dtm(case: Case, shared: dict[str, Any], **options: Any) -> Score:
    """Fit topics in slices; the result has the slices of the case, in order, or their mean."""
    timed = {"slices": "year", "predict": case.predict} if "times" in case.columns else {}
    given = {**case.columns, **timed, **shared, **options}
    fitted = dtm.fit(case.train, chains=1, keep_samples=0, **given)
    own = fitting.own_topics(fitted)
    if not case.held_columns:
        return Score(fitted.topics, fitted.alpha, own)
    return Score(fitted.topics_by_slice, fitted.alpha_by_slice, own)


def by_one_slice(case: Case, shared: dict[str, Any]) -> Score:
    """Fit topics with bursts in one slice: LDA of which documents have their own topics."""
    fitted = dtm.fit(case.train, chains=1, keep_samples=0, **shared)
    return Score(fitted.topics, fitted.alpha, fitting.own_topics(fitted))


def without_bursts(case: Case, shared: dict[str, Any]) -> Score:
    """Fit topics in slices, which documents have as they are."""
    return by_dtm(case, shared, document_steadiness="none")


def between(case: Case, times: np.ndarray, values: np.ndarray, total: bool = True) -> np.ndarray:
    """Return values by slice, [T, ...], with those of `predict` between them.

    The other packages do not give any: their logarithms, which follow Gaussian walks, are
    interpolated, and probabilities divided by their sum.
    """
    every = np.unique(np.concatenate([times, case.predict]))
    after = np.clip(np.searchsorted(times, every), 1, len(times) - 1)
    share = (every - times[after - 1]) / (times[after] - times[after - 1])
    weight = share.reshape(-1, *[1] * (values.ndim - 1))
    result = np.exp((1 - weight) * np.log(values[after - 1]) + weight * np.log(values[after]))
    return result / result.sum(axis=-1, keepdims=True) if total else result


def by_tomotopy(case: Case, shared: dict[str, Any]) -> Score:
    """Fit tomotopy's DTModel, whose slices are times."""
    import tomotopy

    times, place = np.unique(case.columns["times"], return_inverse=True)
    number = shared["num_topics"]
    model = tomotopy.DTModel(k=number, t=len(times), seed=shared["seed"])
    for row, t in zip(documents(case.train), place, strict=True):
        if row:
            model.add_doc(row, timepoint=int(t))
    model.train(shared["passes"], workers=2)
    seen = [int(word) for word in model.used_vocabs]
    topics = np.full((len(times), number, len(case.train.vocabulary)), 1e-12)
    for t in range(len(times)):
        for k in range(number):
            topics[t, k, seen] = model.get_topic_word_dist(k, timepoint=t)
    alpha = np.exp([model.get_alpha(t) for t in range(len(times))])
    return Score(between(case, times, topics), between(case, times, alpha, total=False))


def by_gensim(case: Case, shared: dict[str, Any]) -> Score:
    """Fit gensim's LdaSeqModel by its defaults, whatever `passes`."""
    from gensim.models.ldaseqmodel import LdaSeqModel

    times, place = np.unique(case.columns["times"], return_inverse=True)
    order = np.argsort(place, kind="stable")
    counts = case.train.counts[order]
    rows = [
        list(zip(counts[[i]].indices.tolist(), counts[[i]].data.tolist(), strict=True))
        for i in range(counts.shape[0])
    ]
    words = dict(enumerate(case.train.vocabulary))
    model = LdaSeqModel(
        rows, np.bincount(place), words, num_topics=shared["num_topics"], random_state=0
    )
    topics = np.stack(
        [
            [np.exp(chain.e_log_prob[:, t]) for chain in model.topic_chains]
            for t in range(len(times))
        ]
    )
    alpha = np.broadcast_to(model.alphas, (len(times), shared["num_topics"]))
    topics = between(case, times, np.maximum(topics, 1e-12))
    return Score(topics, between(case, times, alpha, total=False))


def by_topica(case: Case, shared: dict[str, Any]) -> Score:
    """Fit topica's DTM, which is variational, by its defaults, whatever `passes`."""
    import topica

    times, place = np.unique(case.columns["times"], return_inverse=True)
    rows = documents(case.train)
    some = [bool(row) for row in rows]
    model = topica.DTM(shared["num_topics"], seed=shared["seed"])
    model.fit(list(itertools.compress(rows, some)), place[some].tolist())
    topics = np.full((len(times), shared["num_topics"], len(case.train.vocabulary)), 1e-12)
    seen = [int(word) for word in model.vocabulary]
    for t in range(len(times)):
        topics[t][:, seen] = model.topic_word(t)
    alpha = np.full(topics.shape[:2], model.settings["alpha"])
    return Score(between(case, times, topics), between(case, times, alpha, total=False))


def by_topica_content(case: Case, shared: dict[str, Any]) -> Score:
    """Fit topica's STM with the groups as content and prevalence, by its defaults.

    Its proportions are logistic normal. Those of a group get the Dirichlet distribution with the
    means of its documents' and the variances of all.
    """
    import topica

    groups, place = np.unique(case.columns["groups"], return_inverse=True)
    rows = documents(case.train)
    some = np.array([bool(row) for row in rows])
    model = topica.STM(shared["num_topics"], seed=shared["seed"])
    of_group = np.eye(len(groups))[place[some]]
    labels = [f"{g:04}" for g in place[some]]
    model.fit(
        list(itertools.compress(rows, some)), of_group[:, 1:], content=labels, keep_eta_cov=False
    )
    topics = np.full((len(groups), shared["num_topics"], len(case.train.vocabulary)), 1e-12)
    seen = [int(word) for word in model.vocabulary]
    topics[:, :, seen] = np.moveaxis(model.topic_word_by_group, 1, 0)
    shares = model.doc_topic
    means = of_group.T @ shares / of_group.sum(axis=0)[:, None]
    within = ((shares - of_group @ means) ** 2).mean()
    total = (means * (1 - means)).mean() / within - 1
    return Score(topics / topics.sum(axis=-1, keepdims=True), total * means)


MODELS = {
    "lda": by_lda,
    "one-slice": by_one_slice,
    "without-bursts": without_bursts,
    "dtm": by_dtm,
    "tomotopy": by_tomotopy,
    "gensim": by_gensim,
    "topica": by_topica,
    "topica-content": by_topica_content,
}


SLICES = {"tomotopy": "times", "gensim": "times", "topica": "times", "topica-content": "groups"}
"""Peers need slices of a kind; ours take any."""


def suits(model: str, case: Case) -> bool:
    """Return whether a model can be fitted to a case, and scored."""
    return model not in SLICES or SLICES[model] in case.held_columns


def documents(texts: corpus.Corpus) -> list[list[str]]:
    """Return each document as a list of word numbers, in words."""
    counts = sp.csr_array(texts.counts)
    return [
        [str(w) for w in np.repeat(counts[[i]].indices, counts[[i]].data.astype(int))]
        for i in range(counts.shape[0])
    ]


def perplexity(case: Case, score: Score) -> float:
    """Return the perplexity of the held-out documents."""
    place = np.zeros(len(case.held.names), int)
    if score.topics.ndim == 3:
        ((column, values),) = case.held_columns.items()
        every = np.unique(np.concatenate([case.columns[column], case.predict or values[:0]]))
        place = np.searchsorted(every, values)
    topics = score.topics.reshape(-1, *score.topics.shape[-2:])
    alpha = score.alpha.reshape(len(topics), -1)
    counts = case.held.counts
    return fitting.perplexity_of(topics, alpha, score.own, counts, place, seed=0)


def speed() -> list[dict[str, Any]]:
    """Return milliseconds a pass, of 500 passes more than 200."""
    texts, years = corpus.embedded_corpus(), corpus.embedded_years()
    fits: dict[str, Callable[[int], Any]] = {
        "lda": lambda passes: lda.fit(
            texts, 30, passes=passes, alpha="learn-asymmetric", beta="learn", **once
        ),
        "dtm": lambda passes: dtm.fit(
            texts, 30, passes=passes, times=years, slices="decade", static_passes=50, **once
        ),
    }
    once = {"chains": 1, "holdout": 0, "keep_samples": 0}
    rows = []
    for name, fit in fits.items():
        fit(60)  # compiles
        seconds = []
        for passes in (200, 500):
            start = time.perf_counter()
            fit(passes)
            seconds.append(time.perf_counter() - start)
        load = round(os.getloadavg()[0], 1)
        rows.append({"model": name, "ms": 1e3 * (seconds[1] - seconds[0]) / 300, "load": load})
        print(rows[-1], flush=True)
    return rows


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("cases", nargs="*", default=CASES)
    result.add_argument("--models", nargs="+", choices=MODELS, default=["lda", "dtm"])
    result.add_argument("--topics", type=int, default=30)
    result.add_argument("--passes", type=int, default=1500)
    result.add_argument("--seeds", type=int, default=3)
    result.add_argument("--words", type=int)
    result.add_argument("--speed", action="store_true")
    result.add_argument("--data", type=Path, default=DATA)
    result.add_argument("--peers", type=Path, help="folder of the other packages")
    result.add_argument("--keep", type=Path)
    return result


def main() -> None:
    """Run the models on each case with each seed, and print or keep the results."""
    chosen = parser().parse_args()
    if chosen.peers:
        sys.path.append(str(chosen.peers))
    if chosen.speed:
        rows = speed()
        if chosen.keep:
            kept.write(chosen.keep, rows)
        return
    rows = kept.earlier(chosen.keep)
    for name in chosen.cases:
        for seed in range(chosen.seeds):
            case = load(name, chosen.data, seed, chosen.words)
            facts = {"tokens": int(case.train.counts.sum()), "words": len(case.train.vocabulary)}
            shared = {"num_topics": chosen.topics, "passes": chosen.passes, "seed": seed}
            for model in chosen.models:
                asked = {"case": name, "model": model, **shared, **facts}
                if not suits(model, case) or any(asked.items() <= row.items() for row in rows):
                    continue
                start, processor = time.perf_counter(), time.process_time()
                score = MODELS[model](case, {**shared})
                seconds = time.perf_counter() - start
                rows.append(
                    {
                        **asked,
                        "perplexity": perplexity(case, score),
                        "seconds": seconds,
                        "processor_seconds": time.process_time() - processor,
                    }
                )
                print(rows[-1], flush=True)
                if chosen.keep:
                    kept.write(chosen.keep, rows)


if __name__ == "__main__":
    main()
