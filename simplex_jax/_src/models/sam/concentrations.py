r"""Learning the concentrations of the spherical admixture model.

Each has a gamma prior, by default an exponential one, with the given value as mean. Given
proportions and topics the three are independent, with the log densities, up to constants,

.. math::
    \kappa_1:&\ D \log c_V(\kappa_1) + \kappa_1 \sum_d v_d^\top \bar v_d \\
    \sigma:&\ K \log c_V(\sigma) - \log c_V(\|\kappa_0 m + \sigma \sum_k \beta_k\|) \\
    \alpha:&\ D [\log \Gamma(K \alpha) - K \log \Gamma(\alpha)] + \alpha \sum_{dk} \log \theta_{dk}

each unimodal in log x. They depend on the documents only through two means.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma

from simplex_jax._src.geometry.von_mises_fisher import mean_length, mean_spread
from simplex_jax._src.models.sam.joint import Hyperparameters

LEARN = ("alpha", "kappa1", "sigma")

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# The mode is searched for within this factor of 1 up or down: nearly exact documents have
# concentrations far above any prior mean, and squares of larger numbers overflow float32.
_RANGE = 1e18
_HALVINGS = 40
_WIDTH = 1e-2

Score = Callable[[jax.Array], jax.Array]


class Evidence(NamedTuple):
    """Statistics of proportions from which concentrations are learned, means over documents."""

    fit: jax.Array  # mean of v' vbar
    log_theta: jax.Array  # mean of log theta over documents and topics


def follow(old: Evidence, new: Evidence, step: jax.Array, share: float) -> Evidence:
    """Average evidence over about one pass of batches.

    `share` is the share of the documents in a batch; with 1 the new evidence is returned.
    """
    rate = jnp.maximum(share, 1 / (step + 1)).astype(new.fit.dtype)
    return jax.tree.map(lambda a, b: a + rate * (b - a), old, new)


def draw(
    key: jax.Array,
    hyper: Hyperparameters,
    prior: Hyperparameters,
    topics: jax.Array,
    evidence: Evidence,
    documents: int,
    learn: tuple[str, ...],
    shapes: tuple[float, ...],
) -> Hyperparameters:
    """Move each learned concentration by a Metropolis step.

    Proposals come from Laplace's approximation in log x, so that nearly all are accepted and draws
    are nearly independent. With the evidence of all documents this is a Gibbs step; with that of
    batches, a stochastic approximation. `hyper` has the present values, `prior` the prior means,
    and `shapes` the shapes of the priors of the learned ones.
    """
    k, v = topics.shape
    total = jnp.sum(topics, axis=0)

    def kappa1(x: jax.Array) -> jax.Array:
        # Lengths near 1 have few digits left in float32.
        return documents * (mean_spread(v, x) - (1 - evidence.fit))

    def sigma(x: jax.Array) -> jax.Array:
        centre = prior.kappa0 * prior.mean + x[..., None] * total
        length = jnp.linalg.norm(centre, axis=-1)
        pull = jnp.sum(centre * total, axis=-1) / length
        return pull * mean_length(v, length) - k * mean_length(v, x)

    def alpha(x: jax.Array) -> jax.Array:
        return documents * k * (digamma(k * x) - digamma(x) + evidence.log_theta)

    scores = {"alpha": alpha, "kappa1": kappa1, "sigma": sigma}
    each = zip(learn, jax.random.split(key, len(learn)), shapes, strict=True)
    return hyper._replace(
        **{
            name: _move(key, getattr(hyper, name), scores[name], getattr(prior, name), shape)
            for name, key, shape in each
        }
    )


def _move(key: jax.Array, x: jax.Array, score: Score, mean: jax.Array, shape: float) -> jax.Array:
    """Do a Metropolis step in u = log x, using only the derivative of the log density.

    Log densities of thousands of documents are too large to be subtracted in float32, so their
    derivative is integrated instead.
    """

    def slope(u: jax.Array) -> jax.Array:
        # Including the prior and the Jacobian, du = dx / x.
        x = jnp.exp(u)
        return x * (score(x) - shape / mean) + shape

    def gain(a: jax.Array, b: jax.Array) -> jax.Array:
        nodes = jnp.asarray(_NODES, a.dtype)
        inside = slope((a + b) / 2 + (b - a) / 2 * nodes)
        return (b - a) / 2 * jnp.sum(jnp.asarray(_WEIGHTS, a.dtype) * inside)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        rises = slope(middle) > 0
        return jnp.where(rises, middle, low), jnp.where(rises, high, middle)

    reach = jnp.log(_RANGE).astype(x.dtype)
    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (-reach, reach))
    mode = (low + high) / 2
    curvature = (slope(mode - _WIDTH) - slope(mode + _WIDTH)) / (2 * _WIDTH)
    scale = jax.lax.rsqrt(jnp.maximum(curvature, 1e-4))
    key_draw, key_accept = jax.random.split(key)
    old, new = jnp.log(x), mode + scale * jax.random.t(key_draw, 10.0, (), x.dtype)

    def log_proposal(u: jax.Array) -> jax.Array:
        return -5.5 * jnp.log1p(((u - mode) / scale) ** 2 / 10)

    ratio = gain(old, new) + log_proposal(old) - log_proposal(new)
    accept = -jax.random.exponential(key_accept, (), x.dtype) < ratio
    return jnp.exp(jnp.where(accept, new, old))
