"""The labels of documents as a block of a numpyro model, drawn by the engine of `lda`."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numpyro import handlers
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from simplex_jax._src import arguments
from simplex_jax._src.corpus import Corpus, device, from_counts
from simplex_jax._src.draws.keys import like
from simplex_jax._src.models.topics import engine as engines
from simplex_jax._src.numpyro import lda_checks, lda_labels, sites
from simplex_jax._src.numpyro.lda_checks import Given, Names, Trace
from simplex_jax._src.numpyro.lda_labels import Labelled
from simplex_jax._src.numpyro.sites import Model, Values


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
        documents: Name of the site with the law `TopicCounts`.
        words: Name of the site with the law `WordCounts`.
        sweeps: Sweeps over all tokens per step, at least 1.
        engine: "native" or "xla"; by default whichever works here.

    Raises:
        ValueError: An argument is out of range. When it runs: the model lacks a site, its law is
            wrong or does not fit the corpus, the block gets other sites, or a site depends on the
            counts; the message says what to do instead.

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
        del num_warmup, init_params
        if not is_prng_key(rng_key):
            raise ValueError(
                "LDAGibbs takes a single key: for several chains use chain_method='sequential', "
                "'parallel' or jax.vmap"
            )
        key_next, key_counts, key_sweep = jax.random.split(sites.typed(rng_key), 3)
        own, traced = self._own, self._traced(model_args, model_kwargs)
        trace = traced({}, key_counts)
        lda_checks.check_sites(trace, own)
        lda_checks.check_shapes(trace, own, self._lengths, self._num_words)
        lda_checks.check_others(traced, own, {name: trace[name]["value"] for name in own})
        given = lda_checks.given(trace, own)
        lda_checks.check_topics(given.log_topics, own)
        num_topics = len(given.log_topics)
        engines.resolve(self._engine, num_topics)
        before = lda_labels.unlabelled(self._corpus, (num_topics, self._num_words))
        after = self._swept(key_sweep, given, before, times=1)
        return self._state(after, jnp.ones(()), like(rng_key, key_next))

    def sample(
        self, state: LDAGibbsState, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> LDAGibbsState:
        """Sweep over all tokens, given the other sites."""
        key_next, key_sweeps = jax.random.split(sites.typed(state.rng_key))
        # No draw from this key is used: the counts have values, and alpha and the topics depend on
        # no other draw.
        trace = self._traced(model_args, model_kwargs)(state.z, jax.random.key(0))
        before = Labelled(state.labels, *(state.z[name] for name in self._own))
        given = lda_checks.given(trace, self._own)
        after = self._swept(key_sweeps, given, before, times=self._sweeps)
        moved = (after.labels != before.labels).mean()
        return self._state(after, moved, like(state.rng_key, key_next))

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

    def _swept(self, key: jax.Array, given: Given, before: Labelled, *, times: int) -> Labelled:
        return lda_labels.swept(
            key,
            given.log_topics,
            given.alpha,
            self._corpus,
            before,
            times=times,
            engine=self._engine,
        )

    def _traced(
        self, args: tuple, kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values, jax.Array], Trace]:
        """Return the trace of the model as a function of its counts and a key.

        Counts without a value are drawn.
        """

        def traced(z: Values, key: jax.Array) -> Trace:
            model = handlers.substitute(handlers.seed(self._model, key), data=z)
            return handlers.trace(model).get_trace(*args, **dict(kwargs or {}))

        return traced
