"""Mixtures of Gaussians at scale: seconds, held-out density, NMI and the number of clusters.

    python benchmarks/dpm_scale.py [--cases wide long] [--rows N] [--covariances full diagonal]
        [--tools ours scikit-learn dpgmm] [--passes 20] [--iterations 20] [--dpgmm-passes 1]
        [--seed 0] [--keep FILE]

"wide" is 100,000 rows of 128 columns in 79 clusters, "long" 1,000,000 of 32 in 100; --rows takes
fewer (or more) of the same clusters. A cluster has its own covariance, full or diagonal, of mean
variance 1; means of two clusters are about 6 apart, so that some overlap. A tenth of the rows, at
most 10,000, is held out.

Ours is `dpm.fit` with the default prior of the data and options. scikit-learn's
BayesianGaussianMixture is truncated at one and a half times the true number, and has its default
prior and at most `--iterations`; dpgmm (PyPI, torch) is a collapsed Gibbs sampler that visits one
row after another, skipped if not installed, with as many passes as `--dpgmm-passes` says. The
density of held-out rows is in nats per row: ours averages the samples, with the mass of new
clusters; the others' is that of the mixture of the final weights, means and covariances
(scikit-learn's own `score_samples` is no density). NMI is that of training rows: arithmetic
normalisation, as in scikit-learn; that of the true mixture's most probable labels is the bound.
Seconds are from the clock on the wall, from data to labels, with compilation and summary;
`seconds_a_pass` is that of training alone. `truth` is the density of the mixture that made the
rows.
"""

import argparse
import importlib.util
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import kept
import numpy as np
from scipy import linalg
from scipy.special import logsumexp
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture

from simplex_jax import dpm
from simplex_jax._src.models.dpm.clusters import assign

CASES = {"wide": (100_000, 128, 79), "long": (1_000_000, 32, 100)}
APART = 6.0
_BLOCK = 20_000


class Normals(NamedTuple):
    """A mixture of normal distributions."""

    log_weights: np.ndarray  # [K]
    means: np.ndarray  # [K, p]
    roots: np.ndarray  # Cholesky factors of covariances, [K, p, p]

    def density(self, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean log density of rows, and the most probable component of each."""
        total, labels = 0.0, []
        for first in range(0, len(rows), _BLOCK):
            some = rows[first : first + _BLOCK].astype(np.float64)
            logs = np.empty((len(some), len(self.means)))
            for k, (mean, root) in enumerate(zip(self.means, self.roots, strict=True)):
                z = linalg.solve_triangular(root, (some - mean).T, lower=True)
                logs[:, k] = -0.5 * (z**2).sum(axis=0) - np.log(np.diag(root)).sum()
            logs += self.log_weights - 0.5 * rows.shape[1] * np.log(2 * np.pi)
            total += float(logsumexp(logs, axis=1).sum())
            labels.append(logs.argmax(axis=1))
        return total / len(rows), np.concatenate(labels)


class Rows(NamedTuple):
    """Rows to train on with their clusters, rows held out, and the density of these in truth."""

    train: np.ndarray
    labels: np.ndarray
    heldout: np.ndarray
    truth: float
    bound: float  # NMI of held-out rows by the true mixture


class Result(NamedTuple):
    """What a tool found."""

    labels: np.ndarray
    density: float
    clusters: dict[int, float]  # posterior of their number, or the number
    seconds: float
    seconds_a_pass: float
    passes: int


def make(size: int, columns: int, clusters: int, covariance: str, seed: int) -> Rows:
    """Draw the rows of a case."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(clusters, 3.0))
    means = rng.normal(size=(clusters, columns)) * APART / np.sqrt(2 * columns)
    if covariance == "full":
        raw = rng.normal(size=(clusters, columns, columns)) / np.sqrt(columns)
        covariances = 0.7 * raw @ raw.transpose(0, 2, 1) + 0.3 * np.eye(columns)
    else:
        covariances = np.eye(columns) * rng.gamma(3.0, 1 / 3, (clusters, 1, columns))
        covariances += 0.05 * np.eye(columns)
    law = Normals(np.log(weights), means, np.linalg.cholesky(covariances))
    labels = rng.choice(clusters, size, p=weights)
    rows = np.empty((size, columns), np.float32)
    for k in range(clusters):
        own = labels == k
        rows[own] = means[k] + rng.normal(size=(own.sum(), columns)) @ law.roots[k].T
    out = min(10_000, size // 10)
    heldout = rows[:out]
    truth, probable = law.density(heldout)
    bound = normalized_mutual_info_score(labels[:out], probable)
    return Rows(rows[out:], labels[out:], heldout, truth, bound)


def ours(rows: Rows, covariance: str, args: argparse.Namespace) -> Result:
    """`dpm.fit` with the prior of the data."""
    of = dpm.families.gaussian_of if covariance == "full" else dpm.families.diagonal_gaussian_of
    began = time.perf_counter()
    # The moments of rows are taken about the prior mean, which is 0 to within a deviation.
    family = of(rows.train)
    prepared = time.perf_counter() - began
    options = {"passes": args.passes, "seed": args.seed, "keep_samples": 5}
    fitted = dpm.fit(rows.train, family, **options)
    seconds = time.perf_counter() - began
    density = float(assign(fitted.clusters.samples, family, rows.heldout).log_predictive.mean())
    trained = fitted.metrics[-1]["seconds"]
    print(f"prior {prepared:.1f} s, training {trained:.1f} s, all {seconds:.1f} s", flush=True)
    print("clusters", [record["num_clusters"] for record in fitted.metrics], flush=True)
    labels, numbers = fitted.point.labels, fitted.num_clusters_posterior
    return Result(labels, density, numbers, seconds, trained / args.passes, args.passes)


def scikit(rows: Rows, covariance: str, args: argparse.Namespace) -> Result:
    """scikit-learn's variational mixture, with its defaults."""
    kind = {"full": "full", "diagonal": "diag"}[covariance]
    most = -(-3 * args.clusters // 2)
    model = BayesianGaussianMixture(
        n_components=most, covariance_type=kind, max_iter=args.iterations, random_state=args.seed
    )
    began = time.perf_counter()
    labels = model.fit_predict(rows.train)
    seconds = time.perf_counter() - began
    covariances = model.covariances_
    roots = (
        np.linalg.cholesky(covariances)
        if covariance == "full"
        else np.sqrt(covariances)[:, :, None] * np.eye(rows.train.shape[1])
    )
    density = Normals(np.log(model.weights_), model.means_, roots).density(rows.heldout)[0]
    found = {len(np.unique(labels)): 1.0}
    return Result(labels, density, found, seconds, seconds / model.n_iter_, model.n_iter_)


def dpgmm(rows: Rows, covariance: str, args: argparse.Namespace) -> Result:
    """Collapsed Gibbs sampler of dpgmm, from one cluster of all rows."""
    import torch
    from dpgmm import samplers

    kind = {"full": "Full", "diagonal": "Diag"}[covariance]
    sampler = getattr(samplers, f"{kind}CovarianceCollapsedGibbsSampler")(
        init_strategy="init_data_stats", max_clusters_num=2 * args.clusters, batch_size=1
    )
    began = time.perf_counter()
    passes = args.dpgmm_passes
    found = sampler.fit(iterations_num=passes, data=torch.as_tensor(rows.train))
    seconds = time.perf_counter() - began
    labels = np.empty(len(rows.train), int)
    members = [np.array(sorted(own)) for own in found["cluster_assignment"] if len(own)]
    for k, own in enumerate(members):
        labels[own] = k
    sizes = np.array([len(own) for own in members])
    groups = [rows.train[own].astype(np.float64) for own in members]
    ridge = 1e-3 * np.eye(rows.train.shape[1])
    spread = [np.cov(own.T, bias=True) if len(own) > 1 else 0 * ridge for own in groups]
    if covariance == "diagonal":
        spread = [np.diag(np.diag(own)) for own in spread]
    roots = np.linalg.cholesky(np.array(spread) + ridge)
    law = Normals(np.log(sizes / sizes.sum()), np.array([x.mean(axis=0) for x in groups]), roots)
    density = law.density(rows.heldout)[0]
    return Result(labels, density, {len(sizes): 1.0}, seconds, seconds / passes, passes)


TOOLS = {"ours": ours, "scikit-learn": scikit, "dpgmm": dpgmm}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rows", type=int, help="number of rows, in place of that of the case")
    parser.add_argument("--covariances", nargs="+", default=["full", "diagonal"])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--dpgmm-passes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    args = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.devices()[0].platform}, load {os.getloadavg()[0]:.1f}")
    records: list[dict[str, Any]] = []
    for case in args.cases:
        size, columns, args.clusters = CASES[case]
        for covariance in args.covariances:
            rows = make(args.rows or size, columns, args.clusters, covariance, args.seed)
            print(f"{case}, {covariance}: {rows.train.shape}, truth {rows.truth:.3f}", flush=True)
            for name in args.tools:
                if name == "dpgmm" and importlib.util.find_spec("dpgmm") is None:
                    print("dpgmm is not installed")
                    continue
                found = TOOLS[name](rows, covariance, args)
                numbers = found.clusters
                record = {
                    "case": case,
                    "covariance": covariance,
                    "rows": len(rows.train),
                    "columns": columns,
                    "true_clusters": len(np.unique(rows.labels)),
                    "tool": name,
                    "passes": found.passes,
                    "seconds": round(found.seconds, 1),
                    "seconds_a_pass": round(found.seconds_a_pass, 3),
                    "heldout": round(found.density, 3),
                    "truth": round(rows.truth, 3),
                    "nmi_of_truth": round(rows.bound, 4),
                    "nmi": round(normalized_mutual_info_score(rows.labels, found.labels), 4),
                    "clusters": round(sum(k * p for k, p in numbers.items()), 1),
                    "fewest_clusters": min(numbers),
                    "most_clusters": max(numbers),
                    "load": round(os.getloadavg()[0], 1),
                }
                print(json.dumps(record), flush=True)
                records.append(record)
                if args.keep:
                    kept.write(args.keep, records)


if __name__ == "__main__":
    main()
