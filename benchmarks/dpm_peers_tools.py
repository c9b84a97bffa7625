"""The tools of `dpm_peers.py`: functions of rows and a seed that return a `Score`."""

import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import stats
from scipy.special import gammaln, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm.clusters import assign

COMPONENTS = 30
BASE = 0.1


class Rows(NamedTuple):
    """Rows to train on, rows held out, and the score of the truth, if known.

    `factor` scales Psi, for real vectors; counts are sparse.
    """

    train: Any
    heldout: Any
    truth: float | None = None
    factor: float = 1.0


class Score(NamedTuple):
    """Held-out log densities by name, processor seconds, and the number of clusters."""

    heldout: dict[str, float]
    seconds: float
    clusters: float


Tool = Callable[[Rows, int], Score]


class Clock:
    """Processor seconds since it was made; as a hook, up to the last evaluation."""

    def __init__(self) -> None:
        self._started, self.seconds = time.process_time(), 0.0

    def __call__(self, event: object = None) -> None:
        """Read the clock."""
        self.seconds = time.process_time() - self._started


def prior(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and Psi."""
    return rows.train.mean(axis=0), np.cov(rows.train.T, bias=True) * rows.factor


def ours(passes: int, batches: int = 1, scales: Sequence[float] = (1.0,), **options: Any) -> Tool:
    """Our fit with these options; by default the exact slice sampler.

    With several scales, each component's Psi is one of them times the factor of the rows.
    """

    def fit(rows: Rows, seed: int) -> Score:
        size = rows.train.shape[0]
        if sp.issparse(rows.train):
            family = families.multinomial(rows.train.shape[1], BASE)
            train, heldout = map(families.multinomial_rows, (rows.train, rows.heldout))
        else:
            mean, scale = prior(rows)
            zero = np.zeros(len(mean), np.float32)
            members = [families.gaussian(zero, scale * factor) for factor in scales]
            family = families.one_of(members) if len(members) > 1 else members[0]
            train, heldout = ((x - mean).astype(np.float32) for x in (rows.train, rows.heldout))
        clock = Clock()
        chosen = {"alpha": 1.0, "keep_samples": 50, "batch_size": -(-size // batches)} | options
        fitted = dpm.fit(train, family, passes=passes, seed=seed, hooks=[clock], **chosen)
        result = assign(fitted.clusters.samples, family, heldout)
        numbers = fitted.num_clusters_posterior
        clusters = sum(number * p for number, p in numbers.items())
        return Score({"predictive": float(result.log_predictive.mean())}, clock.seconds, clusters)

    return fit


def scikit(n_init: int) -> Tool:
    """scikit-learn's variational mixture of Gaussians."""

    def fit(rows: Rows, seed: int) -> Score:
        mean, scale = prior(rows)
        model = BayesianGaussianMixture(
            n_components=COMPONENTS,
            weight_concentration_prior_type="dirichlet_process",
            weight_concentration_prior=1.0,
            mean_prior=mean,
            mean_precision_prior=1.0,
            degrees_of_freedom_prior=len(mean) + 2,
            covariance_prior=scale,
            max_iter=2_000,
            n_init=n_init,
            random_state=seed,
        )
        clock = Clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows.train)
        clock()
        densities = {
            "reported": model.score_samples(rows.heldout),
            "plug-in": plug_in(model, rows.heldout),
            "predictive": student(model, rows.heldout),
        }
        used = len(np.unique(model.predict(rows.train)))
        return Score({name: float(x.mean()) for name, x in densities.items()}, clock.seconds, used)

    return fit


def plug_in(model: BayesianGaussianMixture, x: np.ndarray) -> np.ndarray:
    """Log density of the mixture of posterior means."""
    laws = zip(model.means_, model.covariances_, strict=True)
    log_f = np.stack([stats.multivariate_normal.logpdf(x, m, s) for m, s in laws])
    return logsumexp(log_f.T + np.log(model.weights_), axis=1)


def student(model: BayesianGaussianMixture, x: np.ndarray) -> np.ndarray:
    """Log predictive density under the variational posterior, a mixture of Student t laws."""
    p = x.shape[1]
    log_f = []
    for m, covariance, n, k in zip(
        model.means_,
        model.covariances_,
        model.degrees_of_freedom_,
        model.mean_precision_,
        strict=True,
    ):
        # scikit-learn's covariances are the inverse Wishart scale over its degrees of freedom.
        shape = covariance * n * (k + 1) / (k * (n - p + 1))
        log_f.append(stats.multivariate_t.logpdf(x, m, shape, df=n - p + 1))
    return logsumexp(np.stack(log_f).T + np.log(model.weights_), axis=1)


def dirichlet_multinomial(
    counts: sp.csr_array, weights: np.ndarray, concentrations: np.ndarray
) -> np.ndarray:
    """Log predictive of rows of counts under a variational posterior, with ordered words.

    Args:
        counts: [n, V].
        weights: Expected weights of the components, [K].
        concentrations: Of their Dirichlet laws, [K, V].
    """
    totals, lengths = concentrations.sum(axis=1), counts.sum(axis=1)
    log_f = gammaln(totals) - gammaln(totals + lengths[:, None])
    coordinates = sp.coo_array(counts)
    row, word = coordinates.coords
    a = concentrations[:, word]
    terms = gammaln(a + coordinates.data) - gammaln(a)
    for k, of_component in enumerate(terms):
        log_f[:, k] += np.bincount(row, of_component, minlength=counts.shape[0])
    return logsumexp(log_f + np.log(weights), axis=1)


def bayespy(iterations: int) -> Tool:
    """BayesPy's mixture of multinomials with Dirichlet(1 / K) weights."""

    def fit(rows: Rows, seed: int) -> Score:
        from bayespy import nodes
        from bayespy.inference import VB

        np.random.seed(seed)  # noqa: NPY002  BayesPy draws from it
        counts = rows.train.toarray().astype(int)
        clock = Clock()
        weights = nodes.Dirichlet(np.full(COMPONENTS, 1 / COMPONENTS))
        labels = nodes.Categorical(weights, plates=(len(counts),))
        atoms = nodes.Dirichlet(np.full(counts.shape[1], BASE), plates=(COMPONENTS,))
        trials = counts.sum(axis=1)[:, None]  # The last axis is that of the components.
        data = nodes.Mixture(labels, nodes.Multinomial, trials, atoms)
        labels.initialize_from_random()
        data.observe(counts)
        model = VB(data, atoms, weights, labels)  # In this order: only labels start at random.
        with contextlib.redirect_stdout(io.StringIO()):
            model.update(repeat=iterations, tol=1e-6)
        clock()
        # The natural parameters of a Dirichlet are its concentrations.
        shares, laws = np.asarray(weights.phi[0]), np.asarray(atoms.phi[0])
        log_p = dirichlet_multinomial(rows.heldout, shares / shares.sum(), laws)
        used = len(np.unique(labels.get_moments()[0].argmax(axis=1)))
        return Score({"predictive": float(log_p.mean())}, clock.seconds, used)

    return fit


def bnpy(laps: int, moves: str) -> Tool:
    """Mixture of multinomials of bnpy, by memoised variational inference."""

    def fit(rows: Rows, seed: int) -> Score:
        import bnpy as library

        table = sp.csr_array(rows.train)
        data = library.data.BagOfWordsData(
            word_id=table.indices,
            word_count=table.data.astype(float),
            doc_range=table.indptr,
            vocab_size=table.shape[1],
        )
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            model, _ = library.run(
                data,
                "DPMixtureModel",
                "Mult",
                "memoVB",
                output_path=folder,
                nLap=laps,
                nBatch=1,
                K=COMPONENTS,
                gamma0=1.0,
                lam=BASE,
                initname="randexamples",
                moves=moves,
                taskid=1 + seed,
            )
        clock()
        log_p = dirichlet_multinomial(
            rows.heldout, model.allocModel.get_active_comp_probs(), model.obsModel.Post.lam
        )
        return Score({"predictive": float(log_p.mean())}, clock.seconds, model.allocModel.K)

    return fit
