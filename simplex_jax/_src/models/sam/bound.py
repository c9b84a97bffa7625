r"""The variational bound of the spherical admixture model (Reisinger et al. 2010), and its ascents.

The corpus mean mu has the prior vMF(m, kappa0), the topics phi_k vMF(mu, sigma), the proportions
theta_d Dirichlet(alpha), and a document v_d is vMF(phi theta_d / |phi theta_d|, kappa1). The
posterior is approximated by q(mu) q(phi) q(theta), where q(phi_k) = vMF(x_k, xi) with mean
direction x_k, and q(theta_d) = Dirichlet(w_d). The functions of documents depend on the vocabulary
only through the cosines x_k . v_d [..., K] and the Gram matrix x x' [K, K]. Their other arguments
are the weights w [..., K] and the length a = A_V(xi) of the mean of q(phi_k).
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.geometry.digamma import digamma
from simplex_jax._src.models.sam import sparse
from simplex_jax._src.models.sam.joint import Hyperparameters
from simplex_jax._src.models.sam.sparse import UnitDocuments

# The default precision of products is below float32 on some devices.
matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)

# Maximum change of a log weight per iteration.
_LARGEST = 1.0
# A document has converged when no log weight changes by more than this.
_CLOSE = 1e-3
# A line search fails after this many halvings.
_HALVINGS = 24


def closeness(
    weights: jax.Array, cosines: jax.Array, gram: jax.Array, length: jax.Array
) -> jax.Array:
    r"""Return an approximation to the expected cosine of a document and its mean direction, [...].

    .. math::
        \rho_d = \frac{a\, w_d' x v_d}{w_{d.} \sqrt{E |\phi \theta_d|^2}}, \qquad
        E |\phi \theta_d|^2 = \frac{w_{d.} + (1 - a^2) |w_d|^2 + a^2 |x' w_d|^2}
                                   {w_{d.} (w_{d.} + 1)},

    the expectation of the numerator over the root of that of the squared denominator. This is not a
    bound of the expectation of the quotient, so `total` is a bound only up to this difference.
    """
    total = jnp.sum(weights, axis=-1)
    square = jnp.sum(weights * matmul(weights, gram), axis=-1)
    own = jnp.sum(weights**2, axis=-1)
    second = (total + (1 - length**2) * own + length**2 * square) / (total * (total + 1))
    return length * jnp.sum(weights * cosines, axis=-1) / (total * jnp.sqrt(second))


def divergence(weights: jax.Array, alpha: jax.Array) -> jax.Array:
    """Return the Kullback-Leibler divergence of Dirichlet(w) from Dirichlet(alpha, ...), [...]."""
    num_topics = weights.shape[-1]
    total = jnp.sum(weights, axis=-1)
    logs = digamma(weights) - digamma(total)[..., None]
    prior = num_topics * gammaln(alpha) - gammaln(num_topics * alpha)
    here = jnp.sum(gammaln(weights), axis=-1) - gammaln(total)
    return prior - here + jnp.sum((weights - alpha) * logs, axis=-1)


def documents(
    hyper: Hyperparameters,
    weights: jax.Array,
    cosines: jax.Array,
    gram: jax.Array,
    length: jax.Array,
) -> jax.Array:
    """Return the terms of the bound for each document, without log c_V(kappa1), [...]."""
    fit = hyper.kappa1 * closeness(weights, cosines, gram, length)
    return fit - divergence(weights, hyper.alpha)


def natural_gradient(
    hyper: Hyperparameters,
    weights: jax.Array,
    cosines: jax.Array,
    gram: jax.Array,
    length: jax.Array,
) -> jax.Array:
    r"""Return the gradient of `documents` in w, times the inverse Fisher information F, [..., K].

    With :math:`F = diag(\psi'(w)) - \psi'(w_.) 1 1'` the gradient of the divergence is
    :math:`F (w - \alpha)`, so that this is :math:`\alpha - w + \kappa_1 F^{-1} \nabla \rho`.
    """
    slope = jax.grad(lambda w: jnp.sum(closeness(w, cosines, gram, length)))(weights)
    each = _trigamma(weights)
    of_all = _trigamma(jnp.sum(weights, axis=-1, keepdims=True))
    shared = jnp.sum(slope / each, axis=-1, keepdims=True)
    shared = of_all * shared / (1 - of_all * jnp.sum(1 / each, axis=-1, keepdims=True))
    return hyper.alpha - weights + hyper.kappa1 * (slope + shared) / each


def _trigamma(x: jax.Array) -> jax.Array:
    """Return the derivative of `digamma` from its series, much faster than JAX's."""
    return jax.jvp(digamma, (x,), (jnp.ones_like(x),))[1]


def resultant(hyper: Hyperparameters, directions: jax.Array, length: jax.Array) -> jax.Array:
    r"""Return the concentration :math:`|r|` of the optimal q(mu).

    With :math:`r = \kappa_0 m + \sigma a \sum_k x_k` it is vMF in the direction of r, and the terms
    of the bound for the corpus mean and the topics are :math:`-\log c_V(|r|)`, up to constants. The
    published method uses the same direction, but the length A_V(kappa0) for the corpus mean, as if
    no topic had been observed.
    """
    pull = hyper.sigma * length * jnp.sum(directions, axis=0)
    return jnp.linalg.norm(hyper.kappa0 * hyper.mean + pull)


def total(
    hyper: Hyperparameters,
    mean: jax.Array,
    size: int,
    directions: jax.Array,
    concentration: jax.Array,
    length: jax.Array,
) -> jax.Array:
    """Return the bound, divided by the number of documents, given the mean of `documents`."""
    num_topics, dimension = directions.shape
    mu = resultant(hyper, directions, length)
    # One call for all, because these functions dominate the compile time.
    normalisers = vmf.log_normaliser(
        dimension, jnp.stack([hyper.kappa0, mu, hyper.sigma, hyper.kappa1])
    )
    prior, of_mu, of_topic, of_document = normalisers
    of_topics = of_topic + vmf.entropy(dimension, concentration)
    return mean + of_document + (prior - of_mu + num_topics * of_topics) / size


class Words(NamedTuple):
    """Products with the documents of a batch."""

    # `(x [K, V]) -> [B, K]`, products of the documents and the rows of x
    cosines: Callable[[jax.Array], jax.Array]
    # `(c [B, K]) -> [K, V]`, sums of the documents times the columns of c
    collect: Callable[[jax.Array], jax.Array]


def words_of(corpus: UnitDocuments, ids: jax.Array, num_topics: int, num_words: int) -> Words:
    """Return the products with a batch, from one dense table or block by block."""
    size, batch_size = sparse.size(corpus), ids.shape[0]
    length = sparse.block_size(batch_size, num_words)
    if length == batch_size:
        table = sparse.rows(corpus, ids, num_words)
        return Words(lambda x: matmul(table, x.T), lambda c: matmul(c.T, table))
    blocks = sparse.blocks(ids, length, size)

    def cosines(x: jax.Array) -> jax.Array:
        products = lax.map(lambda i: matmul(sparse.rows(corpus, i, num_words), x.T), blocks)
        return products.reshape(-1, num_topics)[:batch_size]

    def collect(c: jax.Array) -> jax.Array:
        def one(i: jax.Array, c: jax.Array) -> jax.Array:
            return matmul(c.T, sparse.rows(corpus, i, num_words))

        return sparse.add_up(one, blocks, sparse.blocks(c, length, 0))

    return Words(cosines, collect)


def climb_weights(
    hyper: Hyperparameters,
    weights: jax.Array,
    cosines: jax.Array,
    gram: jax.Array,
    length: jax.Array,
    iterations: int,
) -> tuple[jax.Array, jax.Array]:
    """Climb the bound of every document; return the weights [B, K] and the number of iterations.

    Documents with weights 0 start with larger weights for closer topics.
    """
    near = jnp.abs(cosines) + 0.01
    first = near.shape[1] * hyper.alpha * near / jnp.sum(near, axis=1, keepdims=True)
    weights = jnp.where(weights > 0, weights, first)

    def value(weights: jax.Array) -> jax.Array:
        return documents(hyper, weights, cosines, gram, length)

    def climb(loop: tuple) -> tuple:
        i, weights, here, rate, _ = loop
        ascent = natural_gradient(hyper, weights, cosines, gram, length) / weights
        ascent = jnp.clip(rate[:, None] * ascent, -_LARGEST, _LARGEST)
        moved = weights * jnp.exp(ascent)
        there = value(moved)
        better = there > here
        weights = jnp.where(better[:, None], moved, weights)
        done = jnp.max(jnp.abs(ascent), axis=1) < _CLOSE
        rate = jnp.where(better, jnp.minimum(2 * rate, 1), rate / 2)
        return i + 1, weights, jnp.where(better, there, here), rate, done

    here = value(weights)
    start = (jnp.int32(0), weights, here, jnp.ones_like(here), jnp.zeros(here.shape, bool))
    i, weights, *_ = lax.while_loop(
        lambda loop: (loop[0] < iterations) & ~jnp.all(loop[-1]), climb, start
    )
    return weights, i


class Topics(NamedTuple):
    """The bound of a batch as a function of the topics, given the weights of its documents."""

    hyper: Hyperparameters  # the hyperparameters
    weights: jax.Array  # of the documents, [B, K]
    scale: float  # number of documents of the corpus per document of the batch
    change: jax.Array  # a climb ends when no entry of a topic would change by this

    def closeness(self, cosines: jax.Array, x: jax.Array, length: jax.Array) -> jax.Array:
        """Return the `closeness` of the documents, [B]."""
        return closeness(self.weights, cosines, matmul(x, x.T), length)

    def value(self, cosines: jax.Array, x: jax.Array, length: jax.Array) -> jax.Array:
        """Return the terms of the bound that depend on x or its length, for their derivatives."""
        concentration = resultant(self.hyper, x, length)
        fit = jnp.sum(self.closeness(cosines, x, length))
        return self.hyper.kappa1 * self.scale * fit - vmf.log_normaliser(x.shape[1], concentration)

    def gain(self, here: tuple, there: tuple) -> jax.Array:
        """Return the increase of the value, more precisely than a difference of both values."""
        of_documents = self.closeness(*there) - self.closeness(*here)
        before, after = (resultant(self.hyper, *point[1:]) for point in (here, there))
        difference = vmf.log_normaliser_difference(there[1].shape[1], before, after)
        return self.hyper.kappa1 * self.scale * jnp.sum(of_documents) + difference


def climb_topics(
    topics: Topics,
    words: Words,
    x: jax.Array,
    cosines: jax.Array,
    length: jax.Array,
    iterations: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Climb the bound of the batch; return topics, cosines [B, K] and the number of steps."""

    def climb(loop: tuple) -> tuple:
        i, x, cosines, rate, _ = loop
        by_cosine, by_topic = jax.grad(topics.value, (0, 1))(cosines, x, length)
        slope = words.collect(by_cosine) + by_topic
        ascent = slope - x * jnp.sum(x * slope, axis=1, keepdims=True)
        ascent = ascent / jnp.linalg.norm(slope, axis=1, keepdims=True)
        along = words.cosines(ascent)

        def at(rate: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Return topics a step away and their cosines, without products with the words."""
            moved = x + rate * ascent
            norm = jnp.linalg.norm(moved, axis=1)
            return (cosines + rate * along) / norm, moved / norm[:, None]

        def falls(search: tuple) -> jax.Array:
            halvings, rate = search
            gain = topics.gain((cosines, x, length), (*at(rate), length))
            return (halvings < _HALVINGS) & ~(gain > 0)

        halvings, rate = lax.while_loop(falls, lambda s: (s[0] + 1, s[1] / 2), (0, 2 * rate))
        rate = jnp.where(halvings < _HALVINGS, rate, 0)
        done = jnp.max(jnp.abs(rate * ascent)) < topics.change
        cosines, x = at(rate)
        return i + 1, x, cosines, rate, done

    start = (jnp.int32(0), x, cosines, jnp.full((), 0.5, x.dtype), jnp.asarray(False))
    i, x, cosines, *_ = lax.while_loop(
        lambda loop: (loop[0] < iterations) & ~loop[-1], climb, start
    )
    return x, cosines, i


def climb_concentration(
    topics: Topics, x: jax.Array, cosines: jax.Array, concentration: jax.Array
) -> jax.Array:
    r"""Return an improved xi, by a damped step to the fixed point of the bound's derivative.

    The bound has the derivative :math:`A_V'(\xi) (\partial_a f - K \xi)`, where f is the value of
    `Topics` and a = A_V(xi).
    """
    num_topics, dimension = x.shape
    length = vmf.mean_length(dimension, concentration)
    target = jax.grad(topics.value, 2)(cosines, x, length) / num_topics
    far = jnp.log(target / concentration)
    # The fixed point is not positive if a greater length would only worsen the fit.
    ascent = jnp.where(target > 0, jnp.clip(far, -_LARGEST, _LARGEST), -_LARGEST)

    def falls(search: tuple) -> jax.Array:
        halvings, rate = search
        new = concentration * jnp.exp(rate * ascent)
        there = (cosines, x, vmf.mean_length(dimension, new))
        gain = topics.gain((cosines, x, length), there)
        spread = vmf.entropy(dimension, new) - vmf.entropy(dimension, concentration)
        return (halvings < _HALVINGS) & ~(gain + num_topics * spread > 0)

    start = (0, jnp.ones((), x.dtype))
    halvings, rate = lax.while_loop(falls, lambda s: (s[0] + 1, s[1] / 2), start)
    return concentration * jnp.exp(jnp.where(halvings < _HALVINGS, rate, 0) * ascent)
