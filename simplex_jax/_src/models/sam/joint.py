r"""The joint density of the spherical admixture model, topic mean integrated out.

With :math:`\bar m = \kappa_0 m + \sigma \sum_k \beta_k` and the mean directions
:math:`\bar v_d = b_d / \|b_d\|`, :math:`b_d = \sum_k \theta_{dk} \beta_k`,

.. math:: \log p(v, \beta, \theta) = - \log c_V(\|\bar m\|)
          + \sum_d \big(\kappa_1 v_d^\top \bar v_d + (\alpha - 1) \sum_k \log \theta_{dk}\big)
          + const

(Liu, Zhu and Song 2016, equation 9). It needs only the K cosines of each document with the topics,
and the K x K Gram matrix of the topics.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.geometry import von_mises_fisher
from simplex_jax._src.models.sam import sparse
from simplex_jax._src.models.sam.sparse import UnitDocuments

_einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)

# Gauss-Legendre nodes and weights on (0, 1).
_NODES, _WEIGHTS = (
    x / 2 + offset for x, offset in zip(np.polynomial.legendre.leggauss(4), (0.5, 0.0), strict=True)
)


class Hyperparameters(NamedTuple):
    """Hyperparameters of the model."""

    alpha: jax.Array  # concentration of topic proportions, per topic (not the sum), a scalar
    sigma: jax.Array  # concentration of the topics about their common mean
    kappa0: jax.Array  # concentration of the common mean about `mean`
    kappa1: jax.Array  # concentration of the documents about their mean directions
    mean: jax.Array  # m, a unit vector [V]


class Minibatch(NamedTuple):
    """Documents and their proportions."""

    ids: jax.Array  # indices of the documents, int32 [B]
    theta: jax.Array  # N samples of the proportions of each, [B, N, K]


def hyperparameters(
    mean: ArrayLike,
    *,
    alpha: ArrayLike = 10.0,
    sigma: ArrayLike = 1e4,
    kappa0: ArrayLike = 1e4,
    kappa1: ArrayLike = 3e4,
) -> Hyperparameters:
    """Return positive hyperparameters, by default those of Liu et al. 2016 for 5,000 words.

    The prior mean m of the topics is a unit vector [V]; see `sparse.mean_direction`.
    """
    direction = arguments.as_float("mean", mean)
    values = {"alpha": alpha, "sigma": sigma, "kappa0": kappa0, "kappa1": kappa1}
    # In the dtype of the mean and not weakly typed, so that new values do not recompile.
    checked = {
        name: arguments.scalar(name, value).astype(direction.dtype)
        for name, value in values.items()
    }
    if direction.ndim != 1 or direction.shape[0] < 2:
        raise ValueError(f"mean must be one vector [V]; its shape is {direction.shape}")
    length = jnp.linalg.norm(direction)
    arguments.require("the length of mean", length, jnp.abs(length - 1) <= 1e-3, "1")
    return Hyperparameters(mean=direction / length, **checked)


def gradient(
    documents: UnitDocuments, topics: jax.Array, batch: Minibatch, hyper: Hyperparameters
) -> jax.Array:
    r"""Return the Euclidean gradient of the log joint density in the topics, [K, V].

    .. math::
        \sigma A_V(\|\bar m\|) \frac{\bar m}{\|\bar m\|} + \kappa_1 \frac{D}{N |B|} \sum_{d, n}
        \frac{\theta_{dnk}}{\|b_{dn}\|} \big(v_d - (v_d^\top \bar v_{dn}) \bar v_{dn}\big)

    with :math:`A_V = I_{V/2} / I_{V/2-1}`. Averaged over proportions drawn given the topics, it
    estimates the gradient of log p(topics | documents). This is equation (10) of Liu et al. 2016,
    whose second term lacks the gradient.
    """
    gram = _einsum("kv,lv->kl", topics, topics)

    def block(rows: jax.Array, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        cosines = _einsum("bv,kv->bk", rows, topics)
        squares = jnp.sum(_einsum("bnk,kl->bnl", theta, gram) * theta, axis=-1)
        # kappa theta / |b|, [B, N, K], and the sum of kappa cos theta theta' / |b|^2, [K, K].
        shares = theta * (hyper.kappa1 * lax.rsqrt(squares))[..., None]
        inner = jnp.sum(theta * cosines[:, None], axis=-1) / squares
        pulls = _einsum("bnk,bnl->kl", shares * inner[..., None], theta)
        return _einsum("bk,bv->kv", jnp.mean(shares, axis=1), rows), pulls / theta.shape[1]

    along, pulls = _add_up(block, documents, batch, topics.shape[1])
    scale = sparse.size(documents) / batch.ids.shape[0]
    centre = hyper.kappa0 * hyper.mean + hyper.sigma * jnp.sum(topics, axis=0)
    length = jnp.linalg.norm(centre)
    pull = hyper.sigma * von_mises_fisher.mean_length(topics.shape[1], length)
    return pull * centre / length + scale * (along - _einsum("kl,lv->kv", pulls, topics))


def _add_up(function, documents: UnitDocuments, batch: Minibatch, vocabulary: int):
    """Sum `function(rows, theta)` over blocks of the documents of a batch."""
    length = sparse.block_size(batch.ids.shape[0], vocabulary)
    return sparse.add_up(
        lambda ids, theta: function(sparse.rows(documents, ids, vocabulary), theta),
        sparse.blocks(batch.ids, length, sparse.size(documents)),
        sparse.blocks(batch.theta, length, 1),
    )


def gradient_variance(
    documents: UnitDocuments, topics: jax.Array, batch: Minibatch, hyper: Hyperparameters
) -> jax.Array:
    """Estimate the variance of `gradient` over batches of distinct documents, [K, V].

    This is the empirical variance of the gradients of the batch's documents, scaled up; 0 for a
    batch of all documents.
    """
    gram = _einsum("kv,lv->kl", topics, topics)

    def block(rows: jax.Array, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        cosines = _einsum("bv,kv->bk", rows, topics)
        middle = jnp.mean(theta, axis=1)
        squares = jnp.sum(_einsum("bk,kl->bl", middle, gram) * middle, axis=-1, keepdims=True)
        inner = jnp.sum(middle * cosines, axis=-1, keepdims=True) / squares
        across = rows - inner * _einsum("bk,kv->bv", middle, topics)
        shares = hyper.kappa1 * middle * lax.rsqrt(squares)
        return _einsum("bk,bv->kv", shares, across), _einsum("bk,bv->kv", shares**2, across**2)

    total, square = _add_up(block, documents, batch, topics.shape[1])
    size, count = sparse.size(documents), batch.ids.shape[0]
    each = jnp.maximum(square - total**2 / count, 0) / max(count - 1, 1)
    return (size * (size - count) / count) * each


@jax.custom_vjp
def log_change(
    topics: jax.Array,
    documents: UnitDocuments,
    reference: jax.Array,
    batch: Minibatch,
    hyper: Hyperparameters,
) -> jax.Array:
    """Return log p(topics, theta, v) - log p(reference, theta, v), theta averaged over samples.

    The log density of D documents is about D kappa_1, so that for a thousand documents float32 no
    longer resolves units. The change of every document is therefore computed from the change of the
    topics, and only changes are added up. It can be differentiated once, in the topics.
    """
    moved = topics - reference
    gram = _einsum("kv,lv->kl", reference, reference)
    half = _einsum("kv,lv->kl", moved, reference)
    gram_change = half + half.T + _einsum("kv,lv->kl", moved, moved)

    def block(rows: jax.Array, theta: jax.Array) -> jax.Array:
        was = jnp.sum(theta * _einsum("bv,kv->bk", rows, reference)[:, None], axis=-1)
        gained = jnp.sum(theta * _einsum("bv,kv->bk", rows, moved)[:, None], axis=-1)
        old = jnp.sum(_einsum("bnk,kl->bnl", theta, gram) * theta, axis=-1)
        added = jnp.sum(_einsum("bnk,kl->bnl", theta, gram_change) * theta, axis=-1)
        before, after = jnp.sqrt(old), jnp.sqrt(old + added)
        return jnp.sum((gained - was * added / (before * (before + after))) / after)

    scale = sparse.size(documents) / (batch.ids.shape[0] * batch.theta.shape[1])
    fit = _add_up(block, documents, batch, topics.shape[1])
    return hyper.kappa1 * scale * fit + _prior_change(topics, reference, hyper)


def _change_and_gradient(topics, documents, reference, batch, hyper):
    slope = gradient(documents, topics, batch, hyper)
    return log_change(topics, documents, reference, batch, hyper), slope


def _only_topics(slope: jax.Array, cotangent: jax.Array):
    return cotangent * slope, None, None, None, None


log_change.defvjp(_change_and_gradient, _only_topics)


def _prior_change(topics: jax.Array, reference: jax.Array, hyper: Hyperparameters) -> jax.Array:
    """Integrate A_V, the derivative of -log c_V, between the two lengths of the centre."""
    moved = hyper.sigma * jnp.sum(topics - reference, axis=0)
    centre = hyper.kappa0 * hyper.mean + hyper.sigma * jnp.sum(reference, axis=0)
    old = jnp.linalg.norm(centre)
    new = jnp.linalg.norm(centre + moved)
    change = jnp.sum(moved * (2 * centre + moved)) / (old + new)
    lengths = old + change * jnp.asarray(_NODES, topics.dtype)
    means = von_mises_fisher.mean_length(topics.shape[1], lengths)
    return change * jnp.sum(jnp.asarray(_WEIGHTS, topics.dtype) * means)
