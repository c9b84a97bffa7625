"""A tiny spherical admixture model and its posterior, computed in NumPy without a Markov chain."""

import numpy as np
import scipy.sparse as sp
from scipy import special, stats

from simplex_jax._src.models.sam import joint
from simplex_jax._src.models.sam.joint import Hyperparameters, UnitDocuments

V, K, D = 4, 2, 6
ALPHA, SIGMA, KAPPA0, KAPPA1 = 1.5, 2.0, 3.0, 6.0
MEAN = np.array([0.7, 0.5, 0.4, np.sqrt(1 - 0.9)])


def vectors() -> np.ndarray:
    """Documents about two directions, with a negative entry."""
    rows = np.array(
        [
            [0.9, 0.4, 0.0, 0.1],
            [0.8, 0.5, 0.2, 0.0],
            [0.9, 0.1, 0.3, -0.2],
            [0.0, 0.2, 0.9, 0.5],
            [0.1, 0.0, 0.6, 0.8],
            [0.5, 0.3, 0.5, 0.4],
        ]
    )
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def documents() -> UnitDocuments:
    return joint.to_device(sp.csr_array(vectors()))


def hyper(**changed: float) -> Hyperparameters:
    values = {"alpha": ALPHA, "sigma": SIGMA, "kappa0": KAPPA0, "kappa1": KAPPA1} | changed
    return joint.hyperparameters(MEAN.astype(np.float32), **values)


def log_normaliser(kappa: float, dimension: int = V) -> float:
    """log c_p(kappa) of the von Mises-Fisher distribution."""
    nu = dimension / 2 - 1
    log_bessel = np.log(special.ive(nu, kappa)) + kappa
    return nu * np.log(kappa) - (dimension / 2) * np.log(2 * np.pi) - log_bessel


def nodes(count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """First proportions and their weights: quadrature of Beta(alpha, alpha)."""
    x, w = special.roots_jacobi(count, ALPHA - 1, ALPHA - 1)
    return (1 + x) / 2, w / w.sum()


def fits(topics: np.ndarray, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v' vbar of topics [..., 2, V], first proportions [Q] and rows [D, V]: [..., D, Q]."""
    share = np.stack([theta, 1 - theta])
    inner = np.einsum("...kv,dv,kq->...dq", topics, rows, share, optimize=True)
    gram = np.einsum("...kv,...lv->...kl", topics, topics)
    squares = np.einsum("...kl,kq,lq->...q", gram, share, share, optimize=True)
    return inner / np.sqrt(squares)[..., None, :]


def log_likelihood(topics: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """log p(v_d | topics), proportions integrated out, [..., D]."""
    theta, weight = nodes()
    terms = KAPPA1 * fits(topics, theta, rows)
    return special.logsumexp(terms, b=weight, axis=-1) + log_normaliser(KAPPA1)


def statistics(topics: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics of topics [n, 2, V] that are invariant to swapping topics."""
    first, second = topics[:, 0], topics[:, 1]
    loglik = log_likelihood(topics, vectors())
    result = {
        "overlap": (first * second).sum(-1),
        "along": topics.sum(1) @ MEAN,
        "likelihood": loglik.sum(-1),
        "first_document": loglik[:, 0],
        "fourth_document": loglik[:, 3],
        "largest": np.abs(topics[:, :, 2]).max(-1),
    }
    return result


def posterior(seed: int, draws: int = 100_000) -> dict[str, tuple[float, float]]:
    """Means of the statistics and their standard errors, by weighting prior draws."""
    rng = np.random.default_rng(seed)
    mu = stats.vonmises_fisher(MEAN, KAPPA0).rvs(draws, random_state=rng)
    offsets = stats.vonmises_fisher(np.eye(V)[0], SIGMA).rvs(2 * draws, random_state=rng)
    topics = _turn(offsets.reshape(draws, 2, V), mu)
    log_w = np.concatenate(
        [log_likelihood(part, vectors()).sum(-1) for part in np.array_split(topics, 10)]
    )
    w = special.softmax(log_w)
    # Resampling by the weights would add noise; weight the statistics instead.
    parts = [statistics(part) for part in np.array_split(topics, 10)]
    means = {}
    for name in parts[0]:
        value = np.concatenate([part[name] for part in parts])
        mean = float(w @ value)
        means[name] = mean, float(np.sqrt(np.sum((w * (value - mean)) ** 2)))
    return means


def _turn(points: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Reflect points about e_1 so that e_1 goes to mu: vMF laws about mu, as they are isotropic."""
    axis = np.eye(V)[0] - mu
    axis /= np.linalg.norm(axis, axis=-1, keepdims=True)
    return points - 2 * axis[:, None] * np.einsum("nkv,nv->nk", points, axis)[..., None]
