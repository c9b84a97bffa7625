"""Kolmogorov-Smirnov distances from samples on the simplex to a Dirichlet distribution."""

import numpy as np
from jax.typing import ArrayLike
from scipy import special

# Below this, a beta distribution function equals its first term, to 1e-12 for b up to 1e9.
_FIRST_TERM = -50.0
_ROUNDING = 1e-3  # of log-probabilities that are 0


def rosenblatt(log_p: ArrayLike, concentration: ArrayLike) -> np.ndarray:
    r"""Map samples on the simplex to numbers that are independent and uniform under Dirichlet(a).

    Rosenblatt's (1952) transform: given the previous categories, each one's share of the remainder
    has a beta distribution,

    .. math::
        u_j = F_{\mathrm{Beta}(a_j,\, a_{j+1} + \dots + a_K)}
            \Big( \frac{x_j}{x_j + \dots + x_K} \Big), \qquad j = 1, \dots, K - 1.

    Remainders are summed from the end, in logs, and the smaller of a share and its complement is
    used, so nothing is lost if probabilities underflow. If the remainder is 0, u_j = 0.

    Args:
        log_p: Log-probabilities [..., n, K], -inf for 0.
        concentration: Positive concentrations [..., K].

    Returns:
        float64 [..., n, K - 1] in [0, 1].

    Raises:
        ValueError: The last axes differ or are shorter than 2, a concentration is not positive, or
            a log-probability is.

    Example:
        >>> import numpy as np
        >>> print(rosenblatt(np.log([[0.5, 0.25, 0.25]]), [1.0, 1.0, 1.0]))
        [[0.75 0.5 ]]
    """
    logs, a = np.asarray(log_p, np.float64), np.asarray(concentration, np.float64)
    if logs.ndim < 2 or a.ndim == 0 or a.shape[-1] != logs.shape[-1] or a.shape[-1] < 2:
        raise ValueError(
            f"log_p must be [..., n, K] and concentration [..., K] with K at least 2; "
            f"they are {logs.shape} and {a.shape}"
        )
    if not ((a > 0) & (a < np.inf)).all():
        raise ValueError("concentration must be finite and positive")
    if (logs > _ROUNDING).any():
        raise ValueError(
            f"log_p must be at most 0; the largest is {logs.max():g}: give logs of probabilities"
        )
    a = a[..., None, :]
    rest = np.flip(np.logaddexp.accumulate(np.flip(logs, -1), axis=-1), -1)
    later = np.flip(np.cumsum(np.flip(a, -1), axis=-1), -1)[..., 1:]
    a = a[..., :-1]
    # If the remainder is 0, each share is 0.
    whole = np.where(rest[..., :-1] == -np.inf, 0, rest[..., :-1])
    share = np.minimum(logs[..., :-1] - whole, 0)
    complement = np.where(share == -np.inf, 0, np.minimum(rest[..., 1:] - whole, 0))
    body = np.where(
        share < np.log(0.5),
        special.betainc(a, later, np.exp(share)),
        special.betaincc(later, a, np.exp(complement)),
    )
    first = np.exp(a * np.minimum(share, _FIRST_TERM) - np.log(a) - special.betaln(a, later))
    return np.where(share < _FIRST_TERM, first, body)


def kolmogorov_smirnov(log_p: ArrayLike, concentration: ArrayLike) -> np.ndarray:
    """Return the distance of samples to Dirichlet(a), as in Baker et al. (2018, Figure 2).

    Args:
        log_p: Log-probabilities [..., n, K].
        concentration: Positive concentrations [..., K].

    Returns:
        float64 [...], in [0, 1]: the Kolmogorov-Smirnov distance of n samples to the uniform
        distribution, averaged over the K - 1 numbers of `rosenblatt`. For exact independent samples
        it is about 0.87 / sqrt(n); for correlated ones it is larger.

    Raises:
        ValueError: As for `rosenblatt`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws, evaluate
        >>> a = jnp.array([0.01, 0.1, 3.0])
        >>> log_p = draws.log_dirichlet(jax.random.key(0), a, (1000,))
        >>> bool(evaluate.kolmogorov_smirnov(log_p, a) < 0.05)
        True
        >>> bool(evaluate.kolmogorov_smirnov(log_p, 2 * a) > 0.1)
        True
    """
    return uniform_distance(rosenblatt(log_p, concentration)).mean(axis=-1)


def uniform_distance(u: ArrayLike) -> np.ndarray:
    """Return the Kolmogorov-Smirnov distance of each column of [..., n, d] to uniform.

    `scipy.stats.kstwo.sf(distance, n)` is the p-value for n independent samples.
    """
    ordered = np.sort(np.asarray(u, np.float64), axis=-2)
    n = ordered.shape[-2]
    rank = np.arange(1, n + 1)[:, None]
    return np.maximum(rank / n - ordered, ordered - (rank - 1) / n).max(axis=-2)
