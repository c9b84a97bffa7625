"""The hierarchical Dirichlet process against LDA with a grid of topic numbers, and other HDPs.

    python benchmarks/hdp_topics.py --keep benchmarks/results/hdp_topics.json [--corpora sotu ap]

Every model trains on the same documents for the same time, with a beta of 0.05 and learned
concentrations (LDA one per topic; gensim's stay at its defaults). One routine scores all on the
same held-out documents, predicting half of the words from the other half: "single" by the topics of
the last labels, (beta + n) / sum, "averaged", for samplers only, by the mean of such predictions
over the second half of the run. "topics" is the smallest number that holds 99% of the tokens. For
ours there is also the fit's own score, by drawn topics. gensim's model is scored after its first
pass, however long that takes, and at the end.

Results are written after each row. Four corpora take about 40 minutes on two quiet cores; `--quick`
tries everything in two minutes. Needs the folder ../shared with `peers/` and `data/`, except for
sotu, and `pip install tomotopy gensim`; tools that are not installed are skipped.
"""

import argparse
import importlib.util
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kept
import numpy as np
from lda_corpora import Task, load
from lda_recorder import SHARED
from lda_tools import documents

from simplex_jax._src import corpus
from simplex_jax._src.models import hdp, lda
from simplex_jax._src.models.lda.model import mean_topics
from simplex_jax._src.models.topics import data, evaluation
from simplex_jax._src.runtime.hooks import Event, Hook

CORPORA = ("sotu", "ap", "news20", "nips")
BETA = 0.05
POINTS = 50  # intervals of a run; topics are scored after each one of the second half


class Topics(NamedTuple):
    """Topics at some time of a run."""

    topics: np.ndarray  # [K, V]
    alpha: np.ndarray  # concentrations of the shares of a document, [K]
    tokens: np.ndarray  # training tokens of each topic, [K]


class Judge:
    """Predicts the held-out documents from successive topics."""

    def __init__(self, task: Task, seed: int) -> None:
        self._completion = evaluation.completion(task.observed, task.target)
        self._key = jax.random.key(seed)
        self._log_p: list[np.ndarray] = []
        self._tokens = np.zeros(0)

    def add(self, sample: Topics) -> None:
        """Predict from topics, padded so that few sizes are compiled."""
        more = -len(sample.alpha) % 64
        table = np.pad(sample.topics, ((0, more), (0, 0)))
        table = jnp.maximum(jnp.asarray(table, jnp.float32), jnp.finfo(jnp.float32).tiny)
        alpha = jnp.asarray(np.pad(sample.alpha, (0, more)), jnp.float32)
        key = jax.random.fold_in(self._key, len(self._log_p))
        log_p = evaluation.log_predictive(key, jnp.log(table), alpha, self._completion)
        self._log_p.append(np.asarray(log_p, np.float64))
        self._tokens = np.sort(np.asarray(sample.tokens, float))[::-1]

    def due(self, seconds: float, limit: float) -> bool:
        """Return whether topics are due after some seconds of a run of `limit`."""
        return seconds * POINTS >= limit * min(POINTS // 2 + len(self._log_p), POINTS)

    def figures(self) -> dict[str, Any]:
        """Return the perplexities, and the last number of topics."""
        shares = np.cumsum(self._tokens) / self._tokens.sum()
        mean = np.logaddexp.reduce(self._log_p) - np.log(len(self._log_p))
        single, averaged = (
            evaluation.perplexity(log_p, self._completion.counts)
            for log_p in (self._log_p[-1], mean)
        )
        return {
            "topics": int(np.searchsorted(shares, 0.99)) + 1,
            "with_tokens": int((self._tokens >= 1).sum()),
            "single": single,
            "averaged": averaged if len(self._log_p) > 1 else None,
            "judged": len(self._log_p),
        }


class Look(Hook):
    """Scores the topics of a state when they are due."""

    def __init__(self, judge: Judge, read: Callable[[Any], Topics], limit: float) -> None:
        self._judge, self._read, self._limit = judge, read, limit

    def sample(self, event: Event) -> None:
        """Add the topics of the state, even if the fit has no evaluation."""
        if self._judge.due(event.seconds, self._limit):
            self._judge.add(self._read(event.state))


def of_hdp(state: Any) -> Topics:
    """Return the topics of our state; those without tokens represent all new ones."""
    counts = np.asarray(state.counts)
    total = counts + BETA
    alpha = np.asarray(state.alpha * jnp.exp(state.log_weights))
    return Topics(total / total.sum(axis=1, keepdims=True), alpha, counts.sum(axis=1))


def of_lda(state: Any) -> Topics:
    """Return the topics of a state of LDA with memoised counts."""
    tokens = np.asarray(state.sampler.memory.counts).sum(axis=1)
    return Topics(np.asarray(mean_topics(state)), np.asarray(state.alpha), tokens)


def ours(
    fit: Callable[..., Any],
    read: Callable[[Any], Topics],
    task: Task,
    given: argparse.Namespace,
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    """Fit one of our models, and return the fit and its kept topics."""
    judge, began = Judge(task, given.seed), time.perf_counter()
    options |= {"beta": BETA, "seconds": given.seconds, "seed": given.seed}
    options |= {"heldout": (task.observed, task.target)}
    fitted = fit(task.train, hooks=[Look(judge, read, given.seconds)], **options)
    last = fitted.metrics[-1]
    return fitted, {
        **judge.figures(),
        "own_single": last["perplexity"],
        "own_averaged": last["perplexity_average"],
        "passes": last["passes"],
        "training_seconds": last["seconds"],
        "wall_seconds": time.perf_counter() - began,
    }


def tomotopy(task: Task, start: int, given: argparse.Namespace, folder: Path) -> None:
    """Train tomotopy's model from its default concentrations, and keep topics."""
    from tomotopy import HDPModel

    model = HDPModel(initial_k=start, eta=BETA, seed=given.seed)
    for document in documents(task.train):
        if len(document):
            model.add_doc([str(word) for word in document])
    model.train(0)
    places = [int(word) for word in model.used_vocabs]
    seconds, passes, number = 0.0, 0, 0
    while seconds < given.seconds:
        each = round(given.seconds / POINTS * passes / seconds) if passes else 1
        began = time.perf_counter()
        model.train(max(each, 1), workers=os.cpu_count())
        seconds, passes = seconds + time.perf_counter() - began, passes + max(each, 1)
        if seconds < given.seconds / 2:
            continue
        live = [k for k in range(model.k) if model.is_live_topic(k)]
        tokens = np.asarray(model.get_count_by_topics(), float)[live]
        # Its laws are over the words that it has seen; all others have beta as well. It does not
        # tell the tables of a topic: topics have weights as they have tokens.
        topics = np.full((len(live), task.train.shape[1]), BETA)
        topics[:, places] = [model.get_topic_word_dist(k) for k in live]
        topics[:, places] *= (tokens + BETA * len(places))[:, None]
        topics /= topics.sum(axis=1, keepdims=True)
        result = Topics(topics, model.alpha * tokens / tokens.sum(), tokens)
        keep(folder, number, result, passes, seconds)
        number += 1


def gensim(task: Task, given: argparse.Namespace, folder: Path) -> None:
    """Train gensim's model for a pass, keep topics, and continue until time is up."""
    from gensim.models import HdpModel

    rows = (np.unique(row, return_counts=True) for row in documents(task.train) if len(row))
    bags = [list(zip(words.tolist(), counts.tolist(), strict=True)) for words, counts in rows]
    names = {word: str(word) for word in range(task.train.shape[1])}
    chunk = 64 if given.quick else 256  # which is the default
    chunks = 1 if given.quick else -(-len(bags) // chunk)
    options = {"eta": BETA, "chunksize": chunk, "random_state": given.seed}
    began = time.perf_counter()
    model = HdpModel(bags, names, max_chunks=chunks, **options)
    for number in range(2):
        seconds = time.perf_counter() - began
        alpha, topics = model.hdp_to_lda()
        # At first its token counts are those of a random start: use the weights instead.
        result = Topics(topics, alpha, alpha / alpha.sum() * task.train.sum())
        keep(folder, number, result, model.m_num_docs_processed / len(bags), seconds)
        if seconds >= given.seconds:
            break
        model.max_chunks, model.max_time = None, given.seconds - seconds
        model.update(bags)


def keep(folder: Path, number: int, result: Topics, passes: float, seconds: float) -> None:
    """Write topics for `read`, and their times."""
    when = {"passes": passes, "training_seconds": seconds}
    np.savez(folder / f"{number:03d}.npz", **result._asdict(), **when)


def read(path: Path) -> tuple[Topics, dict[str, float]]:
    """Return what `keep` has written."""
    with np.load(path) as arrays:
        result = Topics(*(arrays[name] for name in Topics._fields))
        return result, {name: float(arrays[name]) for name in ("passes", "training_seconds")}


def peer(
    train: Callable[..., None], samples: bool, task: Task, given: argparse.Namespace, *options: Any
) -> Iterator[dict[str, Any]]:
    """Train a model in its own process; score its samples together, or each of its topics."""
    with tempfile.TemporaryDirectory() as root:
        began = time.perf_counter()
        arguments = (task, *options, given, Path(root))
        process = multiprocessing.get_context("spawn").Process(target=train, args=arguments)
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{train.__name__} on {task.name} failed: see above")
        wall = {"wall_seconds": time.perf_counter() - began}
        files = sorted(Path(root).glob("*.npz"))
        for some in [files] if samples else [[file] for file in files]:
            judge, when = Judge(task, given.seed), {}
            for file in some:
                result, when = read(file)
                judge.add(result)
            yield judge.figures() | when | wall


def compared(task: Task, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train and score each model on a corpus."""
    for start in given.starts if "hdp" in given.tools else ():
        fitted, row = ours(
            hdp.fit, of_hdp, task, given, initial_topics=start, keep_samples=20, chains=1
        )
        row |= {"least": min(fitted.num_topics_posterior), "most": max(fitted.num_topics_posterior)}
        row |= {"lasting": len(fitted.topics), "told": float(fitted.prevalence.sum())}
        row |= {"alpha": fitted.alpha, "gamma": fitted.gamma}
        yield {"model": f"hdp from {start}"} | row
    for topics in given.topics if "lda" in given.tools else ():
        _, row = ours(lda.fit, of_lda, task, given, num_topics=topics, alpha="learn-asymmetric")
        yield {"model": f"lda {topics}"} | row
    for start in given.tomotopy_starts if "tomotopy" in given.tools else ():
        for row in peer(tomotopy, True, task, given, start):
            yield {"model": f"tomotopy HDPModel from {start}"} | row
    for row in peer(gensim, False, task, given) if "gensim" in given.tools else ():
        yield {"model": "gensim HdpModel"} | row


def loaded(name: str, given: argparse.Namespace) -> Task:
    """Read a corpus; sotu is the embedded one."""
    if name != "sotu":
        return load(name, given.peers, given.data, given.quick)
    train, halves = data.hold_out(corpus.embedded_corpus(), 1_000, 0)
    parts = train.counts, *halves
    if given.quick:
        parts = parts[0][:1_000], *(half[:100] for half in halves)
    return Task(name, *parts, num_topics=0, seconds=given.seconds, marks=())


def main() -> None:
    """Fit each, and write the results."""
    tools = {"hdp": "simplex_jax", "lda": "simplex_jax", "tomotopy": "tomotopy", "gensim": "gensim"}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=CORPORA)
    parser.add_argument("--tools", nargs="+", choices=tools, default=list(tools))
    parser.add_argument("--topics", type=int, nargs="+", default=[20, 50, 100, 200])
    parser.add_argument("--starts", type=int, nargs="+", default=[20, 100], help="of our HDP")
    parser.add_argument("--tomotopy-starts", type=int, nargs="+", default=[100])
    parser.add_argument("--seconds", type=float, default=60.0, help="training time of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="1,000 documents, a second, K = 10")
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    given = parser.parse_args()
    if given.quick:
        given.topics = given.starts = given.tomotopy_starts = [10]
        given.seconds = 1.0
    for tool in given.tools:
        if not importlib.util.find_spec(tools[tool]):
            print(f"{tool} is not installed, left out")
    given.tools = [tool for tool in given.tools if importlib.util.find_spec(tools[tool])]
    rows: list[dict[str, Any]] = []
    for name in given.corpora:
        for row in compared(loaded(name, given), given):
            rows.append({"corpus": name} | row)
            print(rows[-1], flush=True)
            kept.write(given.keep, rows, beta=BETA)


if __name__ == "__main__":
    main()
