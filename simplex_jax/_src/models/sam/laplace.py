r"""The posterior of topic proportions given topics and a document, and its Laplace approximation.

With cosines :math:`c = \beta v` of the topics with the document and their Gram matrix
:math:`G = \beta \beta^\top`, proportions :math:`\theta \sim Dir(\alpha)` of a document
:math:`v \sim vMF(\beta^\top \theta / \|\beta^\top \theta\|, \kappa_1)` have the density

.. math:: \log p(\theta | \beta, v) = \kappa_1 \frac{\theta^\top c}{\sqrt{\theta^\top G \theta}}
          + (\alpha - 1) \sum_k \log \theta_k + const

on the simplex: it needs only K numbers of a document. The functions here use centred log-ratios y,
:math:`\theta = softmax(y)` and :math:`\sum_k y_k = 0`, which have no boundary; the change of
variables turns :math:`\alpha - 1` into :math:`\alpha`.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

_ITERATIONS = 100
_PROMISE = 1e-3
_SOLVING = 20
_POWERS = 8

# The default precision of products is below float32 on some devices.
_einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Target(NamedTuple):
    """The posterior of the proportions of B documents."""

    cosines: jax.Array  # inner products of documents and topics, [B, K]
    gram: jax.Array  # inner products of the topics, [K, K]
    alpha: jax.Array  # concentration of the proportions, a scalar
    kappa: jax.Array  # concentration kappa_1 of the documents, a scalar


class Laplace(NamedTuple):
    """A multivariate t distribution of centred log-ratios, centred at the mode of the target.

    It is a good proposal for alpha of 3 or more; below 1, the posterior of many proportions is too
    far from this shape.
    """

    mode: jax.Array  # [B, K]
    # lower Cholesky factor of the precision at the mode, plus 1 along the vector of ones, [B, K, K]
    factor: jax.Array
    inverse: jax.Array  # the inverse of the factor, [B, K, K]
    freedom: jax.Array  # degrees of freedom, a scalar


def target(topics: jax.Array, rows: jax.Array, alpha: jax.Array, kappa: jax.Array) -> Target:
    """Return the posterior of the proportions of documents [B, V] given topics [K, V]."""
    dtype = topics.dtype
    return Target(
        _einsum("bv,kv->bk", rows, topics),
        _einsum("kv,lv->kl", topics, topics),
        jnp.asarray(alpha, dtype),
        jnp.asarray(kappa, dtype),
    )


def cosine(law: Target, theta: jax.Array) -> jax.Array:
    """Return the cosines of documents and their mean directions, [..., B], theta [..., B, K]."""
    squares = jnp.sum(_einsum("...k,kl->...l", theta, law.gram) * theta, axis=-1)
    # Avoid division by zero for a vanishing mean direction.
    squares = jnp.maximum(squares, jnp.finfo(squares.dtype).tiny)
    return jnp.sum(theta * law.cosines, axis=-1) * lax.rsqrt(squares)


def log_density(law: Target, ratios: jax.Array) -> jax.Array:
    """Return the log density [..., B] of log-ratios [..., B, K], up to a constant."""
    log_theta = jax.nn.log_softmax(ratios)
    return law.kappa * cosine(law, jnp.exp(log_theta)) + law.alpha * jnp.sum(log_theta, axis=-1)


def log_constant(law: Target) -> jax.Array:
    """Return log p(v, y) minus `log_density`, without log c_V(kappa_1), a scalar.

    This is the normaliser of the Dirichlet distribution plus log(K) / 2: log-ratios to the last
    proportion are sqrt(K) times as dense as centred ones.
    """
    k = law.gram.shape[0]
    return gammaln(k * law.alpha) - k * gammaln(law.alpha) + 0.5 * math.log(k)


class Point(NamedTuple):
    """Parts of the derivatives of `log_density` at log-ratios.

    Here r^2 = theta'G theta, and h = kappa c'theta / r is the height of the fit. Its gradient has
    no component along theta, because the fit does not depend on the length of theta.
    """

    theta: jax.Array  # proportions, [B, K]
    force: jax.Array  # gradient of the fit, [B, K]
    share: jax.Array  # theta * (G theta) / r^2, which sums to 1, [B, K]
    height: jax.Array  # [B, 1]
    squares: jax.Array  # r^2, [B, 1]


def at(law: Target, ratios: jax.Array) -> Point:
    """Return the parts of the derivatives at log-ratios [B, K]."""
    theta = jax.nn.softmax(ratios)
    turned = _einsum("bk,kl->bl", theta, law.gram)
    squares = _sum(turned * theta)
    squares = jnp.maximum(squares, jnp.finfo(theta.dtype).tiny)
    scale = law.kappa * lax.rsqrt(squares)
    height = _sum(theta * law.cosines) * scale
    share = theta * turned / squares
    return Point(theta, theta * law.cosines * scale - height * share, share, height, squares)


def gradient(law: Target, point: Point) -> jax.Array:
    """Return the gradient of `log_density`, [B, K]."""
    return point.force + law.alpha * (1 - point.theta.shape[-1] * point.theta)


def curvature_times(law: Target, point: Point, x: jax.Array) -> jax.Array:
    """Return the product of the negative Hessian of `log_density` with x, [B, K]."""
    theta, force, share, height, squares = point
    moved = theta * x
    prior = theta.shape[-1] * law.alpha * (moved - theta * _sum(moved))
    along = _sum(share * x)
    between = theta * _einsum("bk,kl->bl", moved, law.gram) / squares
    data = height * (between - share * along) + force * along + share * _sum(force * x) - force * x
    return prior + data


def curvature(law: Target, point: Point) -> tuple[jax.Array, jax.Array]:
    """Return the negative Hessian of `log_density`, and a positive semidefinite matrix near it.

    The latter is the Fisher information plus the magnitude of the force on every log-ratio. Both
    are [B, K, K] and map the vector of ones to 0, or nearly so.
    """
    theta, force, share, height, squares = point
    k = theta.shape[-1]
    eye, outer = jnp.eye(k, dtype=theta.dtype), _outer(theta, theta)
    mixed = _outer(force, share)
    spread = outer * law.gram / squares[..., None] - _outer(share, share)
    prior = k * law.alpha * (theta[..., None] * eye - outer)
    height = height[..., None]
    return (
        prior + height * spread + mixed + jnp.swapaxes(mixed, -1, -2) - force[..., None] * eye,
        prior + jnp.maximum(height, 0) * spread + jnp.abs(force)[..., None] * eye,
    )


def _sum(x: jax.Array) -> jax.Array:
    return jnp.sum(x, axis=-1, keepdims=True)


def _outer(a: jax.Array, b: jax.Array) -> jax.Array:
    return a[..., :, None] * b[..., None, :]


def approximate(law: Target) -> Laplace:
    """Find the mode of every document and the curvature there.

    The result depends only on the target, so it is a valid Metropolis proposal even if the search
    for the mode has not converged.
    """
    mode = _mode(law)
    k = mode.shape[-1]
    ones = jnp.full((k, k), 1 / k, mode.dtype)
    exact, convex = curvature(law, at(law, mode))
    exactly = cholesky(exact + ones)

    def instead() -> tuple[jax.Array, jax.Array]:
        # At least the curvature of the prior, in case of rounding errors.
        least = law.alpha * (jnp.eye(k, dtype=mode.dtype) - ones)
        spare = cholesky(convex + 1e-3 * least + ones)
        good = _exists(exactly[0])
        return jnp.where(good, exactly[0], spare[0]), jnp.where(good, exactly[1], spare[1])

    factor, inverse = lax.cond(jnp.all(_exists(exactly[0])), lambda: exactly, instead)
    # A log-ratio has the left tail exp(alpha y), which the proposal has to cover.
    return Laplace(mode, factor, inverse, jnp.clip(3 * law.alpha, 3, 30))


class Scales(NamedTuple):
    """The modes of B posteriors and their widths there."""

    mode: jax.Array  # log-ratios [B, K]
    mass: jax.Array  # curvatures of the log-ratios, [B, K]
    rate: jax.Array  # largest eigenvalue of the curvature relative to its diagonal, [B, 1]


def scales(law: Target) -> Scales:
    """Return modes, masses and rates, the last by a few power iterations from a fixed vector."""
    mode = _mode(law)
    point = at(law, mode)
    theta, force, share, height, squares = point
    k = theta.shape[-1]
    data = height * (theta**2 * jnp.diagonal(law.gram) / squares - share**2)
    exact = k * law.alpha * theta * (1 - theta) + data + 2 * force * share - force
    mass = jnp.maximum(exact, 0.1 * law.alpha)
    scale = lax.rsqrt(mass)

    def multiply(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x = carry[0]
        # A single topic has no curvature, and its x becomes 0.
        x = x * lax.rsqrt(jnp.maximum(_sum(x**2), jnp.finfo(x.dtype).tiny))
        x = scale * curvature_times(law, point, scale * x)
        return x, jnp.sqrt(_sum(x**2))

    x = jnp.cos(jnp.arange(k, dtype=theta.dtype) * 2.4) * jnp.ones_like(theta)
    _, rate = lax.fori_loop(0, _POWERS, multiply, (x, jnp.ones_like(squares)))
    return Scales(mode, mass, jnp.maximum(rate, 1))


def _exists(factor: jax.Array) -> jax.Array:
    return jnp.all(jnp.isfinite(factor), axis=(-2, -1), keepdims=True)


def _mode(law: Target) -> jax.Array:
    """Find the modes by damped Newton steps from equal proportions.

    Steps are computed by conjugate gradients, truncated where the density is not concave (Steihaug
    1983): they only need products with the Gram matrix, which documents share.
    """
    shape, dtype = law.cosines.shape, law.cosines.dtype

    def improve(loop: tuple) -> tuple:
        i, ratios, value, damping, moving = loop
        point = at(law, ratios)
        slope = gradient(law, point)
        step = _newton(law, point, slope, damping)
        promise = _sum(slope * step)[:, 0] / 2
        # No proportion changes by more than a factor of e^3 at once.
        longest = jnp.max(jnp.abs(step), axis=-1, keepdims=True)
        step = step * jnp.minimum(1, 3 / jnp.maximum(longest, 1e-30))
        new = log_density(law, ratios + step)
        better = moving & (new >= value)
        # Converged, or limited by rounding, unless the promise is small because of the damping.
        done = (promise < _PROMISE) & (~better | (damping <= law.alpha))
        ratios = jnp.where(better[:, None], ratios + step, ratios)
        damping = jnp.where(better, damping / 8, jnp.maximum(damping, law.alpha / 8) * 8)
        return i + 1, ratios, jnp.where(better, new, value), damping, moving & ~done

    start = jnp.zeros(shape, dtype)
    damping = jnp.full(shape[:1], law.alpha / 8, dtype)
    loop = (0, start, log_density(law, start), damping, jnp.ones(shape[:1], bool))
    return lax.while_loop(lambda s: (s[0] < _ITERATIONS) & jnp.any(s[4]), improve, loop)[1]


def _newton(law: Target, point: Point, slope: jax.Array, damping: jax.Array) -> jax.Array:
    """Solve (curvature + damping) x = slope to a relative residual of a hundredth."""
    tiny = jnp.finfo(slope.dtype).tiny
    least = 1e-4 * _sum(slope**2)

    def improve(loop: tuple) -> tuple:
        i, x, left, along, square, moving = loop
        turned = curvature_times(law, point, along) + damping[:, None] * along
        bend = _sum(along * turned)
        convex = bend > 0
        # Follow a direction of nonconcavity only in the first iteration.
        length = square / jnp.maximum(jnp.abs(bend), tiny)
        go = moving & (convex | (i == 0))
        x = jnp.where(go, x + length * along, x)
        left = left - length * turned
        new = _sum(left**2)
        along = left + new / jnp.maximum(square, tiny) * along
        return i + 1, x, left, along, new, moving & convex & (new > least)

    start = (0, jnp.zeros_like(slope), slope, slope, _sum(slope**2), least > 0)
    most = min(_SOLVING, slope.shape[-1])
    x = lax.while_loop(lambda s: (s[0] < most) & jnp.any(s[5]), improve, start)[1]
    return _centred(x)


def _centred(ratios: jax.Array) -> jax.Array:
    return ratios - jnp.mean(ratios, axis=-1, keepdims=True)


def draw(key: jax.Array, fitted: Laplace, shape: tuple[int, ...] = ()) -> jax.Array:
    """Draw log-ratios [*shape, B, K] from the approximation."""
    key_normal, key_scale = jax.random.split(key)
    normal = jax.random.normal(key_normal, (*shape, *fitted.mode.shape), fitted.mode.dtype)
    drawn = _centred(_einsum("...bl,blk->...bk", normal, fitted.inverse))
    chi2 = 2 * jax.random.gamma(key_scale, fitted.freedom / 2, drawn.shape[:-1], drawn.dtype)
    return fitted.mode + drawn * jnp.sqrt(fitted.freedom / chi2)[..., None]


def log_weights(law: Target, fitted: Laplace, ratios: jax.Array) -> jax.Array:
    """Return log p / q of centred log-ratios [..., B, K], the importance weights, [..., B]."""
    return log_density(law, ratios) - log_proposal(fitted, ratios)


def log_proposal(fitted: Laplace, ratios: jax.Array) -> jax.Array:
    """Return the log density of the approximation at centred log-ratios [..., B, K], [..., B]."""
    mode, factor, _, freedom = fitted
    dimension = mode.shape[-1] - 1
    spread = _einsum("...bk,bkl->...bl", ratios - mode, factor)
    distance = jnp.sum(spread**2, axis=-1)
    half = (freedom + dimension) / 2
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    constant = gammaln(half) - gammaln(freedom / 2) - 0.5 * dimension * jnp.log(freedom * math.pi)
    return constant + log_det - half * jnp.log1p(distance / freedom)


def cholesky(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lower Cholesky factors of matrices [B, K, K], and the inverses of the factors.

    Both are NaN where a matrix is not positive definite. The loop runs over columns, for all
    matrices at once. On the CPU `jnp.linalg` passes the matrices to LAPACK one by one, and its
    threads and those of the compiled program wait for each other: a step within a loop took forty
    times as long, or did not end at all, unless BLAS was limited to one thread.
    """
    size = matrix.shape[-1]
    places = jnp.arange(size)

    def column(j: jax.Array, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        factor, inverse = both
        row = factor[:, j]  # so far only the part left of the diagonal
        # Sums of broadcast products instead of these two einsums give wrong results in jaxlib
        # 0.10.2 on the CPU, for batches of thousands.
        left = matrix[:, :, j] - _einsum("bik,bk->bi", factor, row)
        pivot = jnp.sqrt(left[:, j])[:, None]
        unit = (places == j).astype(matrix.dtype)
        below = (unit - _einsum("bk,bkl->bl", row, inverse)) / pivot
        factor = factor.at[:, :, j].set(jnp.where(places >= j, left / pivot, 0))
        return factor, inverse.at[:, j].set(below)

    return lax.fori_loop(0, size, column, (jnp.zeros_like(matrix), jnp.zeros_like(matrix)))
