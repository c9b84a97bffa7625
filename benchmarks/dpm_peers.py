"""Dirichlet-process mixtures side by side: held-out log predictive density and seconds.

    python benchmarks/dpm_peers.py [--cases digits synth] [--tools TOOL ...] [--seeds 3] [--keep F]

Every tool gets the same training rows, prior and number of seeds, in one process, one after the
other; held-out rows are scored afterwards, in nats per row: higher is better. Real vectors: Sigma ~
InverseWishart(p + 2, Psi), mu ~ N(mean of the rows, Sigma), concentration 1, where Psi is the
covariance of the training rows, or a tenth of it ("narrow prior"); scikit-learn's
BayesianGaussianMixture is truncated at 30 components and runs at most 2,000 iterations. Counts:
theta ~ Dirichlet(0.1), concentration 1.

scikit-learn has three densities: "reported", its own `score_samples`, which replaces parameters by
expectations of logarithms and is no density; "plug-in", of its means, covariances and weights; and
"predictive", the mixture of Student t distributions that its variational posterior predicts. Ours
averages 50 posterior samples, with the mass of new clusters. Seconds are processor time of
training, or of `fit` for the others; `first` is a whole first call, with compilation and summary.
BayesPy and bnpy are skipped if not installed.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import kept
import msweb as web_data
import numpy as np
import scipy.sparse as sp
from dpm_peers_tools import Rows, Tool, bayespy, bnpy, ours, scikit
from scipy import stats
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# Factors of Psi; with `families.one_of` each component has one of them, for an unknown scale.
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)


def digits(factor: float) -> Rows:
    """1,797 digits of 8 x 8 pixels, their first eight principal components; 450 held out."""
    pixels = load_digits().data
    order = np.random.default_rng(0).permutation(len(pixels))
    train, heldout = pixels[order[450:]], pixels[order[:450]]
    project = PCA(8, random_state=0).fit(train)
    return Rows(project.transform(train), project.transform(heldout), factor=factor)


def standardised(load: Callable[[], Any], factor: float) -> Rows:
    """A table of scikit-learn, columns scaled to mean 0 and variance 1; a quarter held out."""
    rows = StandardScaler().fit_transform(load().data)
    order = np.random.default_rng(0).permutation(len(rows))
    out = len(rows) // 4
    return Rows(rows[order[out:]], rows[order[:out]], factor=factor)


def synth(size: int) -> Rows:
    """Fifteen Gaussians in four dimensions with geometric weights."""
    rng = np.random.default_rng(0)
    weights = 0.8 ** np.arange(15)
    weights /= weights.sum()
    means = rng.normal(size=(15, 4)) * 4
    roots = rng.normal(size=(15, 4, 4)) * 0.5 + 0.3 * np.eye(4)

    def draw(count: int) -> np.ndarray:
        label = rng.choice(15, count, p=weights)
        return means[label] + np.einsum("nij,nj->ni", roots[label], rng.normal(size=(count, 4)))

    train, heldout = draw(size), draw(5_000)
    laws = zip(means, roots @ roots.transpose(0, 2, 1), strict=True)
    log_f = np.stack([stats.multivariate_normal.logpdf(heldout, m, s) for m, s in laws])
    return Rows(train, heldout, float(logsumexp(log_f.T + np.log(weights), axis=1).mean()))


def groups() -> Rows:
    """5,000 users of six groups over sixty pages, and 1,000 held out: `papers/dpm_synthetic.py`."""
    rng = np.random.default_rng(0)
    atoms = rng.dirichlet(np.full(60, 0.1), size=6)
    weights = np.array([0.3, 0.25, 0.2, 0.15, 0.07, 0.03])
    label = rng.choice(6, size=6_000, p=weights)
    counts = rng.multinomial(1 + rng.poisson(4, 6_000), atoms[label])
    log_atoms = np.log(np.maximum(atoms, 1e-300))
    truth = logsumexp(np.log(weights) + counts[5_000:] @ log_atoms.T, axis=1).mean()
    return Rows(sp.csr_array(counts[:5_000]), sp.csr_array(counts[5_000:]), float(truth))


def msweb() -> Rows:
    """5,000 users of the Microsoft web data, and 2,000 held out."""
    counts = web_data.read(DATA / "msweb" / "anonymous-msweb.data").counts
    order = np.random.default_rng(0).permutation(counts.shape[0])
    return Rows(sp.csr_array(counts[order[:5_000]]), sp.csr_array(counts[order[5_000:7_000]]))


REAL: dict[str, Tool] = {
    "scikit-learn, n_init=1": scikit(1),
    "scikit-learn, n_init=10": scikit(10),
    "ours, exact, 100 passes": ours(100),
    "ours, exact, 500 passes": ours(500),
    "ours, from 60 labels, 500 passes": ours(500, initial_clusters=60, split_merge=0),
    "ours, from one label, 500 passes": ours(500, initial_clusters=1),
    "ours, ten batches, 100 passes": ours(100, batches=10),
    "ours, subsampled, 100 passes": ours(100, batches=10, counts="subsampled"),
    "ours, alpha learned, 500 passes": ours(500, alpha=None),
    "ours, one of five scales, 100 passes": ours(100, scales=SCALES),
    "ours, one of five scales, 500 passes": ours(500, scales=SCALES),
}
COUNTS: dict[str, Tool] = {
    "bnpy, 30 components": bnpy(1_000, "merge,shuffle"),
    "bnpy, with births": bnpy(1_000, "birth,merge,shuffle"),
    "bayespy, 30 components": bayespy(300),
    "ours, exact, 100 passes": ours(100),
    "ours, exact, 500 passes": ours(500),
    "ours, from 60 labels, 500 passes": ours(500, initial_clusters=60, split_merge=0),
    "ours, ten batches, 100 passes": ours(100, batches=10),
    "ours, memoised SCIR, 100 passes": ours(
        100, batches=10, sampler="scir", atom_step_size=5.0, stick_step_size=5.0
    ),
    "ours, subsampled SCIR, 100 passes": ours(100, batches=10, sampler="scir", counts="subsampled"),
}
CASES: dict[str, tuple[Callable[[], Rows], dict[str, Tool]]] = {
    "digits": (lambda: digits(1.0), REAL),
    "digits, narrow prior": (lambda: digits(0.1), REAL),
    "wine": (lambda: standardised(load_wine, 1.0), REAL),
    "wine, narrow prior": (lambda: standardised(load_wine, 0.1), REAL),
    "cancer": (lambda: standardised(load_breast_cancer, 1.0), REAL),
    "synth": (lambda: synth(20_000), REAL),
    "groups": (groups, COUNTS),
    "msweb": (msweb, COUNTS),
}


def measure(tool: Tool, rows: Rows, seeds: int) -> dict[str, Any]:
    """Run a tool with every seed, the first twice because it compiles."""
    started = time.process_time()
    tool(rows, 0)
    first = time.process_time() - started
    scores = [tool(rows, seed) for seed in range(seeds)]
    heldout = {
        name: [round(score.heldout[name], 4) for score in scores] for name in scores[0].heldout
    }
    return {
        "heldout": heldout,
        "seconds": [round(score.seconds, 3) for score in scores],
        "first": round(first, 2),
        "clusters": [round(score.clusters, 1) for score in scores],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--tools", nargs="+", choices=REAL | COUNTS, default=list(REAL | COUNTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a JSON file for the results")
    args = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.devices()[0].platform}")
    records = []
    for case in args.cases:
        make, tools = CASES[case]
        rows = make()
        print(f"{case}: {rows.train.shape}, truth {rows.truth}")
        for name in args.tools:
            module = name.partition(",")[0]
            installed = module in ("ours", "scikit-learn") or importlib.util.find_spec(module)
            if name not in tools or not installed:
                continue
            record = {"case": case, "tool": name} | measure(tools[name], rows, args.seeds)
            print(json.dumps(record), flush=True)
            heldout = record.pop("heldout")
            records += [record | {"density": kind} | _spread(heldout[kind]) for kind in heldout]
    if args.keep:
        kept.write(args.keep, [_plain(record) for record in records])


def _spread(values: list[float]) -> dict[str, float]:
    """Return the mean and the range of the seeds."""
    return {"heldout": float(np.mean(values)), "least": min(values), "most": max(values)}


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return a row of numbers: seconds and clusters as means over the seeds."""
    means = {name: float(np.mean(record[name])) for name in ("seconds", "clusters")}
    return record | means


if __name__ == "__main__":
    main()
