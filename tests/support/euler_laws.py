"""Exact stationary distributions of Euler steps on the line, by quadrature, for biased kernels.

A step moves x to N(mean(x), 2 h), perhaps clipped to an interval. On Gauss-Legendre nodes in panels
as wide as the noise, the transition is a matrix accurate to about 1e-12, and its stationary vector
gives every moment and the distribution function of the biased distribution.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from support import statistics_checks as checks


class Law(NamedTuple):
    """The stationary distribution: probabilities of nodes, and the mean of the step from each."""

    nodes: np.ndarray
    probabilities: np.ndarray
    means: np.ndarray
    sd: float
    clip: tuple[float, float]

    def expect(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        return float(function(self.nodes) @ self.probabilities)

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x), interpolated from a table of one more step."""
        table = np.linspace(self.nodes.min(), self.nodes.max(), 4001)
        below = stats.norm.cdf(table[:, None], self.means, self.sd) @ self.probabilities
        return np.where(x >= self.clip[1], 1.0, np.interp(x, table, below))

    def left_cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X < x)."""
        at_top = x >= self.clip[1]
        inner = self.cdf(np.where(at_top, np.nextafter(self.clip[1], -np.inf), x))
        return np.where(x <= self.clip[0], 0.0, inner)

    def check(self, samples: np.ndarray) -> dict[str, float]:
        """P-values of the mean, the variance and the distribution function of independent draws."""
        mean = self.expect(lambda x: x)
        variance, fourth = (self.expect(lambda x, k=k: (x - mean) ** k) for k in (2, 4))
        return {
            "mean": checks.mean_z(samples, mean, variance),
            "variance": checks.variance_z(samples, mean, variance, fourth),
            "dkwm": checks.dkwm(samples, self.cdf, self.left_cdf, resolution=1e-5),
        }


def law(
    mean: Callable[[np.ndarray], np.ndarray],
    h: float,
    edges: Sequence[float],
    clip: tuple[float, float] = (-np.inf, np.inf),
) -> Law:
    """The stationary distribution of x' ~ N(mean(x), 2 h), clipped.

    `edges` span the relevant range, with a break wherever the mean has a kink; without a clip the
    probability of leaving it in a step from anywhere relevant must be negligible.
    """
    sd = float(np.sqrt(2 * h))
    points, weights = np.polynomial.legendre.leggauss(12)
    nodes, widths = [], []
    for low, high in itertools.pairwise(edges):
        cuts = np.linspace(low, high, int(np.ceil((high - low) / (2 * sd))) + 1)
        for a, b in itertools.pairwise(cuts):
            nodes.append((a + b) / 2 + (b - a) / 2 * points)
            widths.append((b - a) / 2 * weights)
    x, width = np.concatenate(nodes), np.concatenate(widths)
    atoms = [end for end in clip if np.isfinite(end)]
    x_all = np.concatenate([x, atoms])
    means = mean(x_all)
    columns = [stats.norm.pdf(x, means[:, None], sd) * width]
    if np.isfinite(clip[0]):
        columns.append(stats.norm.cdf(clip[0], means, sd)[:, None])
    if np.isfinite(clip[1]):
        columns.append(stats.norm.sf(clip[1], means, sd)[:, None])
    transition = np.concatenate(columns, axis=1)
    balance = transition.T - np.eye(x_all.size)
    balance[-1] = 1
    probabilities = np.linalg.solve(balance, np.eye(x_all.size)[-1])
    leak = probabilities @ np.abs(transition.sum(axis=1) - 1)
    assert leak < 1e-6, f"the nodes lose {leak:.1e} of the probability"
    return Law(x_all, probabilities, means, sd, clip)


def clipped_normal(
    mean: np.ndarray, sd: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """First and second moments of clip(N(mean, sd^2), low, high)."""
    a, b = (low - mean) / sd, (high - mean) / sd
    below, above = special.ndtr(a), special.ndtr(-b)
    inside = special.ndtr(b) - special.ndtr(a)
    phi_a, phi_b = stats.norm.pdf(a), stats.norm.pdf(b)
    first = low * below + high * above + mean * inside + sd * (phi_a - phi_b)
    a_phi, b_phi = (np.where(np.isfinite(t), t, 0.0) * stats.norm.pdf(t) for t in (a, b))
    second = (
        low**2 * below
        + high**2 * above
        + (mean**2 + sd**2) * inside
        + 2 * mean * sd * (phi_a - phi_b)
        + sd**2 * (a_phi - b_phi)
    )
    return first, second


def folded_normal_checks(
    x: np.ndarray, start: np.ndarray, drift: np.ndarray, h: float
) -> dict[tuple, float]:
    """P-values of |start + h drift + sqrt(2 h start) xi|: moments of each column, and of pairs."""
    mean = start + h * drift
    sd = np.sqrt(2 * h * start)
    folded = sd * np.sqrt(2 / np.pi) * np.exp(-((mean / sd) ** 2) / 2)
    first = folded + mean * special.erf(mean / sd / np.sqrt(2))
    second = mean**2 + sd**2
    fourth = mean**4 + 6 * mean**2 * sd**2 + 3 * sd**4
    variance = second - first**2
    p_values = {}
    for j in range(len(start)):
        p_values["mean", j] = checks.mean_z(x[:, j], first[j], variance[j])
        spread = fourth[j] - second[j] ** 2
        p_values["square", j] = checks.mean_z(x[:, j] ** 2, second[j], spread)
        for k in range(j):
            product = (x[:, j] - first[j]) * (x[:, k] - first[k])
            p_values["covariance", j, k] = checks.mean_z(product, 0, variance[j] * variance[k])
    return p_values
