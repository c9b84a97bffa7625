"""Distributions of topics in documents and of words in topics, for numpyro models of LDA.

They are numpyro's ``DirichletMultinomial`` and ``Multinomial`` with other draws. numpyro draws
token by token, [rows, largest total, categories] numbers at once, and needs the totals at trace
time. Here the cost of a draw does not depend on the totals, and the model may compute them.
``Gibbs`` draws every site of a model once when it starts.
"""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes, validate_sample

from simplex_jax._src import draws


class TopicCounts(dist.DirichletMultinomial):
    """The distribution of tokens of documents over topics, with proportions summed out.

    Document d has shares theta_d ~ Dirichlet(alpha_d), and each of its tokens has a topic drawn
    from them (Blei, Ng and Jordan 2003), so the counts are Dirichlet-multinomial. For use as a
    latent site, see `LDAGibbs`.

    Args:
        lengths: Numbers of tokens of the documents, at most 2^24, shape [D].
        alpha: Concentrations of the shares, per topic (not the sum), positive, shape [K]; or [D,
            K], one row per document.
        validate_args: Whether to check values, as everywhere in numpyro.

    Raises:
        ValueError: `alpha` has no axis of topics, or the shapes do not broadcast.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.numpyro import TopicCounts
        >>> distribution = TopicCounts(jnp.array([1000, 0]), jnp.full(5, 0.1))
        >>> counts = distribution.sample(jax.random.key(0))
        >>> counts.shape, str(counts.dtype), counts.sum(axis=1).tolist()
        ((2, 5), 'int32', [1000, 0])
    """

    def __init__(
        self, lengths: ArrayLike, alpha: ArrayLike, *, validate_args: bool | None = None
    ) -> None:
        if not jnp.ndim(alpha):
            raise ValueError("alpha must have a last axis, of the K topics; it is a scalar")
        _check_shapes("lengths", jnp.shape(lengths), "alpha", jnp.shape(alpha))
        super().__init__(alpha, lengths, validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return exact draws, int32 [*sample_shape, D, K]."""
        key_shares, key_counts = jax.random.split(key)
        shape = (*sample_shape, *self.batch_shape)
        shares = jnp.exp(draws.log_dirichlet(key_shares, self.concentration, shape))
        return _multinomial(key_counts, self.total_count, shares)


class WordCounts(dist.Distribution):
    """The distribution of the numbers of tokens of each word in topics, given their totals.

    A token of topic k is word w with probability phi_kw, so the counts of a topic are multinomial.
    For use as a latent site, see `LDAGibbs`. Pass topics, or their logarithms, which do not
    underflow: values of a `LogDirichlet` site, or of ``jax.nn.log_softmax``.

    Args:
        totals: Numbers of tokens of the topics, at most 2^24, shape [K].
        topics: Probabilities of words, shape [K, V].
        log_topics: Their logarithms, instead of `topics`.
        validate_args: Whether to check values, as everywhere in numpyro.

    Raises:
        ValueError: Neither or both of `topics` and `log_topics` are given, they have no axis of
            words, or the shapes do not broadcast.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax.numpyro import WordCounts
        >>> distribution = WordCounts(jnp.array([1000, 0]), jnp.full((2, 8), 1 / 8))
        >>> counts = distribution.sample(jax.random.key(0))
        >>> counts.shape, str(counts.dtype), counts.sum(axis=1).tolist()
        ((2, 8), 'int32', [1000, 0])
    """

    arg_constraints = {"totals": constraints.nonnegative_integer}  # noqa: RUF012 (numpyro's)
    pytree_data_fields = ("totals", "topics")
    pytree_aux_fields = ("logarithms",)
    reparametrized_params: list[str] = []  # noqa: RUF012

    def __init__(
        self,
        totals: ArrayLike,
        topics: ArrayLike | None = None,
        *,
        log_topics: ArrayLike | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = log_topics if topics is None else topics
        if given is None or (topics is not None and log_topics is not None):
            raise ValueError("give either topics or log_topics")
        name = "topics" if log_topics is None else "log_topics"
        if not jnp.ndim(given):
            raise ValueError(f"{name} must have a last axis, of the V words; it is a scalar")
        shape, event_shape = jnp.shape(given)[:-1], jnp.shape(given)[-1:]
        batch_shape = _check_shapes("totals", jnp.shape(totals), name, (*shape, *event_shape))
        # All batch axes in both: numpyro's scan stacks each along a new first axis.
        (totals,) = promote_shapes(totals, shape=batch_shape)
        (given,) = promote_shapes(given, shape=(*batch_shape, *event_shape))
        self.totals = jnp.asarray(totals)
        # Stored as given, with their form: an underflow must stay 0, and a logarithm finite.
        self.topics, self.logarithms = jnp.asarray(given), topics is None
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Whole numbers that sum to the totals."""
        return constraints.multinomial(self.totals)

    def logs(self) -> jax.Array:
        """Return the logarithms of the topics, [K, V], minus infinity for underflowing ones.

        `SCIR` shows probabilities that underflow as the smallest normal number. No label is ever
        drawn at such a probability. With a mass of 0, rounded sums cannot draw one either, and the
        density cannot be off by the amount that the probability was raised.
        """
        if self.logarithms:
            return self.topics
        underflows = self.topics < 2 * jnp.finfo(self.topics.dtype).tiny
        return jnp.log(jnp.where(underflows, 0, self.topics))

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return exact draws, int32 [*sample_shape, K, V]."""
        shape = (*sample_shape, *self.batch_shape, *self.event_shape)
        topics = jnp.exp(self.topics) if self.logarithms else self.topics
        return _multinomial(key, self.totals, jnp.broadcast_to(topics, shape))

    @validate_sample
    def log_prob(self, value: ArrayLike) -> jax.Array:
        """Return the log probability; words that do not occur have no gradient."""
        value = jnp.asarray(value, jnp.result_type(float))
        occurs = value > 0
        topics = jnp.where(occurs, self.topics, 0 if self.logarithms else 1)
        logs = topics if self.logarithms else jnp.log(topics)
        return gammaln(value.sum(axis=-1) + 1) + (value * logs - gammaln(value + 1)).sum(axis=-1)


def _check_shapes(
    name: str, totals: tuple[int, ...], other: str, shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the batch shape of counts, or raise a ValueError if there is none."""
    try:
        return jnp.broadcast_shapes(totals, shape[:-1])
    except ValueError:
        raise ValueError(
            f"the shapes of {name} {totals} and {other} {shape}, less its last axis, do not "
            "broadcast"
        ) from None


@jax.jit
def _multinomial(key: jax.Array, totals: ArrayLike, probabilities: jax.Array) -> jax.Array:
    """Return multinomial counts, int32 [..., n], of totals [...] and probabilities [..., n].

    Binomial variates split the totals between two halves of the categories, each half between two
    quarters, and so on, in as many levels as the number of categories has binary digits.
    """
    size, dtype = probabilities.shape[-1], probabilities.dtype
    depth = (size - 1).bit_length()
    level = _padded(probabilities, 2**depth)
    shares = []
    for _ in range(depth):
        left, right = jnp.moveaxis(_pairs(level), -1, 0)
        level = left + right
        # A half with no mass gets exactly 0.
        share = jnp.where(left > 0, left / jnp.where(left > 0, level, 1), 0)
        shares.append(_padded(share, 2**depth // 2))

    def halve(counts: jax.Array, of_level: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        # Level l uses the first 2^l counts; the array has all of them, so that one program
        # suffices.
        key, share = of_level
        whole = counts[..., : share.shape[-1]]
        first = jax.random.binomial(key, whole, share, dtype=dtype)
        return jnp.stack([first, whole - first], axis=-1).reshape(counts.shape), None

    counts = jnp.broadcast_to(jnp.asarray(totals, dtype)[..., None], level.shape)
    counts = _padded(counts, 2**depth)
    if shares:
        keys = jax.random.split(key, depth)
        counts, _ = jax.lax.scan(halve, counts, (keys, jnp.stack(shares[::-1])))
    return counts[..., :size].astype(jnp.int32)


def _padded(level: jax.Array, size: int) -> jax.Array:
    padding = [(0, 0)] * (level.ndim - 1) + [(0, size - level.shape[-1])]
    return jnp.pad(level, padding)


def _pairs(level: jax.Array) -> jax.Array:
    return level.reshape(*level.shape[:-1], -1, 2)
