"""Train one LDA tool on one corpus and save its topics along the way: a child process.

    python benchmarks/lda_tools.py TOOL FOLDER --limit WORK --seconds S

`lda_peers.py` calls it, one tool at a time in its own process. FOLDER holds `task.json` and
`train.npz`; topics go to `0000.npy` and so on, and their times to `record.json`. Another process
scores the topics later, so neither the clock nor the memory peak includes that. For the same reason
this module imports no tool before it is needed.
"""

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from lda_recorder import SHARED, Recorder, Stopped, load_common, peak_memory


class Job(NamedTuple):
    """A tool's input: counts [D, V] and the model, alpha per topic and beta per word.

    Without alpha and beta a tool runs with its default priors, learned or not.
    """

    train: sp.csr_array
    num_topics: int
    alpha: float | None
    beta: float | None
    seed: int

    def given(self, **names: str) -> dict[str, float]:
        """Return the given priors, by a tool's names for alpha and beta."""
        return {
            name: value
            for name, value in ((names["alpha"], self.alpha), (names["beta"], self.beta))
            if value is not None
        }


def tomotopy(job: Job, record: Recorder, workers: int) -> None:
    import tomotopy

    priors = job.given(alpha="alpha", beta="eta")
    model = tomotopy.LDAModel(k=job.num_topics, seed=job.seed, **priors)
    if priors:
        model.optim_interval = 0
    for document in documents(job.train):
        model.add_doc([str(word) for word in document])
    with record.training():
        model.train(0, workers=workers)
    done = 0
    for mark in sorted({round(mark) for mark in record.marks}):
        with record.training():
            model.train(mark - done, workers=workers)
        done = mark
        topics = np.zeros((job.num_topics, job.train.shape[1]))
        seen = np.array([int(word) for word in model.used_vocabs])
        topics[:, seen] = [model.get_topic_word_dist(k) for k in range(job.num_topics)]
        record.add(mark, topics, alpha=np.asarray(model.alpha))


def pyrmallet(job: Job, record: Recorder) -> None:
    from pyrmallet import _rust_mallet

    number, spellings = spelt(job.train.shape[1])
    texts = [" ".join(spellings[word] for word in document) for document in documents(job.train)]
    loaded = _rust_mallet.Corpus.from_strings(texts)
    priors = job.given(alpha="alpha_sum", beta="beta")
    if priors:
        priors |= {"alpha_sum": job.alpha * job.num_topics, "optimize_interval": 0}

    def train(sweeps: int, samples: int, interval: int) -> tuple[np.ndarray, None]:
        with record.training():
            model = _rust_mallet.train(
                loaded,
                num_topics=job.num_topics,
                iterations=sweeps,
                num_samples=samples,
                sample_interval=interval,
                seed=job.seed,
                **priors,
            )
        topics = np.zeros((job.num_topics, job.train.shape[1]))
        topics[:, [number[word] for word in model.vocabulary]] = model.topic_word_matrix()
        return topics, None

    restart(train, record)


def topica(job: Job, record: Recorder, sampler: str, threads: int) -> None:
    import topica as library

    number, spellings = spelt(job.train.shape[1])
    texts = [[spellings[word] for word in document] for document in documents(job.train)]
    priors = job.given(alpha="alpha_sum", beta="beta")
    if priors:
        priors |= {"alpha_sum": job.alpha * job.num_topics, "optimize_interval": 0}

    def train(sweeps: int, samples: int, interval: int) -> tuple[np.ndarray, np.ndarray]:
        model = library.LDA(
            job.num_topics, seed=job.seed, sampler=sampler, num_threads=threads, **priors
        )
        with record.training():
            model.fit(
                texts,
                iters=sweeps,
                num_samples=samples,
                sample_interval=interval,
                progress=False,
                keep_theta_draws=False,
            )
        topics = np.zeros((job.num_topics, job.train.shape[1]))
        topics[:, [number[word] for word in model.vocabulary]] = model.topic_word
        return topics, np.asarray(model.alpha)

    restart(train, record)


def spelt(words: int) -> tuple[dict[str, int], list[str]]:
    """Return spellings of words that no tokeniser cuts or drops, and the word of each."""
    number = {
        "q" + "".join(chr(97 + word // 26**place % 26) for place in range(4)) + "q": word
        for word in range(words)
    }
    return number, list(number)


def restart(train: Callable[..., tuple[np.ndarray, np.ndarray | None]], record: Recorder) -> None:
    """One run per point, because topics come only at the end. The last averages five samples."""

    def run(sweeps: int, samples: int, interval: int) -> float:
        record.restart()
        topics, alpha = train(sweeps, samples, interval)
        done = sweeps + samples * interval
        record.add(done, topics, averaged=samples > 1, alpha=alpha)
        return record.points[-1]["seconds"] / done

    rate = run(max(1, round(record.limit / 15)), 1, 1)
    limit = min(record.limit, record.seconds / rate)  # the last run uses all of the time
    for share in (1 / 6, 1 / 3, 2 / 3):
        run(max(1, round(share * limit)), 1, 1)
    interval = max(1, round(limit / 15))
    run(max(1, round(limit) - 5 * interval), 5, interval)


def sklearn_online(job: Job, record: Recorder, batch: int) -> None:
    from sklearn.decomposition import LatentDirichletAllocation

    count = job.train.shape[0]
    model = LatentDirichletAllocation(
        job.num_topics,
        **job.given(alpha="doc_topic_prior", beta="topic_word_prior"),
        learning_method="online",
        batch_size=batch,
        total_samples=count,
        random_state=job.seed,
    )
    rng, done = np.random.default_rng(job.seed), 0
    while done < record.limit * count:
        shuffled = job.train[rng.permutation(count)]
        for start in range(0, count, batch):
            rows = shuffled[start : start + batch]
            with record.training():
                model.partial_fit(rows)
            done += rows.shape[0]
            if record.due(done / count):
                record.add(done / count, model.components_)
            if done >= record.limit * count:
                break


def sklearn_batch(job: Job, record: Recorder) -> None:
    from sklearn.decomposition import LatentDirichletAllocation

    class Watched(LatentDirichletAllocation):
        """Adds a point after every iteration."""

        def _em_step(self, *arguments: Any, **options: Any) -> None:
            super()._em_step(*arguments, **options)
            with record.paused():
                record.add(len(record.points) + 1, self.components_)

    model = Watched(
        job.num_topics,
        **job.given(alpha="doc_topic_prior", beta="topic_word_prior"),
        learning_method="batch",
        max_iter=max(1, round(record.limit)),
        random_state=job.seed,
    )
    with record.training():
        model.fit(job.train)


def gensim(job: Job, record: Recorder, chunk: int) -> None:
    from gensim.models import LdaModel

    count, words = job.train.shape
    shuffled = job.train[np.random.default_rng(job.seed).permutation(count)]
    cuts = zip(shuffled.indptr[:-1], shuffled.indptr[1:], strict=True)
    pairs = [
        list(zip(shuffled.indices[s:e].tolist(), shuffled.data[s:e].tolist(), strict=True))
        for s, e in cuts
    ]
    passes = max(1, round(record.limit))
    priors: dict[str, Any] = job.given(alpha="alpha", beta="eta")
    if priors:
        priors["alpha"] = np.full(job.num_topics, job.alpha, np.float32)
    per_pass = -(-count // chunk)

    class Watched(LdaModel):
        """Adds points after updates."""

        updates = 0

        def do_mstep(self, *arguments: Any, **options: Any) -> None:
            super().do_mstep(*arguments, **options)
            self.updates += 1
            with record.paused():
                if record.due(self.updates / per_pass):
                    record.add(self.updates / per_pass, self.get_topics())

    with record.training():
        Watched(
            corpus=pairs,
            num_topics=job.num_topics,
            id2word={word: str(word) for word in range(words)},
            chunksize=chunk,
            passes=passes,
            **priors,
            random_state=job.seed,
            eval_every=None,
        )


def simplex_jax(
    job: Job,
    record: Recorder,
    counts: str = "memoised",
    batch: int | None = None,
    local: str | None = None,
    **priors: str,
) -> None:
    """`lda.fit` of one chain, with all other settings at their defaults.

    The clock starts where it is called: it includes tracing, and loading or compiling programs.
    """
    from simplex_jax import lda, runtime
    from simplex_jax._src.models.lda import model

    documents, words = job.train.shape
    size = model.default_batch_size(documents, int(job.train.sum()), (job.num_topics, words))
    size = min(batch or size, documents)

    class Watched(runtime.Hook):
        """Adds a point at marks."""

        def __call__(self, event: Any) -> None:
            with record.paused():
                if record.due(done := event.step / per_pass):
                    alpha = np.asarray(event.state.alpha)
                    record.add(done, model.mean_topics(event.state), alpha=alpha)

    options = job.given(alpha="alpha", beta="beta") | priors
    options |= {"counts": counts, "local": local, "batch_size": size, "seed": job.seed}
    per_pass = -(-documents // size)
    with record.training():
        lda.fit(
            job.train, job.num_topics, passes=record.limit, chains=1, hooks=[Watched()], **options
        )


class Tool(NamedTuple):
    """How to run a tool.

    Attributes:
        train: The function.
        options: What distinguishes it.
        limit: Passes or sweeps of a full run.
        first: Passes or sweeps up to the first point.
        samples: Whether its topics are samples, which may be averaged.
        module: The module that must be installed.
    """

    train: Callable[..., None]
    options: dict[str, Any]
    limit: float
    first: float
    samples: bool
    module: str


TOOLS = {
    "tomotopy-1": Tool(tomotopy, {"workers": 1}, 300, 1, True, "tomotopy"),
    "tomotopy-2": Tool(tomotopy, {"workers": 2}, 300, 1, True, "tomotopy"),
    "pyrmallet": Tool(pyrmallet, {}, 300, 1, False, "pyrmallet"),
    **{
        f"topica-{sampler}-2": Tool(
            topica, {"sampler": sampler, "threads": 2}, 300, 1, False, "topica"
        )
        for sampler in ("sparse", "warp")
    },
    "sklearn-batch": Tool(sklearn_batch, {}, 15, 1, False, "sklearn"),
    "sklearn-online-256": Tool(sklearn_online, {"batch": 256}, 5, 0.1, False, "sklearn"),
    "sklearn-online-50": Tool(sklearn_online, {"batch": 50}, 3, 0.1, False, "sklearn"),
    "gensim-2000": Tool(gensim, {"chunk": 2000}, 6, 0.1, False, "gensim"),
    "gensim-256": Tool(gensim, {"chunk": 256}, 4, 0.1, False, "gensim"),
    **{
        name: Tool(simplex_jax, options, 300, 1, True, "simplex_jax")
        for name, options in {
            "ours": {},
            "ours-cold": {},
            "ours-learned": {"alpha": "learn-asymmetric", "beta": "learn"},
        }.items()
    },
    **{
        f"ours-{batch}": Tool(
            simplex_jax, {"counts": "subsampled", "batch": batch}, 20, 0.1, True, "simplex_jax"
        )
        for batch in (50, 256, 2000)
    },
}


def documents(counts: sp.csr_array) -> Iterator[np.ndarray]:
    for start, end in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        yield np.repeat(counts.indices[start:end], counts.data[start:end])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--points", type=float, default=30.0)
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    options = parser.parse_args()

    tool = TOOLS[options.tool]
    train = sp.csr_array(sp.load_npz(options.folder / "train.npz"))
    job = Job(train, **json.loads((options.folder / "task.json").read_text()))
    clock = load_common(options.peers).Clock()
    record = Recorder(
        clock, options.folder, options.limit, tool.first, options.seconds, options.points
    )
    with contextlib.suppress(Stopped):
        tool.train(job, record, **tool.options)
    result = {
        "points": record.points,
        "compilation": record.compilation,
        "peak_memory": peak_memory(),
        "load_average": os.getloadavg()[0],
    }
    (options.folder / "record.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
