"""Documents of few topics (alpha below 1), and their estimates from many prior draws."""

import numpy as np
from scipy.special import logsumexp

ALPHA, KAPPA = 0.05, 20.0
DOCUMENTS, TOPICS, WORDS = 24, 5, 8


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def topics_and_rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    topics = unit(np.abs(rng.normal(size=(TOPICS, WORDS))))
    centres = unit(rng.dirichlet([0.3] * TOPICS, DOCUMENTS) @ topics)
    return topics, unit(centres + rng.normal(size=centres.shape) / np.sqrt(KAPPA))


def exactly(topics: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean proportions [D, K], and log E exp(kappa fit) [D], from 100,000 draws."""
    rng = np.random.default_rng(2)
    shape = (100_000, len(topics))
    logs = np.log(rng.gamma(ALPHA + 1, size=shape)) + np.log(rng.random(shape)) / ALPHA
    theta = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    log_w = KAPPA * unit(theta @ topics) @ rows.T
    log_total = logsumexp(log_w, axis=0)
    return np.exp(log_w - log_total).T @ theta, log_total - np.log(len(theta))
