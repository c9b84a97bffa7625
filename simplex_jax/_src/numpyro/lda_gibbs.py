"""The labels of documents as a block of a numpyro model, drawn by the engine of `lda`."""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro.distributions as dist
import scipy.sparse as sp
from jax import lax
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.util import promote_shapes, validate_sample
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from simplex_jax._src import arguments, draws
from simplex_jax._src.corpus import Corpus, device, from_counts
from simplex_jax._src.corpus.device import DeviceCorpus, Documents
from simplex_jax._src.draws.keys import like
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.numpyro import density, sites
from simplex_jax._src.numpyro.sites import Model, Values


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
        _check_batch("lengths", jnp.shape(lengths), "alpha", jnp.shape(alpha))
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
        batch_shape = _check_batch("totals", jnp.shape(totals), name, (*shape, *event_shape))
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


def _check_batch(
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


# The labels of documents as a block of a numpyro model, drawn by the engine of `lda`.

# Tolerance for the sum of a topic's probabilities, larger than rounding errors.
_SLACK = 1e-3

Trace: TypeAlias = Mapping[str, Any]
"""A trace of a model: its sites by name."""


class Names(NamedTuple):
    """The names of the two sites of counts."""

    documents: str  # of topics in documents
    words: str  # of words in topics


class Parameters(NamedTuple):
    """The parameters given which labels are drawn."""

    alpha: jax.Array  # concentrations of the shares, [1, K], or [D, K] if documents differ
    log_topics: jax.Array  # [K, V], normalised


def label_parameters(trace: Trace, own: Names) -> Parameters:
    """Return the parameters of the distributions of the two sites."""
    of_documents, of_words = (sites.base(trace[name]["fn"]) for name in own)
    alpha = jnp.asarray(of_documents.concentration)
    log_topics = jnp.broadcast_to(of_words.logs(), jnp.shape(trace[own.words]["value"]))
    return Parameters(alpha.reshape(-1, alpha.shape[-1]), log_topics)


class Labelled(NamedTuple):
    """The topics of all tokens, and their counts."""

    labels: jax.Array  # [T], documents and tokens in the order of the device; K for no topic
    documents: jax.Array  # tokens of each topic in each document, by row, int32 [D, K]
    words: jax.Array  # tokens of each word in each topic, int32 [K, V]


class LDAGibbsState(NamedTuple):
    """State of `LDAGibbs`."""

    # Counts by site, int32: topics in documents, [D, K], and words in topics, [K, V]
    z: Values
    # Topic of every token, [T]; documents are sorted by length, shortest first, and the words of
    # each by number
    labels: jax.Array
    moved: jax.Array  # share of tokens whose topic changed in the last step, a scalar
    rng_key: jax.Array  # key of the next step


class LDAGibbs(MCMCKernel):
    r"""Collapsed Gibbs sweeps over the labels of a corpus, as a block of ``numpyro.infer.Gibbs``.

    For models that contain latent Dirichlet allocation. The model has a site for the counts of
    topics in documents, and one for the counts of words in topics,

    .. code-block:: python

        in_documents = numpyro.sample("in_documents", TopicCounts(lengths, alpha))
        numpyro.sample("in_topics", WordCounts(in_documents.sum(axis=0), phi))

    where alpha ([K], or [D, K] with a row for each document) and the topics phi ([K, V], or their
    logarithms, see `WordCounts`) are sites with any prior, or computed from such sites and
    covariates. Other blocks move these; given both counts, they need nothing else from the
    documents. The state of this block has the topic of every token. A step draws each topic in
    turn, given all others in its document,

    .. math::
        P(z = k) \propto (n_{dk} + \alpha_{dk}) \phi_{kw},

    without the token's own label in the counts (Griffiths and Steyvers 2004, with the topics
    given), and counts the labels: an exact Gibbs step. On CPUs it uses the native code of `lda`, if
    built. Nothing is detected: the corpus and the names of both sites are arguments. Only
    deterministic sites of the model may depend on the counts.

    It starts from labels drawn in one sweep, given the starts of the other sites; ``init_params``
    of the counts are ignored, since they do not determine labels. Every sample stores both sites in
    full: use ``MCMC(..., thinning=n)`` to store fewer. ``Gibbs`` needs numpyro 0.22; without it the
    block works if topics and alpha are known.

    Args:
        model: A numpyro model, the same as that of the other blocks.
        corpus: A `Corpus`, or a table of counts [D, V], dense or sparse, documents in rows.
        documents: Name of the site with the distribution `TopicCounts`.
        words: Name of the site with the distribution `WordCounts`.
        sweeps: Sweeps over all tokens per step, at least 1.
        engine: "native" or "xla"; by default whichever works here.

    Raises:
        ValueError: An argument is out of range. When it runs: the model lacks a site, its
            distribution is wrong or does not fit the corpus, the block gets other sites, or a site
            depends on the counts; the message says what to do instead.

    Example: shares of two known topics; for unknown topics see `docs/numpyro.md`.

        >>> import jax, jax.numpy as jnp, numpyro
        >>> from simplex_jax.numpyro import LDAGibbs, TopicCounts, WordCounts
        >>> counts = jnp.array([[9, 1, 0], [0, 2, 8]])
        >>> phi = jnp.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
        >>> def model():
        ...     with numpyro.plate("documents", 2):
        ...         n = numpyro.sample("n", TopicCounts(counts.sum(axis=1), jnp.full(2, 0.5)))
        ...     with numpyro.plate("topics", 2):
        ...         numpyro.sample("m", WordCounts(n.sum(axis=0), phi))
        >>> kernel = LDAGibbs(model, counts, documents="n", words="m")
        >>> mcmc = numpyro.infer.MCMC(
        ...     kernel, num_warmup=100, num_samples=1000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0))
        >>> print(mcmc.get_samples()["n"].mean(axis=0).round())
        [[10.  0.]
         [ 0. 10.]]
    """

    sample_field = "z"

    def __init__(
        self,
        model: Model,
        corpus: Corpus | npt.ArrayLike | sp.sparray | sp.spmatrix,
        *,
        documents: str,
        words: str,
        sweeps: int = 1,
        engine: str | None = None,
    ) -> None:
        for argument, name in {"documents": documents, "words": words}.items():
            if not isinstance(name, str):
                raise ValueError(f"{argument} must be the name of a site; it is {name!r}")
        if documents == words:
            raise ValueError(f"documents and words must be two sites; both are {words!r}")
        sites.check_model(model)
        self._sweeps = arguments.at_least("sweeps", sweeps, 1)
        engines.resolve(engine)
        if not isinstance(corpus, Corpus):
            corpus = from_counts(corpus, source="corpus")
        self._model = model
        self._own = Names(documents, words)
        self._engine = engine
        self._corpus = device.to_device(corpus.counts)
        self._lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
        self._num_words = corpus.counts.shape[1]

    @property
    def model(self) -> Model:
        """The model."""
        return self._model

    def wrap_model(self, wrapper: Callable[[Model], Model]) -> "LDAGibbs":
        """Return a copy with another model."""
        kernel = copy.copy(self)
        kernel._model = wrapper(self._model)
        return kernel

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Mapping[str, Any] | None,
        model_args: tuple,
        model_kwargs: Mapping[str, Any] | None,
    ) -> LDAGibbsState:
        """Inspect the model, and draw labels by a sweep.

        Raises a ValueError if this block cannot draw the labels of the model; see the class.
        """
        if not is_prng_key(rng_key):
            raise ValueError(
                "LDAGibbs takes a single key: for several chains use chain_method='sequential', "
                "'parallel' or jax.vmap"
            )
        key_next, key_counts, key_sweep = jax.random.split(sites.to_typed_key(rng_key), 3)
        own, traced = self._own, self._tracer(model_args, model_kwargs)
        trace = traced({}, key_counts)
        _check_sites(trace, own)
        _check_shapes(trace, own, self._lengths, self._num_words)
        _check_others(traced, own, {name: trace[name]["value"] for name in own})
        parameters = label_parameters(trace, own)
        _check_topics(parameters.log_topics, own)
        num_topics = len(parameters.log_topics)
        engines.resolve(self._engine, num_topics)
        before = unlabelled(self._corpus, (num_topics, self._num_words))
        after = self._sweep(key_sweep, parameters, before, times=1)
        return self._state(after, jnp.ones(()), like(rng_key, key_next))

    def sample(
        self, state: LDAGibbsState, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> LDAGibbsState:
        """Sweep over all tokens, given the other sites."""
        key_next, key_sweeps = jax.random.split(sites.to_typed_key(state.rng_key))
        # No draw from this key is used: the counts have values, and alpha and the topics depend on
        # no other draw.
        trace = self._tracer(model_args, model_kwargs)(state.z, jax.random.key(0))
        before = Labelled(state.labels, *(state.z[name] for name in self._own))
        parameters = label_parameters(trace, self._own)
        after = self._sweep(key_sweeps, parameters, before, times=self._sweeps)
        moved = (after.labels != before.labels).mean()
        return self._state(after, moved, like(state.rng_key, key_next))

    def postprocess_fn(
        self, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values], Values]:
        """Return the map from counts to samples, with deterministic sites."""
        traced = self._tracer(model_args, model_kwargs)

        def samples(z: Values) -> Values:
            trace = traced(z, jax.random.key(0))
            return dict(z) | {
                name: site["value"]
                for name, site in trace.items()
                if site["type"] == "deterministic"
            }

        return samples

    def refresh(
        self, state: LDAGibbsState, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> LDAGibbsState:
        """Return the state, which does not depend on the other sites."""
        return state

    def get_constrain_fn(
        self, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values], Values]:
        """Return the identity: the model sees the counts themselves."""
        return lambda z: z

    def get_diagnostics_str(self, state: LDAGibbsState) -> str:
        """Return the progress bar's text: the share of labels that changed."""
        return f"labels moved {float(jnp.mean(state.moved)):.1%}"

    def _state(self, after: Labelled, moved: jax.Array, key: jax.Array) -> LDAGibbsState:
        z = dict(zip(self._own, (after.documents, after.words), strict=True))
        return LDAGibbsState(z, after.labels, moved, key)

    def _sweep(
        self, key: jax.Array, parameters: Parameters, before: Labelled, *, times: int
    ) -> Labelled:
        return sweep(
            key,
            parameters.log_topics,
            parameters.alpha,
            self._corpus,
            before,
            times=times,
            engine=self._engine,
        )

    def _tracer(
        self, args: tuple, kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values, jax.Array], Trace]:
        """Return the trace of the model as a function of its counts and a key.

        Counts without a value are drawn.
        """

        def traced(z: Values, key: jax.Array) -> Trace:
            model = handlers.substitute(handlers.seed(self._model, key), data=z)
            return handlers.trace(model).get_trace(*args, **dict(kwargs or {}))

        return traced


# Checks of the model.


def _check_sites(trace: Trace, own: Names) -> None:
    """Raise a ValueError unless exactly the two sites are latent, with the right distributions."""
    latent = [
        name for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]
    ]
    for name, distribution in zip(own, (TopicCounts, WordCounts), strict=True):
        if name not in latent:
            raise ValueError(
                f"LDAGibbs needs the latent site {name!r}, but the model has "
                f"{sites.list_str(latent)}: give both of its sites to its block, Gibbs([("
                f"LDAGibbs(...), {sites.list_str(own)}), ...])"
            )
        site = trace[name]
        if not isinstance(actual := sites.base(site["fn"]), distribution):
            raise ValueError(
                f"site {name!r} must have the distribution {distribution.__name__}; "
                f"it has {type(actual).__name__}"
            )
        if site["scale"] is not None or density.is_masked(site["fn"]):
            raise ValueError(
                f"site {name!r} is scaled or masked, so labels cannot be drawn for it; move "
                "handlers.scale and handlers.mask to other sites"
            )
    others = [
        name
        for name in latent
        if name not in own and trace[name]["infer"].get("enumerate") != "parallel"
    ]
    if others:
        raise ValueError(
            f"LDAGibbs draws {sites.list_str(own)}, not {sites.list_str(others)}: with numpyro "
            f"0.22 use Gibbs([(LDAGibbs(...), {sites.list_str(own)}), (NUTS(model), None)]), or "
            "SCIR in place of NUTS"
        )


def _check_shapes(trace: Trace, own: Names, lengths: np.ndarray, num_words: int) -> None:
    """Raise a ValueError unless counts match the shapes of a corpus and its lengths, [D]."""
    shapes = [jnp.shape(trace[name]["value"]) for name in own]
    num_topics = shapes[0][-1]
    needed = ((lengths.size, num_topics), (num_topics, num_words))
    for name, shape, need, axes in zip(own, shapes, needed, ("[D, K]", "[K, V]"), strict=True):
        if shape != need:
            raise ValueError(
                f"site {name!r} must have the shape {axes} = {need} for this corpus; its shape is "
                f"{shape}"
            )
    totals = sites.base(trace[own.documents]["fn"]).total_count
    if isinstance(totals, jax.core.Tracer):
        return
    wrong = np.flatnonzero(np.broadcast_to(totals, lengths.shape) != lengths)
    if wrong.size:
        raise ValueError(
            f"site {own.documents!r} must have the lengths of the documents of the corpus, "
            f"counts.sum(axis=1); document {wrong[0]} has {lengths[wrong[0]]} tokens"
        )


def _check_topics(log_topics: jax.Array, own: Names) -> None:
    """Raise a ValueError unless the probabilities of each topic add up to 1."""
    sums = jnp.exp(log_topics).sum(axis=1)
    right = jnp.abs(sums - 1) < _SLACK
    if isinstance(right, jax.core.Tracer) or right.all():
        return
    k = int(jnp.argmin(right))
    raise ValueError(
        f"the probabilities of topic {k} of site {own.words!r} add up to {float(sums[k]):.4g}, not "
        "1: normalise them, as jax.nn.softmax does, or jax.nn.log_softmax their logarithms"
    )


def _check_others(traced: Callable[[Values, jax.Array], Trace], own: Names, z: Values) -> None:
    """Raise a ValueError if labels depend on more than alpha and the topics.

    `traced` traces the model at values of the counts and with a key; z are values of the counts.
    The program of the model shows that nothing else depends on the counts, and that alpha and the
    topics depend on no number that the model draws, as for a site that is summed out.
    """
    parts: list[str] = []

    def numbers(z: Values, key: jax.Array) -> list[jax.Array]:
        trace = traced(z, key)
        alpha, log_topics = label_parameters(trace, own)
        parts_by_name = {"the value of alpha": alpha, "the value of the topics": log_topics}
        for name, site in trace.items():
            if site["type"] == "sample" and name not in own:
                parts_by_name[f"site {name!r}"] = site["fn"].log_prob(site["value"])
        parts[:] = parts_by_name
        return [density.sum_all(part) for part in parts_by_name.values()]

    key = jax.random.key(0)
    of_counts = density.find_dependent(lambda z: numbers(z, key), z)
    of_key = density.find_dependent(lambda key: numbers(z, key)[:2], key)
    for part, does in zip(parts, of_counts, strict=True):
        if does:
            raise ValueError(
                f"{part} depends on the counts {sites.list_str(own)}, which LDAGibbs would ignore "
                "when it draws labels: only deterministic sites may"
            )
    for part, does in zip(parts, of_key, strict=False):
        if does:
            raise ValueError(
                f"{part} depends on numbers that the model draws itself, such as a site that is "
                "summed out: give that site its own block"
            )


# Sweeps. The engine of `lda` takes one vector of concentrations for all documents of a call. If
# each document has its own, there is one call for each. Either way a token is drawn with the same
# random number, determined by its document and its position there.


def unlabelled(corpus: DeviceCorpus, shape: tuple[int, int]) -> Labelled:
    """Return the labels of a corpus whose tokens have no topic yet; the shape is (K, V)."""
    labels = engines.no_labels(corpus.tokens.shape[0], shape[0])
    documents = jnp.zeros((device.size(corpus), shape[0]), jnp.int32)
    return Labelled(labels, documents, jnp.zeros(shape, jnp.int32))


def sweep(
    key: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    corpus: DeviceCorpus,
    before: Labelled,
    *,
    times: int,
    engine: str | None,
) -> Labelled:
    """Return labels after collapsed Gibbs sweeps over all tokens, given topics and concentrations.

    The topics are normalised logarithms, [K, V]; alpha is [1, K], for all documents, or [D, K], in
    the order of rows. `engine` is as in `models.topics.engine`.
    """
    documents = device.select(corpus, jnp.arange(device.size(corpus)))
    if len(alpha) == 1:
        labels, words, counts = engines.sweeps(
            key,
            log_topics,
            alpha[0],
            documents,
            before.labels,
            before.words,
            times=times,
            burn_in=times - 1,
            count="changes",
            tally=True,
            engine=engine,
        )
        counts = counts.T.astype(jnp.int32)
    else:
        native = engines.resolve(engine, alpha.shape[1]) == "native"
        one_by_one = _native if native else functools.partial(_xla, device.capacity(corpus, 1))
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(times))
        labels, counts = one_by_one(keys, log_topics, alpha[corpus.order], documents, before.labels)
        words = engines.count_words(labels, documents, before.words, before=before.labels)
    return Labelled(labels, jnp.zeros_like(counts).at[corpus.order].set(counts), words)


def _native(
    keys: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Sweep over documents one by one, each with its own row of alpha, [D, K].

    Return the labels and the counts, int32 [D, K], in the order of the documents.
    """
    tokens, *places = documents
    weights = calls.lay_out(log_topics)
    no_words = jnp.zeros((0, 0), jnp.int32)

    def visit(labels: jax.Array, row: tuple) -> tuple[jax.Array, jax.Array]:
        *place, alpha = row
        document = Documents(tokens, *(x[None] for x in place))
        # The kind that does not build tables of all topics for each document.
        labels, _, counts = calls.sweep(
            keys,
            weights,
            alpha,
            document,
            labels,
            no_words,
            burn_in=len(keys) - 1,
            count="nothing",
            tally=True,
            kind="dense",
        )
        return labels, counts[0]

    return lax.scan(visit, labels, (*places, alpha))


def _xla(
    room: int,
    keys: jax.Array,
    log_topics: jax.Array,
    alpha: jax.Array,
    documents: Documents,
    labels: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Do what `_native` does; the longest document has `room` tokens.

    Each document is sliced out, because loops in place would also visit many tokens of others. A
    slice always fits, because documents are sorted by length.
    """
    tokens, *places = documents
    likelihood = engines.likelihood_of(log_topics)

    def visit(labels: jax.Array, row: tuple) -> tuple[jax.Array, jax.Array]:
        start, length, number, alpha = row
        own_tokens, own_labels = (
            lax.dynamic_slice_in_dim(x, start, room) for x in (tokens, labels)
        )
        document = Documents(own_tokens, jnp.zeros(1, jnp.int32), length[None], number[None])

        def one_sweep(i: jax.Array, own_labels: jax.Array) -> jax.Array:
            return engines.METHODS["collapsed"](keys[i], likelihood, alpha, document, own_labels)

        own_labels = lax.fori_loop(0, len(keys), one_sweep, own_labels)
        counts = engines.count_labels(own_labels, document, alpha.shape[0])[:, 0]
        return lax.dynamic_update_slice_in_dim(labels, own_labels, start, 0), counts.astype(
            jnp.int32
        )

    return lax.scan(visit, labels, (*places, alpha))
