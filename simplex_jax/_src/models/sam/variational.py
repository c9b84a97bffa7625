"""Variational inference for the spherical admixture model, with full or mini-batches."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from simplex_jax._src import arguments, schedules
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.draws.keys import split
from simplex_jax._src.geometry import von_mises_fisher as vmf
from simplex_jax._src.geometry.digamma import digamma
from simplex_jax._src.models.sam import joint, model
from simplex_jax._src.models.sam.joint import Hyperparameters, UnitDocuments
from simplex_jax._src.runtime.driver import nothing, run
from simplex_jax._src.schedules import Schedule, StepSize, polynomial_decay

# The variational bound of the spherical admixture model (Reisinger et al. 2010), and its ascents.
#
# The corpus mean mu has the prior vMF(m, kappa0), the topics phi_k vMF(mu, sigma), the proportions
# theta_d Dirichlet(alpha), and a document v_d is vMF(phi theta_d / |phi theta_d|, kappa1). The
# posterior is approximated by q(mu) q(phi) q(theta), where q(phi_k) = vMF(x_k, xi) with mean
# direction x_k, and q(theta_d) = Dirichlet(w_d). The functions of documents depend on the
# vocabulary only through the cosines x_k . v_d [..., K] and the Gram matrix x x' [K, K]. Their
# other arguments are the weights w [..., K] and the length a = A_V(xi) of the mean of q(phi_k).

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
    size, batch_size = joint.num_documents(corpus), ids.shape[0]
    length = joint.block_size(batch_size, num_words)
    if length == batch_size:
        table = joint.dense_rows(corpus, ids, num_words)
        return Words(lambda x: matmul(table, x.T), lambda c: matmul(c.T, table))
    blocks = joint.blocks_of(ids, length, size)

    def cosines(x: jax.Array) -> jax.Array:
        products = lax.map(lambda i: matmul(joint.dense_rows(corpus, i, num_words), x.T), blocks)
        return products.reshape(-1, num_topics)[:batch_size]

    def collect(c: jax.Array) -> jax.Array:
        def one(i: jax.Array, c: jax.Array) -> jax.Array:
            return matmul(c.T, joint.dense_rows(corpus, i, num_words))

        return joint.add_up(one, blocks, joint.blocks_of(c, length, 0))

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


STARTS = ("variational", "prior")
"""Names of the starts of a chain."""

UPDATES, BATCH = 40, 4_000
"""Variational updates before the first sample, and the maximum batch size of each."""

_STATIC = {"static": True}


class State(NamedTuple):
    """State of the variational methods."""

    position: jax.Array  # mean directions of the topics, unit vectors [K, V]
    step: jax.Array  # number of updates done, int32
    # Weights of the proportions of every document, Dirichlet(w_d), [D, K]; 0 for documents that
    # have not been in a batch.
    weights: jax.Array
    concentration: jax.Array  # xi, the concentration of q(phi_k), a scalar


class Info(NamedTuple):
    """Diagnostics of an update, all scalars."""

    step_size: jax.Array  # rho
    # The bound of the log evidence per document, at the topics before the update; estimated from
    # the batch if it is not full.
    bound: jax.Array
    local_iterations: jax.Array  # iterations of the weights for the slowest document
    topic_iterations: jax.Array  # steps of the topics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model:
    """Settings of `build`; a climb of topics ends when no entry would change by `change`."""

    documents: UnitDocuments
    hyper: Hyperparameters
    step_size: StepSize
    change: jax.Array
    shape: tuple[int, int] = dataclasses.field(metadata=_STATIC)
    learn: bool = dataclasses.field(metadata=_STATIC)
    local_iterations: int = dataclasses.field(metadata=_STATIC)
    topic_iterations: int = dataclasses.field(metadata=_STATIC)


def default_step_size() -> Schedule:
    """Return the published schedule for batches, rho_t = (5 + t)^-0.8 after t updates."""
    return polynomial_decay(5**-0.8, tau=5, kappa=0.8)


def build(
    documents: UnitDocuments,
    shape: tuple[int, int],
    *,
    hyper: Hyperparameters,
    learn_concentration: bool = False,
    batch_size: int | None = None,
    step_size: StepSize | None = None,
    local_iterations: int = 20,
    topic_iterations: int = 100,
    tolerance: float = 0.1,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of mean-field variational Bayes for SAM, and its stream of batches.

    It maximises the bound of `bound` (Reisinger et al. 2010). An update optimises the weights w_d
    of the documents of a batch, then, given these, the directions x_k of the topics for the bound
    of the batch, with its documents counted D / |B| times. The result is :math:`\hat x_k`, and

    .. math:: x_k \leftarrow \frac{(1 - \rho) x_k + \rho \hat x_k}
                                  {|(1 - \rho) x_k + \rho \hat x_k|}.

    With all documents in a batch and `step_size=1`, the default, this is the batch method (VI), and
    the bound never falls; with fewer it is the stochastic method (StoVI) of Liu et al. (2016).

    Both ascents use rollback, as theirs do, but other directions and a separate step size for every
    document. Weights follow the natural gradient,

    .. math:: \log w_{dk} \leftarrow \log w_{dk} + s_d (\tilde\nabla_k L) / w_{dk},

    for which s = 1 is exact if the expected cosine is linear in the expected log proportions.
    Topics follow their gradients g_k projected at x_k,
    :math:`x_k + s (g_k - x_k x_k' g_k) / |g_k|`, renormalised, for which s = 1 is the maximiser if
    the bound is linear in the topic. Steps double when the bound rises and halve when it would
    fall. The published code follows plain gradients with rates of 1e-2 and 1e-3. The corpus mean
    has its optimal length, see `resultant`. A document's weights start at their last values.

    Args:
        documents: The unit vectors, `joint.to_device(vectors)`.
        shape: (K, V), numbers of topics and words, K at most V.
        hyper: Hyperparameters, `joint.hyperparameters(mean, ...)`.
        learn_concentration: Maximise over xi as well, from sigma on, by damped steps to the fixed
            point of the bound's derivative; otherwise it stays at sigma, as published.
        batch_size: Documents in a batch, at most the number of documents; by default all.
        step_size: rho, above 0 and at most 1, or a schedule; by default 1 with all documents in a
            batch and otherwise `default_step_size`.
        local_iterations: Maximum iterations of the weights per update.
        topic_iterations: Maximum steps of the topics per update.
        tolerance: The steps end when no entry of a topic would change by this over the root of V.

    Returns:
        A kernel whose `init` takes topics [K, V], which it normalises and which must differ; and a
        stream of uniform batches of distinct documents.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.models.sam import joint
        >>> rows = sp.csr_array([[0.6, 0.8, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]])
        >>> documents = joint.to_device(rows)
        >>> hyper = joint.hyperparameters(
        ...     joint.mean_direction(rows),
        ...     alpha=0.5, sigma=10, kappa0=10, kappa1=100)
        >>> kernel, stream = build(documents, (2, 4), hyper=hyper)
        >>> start = jnp.array([[1.0, 1.0, 1.0, 0.5], [0.5, 1.0, 1.0, 1.0]])
        >>> state = kernel.init(jax.random.key(0), start)
        >>> state, _ = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> (state.position > 0.5).tolist()
        [[True, True, False, False], [False, False, True, True]]
    """
    shape = joint.check_shape(documents, shape, hyper)
    size = joint.num_documents(documents)
    at_once = size if batch_size is None else arguments.at_least("batch_size", batch_size, 1)
    at_once = min(at_once, size)
    if step_size is None:
        step_size = 1.0 if at_once == size else default_step_size()
    schedules.check_share(step_size)
    fixed = _Model(
        documents=documents,
        hyper=hyper,
        step_size=step_size,
        change=arguments.scalar("tolerance", tolerance) / math.sqrt(shape[1]),
        shape=shape,
        learn=bool(learn_concentration),
        local_iterations=arguments.at_least("local_iterations", local_iterations, 1),
        topic_iterations=arguments.at_least("topic_iterations", topic_iterations, 1),
    )
    kernel = Kernel(init=bind(_init, fixed), update=bind(_update, fixed))
    return kernel, joint.uniform_stream(documents, at_once)


def _init(model: _Model, key: jax.Array, position: jax.Array) -> State:
    position = arguments.as_float("position", position)
    if position.shape != model.shape:
        raise ValueError(f"position must be topics of shape {model.shape}; it has {position.shape}")
    length = jnp.linalg.norm(position, axis=1)
    arguments.require("position", length, arguments.positive(length), "topics that are not 0")
    return State(
        position=_normalise(position),
        step=jnp.zeros((), jnp.int32),
        weights=jnp.zeros((joint.num_documents(model.documents), model.shape[0]), position.dtype),
        # A state may be donated to jitted code, and must not share arrays with the kernel.
        concentration=jnp.array(model.hyper.sigma, position.dtype),
    )


def _normalise(x: jax.Array) -> jax.Array:
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def _update(model: _Model, key: jax.Array, state: State, ids: jax.Array) -> tuple[State, Info]:
    """Find the weights of the batch, then its topics, and move towards these."""
    old, xi, size = state.position, state.concentration, state.weights.shape[0]
    hyper = jax.tree.map(lambda leaf: leaf.astype(old.dtype), model.hyper)
    rho = schedules.evaluate(model.step_size, state.step).astype(old.dtype)
    rho = jnp.where((rho > 0) & (rho <= 1), rho, jnp.nan)
    length = vmf.mean_length(old.shape[1], xi)

    words = words_of(model.documents, ids, *old.shape)
    cosines, gram = words.cosines(old), matmul(old, old.T)
    weights, iterations = climb_weights(
        hyper, state.weights[ids], cosines, gram, length, model.local_iterations
    )
    each = jnp.mean(documents(hyper, weights, cosines, gram, length))
    reached = total(hyper, each, size, old, xi, length)
    topics = Topics(hyper, weights, size / ids.shape[0], model.change)
    new, cosines, steps = climb_topics(topics, words, old, cosines, length, model.topic_iterations)
    # With a NaN bound no step would be accepted, which looks like convergence.
    new = jnp.where(jnp.isnan(reached), jnp.nan, new)
    if model.learn:
        better = climb_concentration(topics, new, cosines, xi)
        xi = (1 - rho) * xi + rho * better
    state = State(
        position=_normalise((1 - rho) * old + rho * new),
        step=state.step + 1,
        weights=state.weights.at[ids].set(weights),
        concentration=xi,
    )
    return state, Info(rho, reached, iterations, steps)


def start(
    key: jax.Array, documents: UnitDocuments, hyper: Hyperparameters, count: int, method: str
) -> jax.Array:
    """Return initial topics [K, V] of a chain.

    "prior" draws directions about the corpus mean, from which samplers need hundreds of passes to
    converge. "variational" continues with `UPDATES` updates of variational inference, each with all
    documents or `BATCH` of them, which takes a few passes and shortens the burn-in.
    """
    key_start, key_init, key_run = split(key, 3)
    first = model.start(key_start, hyper, count)
    if method == "prior":
        return first
    size = joint.num_documents(documents)
    # Batches are large and updates few, so later updates get more weight than in a long run.
    step_size = polynomial_decay(1.0, tau=1.0, kappa=0.6) if size > BATCH else 1.0
    kernel, stream = build(
        documents,
        (count, first.shape[1]),
        hyper=hyper,
        batch_size=min(BATCH, size),
        step_size=step_size,
        local_iterations=5,
        topic_iterations=5,
    )
    state = kernel.init(key_init, first)
    # Not a lambda: a new one for each chain and fit would recompile everything.
    state, _ = run(key_run, kernel, state, stream, UPDATES, collect=nothing)
    return state.position
