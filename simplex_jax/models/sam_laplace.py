r"""The law of topic proportions given topics and a document, and Laplace's approximation to it.

With cosines :math:`c = \beta v` of the topics with the document and their Gram matrix
:math:`G = \beta \beta^\top`, proportions :math:`\theta \sim Dir(\alpha)` of a document
:math:`v \sim vMF(\beta^\top \theta / \|\beta^\top \theta\|, \kappa_1)` have the density

.. math:: \log p(\theta | \beta, v) = \kappa_1 \frac{\theta^\top c}{\sqrt{\theta^\top G \theta}}
          + (\alpha - 1) \sum_k \log \theta_k + const

on the simplex: nothing longer than K is needed of a document. Here it is worked on in centred
log-ratios y, :math:`\theta = softmax(y)` and :math:`\sum_k y_k = 0`, which have no faces; the
change of variables makes :math:`\alpha - 1` an :math:`\alpha`.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

_ITERATIONS = 30

# On some devices products use fewer bits than float32 has, unless told otherwise.
_einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Target(NamedTuple):
    """The law of the proportions of B documents.

    Attributes:
        cosines: Inner products of documents and topics, [B, K].
        gram: Inner products of the topics, [K, K].
        alpha: Concentration of the proportions, a scalar.
        kappa: Concentration kappa_1 of the documents, a scalar.
    """

    cosines: jax.Array
    gram: jax.Array
    alpha: jax.Array
    kappa: jax.Array


class Laplace(NamedTuple):
    """A multivariate t law of centred log-ratios, about the mode of the target.

    It is a good proposal where alpha is 3 or more; below 1, the law of many proportions is too far
    from any such shape.

    Attributes:
        mode: [B, K].
        factor: Lower Cholesky factor of the precision at the mode, with 1 along the vector of
            ones, [B, K, K].
        inverse: The inverse of the factor, [B, K, K].
        freedom: Degrees of freedom, a scalar.
    """

    mode: jax.Array
    factor: jax.Array
    inverse: jax.Array
    freedom: jax.Array


def target(topics: jax.Array, rows: jax.Array, alpha: jax.Array, kappa: jax.Array) -> Target:
    """Return the law of the proportions of documents [B, V] given topics [K, V]."""
    dtype = topics.dtype
    return Target(
        _einsum("bv,kv->bk", rows, topics),
        _einsum("kv,lv->kl", topics, topics),
        jnp.asarray(alpha, dtype),
        jnp.asarray(kappa, dtype),
    )


def fit(cosine: jax.Array, squares: jax.Array) -> jax.Array:
    """Return theta'c / sqrt(theta'G theta), where a vanishing mean direction fits nothing."""
    return cosine * lax.rsqrt(jnp.maximum(squares, jnp.finfo(squares.dtype).tiny))


def cosine(law: Target, theta: jax.Array) -> jax.Array:
    """Return the cosines of documents and their mean directions, [..., B], theta [..., B, K]."""
    squares = jnp.sum(_einsum("...k,kl->...l", theta, law.gram) * theta, axis=-1)
    return fit(jnp.sum(theta * law.cosines, axis=-1), squares)


def log_density(law: Target, ratios: jax.Array) -> jax.Array:
    """Return the log density, up to a constant, of log-ratios [..., B, K]; gives [..., B]."""
    log_theta = jax.nn.log_softmax(ratios)
    return law.kappa * cosine(law, jnp.exp(log_theta)) + law.alpha * jnp.sum(log_theta, axis=-1)


def log_constant(law: Target) -> jax.Array:
    """Return what `log_density` lacks of log p(v, y) but for log c_V(kappa_1), a scalar.

    The normaliser of the Dirichlet law, and half a log K: log-ratios with respect to the last
    proportion are sqrt(K) times as dense as centred ones.
    """
    k = law.gram.shape[0]
    return gammaln(k * law.alpha) - k * gammaln(law.alpha) + 0.5 * math.log(k)


class Slopes(NamedTuple):
    """Derivatives of `log_density` at log-ratios.

    Attributes:
        gradient: [B, K].
        curvature: The negative Hessian, [B, K, K].
        convex: A positive semidefinite matrix near it, [B, K, K]: that of Fisher's scoring, plus
            the size of the force on every log-ratio.
    """

    gradient: jax.Array
    curvature: jax.Array
    convex: jax.Array


def slopes(law: Target, ratios: jax.Array) -> Slopes:
    """Return the derivatives of `log_density` at log-ratios [B, K].

    The fit does not depend on the length of theta, so that its gradient has no component along it.
    """
    k = ratios.shape[-1]
    theta = jax.nn.softmax(ratios)
    turned = _einsum("bk,kl->bl", theta, law.gram)
    squares = jnp.maximum(jnp.sum(turned * theta, axis=-1), jnp.finfo(theta.dtype).tiny)
    scale = law.kappa * lax.rsqrt(squares)[:, None]
    height = jnp.sum(theta * law.cosines, axis=-1, keepdims=True) * scale
    w = theta * turned / squares[:, None]
    force = theta * law.cosines * scale - height * w

    outer, eye = _outer(theta, theta), jnp.eye(k, dtype=theta.dtype)
    between = outer * law.gram / squares[:, None, None]
    mixed = _outer(force, w)
    mixed = mixed + jnp.swapaxes(mixed, -1, -2)
    square = _outer(w, w)
    prior = k * law.alpha * (theta[..., None] * eye - outer)
    height = height[..., None]
    return Slopes(
        force + law.alpha * (1 - k * theta),
        prior + height * (between - square) + mixed - force[..., None] * eye,
        prior + jnp.maximum(height, 0) * (between - square) + jnp.abs(force)[..., None] * eye,
    )


def _outer(a: jax.Array, b: jax.Array) -> jax.Array:
    return a[..., :, None] * b[..., None, :]


def approximate(law: Target) -> Laplace:
    """Find the mode of every document by Newton's method, damped where it does not ascend.

    Where the density is not concave a positive definite matrix takes the place of the Hessian. It
    starts from equal proportions, so that the result depends on the target alone and may serve as a
    proposal of Metropolis's method whether it has converged or not.
    """
    shape, dtype = law.cosines.shape, law.cosines.dtype
    k = shape[-1]
    eye, ones = jnp.eye(k, dtype=dtype), jnp.full((k, k), 1 / k, dtype)

    def improve(loop: tuple) -> tuple:
        i, ratios, value, damping, moving = loop
        gradient, curvature, convex = slopes(law, ratios)
        lift = ones + damping[:, None, None] * eye
        factor = _factor(curvature + lift, convex + lift)
        step = _centred(jax.scipy.linalg.cho_solve((factor, True), gradient[..., None])[..., 0])
        # No proportion changes by more than a factor of e^3 at once.
        longest = jnp.max(jnp.abs(step), axis=-1)
        step = step * jnp.minimum(1, 3 / jnp.maximum(longest, 1e-30))[:, None]
        new = log_density(law, ratios + step)
        # A step that is NaN is no ascent; not every maximum in a compiled program passes NaN on.
        found = jnp.all(jnp.isfinite(step), axis=-1)
        better = moving & found & (new >= value)
        small = better & (longest < 1e-3) & (damping <= law.alpha)
        ratios = jnp.where(better[:, None], ratios + step, ratios)
        value = jnp.where(better, new, value)
        damping = jnp.where(better, damping / 8, damping * 8)
        # A step that fails when it is tiny fails by rounding.
        stuck = ~better & found & (longest < 1e-2)
        return i + 1, ratios, value, damping, moving & ~small & ~stuck

    start = jnp.zeros(shape, dtype)
    damping = jnp.full(shape[:1], law.alpha / 8, dtype)
    loop = (0, start, log_density(law, start), damping, jnp.ones(shape[:1], bool))
    loop = lax.while_loop(lambda s: (s[0] < _ITERATIONS) & jnp.any(s[4]), improve, loop)
    mode = loop[1]
    _, curvature, convex = slopes(law, mode)
    spare = jnp.broadcast_to(law.alpha * (eye - ones), curvature.shape)
    factor = _factor(curvature + ones, convex + ones, spare + ones)
    inverse = lax.linalg.triangular_solve(
        factor, jnp.broadcast_to(eye, factor.shape), left_side=True, lower=True
    )
    # A log-ratio has the tail exp(alpha y) to the left, which the proposal has to cover.
    return Laplace(mode, factor, inverse, jnp.clip(3 * law.alpha, 3, 30))


def _factor(*matrices: jax.Array) -> jax.Array:
    """Return the Cholesky factors [B, K, K] of the first matrices that are positive definite.

    All are factored by one call: in a program on the CPU with two that do not wait for each other,
    both were seen to wait for the same threads for ever.
    """
    factors = jnp.linalg.cholesky(jnp.stack(matrices))
    exists = jnp.all(jnp.isfinite(factors), axis=(-2, -1))
    first = jnp.argmax(exists, axis=0)
    return jnp.take_along_axis(factors, first[None, :, None, None], axis=0)[0]


def _centred(ratios: jax.Array) -> jax.Array:
    return ratios - jnp.mean(ratios, axis=-1, keepdims=True)


def spread(key: jax.Array, fitted: Laplace, shape: tuple[int, ...]) -> jax.Array:
    """Draw centred normal vectors with the covariance of the approximation, [*shape, B, K]."""
    normal = jax.random.normal(key, (*shape, *fitted.mode.shape), fitted.mode.dtype)
    return _centred(_einsum("...bl,blk->...bk", normal, fitted.inverse))


def draw(key: jax.Array, fitted: Laplace, shape: tuple[int, ...] = ()) -> jax.Array:
    """Draw log-ratios [*shape, B, K] from the approximation."""
    key_normal, key_scale = jax.random.split(key)
    drawn = spread(key_normal, fitted, shape)
    chi2 = 2 * jax.random.gamma(key_scale, fitted.freedom / 2, drawn.shape[:-1], drawn.dtype)
    return fitted.mode + drawn * jnp.sqrt(fitted.freedom / chi2)[..., None]


def log_proposal(fitted: Laplace, ratios: jax.Array) -> jax.Array:
    """Return the log density of the approximation at centred log-ratios [..., B, K]."""
    mode, factor, _, freedom = fitted
    dimension = mode.shape[-1] - 1
    spread = _einsum("...bk,bkl->...bl", ratios - mode, factor)
    distance = jnp.sum(spread**2, axis=-1)
    half = (freedom + dimension) / 2
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    constant = gammaln(half) - gammaln(freedom / 2) - 0.5 * dimension * jnp.log(freedom * math.pi)
    return constant + log_det - half * jnp.log1p(distance / freedom)


def log_weights(law: Target, fitted: Laplace, ratios: jax.Array) -> jax.Array:
    """Return log p / q of draws [..., B, K], the importance weights, [..., B]."""
    return log_density(law, ratios) - log_proposal(fitted, ratios)
