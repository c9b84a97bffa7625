"""SAM on Wikipedia: figure 5(b) of the SGGMC paper, log-perplexity against time.

    python benchmarks/papers/sam_wikipedia.py [--seconds 300] [--methods M ...] [--settings S ...]

Liu, Zhu and Song (2016), section 5.3, with K = 50 and batches of 100, on another slice of
Wikipedia: of the words in at most 5.99% of the documents the 3,000 with the highest document
frequency, as theirs, and tf-idf vectors of length 1. Held-out documents are weighted by the
training frequencies (theirs by their own). Otherwise as in `sam_20news`; methods that use all
documents in an update may make few updates in the given time.
"""

from pathlib import Path

import click
import common
import sam_common
from sam_common import Problem, Published

from simplex_jax._src import corpus
from simplex_jax._src.corpus import vectors

DATA = common.DATA / "wikipedia"
PUBLISHED = Published(
    gamma=1e-1,
    rho=5e-1,
    steps=(10, 10, 1),
    apprmh=(5e-5, 1, 5, 10),
    gibbs=(5e-6, 5, 10),
    decay=1.0,
)
MODEL = {"alpha": 10.0, "sigma": 6e3, "kappa0": 6e3, "kappa1": 2e4}
TOPICS, WORDS, MOST = 50, 3_000, 0.0599


@click.command(help=__doc__)
@sam_common.options("sam_wikipedia")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
def main(
    quick: bool,
    out: Path,
    seed: int,
    seconds: float,
    methods: tuple[str, ...],
    settings: tuple[str, ...],
    start: str,
    data: Path,
) -> None:
    """Run the experiment."""
    about = {**MODEL, "batch": 100}
    if quick:
        problem, seconds, methods = sam_common.synthetic(seed), 1.0, ("SGGMC", "StoVI")
        settings = ("equilibrium",)
    else:
        problem, least = _wikipedia(data)
        about["least document frequency"] = least
    about |= {"topics": problem.shape[0], "words": problem.shape[1]}
    sam_common.experiment(problem, methods, settings, seconds, start, seed, out, about)


def _wikipedia(data: Path) -> tuple[Problem, float]:
    """Return the problem, and the lowest document frequency of a kept word, as a share."""
    train, test = (
        corpus.read(
            data / f"docword.wikipedia.{part}.txt.gz", vocabulary=data / "vocab.wikipedia.txt"
        )
        for part in ("train", "test")
    )
    kept = vectors.cut(train, max_df=MOST, max_vocabulary=WORDS)
    columns = {word: column for column, word in enumerate(train.vocabulary)}
    chosen = [columns[word] for word in kept.vocabulary]
    test = test._replace(counts=test.counts[:, chosen], vocabulary=kept.vocabulary)
    weights = vectors.idf_weights(kept)
    result = [vectors.tfidf(part, weights).vectors.values for part in (kept, test)]
    least = float((kept.counts > 0).sum(axis=0).min() / kept.counts.shape[0])
    return sam_common.problem_of(*result, TOPICS, 100, PUBLISHED, **MODEL), least


if __name__ == "__main__":
    main()
