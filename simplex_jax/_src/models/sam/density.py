r"""Held-out log-perplexity of the spherical admixture model, -mean_d log p(v_d | topics).

The density of a document on the sphere is an integral over its proportions,

.. math:: p(v | \beta) = \int c_V(\kappa_1) e^{\kappa_1 v^\top \bar v(\beta, \theta)}
          Dir(\theta | \alpha)\, d\theta .

"importance" estimates it with draws from Laplace's approximation to the posterior of theta, and
returns their effective sample size. A quarter of the draws are from the prior, without which whole
modes are missed if alpha is below 1. "prior" is the estimator of Liu et al. (2016), a mean over
draws from the prior, for comparison with published figures: if documents are concentrated it misses
nearly all of the integral, and its mean logarithm is far too low.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.geometry import von_mises_fisher
from simplex_jax._src.models.sam import joint, local
from simplex_jax._src.models.sam.joint import UnitDocuments
from simplex_jax._src.models.sam.local import Target

SAMPLES = 256
"""Number of importance-sampling draws of the proportions of a document."""

PRIOR_DRAWS = 200
"""Number of draws from the prior in the paper."""

_OF_PRIOR = 4  # One in this many importance-sampling draws is from the prior.


class LogDensity(NamedTuple):
    """Estimated log densities of documents, in the order of the original table."""

    log_p: np.ndarray  # log densities on the sphere given the topics, float64 [D]
    ess: np.ndarray  # effective sample size of each estimate, (sum w)^2 / sum w^2, float64 [D]


def estimate(
    key: jax.Array,
    topics: jax.Array,
    documents: UnitDocuments,
    alpha: ArrayLike,
    kappa1: ArrayLike,
    samples: int = SAMPLES,
    *,
    method: str = "importance",
) -> LogDensity:
    """Estimate the log densities of held-out documents given topics, unit rows [K, V].

    "importance" has draws from Laplace's approximation and the prior, with weights as draws from
    the mixture of both (Owen and Zhou 2000). The estimate of p is unbiased, with a relative
    standard error of about 1 / sqrt(ess). "prior" has draws from Dirichlet(alpha), the same for all
    documents, as in Liu et al. (2016, section 5.3); an effective sample size near 1 means that the
    estimate is useless. Each document has `samples` draws. Numbers that are not finite and
    positive, and documents with other words, raise a ValueError.
    """
    numbers = arguments.scalar("alpha", alpha), arguments.scalar("kappa1", kappa1)
    samples = arguments.at_least("samples", samples, 1)
    topics = arguments.as_float("topics", topics)
    if topics.ndim != 2:
        raise ValueError(f"topics must be unit rows [K, V]; their shape is {topics.shape}")
    lengths, unit = joint.lengths(topics)
    arguments.require("the lengths of topics", lengths, unit, "1")
    joint.check_words(documents, topics.shape[1])
    fit, ess = _log_means(key, topics, documents, *numbers, samples, method)
    # The sum in float64: log c_V is so large that float32 would lose its fraction. That of the
    # constant is rounded, for all documents alike: by 1e-3 with kappa1 = 3e4, 0.06 with 1e6.
    constant = float(von_mises_fisher.log_normaliser(topics.shape[1], numbers[1]))
    places = np.argsort(np.asarray(documents.corpus.order))
    log_p = np.asarray(fit, np.float64) + constant
    return LogDensity(log_p[places], np.asarray(ess, np.float64)[places])


def log_perplexity(log_p: ArrayLike) -> float:
    """Return minus the mean log density over documents."""
    return -float(np.mean(np.asarray(log_p, np.float64)))


@partial(jax.jit, static_argnums=(5, 6))
def _log_means(
    key: jax.Array,
    topics: jax.Array,
    documents: UnitDocuments,
    alpha: jax.Array,
    kappa: jax.Array,
    samples: int,
    method: str,
) -> tuple[jax.Array, jax.Array]:
    """Return the log of the mean weight and the effective sample size, [D] each."""
    key = by_native_code(key)
    size, (k, vocabulary) = joint.num_documents(documents), topics.shape
    # Draws [samples, documents, K] must not need more memory than dense rows.
    length = min(joint.block_size(size, vocabulary), joint.block_size(size, samples * k))
    blocks = joint.blocks_of(lax.iota(jnp.int32, size), length, size)
    shared = jnp.exp(draws.log_dirichlet(key, jnp.full((samples, 1, k), alpha, topics.dtype)))

    def block(inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        number, ids = inputs
        target = local.target_of(topics, joint.dense_rows(documents, ids, vocabulary), alpha, kappa)
        if method == "prior":
            log_w = target.kappa * local.cosine(target, shared)
        else:
            log_w = _log_weights(jax.random.fold_in(key, number), target, samples)
        log_sum = jax.nn.logsumexp(log_w, axis=0)
        ess = jnp.exp(2 * log_sum - jax.nn.logsumexp(2 * log_w, axis=0))
        return log_sum - math.log(samples), ess

    mean, ess = lax.map(block, (lax.iota(jnp.uint32, blocks.shape[0]), blocks))
    return mean.ravel()[:size], ess.ravel()[:size]


def _log_weights(key: jax.Array, target: Target, samples: int) -> jax.Array:
    """Return log p / q of draws from Laplace's approximation and from the prior, [samples, B].

    q is the mixture of both, in proportion to their numbers of draws. The prior covers regions far
    from the mode of a document with few topics: without it the mean is too low, and the weights do
    not reveal it.
    """
    key_fitted, key_prior = jax.random.split(key)
    fitted, constant = local.approximate(target), local.log_constant(target)
    of_prior = samples // _OF_PRIOR
    drawn = local.draw_proposals(key_fitted, fitted, (samples - of_prior,))
    of_document = jnp.full_like(target.cosines, target.alpha)
    log_theta = draws.log_dirichlet(key_prior, of_document, (of_prior, target.cosines.shape[0]))
    ratios = jnp.concatenate([drawn, log_theta - jnp.mean(log_theta, axis=-1, keepdims=True)])
    log_fitted = local.log_proposal(fitted, ratios)
    log_prior = local.log_posterior(target._replace(kappa=jnp.zeros_like(target.kappa)), ratios)
    share = jnp.asarray(of_prior / samples, ratios.dtype)
    log_q = jnp.logaddexp(jnp.log1p(-share) + log_fitted, jnp.log(share) + constant + log_prior)
    return local.log_posterior(target, ratios) + constant - log_q
