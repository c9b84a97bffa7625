"""The ascents of the bound of the spherical admixture model: of proportions, and of topics."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax.baselines import sam_bound
from simplex_jax.baselines.sam_bound import matmul
from simplex_jax.geometry import von_mises_fisher as vmf
from simplex_jax.models import sam_documents
from simplex_jax.models.sam_documents import UnitDocuments
from simplex_jax.models.sam_joint import Hyperparameters

# A logarithm of a weight changes by no more than this in an iteration.
_LARGEST = 1.0
# A document is done when none changes by more than this.
_CLOSE = 1e-3
# Halvings after which a step along a gradient is given up: to rounding it leads nowhere.
_HALVINGS = 24


class Words(NamedTuple):
    """How the words of a batch are seen.

    Attributes:
        cosines: `(x [K, V]) -> [B, K]`, products of the documents and the rows of x.
        collect: `(c [B, K]) -> [K, V]`, sums of the documents times the columns of c.
    """

    cosines: Callable[[jax.Array], jax.Array]
    collect: Callable[[jax.Array], jax.Array]


def words_of(corpus: UnitDocuments, ids: jax.Array, num_topics: int, num_words: int) -> Words:
    """Return how the words of a batch are seen: a table of all, or one block after the other."""
    size, batch_size = sam_documents.size(corpus), ids.shape[0]
    length = sam_documents.block_size(batch_size, num_words)
    if length == batch_size:
        table = sam_documents.rows(corpus, ids, num_words)
        return Words(lambda x: matmul(table, x.T), lambda c: matmul(c.T, table))
    blocks = sam_documents.blocks(ids, length, size)

    def cosines(x: jax.Array) -> jax.Array:
        found = lax.map(lambda i: matmul(sam_documents.rows(corpus, i, num_words), x.T), blocks)
        return found.reshape(-1, num_topics)[:batch_size]

    def collect(c: jax.Array) -> jax.Array:
        def one(i: jax.Array, c: jax.Array) -> jax.Array:
            return matmul(c.T, sam_documents.rows(corpus, i, num_words))

        return sam_documents.add_up(one, blocks, sam_documents.blocks(c, length, 0))

    return Words(cosines, collect)


def climb_weights(
    hyper: Hyperparameters,
    weights: jax.Array,
    cosines: jax.Array,
    gram: jax.Array,
    length: jax.Array,
    iterations: int,
) -> tuple[jax.Array, jax.Array]:
    """Climb the bound of every document; return the weights [B, K] and the iterations done.

    Documents whose weights are 0 start at such that are higher for closer topics.
    """
    near = jnp.abs(cosines) + 0.01
    first = near.shape[1] * hyper.alpha * near / jnp.sum(near, axis=1, keepdims=True)
    weights = jnp.where(weights > 0, weights, first)

    def bound(weights: jax.Array) -> jax.Array:
        return sam_bound.documents(hyper, weights, cosines, gram, length)

    def climb(loop: tuple) -> tuple:
        i, weights, here, rate, _ = loop
        ascent = sam_bound.natural_gradient(hyper, weights, cosines, gram, length) / weights
        ascent = jnp.clip(rate[:, None] * ascent, -_LARGEST, _LARGEST)
        moved = weights * jnp.exp(ascent)
        there = bound(moved)
        better = there > here
        weights = jnp.where(better[:, None], moved, weights)
        done = jnp.max(jnp.abs(ascent), axis=1) < _CLOSE
        rate = jnp.where(better, jnp.minimum(2 * rate, 1), rate / 2)
        return i + 1, weights, jnp.where(better, there, here), rate, done

    here = bound(weights)
    start = (jnp.int32(0), weights, here, jnp.ones_like(here), jnp.zeros(here.shape, bool))
    i, weights, *_ = lax.while_loop(
        lambda loop: (loop[0] < iterations) & ~jnp.all(loop[-1]), climb, start
    )
    return weights, i


class Topics(NamedTuple):
    """The bound of a batch as a function of the topics, the weights of its documents given.

    Attributes:
        hyper: The hyperparameters.
        weights: Of the documents, [B, K].
        scale: How many documents of the corpus each stands for.
        change: A climb ends where no entry of a topic would change by this.
    """

    hyper: Hyperparameters
    weights: jax.Array
    scale: float
    change: jax.Array

    def closeness(self, cosines: jax.Array, x: jax.Array, length: jax.Array) -> jax.Array:
        """Return the `closeness` of the documents, [B]."""
        return sam_bound.closeness(self.weights, cosines, matmul(x, x.T), length)

    def value(self, cosines: jax.Array, x: jax.Array, length: jax.Array) -> jax.Array:
        """Return the terms of the bound with x or its length, for their derivatives."""
        concentration = sam_bound.resultant(self.hyper, x, length)
        fit = jnp.sum(self.closeness(cosines, x, length))
        return self._factor * fit - vmf.log_normaliser(x.shape[1], concentration)

    def gain(self, here: tuple, there: tuple) -> jax.Array:
        """Return by how much the value is higher there, to more digits than both values have."""
        of_documents = self.closeness(*there) - self.closeness(*here)
        before, after = (sam_bound.resultant(self.hyper, *point[1:]) for point in (here, there))
        difference = vmf.log_normaliser_difference(there[1].shape[1], before, after)
        return self._factor * jnp.sum(of_documents) + difference

    @property
    def _factor(self) -> jax.Array:
        return self.hyper.kappa1 * self.scale


def climb_topics(
    topics: Topics,
    words: Words,
    x: jax.Array,
    cosines: jax.Array,
    length: jax.Array,
    iterations: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Climb the bound of the batch; return topics, their cosines [B, K] and the steps done."""

    def climb(loop: tuple) -> tuple:
        i, x, cosines, rate, _ = loop
        by_cosine, by_topic = jax.grad(topics.value, (0, 1))(cosines, x, length)
        slope = words.collect(by_cosine) + by_topic
        ascent = slope - x * jnp.sum(x * slope, axis=1, keepdims=True)
        ascent = ascent / jnp.linalg.norm(slope, axis=1, keepdims=True)
        along = words.cosines(ascent)

        def at(rate: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Return topics a step away and their cosines, without another look at the words."""
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
    r"""Return a better xi: the fixed point of the derivative of the bound, damped.

    The bound has the derivative :math:`A_V'(\xi) (\partial_a f - K \xi)`, where f is the value of
    `Topics` and a = A_V(xi).
    """
    num_topics, dimension = x.shape
    length = vmf.mean_length(dimension, concentration)
    target = jax.grad(topics.value, 2)(cosines, x, length) / num_topics
    far = jnp.log(target / concentration)
    # Where a greater length would only make the fit worse the fixed point is not positive.
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
