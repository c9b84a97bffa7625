r"""The four coordinate systems of Patterson and Teh (2013, section 3 and Table 1) on the simplex.

With weights w and probabilities omega = w / sum(w), of K categories:

| | coordinates | prior |
|---|---|---|
| `REDUCED_MEAN` | omega_1, ..., omega_{K-1} | omega ~ Dirichlet(alpha) |
| `REDUCED_NATURAL` | log(omega_j / omega_K), j < K | omega ~ Dirichlet(alpha) |
| `EXPANDED_MEAN` | w_1, ..., w_K | w_j ~ Gamma(alpha_j, 1), mirrored at 0 |
| `EXPANDED_NATURAL` | log w_1, ..., log w_K | w_j ~ Gamma(alpha_j, 1) |

Each has two metrics: the Euclidean one of its coordinates, for Langevin dynamics, and the Fisher
metric G of one draw (of Poisson counts for the expanded ones, as in the paper), for Riemannian
Langevin dynamics. The paper's reduced metrics are for all n draws, n times ours, so its step
epsilon is 2 n h for these and 2 h for the others.

Points are given by their log weights, because weights of a sparse posterior underflow; for a
reduced system these are log omega. Tangent vectors also have K entries, each computed separately,
because rounding would lose differences of entries that are far apart. For `REDUCED_MEAN` they are
changes of omega and sum to 0; for `REDUCED_NATURAL` they are changes of log w, up to a constant. In
metrics and reciprocals, weights below exp(-40) (in float32, exp(-319) in double precision) are
raised to that, consistently, so nothing overflows and a Metropolis correction stays exact.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Field: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""`(log_weights, alpha, counts) -> tangent vector`, all [..., K]."""


class Metric(NamedTuple):
    """A Riemannian metric G in some coordinates."""

    # `(log_weights, xi) -> tangent vector` of covariance G^-1, for standard normal xi [..., K]
    noise: Callable[[jax.Array, jax.Array], jax.Array]
    square: Callable[[jax.Array, jax.Array], jax.Array]  # `(log_weights, v) -> v^T G v`, [...]
    log_det: Callable[[jax.Array], jax.Array]  # `(log_weights) -> log det G`, [...]


class Parameterisation(NamedTuple):
    """A coordinate system."""

    expanded: bool  # whether the total of the weights is also a coordinate
    mean: bool  # whether the coordinates are weights, not their logarithms
    # Gradient of the log posterior density of the coordinates, given prior concentrations alpha and
    # (generalised) counts.
    gradient: Field
    natural_gradient: Field  # G^-1 times that gradient
    # `(log_weights) -> tangent vector`, sum_k d(G^-1)_jk / d theta_k
    correction: Callable[[jax.Array], jax.Array]
    euclidean: Metric  # the Euclidean metric of the coordinates
    fisher: Metric  # the Fisher metric


def _floored(log_w: jax.Array) -> jax.Array:
    return jnp.maximum(log_w, -0.45 * jnp.log(jnp.finfo(log_w.dtype).max))


def _reciprocal(log_w: jax.Array) -> jax.Array:
    return jnp.exp(-_floored(log_w))


def _minus_reciprocal(log_w: jax.Array) -> jax.Array:
    return -_reciprocal(log_w)


def _root(log_w: jax.Array) -> jax.Array:
    return jnp.exp(_floored(log_w) / 2)


def _sum(x: jax.Array) -> jax.Array:
    return x.sum(axis=-1, keepdims=True)


def _pull(log_w: jax.Array, counts: jax.Array) -> jax.Array:
    """Return n_j - omega_j n., the likelihood's part in all these formulas."""
    return counts - jax.nn.softmax(log_w, axis=-1) * _sum(counts)


def _zero(log_w: jax.Array) -> jax.Array:
    return jnp.zeros_like(log_w[..., 0])


def _over_root(log_w: jax.Array, xi: jax.Array) -> jax.Array:
    return xi / _root(log_w)


def _times_root(log_w: jax.Array, xi: jax.Array) -> jax.Array:
    return xi * _root(log_w)


def _unchanged(log_w: jax.Array, xi: jax.Array) -> jax.Array:
    del log_w
    return xi


def _plain_square(log_w: jax.Array, v: jax.Array) -> jax.Array:
    del log_w
    return jnp.sum(v**2, axis=-1)


def _square_over_weights(log_w: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((v / _root(log_w)) ** 2, axis=-1)


def _square_times_weights(log_w: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((v * _root(log_w)) ** 2, axis=-1)


def _sum_of_logs(log_w: jax.Array) -> jax.Array:
    return _floored(log_w).sum(axis=-1)


def _minus_sum_of_logs(log_w: jax.Array) -> jax.Array:
    return -_sum_of_logs(log_w)


_EUCLIDEAN = Metric(_unchanged, _plain_square, _zero)
_WEIGHTS = Metric(_over_root, _square_times_weights, _sum_of_logs)  # G = diag(w)
_RECIPROCALS = Metric(_times_root, _square_over_weights, _minus_sum_of_logs)  # G = diag(1 / w)


# Reduced mean: G = diag(1 / omega) + 1 1^T / omega_K, G^-1 = diag(omega) - omega omega^T.


def _with_zero_sum(v: jax.Array) -> jax.Array:
    """Replace the last entry so that the sum is 0."""
    return v.at[..., -1].set(-v[..., :-1].sum(axis=-1))


def _rm_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    slope = (alpha + counts - 1) * _reciprocal(log_w)
    return _with_zero_sum(slope - slope[..., -1:])


def _rm_natural_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    return _pull(log_w, alpha - 1 + counts)


def _rm_correction(log_w: jax.Array) -> jax.Array:
    return 1 - log_w.shape[-1] * jnp.exp(log_w)


def _rm_noise(log_w: jax.Array, xi: jax.Array) -> jax.Array:
    root = _root(log_w)
    return root * (xi - root * _sum(root * xi))


def _zero_sum_noise(log_w: jax.Array, xi: jax.Array) -> jax.Array:
    del log_w
    return _with_zero_sum(xi)


def _square_of_first(log_w: jax.Array, v: jax.Array) -> jax.Array:
    return _plain_square(log_w, v[..., :-1])


REDUCED_MEAN = Parameterisation(
    expanded=False,
    mean=True,
    gradient=_rm_gradient,
    natural_gradient=_rm_natural_gradient,
    correction=_rm_correction,
    euclidean=Metric(_zero_sum_noise, _square_of_first, _zero),
    fisher=Metric(_rm_noise, _square_over_weights, _minus_sum_of_logs),
)


# Reduced natural: G = diag(omega) - omega omega^T, G^-1 = diag(1 / omega) + 1 1^T / omega_K. The
# natural gradient is a_j / omega_j - a_K / omega_K and the correction 1 / omega_K - 1 / omega_j
# (the printed curvature rows have squares instead, a derivative with respect to omega). The term of
# the last entry is the constant that tangent vectors leave open.


def _with_zero_last(v: jax.Array) -> jax.Array:
    """Replace the last entry by 0."""
    return v.at[..., -1].set(0)


def _rn_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    return _with_zero_last(_pull(log_w, alpha + counts))


def _rn_natural_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    return (alpha + counts) * _reciprocal(log_w)


def _rn_square(log_w: jax.Array, v: jax.Array) -> jax.Array:
    return _square_times_weights(log_w, v - _sum(_root(log_w) ** 2 * v))


def _zero_last_noise(log_w: jax.Array, xi: jax.Array) -> jax.Array:
    del log_w
    return _with_zero_last(xi)


def _square_of_differences(log_w: jax.Array, v: jax.Array) -> jax.Array:
    return _plain_square(log_w, v - v[..., -1:])


REDUCED_NATURAL = Parameterisation(
    expanded=False,
    mean=False,
    gradient=_rn_gradient,
    natural_gradient=_rn_natural_gradient,
    correction=_minus_reciprocal,
    euclidean=Metric(_zero_last_noise, _square_of_differences, _zero),
    fisher=Metric(_over_root, _rn_square, _sum_of_logs),
)


# Expanded mean: G = diag(1 / w).


def _em_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    log_total = jax.nn.logsumexp(log_w, axis=-1, keepdims=True)
    slope = (alpha + counts - 1) * _reciprocal(log_w)
    return slope - 1 - _sum(counts) * _reciprocal(log_total)


def _em_natural_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    return alpha - 1 - jnp.exp(log_w) + _pull(log_w, counts)


EXPANDED_MEAN = Parameterisation(
    expanded=True,
    mean=True,
    gradient=_em_gradient,
    natural_gradient=_em_natural_gradient,
    correction=jnp.ones_like,
    euclidean=_EUCLIDEAN,
    fisher=_RECIPROCALS,
)


# Expanded natural: G = diag(w).


def _en_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    return alpha - jnp.exp(log_w) + _pull(log_w, counts)


def _en_natural_gradient(log_w: jax.Array, alpha: jax.Array, counts: jax.Array) -> jax.Array:
    return (alpha + _pull(log_w, counts)) * _reciprocal(log_w) - 1


EXPANDED_NATURAL = Parameterisation(
    expanded=True,
    mean=False,
    gradient=_en_gradient,
    natural_gradient=_en_natural_gradient,
    correction=_minus_reciprocal,
    euclidean=_EUCLIDEAN,
    fisher=_WEIGHTS,
)
