r"""The variational bound of the spherical admixture model (Reisinger et al. 2010).

The corpus mean mu has the prior vMF(m, kappa0), the topics phi_k vMF(mu, sigma), the proportions
theta_d Dirichlet(alpha), and a document v_d is vMF(phi theta_d / |phi theta_d|, kappa1). In the
posterior's place stands q(mu) q(phi) q(theta), with q(phi_k) = vMF(x_k, xi) of the mean direction
x_k and q(theta_d) = Dirichlet(w_d). The functions of documents take their weights w [..., K], the
cosines x_k . v_d [..., K], the Gram matrix x x' [K, K], and the length a = A_V(xi) of the mean of
q(phi_k): of the vocabulary nothing else enters.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from simplex_jax.baselines.natural import digamma
from simplex_jax.geometry import von_mises_fisher as vmf
from simplex_jax.models.sam_joint import Hyperparameters

# Products use fewer bits than float32 has on some devices, unless told otherwise.
matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def closeness(
    weights: jax.Array, cosines: jax.Array, gram: jax.Array, length: jax.Array
) -> jax.Array:
    r"""Return what stands for the expected cosine of a document and its mean direction, [...].

    .. math::
        \rho_d = \frac{a\, w_d' x v_d}{w_{d.} \sqrt{E |\phi \theta_d|^2}}, \qquad
        E |\phi \theta_d|^2 = \frac{w_{d.} + (1 - a^2) |w_d|^2 + a^2 |x' w_d|^2}
                                   {w_{d.} (w_{d.} + 1)},

    the expectation of the numerator over the root of that of the squared denominator. This is no
    bound of the expectation of the quotient, so that what is called the bound is one but for this.
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
    """Return the terms of the bound that are of a document, less log c_V(kappa1), [...]."""
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
    """Return the derivative of `digamma`: that of its series, a fraction of the time of JAX's."""
    return jax.jvp(digamma, (x,), (jnp.ones_like(x),))[1]


def resultant(hyper: Hyperparameters, directions: jax.Array, length: jax.Array) -> jax.Array:
    r"""Return the concentration of the best q(mu), of :math:`r = \kappa_0 m + \sigma a \sum_k x_k`.

    It is vMF in the direction of r with the concentration :math:`|r|`, and the terms of the bound
    of the corpus mean and the topics are then :math:`-\log c_V(|r|)`, but for constants. The
    published method has the same direction, but gives the corpus mean the length A_V(kappa0),
    as if no topic had told anything of it.
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
    """Return the bound, divided by the number of documents.

    Args:
        hyper: The hyperparameters.
        mean: Mean of the `documents`.
        size: Number of the documents.
        directions: Mean directions of the topics, [K, V].
        concentration: xi.
        length: A_V(xi).
    """
    num_topics, dimension = directions.shape
    mu = resultant(hyper, directions, length)
    # One call for all: these functions are what takes the longest to compile.
    normalisers = vmf.log_normaliser(
        dimension, jnp.stack([hyper.kappa0, mu, hyper.sigma, hyper.kappa1])
    )
    prior, of_mu, of_topic, of_document = normalisers
    of_topics = of_topic + vmf.entropy(dimension, concentration)
    return mean + of_document + (prior - of_mu + num_topics * of_topics) / size
