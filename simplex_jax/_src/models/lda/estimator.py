"""Latent Dirichlet allocation as a scikit-learn estimator."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.base import Batch, State, Update, as_pytree
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import estimator as common
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import seeds
from simplex_jax._src.models.lda.kernel import Source, kernel_of
from simplex_jax._src.models.lda.options import Options, configure
from simplex_jax._src.models.topics import proportions
from simplex_jax._src.models.topics.concentrations import LEARN
from simplex_jax._src.models.topics.estimator import CountEstimator
from simplex_jax._src.models.topics.fits import Draw, Shares
from simplex_jax._src.options import number

_OF_FIT = ("prevalence_", "samples_", "order_", "diagnostics_", "metrics_", "warnings_")


@common.parameters_of(Options)
class LDA(CountEstimator):
    """Sampled topics of documents: `simplex_jax.lda.fit` with the scikit-learn interface.

    Fit it to counts [D, V], dense or sparse, as `CountVectorizer` makes them. Topics are posterior
    means of word probabilities: rows sum to 1, unlike those of scikit-learn's
    `LatentDirichletAllocation`, which are counts.

    `seed_words` uses the column names of X, or `w0, w1, ...` if it has none.

    Proportions are drawn with random numbers that depend only on the words of a document and the
    seed. Only the rounding of `fractions="draw"` depends on the position of a document.

    Args:
        {options}
        total_samples: Number of documents that the batches of `partial_fit` come from.
        fractions: What to do with counts that are not whole numbers: "error", or "draw", which
            rounds each up or down at random without bias.
        callbacks: Hooks, called after every evaluation, e.g. `runtime.Progress()`; see `runtime`.
        random_state: A seed, a `RandomState`, a `Generator` or None.

    Attributes:
        components_: Posterior mean of the topics, float32 [K, V].
        components_sd_: Posterior standard deviation of the topics, [K, V]; NaN if unknown.
        num_topics_: Number of topics, K.
        prevalence_: Share of the tokens in each topic, [K]; after `fit`.
        alpha_: Concentrations of topic proportions, [K]; learned or fixed.
        beta_: Concentrations of topics, [V].
        samples_: Kept samples: "topics" [S, chains, K, V], "alpha", "beta", "step"; after `fit`.
        order_: Topic of each chain matched to each topic, [chains, K]; after `fit`.
        diagnostics_: R-hat and effective sample sizes by name; after `fit`.
        metrics_: One record per evaluation; after `fit`.
        warnings_: Sentences, each a reason to doubt the results; after `fit`.
        n_updates_: Updates by `partial_fit`, since `fit` if there was one.
        seed_: The seed that was used.
        n_features_in_: V.
        feature_names_in_: The words, where X names its columns.

    Example:
        >>> from sklearn.feature_extraction.text import CountVectorizer
        >>> from sklearn.pipeline import make_pipeline
        >>> from simplex_jax.sklearn import LDA
        >>> texts = ["cat dog cat", "dog cat dog", "sun moon sun", "moon sun moon"] * 3
        >>> model = make_pipeline(CountVectorizer(), LDA(2, passes=50, random_state=0))
        >>> shares = model.fit_transform(texts)
        >>> shares.shape, bool((shares[0].argmax() != shares[2].argmax()))
        ((12, 2), True)
    """

    _RESULTS: ClassVar = ("topics", "topics_sd", "prevalence", "alpha", "beta", "samples", "order")
    _FITTED: ClassVar = (
        *("components_", "components_sd_", "prevalence_", "alpha_", "beta_", "n_updates_"),
        "seed_",
    )

    n_components: int = dataclasses.field(default=10, kw_only=False)
    total_samples: float = 1e6

    def _fit(self, counts: sp.csr_array) -> np.ndarray:
        fitted = self._sampled(lda.fit, from_counts(counts, self._words()))
        self.n_updates_ = 0
        self._stream: list[Any] = []
        self._began: dict[str, Any] = {"n_components": len(fitted.topics)}
        common.end(fitted.interrupted)
        return fitted.proportions

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Do one update with a batch of streamed documents.

        Counts are subsampled: those of the batch are scaled to `total_samples` documents.
        `components_` is the mean of the topics since the last update whose number is a power of
        two. Each new batch size compiles again: give batches of one size.

        A saved stream continues as if it had not been saved. A fitted model continues from its
        topics, and from its alpha if that is learned. The other results of `fit` are then out of
        date and are removed: `prevalence_`, `samples_`, `order_`, `diagnostics_`, `metrics_` and
        `warnings_`.

        Args:
            X: Counts of the batch [n, V].
            y: Ignored, as scikit-learn has it.

        Raises:
            ValueError: A parameter is out of range or has changed since the stream began, or X
                does not hold counts.
        """
        first = not self.__sklearn_is_fitted__()
        if first:
            self.seed_, self.n_updates_ = self._seed(), 0
        counts = self._data(X, reset=first, batch=self.n_updates_)
        total = round(number("total_samples", self.total_samples))
        if total < counts.shape[0]:
            raise ValueError(
                f"total_samples must be at least {counts.shape[0]}, the documents of this batch; "
                f"it is {self.total_samples}"
            )
        if self.n_chains not in (None, 1):
            raise ValueError(f"partial_fit runs one chain; n_chains is {self.n_chains}")
        if self.counts not in (None, "subsampled"):
            raise ValueError(
                "partial_fit estimates counts from its batches: leave counts out, or give "
                f"'subsampled'; it is {self.counts!r}"
            )
        shape = (arguments.at_least("n_components", self.n_components, 1), counts.shape[1])
        if isinstance(self.beta, str) and self.beta in LEARN:
            raise ValueError("only fit learns beta: give partial_fit one number, or V numbers")
        options = Options(
            shape[0],
            alpha=self.alpha,
            beta=self.beta,
            seed_words=self.seed_words,
            seed_weight=self.seed_weight,
            sampler=self.sampler,
            counts="subsampled",
            step_size=self.step_size,
        )
        seeded = self._seeds(options, shape)
        kernel = kernel_of(Source(None, configure(options, shape[1], seeded), total))
        began = {
            "n_components": shape[0],
            "sampler": self.sampler,
            "alpha": options.alpha,
            "beta": options.beta,
            # Lines rather than a file, and a plain number: they are compared and saved as JSON.
            "seed_words": options.seed_words,
            "seed_weight": options.seed_weight,
        }
        if not first:
            self._compare(began)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(self.seed_), self.n_updates_), 3)
        if first:
            topics = jax.random.exponential(keys[0], shape) + 1e-6
            state = kernel.init(keys[1], topics if seeded is None else seeded.added(topics))
        elif self._stream:
            like = jax.eval_shape(kernel.init, keys[1], jnp.ones(shape))
            state = jax.tree.unflatten(jax.tree.structure(like), self._stream)
        else:
            state = kernel.init(keys[1], self.components_)
            if isinstance(options.alpha, str):
                state = state._replace(alpha=jnp.asarray(self.alpha_, state.alpha.dtype))
        batch, _ = proportions.side_by_side(counts, counts.shape[0])
        state = _advance(as_pytree(kernel.update), keys[2], state, batch)
        self._stream, self._began = jax.tree.leaves(state), began
        self._average(np.asarray(jnp.exp(state.position)))
        self.alpha_: np.ndarray = np.asarray(state.alpha, np.float64)
        self.beta_ = np.asarray(state.beta, np.float64)
        for name in _OF_FIT:
            self.__dict__.pop(name, None)
        return self

    def _draws(self) -> list[Draw]:
        return [Draw(self.components_, self.alpha_, np.arange(len(self.components_)))]

    def _shards(self, counts: sp.csr_array) -> Iterator[Shares]:
        given = self.components_, self.alpha_, counts
        return proportions.shards(*given, seed=self.seed_, share_error=self.share_error)

    def _words(self) -> list[str] | None:
        """Return the column names of X if seed words need them."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None or self.seed_words is None else names.tolist()

    def _seeds(self, options: Options, shape: tuple[int, int]) -> seeds.Seeds | None:
        """Return the seeds of a stream; its number of tokens is unknown."""
        if options.seed_words is None:
            return None
        if options.seed_weight is None:
            raise ValueError(
                "only fit can set seed_weight from the corpus: give partial_fit a number"
            )
        words = self._words() or [f"w{column}" for column in range(shape[1])]
        seeds.check(options.seed_words, shape[0], words)
        return seeds.to_pseudocounts(options, words)

    def _compare(self, now: dict[str, Any]) -> None:
        """Raise a ValueError if a parameter has changed since the stream began."""
        for name, value in self._began.items():
            # Compared as saved in a file, where a tuple is a list.
            if json.dumps(now[name]) != json.dumps(value):
                raise ValueError(
                    f"{name} cannot change between calls of partial_fit: it was {value!r} and is "
                    f"{now[name]!r}. Set it back, or start a new estimator"
                )

    def _average(self, now: np.ndarray) -> None:
        """Update the running mean of the topics, which restarts at powers of two."""
        self.n_updates_ += 1
        since = self.n_updates_ - (1 << (self.n_updates_.bit_length() - 1))
        old = self.components_ if since else now
        self.components_: np.ndarray = (old + (now - old) / (since + 1)).astype(np.float32)
        self.components_sd_ = np.full_like(self.components_, np.nan)

    def perplexity(self, X: Any) -> float:
        """Return exp(-score(X)), the perplexity of the held-out halves of documents."""
        return float(np.exp(-self.score(X)))

    def _arrays(self) -> common.Arrays:
        began = {"began": np.asarray(json.dumps(self._began))}
        return super()._arrays() | common.numbered("stream.", self._stream) | began

    def _take(self, arrays: common.Arrays) -> None:
        self._stream = list(common.part(arrays, "stream.").values())
        self._began = json.loads(str(arrays.pop("began")))
        super()._take(arrays)


@jax.jit
def _advance(update: Update, key: jax.Array, state: State, batch: Batch) -> State:
    return update(key, state, batch)[0]
