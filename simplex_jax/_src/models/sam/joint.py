r"""The joint density of the spherical admixture model, topic mean integrated out.

With :math:`\bar m = \kappa_0 m + \sigma \sum_k \beta_k` and the mean directions
:math:`\bar v_d = b_d / \|b_d\|`, :math:`b_d = \sum_k \theta_{dk} \beta_k`,

.. math:: \log p(v, \beta, \theta) = - \log c_V(\|\bar m\|)
          + \sum_d \big(\kappa_1 v_d^\top \bar v_d + (\alpha - 1) \sum_k \log \theta_{dk}\big)
          + const

(Liu, Zhu and Song 2016, equation 9). It needs only the K cosines of each document with the topics,
and the K x K Gram matrix of the topics.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from simplex_jax._src import arguments, batches, draws
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.geometry import von_mises_fisher
from simplex_jax._src.geometry.von_mises_fisher import mean_length, mean_spread

# Sparse unit vectors on the device, and dense rows of a selection of them.

# Tolerance of the length of a document: vectors in files are printed with few digits.
_TOLERANCE = 1e-3

ROUNDING = 1e-6
"""The sum of documents is zero up to rounding if its length per document is below this."""

# Entries in the dense rows of a block of documents: a block should fit a core's cache, but there
# should be few blocks.
_BLOCK = 1 << 20

Sum = TypeVar("Sum")


class UnitDocuments(NamedTuple):
    """Sparse unit vectors on the device, shortest document first.

    There is no padding: memory is 8 bytes per nonzero.
    """

    # positions of the nonzeros, with a word per nonzero instead of per token
    corpus: DeviceCorpus
    values: jax.Array  # the nonzeros, float32 [T]


def to_device(vectors: sp.csr_array) -> UnitDocuments:
    """Put documents on the device, the unit vectors of a sparse or dense table [D, V].

    Lengths within 1e-3 of 1 are normalised. An empty table, or a row that is zero, not finite or
    not of unit length, raises a ValueError that names the row.
    """
    vectors = sp.csr_array(vectors, dtype=np.float64, copy=True)
    if vectors.shape[0] == 0:
        raise ValueError("vectors must have at least one document")
    vectors.sum_duplicates()
    vectors.eliminate_zeros()
    sizes = np.diff(vectors.indptr)
    rows = np.repeat(np.arange(sizes.size), sizes)
    lengths = np.sqrt(np.bincount(rows, vectors.data**2, minlength=sizes.size))
    for row in np.flatnonzero(~(np.abs(lengths - 1) <= _TOLERANCE)):
        if lengths[row] == 0:
            raise ValueError(f"document {row} is zero and has no direction: leave it out")
        if not math.isfinite(lengths[row]):
            raise ValueError(f"document {row} has values that are not finite")
        raise ValueError(
            f"document {row} has length {lengths[row]:.6g}; unit vectors are needed: divide it by "
            "its length"
        )
    if vectors.nnz > 2**31 - 1 - device.CHUNK:
        raise ValueError(f"vectors must have fewer nonzeros than 2^31; they have {vectors.nnz}")
    order = np.argsort(sizes, kind="stable")
    vectors.data /= lengths[rows]
    ordered = vectors[order]
    corpus = DeviceCorpus(
        jax.device_put(ordered.indices.astype(np.int32)),
        jax.device_put(ordered.indptr.astype(np.int32)),
        jax.device_put(order.astype(np.int32)),
    )
    return UnitDocuments(corpus, jax.device_put(ordered.data.astype(np.float32)))


def num_documents(documents: UnitDocuments) -> int:
    """Return the number of documents."""
    return device.size(documents.corpus)


def check_words(documents: UnitDocuments, vocabulary: int) -> None:
    """Raise a ValueError if documents have words from `vocabulary` on, which `dense_rows` drops."""
    last = int(np.asarray(documents.corpus.tokens).max())
    if last >= vocabulary:
        raise ValueError(
            f"documents have word {last}, and there are {vocabulary} words: take both from one "
            "vocabulary"
        )


def dense_rows(documents: UnitDocuments, ids: jax.Array, vocabulary: int) -> jax.Array:
    """Return the documents `ids`, distinct int32 [B], as float32 [B, V]; zeros for ids from D on.

    For usual vocabularies a dense product costs no more than a sparse one, and needs no more memory
    than the topics. `documents.corpus.order` has their rows in the original table.
    """
    chosen = device.select(documents.corpus, jnp.asarray(ids))
    mean = documents.values.shape[0] / num_documents(documents)
    step = min(device.CHUNK, documents.values.shape[0], int(1.25 * mean * len(ids)) + 64)
    total = jnp.sum(chosen.lengths)

    def chunk(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, table = loop
        place, owner = device.token_slots(chosen, first, step)
        word = chosen.tokens.at[place].get(mode="fill", fill_value=vocabulary)
        value = documents.values.at[place].get(mode="clip")
        return first + step, table.at[owner, word].set(value, mode="drop")

    empty = jnp.zeros((len(ids), vocabulary), documents.values.dtype)
    return lax.while_loop(lambda loop: loop[0] < total, chunk, (jnp.int32(0), empty))[1]


def uniform_stream(documents: UnitDocuments, batch_size: int) -> batches.Stream:
    """Return the stream of uniform subsets of distinct documents, indices int32 [batch_size].

    A batch of all documents has their indices in order.
    """
    if batch_size == num_documents(documents):
        return batches.full(jnp.arange(batch_size, dtype=jnp.int32))
    return device.uniform_stream(documents.corpus, batch_size)


def block_size(batch_size: int, vocabulary: int) -> int:
    """Return how many documents of a batch to process together."""
    return max(1, min(batch_size, _BLOCK // vocabulary))


def blocks_of(places: jax.Array, length: int, fill: int) -> jax.Array:
    """Split an array [B, ...] into blocks, [blocks, length, ...], padded with `fill`."""
    count = -(-places.shape[0] // length)
    padding = [(0, count * length - places.shape[0])] + [(0, 0)] * (places.ndim - 1)
    padded = jnp.pad(places, padding, constant_values=fill)
    return padded.reshape(count, length, *places.shape[1:])


def add_up(function: Callable[..., Sum], *blocked: jax.Array) -> Sum:
    """Sum a function over blocks, sequentially."""
    if blocked[0].shape[0] == 1:
        return function(*(array[0] for array in blocked))
    shapes = jax.eval_shape(function, *(array[0] for array in blocked))
    start = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def block(total: Sum, arrays: tuple[jax.Array, ...]) -> tuple[Sum, None]:
        return jax.tree.map(jnp.add, total, function(*arrays)), None

    return lax.scan(block, start, blocked)[0]


def mean_direction(vectors: sp.csr_array) -> np.ndarray:
    """Return the normalised sum of unit vectors [D, V], float32 [V].

    Raises:
        ValueError: Their sum is zero.
    """
    total = np.asarray(vectors.sum(axis=0), np.float64).ravel()
    length = np.linalg.norm(total)
    if not length > ROUNDING * vectors.shape[0]:
        raise ValueError(
            "the documents sum to zero and have no mean direction, which the topics have a prior "
            "about: leave out those that are the opposites of others"
        )
    return (total / length).astype(np.float32)


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

    The prior mean m of the topics is a unit vector [V]; see `mean_direction`.
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
    length, unit = lengths(direction)
    arguments.require("the length of mean", length, unit, "1")
    return Hyperparameters(mean=direction / length, **checked)


@jax.jit  # one program
def lengths(directions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lengths of vectors [..., V], and whether each is 1 but for rounding."""
    length = jnp.linalg.norm(directions, axis=-1)
    return length, jnp.abs(length - 1) <= 1e-3


def check_shape(
    documents: UnitDocuments, shape: Sequence[int], hyper: Hyperparameters
) -> tuple[int, int]:
    """Return the shape (K, V) of topics, or raise a ValueError.

    There must be at least one topic and at most one per word, every word of the documents must be
    below V, and `hyper.mean` must have V entries.
    """
    if len(shape) != 2:
        raise ValueError(f"shape must be (K, V); it is {shape!r}")
    topics = arguments.at_least("shape[0]", shape[0], 1)
    words = arguments.at_least("shape[1]", shape[1], 2)
    if topics > words:
        raise ValueError(f"shape has {topics} topics of {words} words: give at most {words} topics")
    check_words(documents, words)
    if hyper.mean.shape != (words,):
        raise ValueError(f"hyper.mean must have {words} entries, not {hyper.mean.shape}")
    return topics, words


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
    scale = num_documents(documents) / batch.ids.shape[0]
    centre = hyper.kappa0 * hyper.mean + hyper.sigma * jnp.sum(topics, axis=0)
    length = jnp.linalg.norm(centre)
    pull = hyper.sigma * von_mises_fisher.mean_length(topics.shape[1], length)
    return pull * centre / length + scale * (along - _einsum("kl,lv->kv", pulls, topics))


def _add_up(function, documents: UnitDocuments, batch: Minibatch, vocabulary: int):
    """Sum `function(rows, theta)` over blocks of the documents of a batch."""
    length = block_size(batch.ids.shape[0], vocabulary)
    return add_up(
        lambda ids, theta: function(dense_rows(documents, ids, vocabulary), theta),
        blocks_of(batch.ids, length, num_documents(documents)),
        blocks_of(batch.theta, length, 1),
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
    size, count = num_documents(documents), batch.ids.shape[0]
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

    scale = num_documents(documents) / (batch.ids.shape[0] * batch.theta.shape[1])
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


# Learning the concentrations of the spherical admixture model.
#
# Each has a gamma prior, by default an exponential one, with the given value as mean. Given
# proportions and topics the three are independent, with the log densities, up to constants,
#
# .. math::
#     \kappa_1:&\ D \log c_V(\kappa_1) + \kappa_1 \sum_d v_d^\top \bar v_d \\
#     \sigma:&\ K \log c_V(\sigma) - \log c_V(\|\kappa_0 m + \sigma \sum_k \beta_k\|) \\
#     \alpha:&\ D [\log \Gamma(K \alpha) - K \log \Gamma(\alpha)]
#         + \alpha \sum_{dk} \log \theta_{dk}
#
# each unimodal in log x. They depend on the documents only through two means.

LEARN = ("alpha", "kappa1", "sigma")

_LEGENDRE, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(16)
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


def draw_concentrations(
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
            name: _move_concentration(
                key, getattr(hyper, name), scores[name], getattr(prior, name), shape
            )
            for name, key, shape in each
        }
    )


def _move_concentration(
    key: jax.Array, x: jax.Array, score: Score, mean: jax.Array, shape: float
) -> jax.Array:
    """Do a Metropolis step in u = log x, using only the derivative of the log density.

    Log densities of thousands of documents are too large to be subtracted in float32, so their
    derivative is integrated instead.
    """

    def slope(u: jax.Array) -> jax.Array:
        # Including the prior and the Jacobian, du = dx / x.
        x = jnp.exp(u)
        return x * (score(x) - shape / mean) + shape

    def gain(a: jax.Array, b: jax.Array) -> jax.Array:
        nodes = jnp.asarray(_LEGENDRE, a.dtype)
        inside = slope((a + b) / 2 + (b - a) / 2 * nodes)
        return (b - a) / 2 * jnp.sum(jnp.asarray(_LEGENDRE_WEIGHTS, a.dtype) * inside)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        rises = slope(middle) > 0
        return jnp.where(rises, middle, low), jnp.where(rises, high, middle)

    reach = jnp.log(_RANGE).astype(x.dtype)
    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (-reach, reach))
    mode = (low + high) / 2
    below, above = slope(mode + jnp.asarray([-_WIDTH, _WIDTH], x.dtype))
    scale = jax.lax.rsqrt(jnp.maximum((below - above) / (2 * _WIDTH), 1e-4))
    key_normal, key_chi, key_accept = jax.random.split(key, 3)
    # A t variate of 10 degrees of freedom.
    stretch = jnp.exp((math.log(5) - draws.loggamma(key_chi, jnp.asarray(5, x.dtype))) / 2)
    old, new = jnp.log(x), mode + scale * stretch * jax.random.normal(key_normal, (), x.dtype)

    def log_proposal(u: jax.Array) -> jax.Array:
        return -5.5 * jnp.log1p(((u - mode) / scale) ** 2 / 10)

    ratio = gain(old, new) + log_proposal(old) - log_proposal(new)
    accept = -jax.random.exponential(key_accept, (), x.dtype) < ratio
    return jnp.exp(jnp.where(accept, new, old))
