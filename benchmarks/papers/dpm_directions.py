"""A Dirichlet-process mixture of von Mises-Fisher distributions on directions of articles.

    python benchmarks/papers/dpm_directions.py [--quick] [--out FOLDER] [--seed N]

Liu, Zhu and Song (2016), section 6, name Dirichlet-process mixtures of von Mises-Fisher
distributions as a use of posterior sampling on spheres, without an experiment. `models.dpm` samples
directions and concentrations in turn, exactly. The data are theirs: tf-idf vectors of 1,666
training articles of three newsgroups, and 1,107 to score, in 20 dimensions by a truncated singular
value decomposition of the first, divided by their lengths.

The sampler makes 1,000 updates of all rows, of which the last half counts, with 2 rounds of
split-merge moves each, from 20 random labels. It is compared with EM for mixtures of K von
Mises-Fisher distributions, and with k-means and spherical k-means, for clusters alone, each the
best of 10 starts by its own objective. Scores are the mean log density of a held-out direction,
with respect to area, and the mutual information of the clusters and newsgroups of the held-out
articles, over the mean of both entropies (NMI). A held-out article has the likeliest, or the
nearest, cluster; for the sampler, that of a sample, and NMI is the mean over 100 samples.
"""

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
import sam_data
import scipy.sparse as sp
from jax import lax
from matplotlib.ticker import NullLocator
from scipy.sparse import linalg
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from simplex_jax._src import draws
from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.runtime.averaging import LogMean
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.runtime.hooks import Event

DATA = common.DATA / "20news-different"
DIMENSION, STARTS, SAMPLES, ITERATIONS = 20, 10, 100, 200
NUMBERS = (3, 10, 20, 40)


class Problem(NamedTuple):
    """Training directions, [N, p], those to score, and the groups of both."""

    train: np.ndarray
    test: np.ndarray
    train_groups: np.ndarray
    test_groups: np.ndarray


class Mixture(NamedTuple):
    """A mixture of K von Mises-Fisher distributions."""

    weights: jax.Array  # [K]
    means: jax.Array  # [K, p]
    concentrations: jax.Array  # [K]


def articles(data: Path) -> Problem:
    """Read the articles, and return their directions in the leading singular vectors."""
    parts = [data / f"diff.{part}.tfidf1.data" for part in ("train", "test")]
    tables = [sp.csr_array(sam_data.read(part).values, dtype=np.float64) for part in parts]
    groups = [_groups(part, table.shape[0]) for part, table in zip(parts, tables, strict=True)]
    start = np.ones(min(tables[0].shape))  # the same vectors each time
    vectors = linalg.svds(tables[0], DIMENSION, v0=start)[2]
    train, test = (_unit(table @ vectors.T) for table in tables)
    return Problem(train, test, *groups)


def _groups(path: Path, documents: int) -> np.ndarray:
    """Return the second number of each document's line."""
    result = re.findall(r"^\d+[ \t]+(\d+)[ \t]", path.read_text("ascii"), re.MULTILINE)
    if len(result) != documents:
        raise ValueError(f"{path.name} has {len(result)} groups of {documents} documents")
    return np.array(result, int)


def _unit(x: np.ndarray) -> np.ndarray:
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def synthetic(seed: int) -> Problem:
    """Draw directions of three groups."""
    generator = np.random.default_rng(seed)
    means = np.linalg.qr(generator.standard_normal((5, 3)))[0].T
    groups = generator.integers(3, size=300)
    x = draws.von_mises_fisher(jax.random.key(seed), jnp.asarray(means[groups], jnp.float32), 20.0)
    x = np.asarray(x)
    return Problem(x[:200], x[200:], groups[:200], groups[200:])


class Recorder:
    """A hook that averages the held-out density and compares clusters with groups."""

    def __init__(self, family: Family, problem: Problem, burn_in: int) -> None:
        self._family, self._problem, self._burn_in = family, problem, burn_in
        self._rows = jnp.asarray(problem.test)
        self._density = LogMean(len(problem.test))
        self.clusters: list[int] = []
        self.large: list[int] = []  # with at least ten rows
        self.agreement: list[float] = []
        self.agreement_train: list[float] = []
        self.singles: list[float] = []

    def __call__(self, event: Event) -> None:
        """Score the state."""
        if event.step <= self._burn_in:
            return
        state = event.state
        log_p = np.asarray(_score(self._family, state.position, self._rows), np.float64)
        self._density.add([log_p])
        self.singles.append(float(log_p.mean()))
        place = np.asarray(_likeliest(self._family, state.position, self._rows))
        self.agreement.append(_nmi(self._problem.test_groups, place))
        labels = np.asarray(state.labels)
        self.agreement_train.append(_nmi(self._problem.train_groups, labels))
        self.clusters.append(int(dpm_mixture.occupied(state)))
        self.large.append(int((np.asarray(state.occupancy) >= 10).sum()))

    def scores(self) -> dict[str, float]:
        """Return the means."""
        return {
            "log density": float(self._density.value().mean()),
            "of one sample": float(np.mean(self.singles)),
            "NMI": float(np.mean(self.agreement)),
            "NMI, training": float(np.mean(self.agreement_train)),
            "clusters": float(np.mean(self.clusters)),
            "large clusters": float(np.mean(self.large)),
        }


_score = jax.jit(dpm_mixture.log_predictive)


@jax.jit
def _likeliest(family: Family, mixture: Any, rows: jax.Array) -> jax.Array:
    return jnp.argmax(family.log_likelihood(rows, mixture.atoms) + mixture.log_weights, axis=1)


def _nmi(groups: np.ndarray, clusters: np.ndarray) -> float:
    return float(normalized_mutual_info_score(groups, clusters))


def dirichlet_process(problem: Problem, seed: int, updates: int) -> dict[str, float]:
    """Sample the mixture, and return its scores."""
    family = families.von_mises_fisher(problem.train.shape[1])
    rows = jnp.asarray(problem.train)
    prior = dpm_mixture.Gamma(1.0, 1.0)
    kernel, stream = dpm_mixture.build(rows, family, alpha=prior, split_merge=2)
    keys = jax.random.split(jax.random.key(seed), 3)
    state = kernel.init(keys[0], dpm_mixture.random_labels(keys[1], rows, 20))
    every = max(1, updates // (2 * SAMPLES))
    recorder = Recorder(family, problem, updates // 2)
    run(
        keys[2],
        kernel,
        state,
        stream,
        updates,
        collect=lambda state, info: (),
        chunk=every,
        hooks=[recorder],
        grow=dpm_mixture.State.grown,
    )
    return recorder.scores()


@jax.jit
def _log_joint(mixture: Mixture, x: jax.Array) -> jax.Array:
    """Return log w_k f(x | k), [n, K]."""
    peak = vmf.log_normaliser(x.shape[1], mixture.concentrations)
    return jnp.log(mixture.weights) + peak + mixture.concentrations * (x @ mixture.means.T)


@jax.jit
def _em(x: jax.Array, start: jax.Array) -> Mixture:
    """Return the EM estimate, started at the clusters of the nearest of K rows."""

    def fitted(share: jax.Array) -> Mixture:
        total = share.T @ x
        size = jnp.maximum(share.sum(axis=0), 1e-3)
        length = jnp.linalg.norm(total, axis=1)
        # A cluster of a row or two has no best concentration.
        mean_length = jnp.clip(length / size, 1e-3, 0.99)
        means = total / jnp.maximum(length, 1e-6)[:, None]
        return Mixture(size / size.sum(), means, vmf.fit(x.shape[1], mean_length))

    def step(i: int, mixture: Mixture) -> Mixture:
        return fitted(jax.nn.softmax(_log_joint(mixture, x), axis=1))

    first = fitted(jax.nn.one_hot(jnp.argmax(x @ start.T, axis=1), len(start)))
    return lax.fori_loop(0, ITERATIONS, step, first)


@jax.jit
def _spherical(x: jax.Array, start: jax.Array) -> jax.Array:
    """Return the centres of spherical k-means, [K, p]; one without rows stays where it is."""

    def step(i: int, means: jax.Array) -> jax.Array:
        total = jax.nn.one_hot(jnp.argmax(x @ means.T, axis=1), len(means)).T @ x
        length = jnp.linalg.norm(total, axis=1, keepdims=True)
        return jnp.where(length > 0, total / jnp.maximum(length, 1e-6), means)

    return lax.fori_loop(0, ITERATIONS, step, start)


def compared(problem: Problem, seed: int, number: int, starts: int) -> dict[str, dict[str, float]]:
    """Return the scores of mixtures and clusterings with K components."""
    generator = np.random.default_rng(seed)
    x, test = jnp.asarray(problem.train), jnp.asarray(problem.test)
    first = [x[generator.choice(len(x), number, replace=False)] for _ in range(starts)]
    centres = max(
        (_spherical(x, start) for start in first),
        key=lambda means: float(jnp.max(x @ means.T, axis=1).sum()),
    )
    mixture = max(
        (_em(x, start) for start in first),
        key=lambda one: float(jax.nn.logsumexp(_log_joint(one, x), axis=1).sum()),
    )
    joint = _log_joint(mixture, test)
    means = KMeans(number, n_init=starts, random_state=seed).fit(problem.train)

    def scored(place: Any, place_train: Any) -> dict[str, float]:
        return {
            "NMI": _nmi(problem.test_groups, np.asarray(place)),
            "NMI, training": _nmi(problem.train_groups, np.asarray(place_train)),
            "clusters": float(number),
        }

    return {
        f"EM, K = {number}": scored(
            jnp.argmax(joint, axis=1), jnp.argmax(_log_joint(mixture, x), axis=1)
        )
        | {"log density": float(jax.nn.logsumexp(joint, axis=1).mean())},
        f"spherical k-means, K = {number}": scored(
            jnp.argmax(test @ centres.T, axis=1), jnp.argmax(x @ centres.T, axis=1)
        ),
        f"k-means, K = {number}": scored(means.predict(problem.test), means.labels_),
    }


@click.command(help=__doc__.splitlines()[0])
@common.options("dpm_directions")
@click.option("--data", type=click.Path(path_type=Path), default=DATA, show_default=True)
@click.option("--updates", type=click.IntRange(20), default=1000, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
def main(quick: bool, out: Path, seed: int, data: Path, updates: int, seeds: int) -> None:
    started = time.perf_counter()
    problem, numbers, starts = (
        (synthetic(seed), (3,), 2) if quick else (articles(data), NUMBERS, STARTS)
    )
    if quick:
        updates, seeds = 40, 1
    result: dict[str, list[dict[str, float]]] = {}
    for s in range(seed, seed + seeds):
        before = time.perf_counter()
        scores = dirichlet_process(problem, s, updates)
        scores["seconds"] = time.perf_counter() - before
        result.setdefault("Dirichlet process", []).append(scores)
        for number in numbers:
            for name, one in compared(problem, s, number, starts).items():
                result.setdefault(name, []).append(one)
    columns = ("log density", "of one sample", "NMI", "NMI, training", "clusters")
    rows = [
        {
            "method": name,
            **{column: _mean(those, column) for column in (*columns, "large clusters", "seconds")},
            **{
                f"{end} {column}": chosen(one.get(column, np.nan) for one in those)
                for column in ("log density", "NMI")
                for end, chosen in (("least", min), ("most", max))
            },
        }
        for name, those in result.items()
    ]
    settings = {
        "seed": seed,
        "seeds": seeds,
        "rows": len(problem.train),
        "held out": len(problem.test),
        "dimension": problem.train.shape[1],
        "updates": updates,
        "starts": starts,
    }
    common.write(out, rows, _figure(rows), settings, started)


def _mean(those: list[dict[str, float]], column: str) -> float:
    return float(np.mean([one.get(column, np.nan) for one in those]))


def _figure(rows: list[dict[str, Any]]) -> Any:
    figure, axes = common.figure(2, width=4.2, height=3.4)
    for axis, column in zip(axes, ("log density", "NMI"), strict=True):
        for colour, kind in zip(common.COLOURS, ("EM", "spherical", "k-means"), strict=False):
            those = [row for row in rows if row["method"].startswith(kind)]
            if not np.isnan(those[0][column]):
                x, y = ([row[name] for row in those] for name in ("clusters", column))
                label = those[0]["method"].partition(",")[0]
                axis.plot(x, y, color=colour, label=label, marker=".", lw=1)
        process = rows[0]
        axis.axhline(process[column], color=common.COLOURS[3], label="Dirichlet process")
        axis.set(xlabel="clusters", xscale="log", ylabel=f"{column}, held out")
        axis.set_xticks([row["clusters"] for row in rows if row["method"].startswith("EM")])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_locator(NullLocator())
    axes[1].legend(fontsize=7, frameon=False)
    return figure


if __name__ == "__main__":
    main()
