"""From counts to the summary of the posterior of a mixture of unigrams."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from simplex_jax._src.models.unigrams import kernel

from simplex_jax._src import base, batches
from simplex_jax._src.corpus import Corpus, from_counts, to_vocabulary
from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.diagnostics import few_samples
from simplex_jax._src.evaluate.fits import Topics
from simplex_jax._src.models import pipeline
from simplex_jax._src.models.records import Plan, of_run
from simplex_jax._src.runtime import gathering
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.runtime.moments import Moments
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Records, Run, Trained
from simplex_jax._src.runtime.windows import window_of


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(pipeline.Fit):
    """Topics [K, V], shares [K], and the probabilities of the labels of documents [D, K]."""

    topics: np.ndarray
    topics_sd: np.ndarray
    shares: np.ndarray
    shares_sd: np.ndarray
    stability: np.ndarray
    shared: np.ndarray
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    proportions: np.ndarray
    order: np.ndarray
    samples: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def to_record(self) -> Topics:
        return Topics(
            self.topics, self.metrics, self.samples, self.order, self.vocabulary, self.interrupted
        )


def as_data(corpus: Any) -> Corpus:
    return corpus if isinstance(corpus, Corpus) else from_counts(corpus)


def _dense(counts: sp.csr_array) -> jax.Array:
    return jnp.asarray(counts.toarray(), jnp.float32)


def prepare(plan: Plan, folder: Folder | None) -> Run:
    settings = plan.settings
    counts, heldout = _dense(plan.train.counts), plan.heldout and _dense(plan.heldout.counts)
    chains, shape = settings.chains, (settings.num_topics, counts.shape[1])
    key_init, key_run = jax.random.split(jax.random.key(settings.seed))
    one = kernel.build(settings.num_topics, settings.alpha, settings.beta)
    many = base.chains(one, chains, position_axis=0)

    def read(event: Event) -> dict[str, jax.Array]:
        return {name: jnp.exp(array) for name, array in event.state.position.items()}

    def sample(event: Event) -> gathering.Sample:
        result = read(event)
        return gathering.Sample(result, {}, {"prevalence": result["shares"]})

    def keep(event: Event) -> dict[str, np.ndarray]:
        return {name: np.asarray(array) for name, array in read(event).items()}

    def measure(event: Event, passes: float) -> dict[str, float]:
        if heldout is None:
            return {}
        log_p = jax.vmap(kernel.log_joint, (0, None))(event.state.position, heldout)
        return {"log_density": float(jax.nn.logsumexp(log_p, axis=-1).mean())}

    def make() -> gathering.Gathered:
        moments = {"topics": Moments((chains, *shape)), "shares": Moments((chains, shape[0]))}
        return gathering.Gathered(moments, {"prevalence": (chains, shape[0])})

    window = window_of(settings)
    return Run(
        key=key_run,
        kernel=many,
        state=many.init(key_init, jax.random.normal(key_init, (chains, *shape))),
        feed=lambda first_step: batches.full(counts),
        measures={
            "posterior": gathering.Posterior(sample, make, window),
            "kept": gathering.Kept(keep, settings.keep_samples, window, folder),
            "records": Records(len(counts), len(counts), measure),
        },
    )


def summarise(plan: Plan, run: Run, trained: Trained) -> Fit:
    gathered, data = run.measures["posterior"].result(trained.event), plan.data
    order, stability, shared = matching.align(list(gathered.moments["topics"].mean))
    mean, sd = gathered.moments["topics"].pooled(order)
    shares, shares_sd = gathered.moments["shares"].pooled(order)
    return Fit(
        num_samples=gathered.samples * plan.settings.chains,
        diagnostics=matching.diagnose(gathered.traces(), order, shared),
        **of_run(plan, run, trained),
        **{"topics": mean, "topics_sd": sd, "shares": shares, "shares_sd": shares_sd},
        stability=stability,
        shared=shared,
        vocabulary=data.vocabulary,
        names=data.names,
        proportions=labels(mean, shares, data.counts),
        order=order,
        samples=run.measures["kept"].samples(),
    )


def _log_joint(mean: np.ndarray, shares: np.ndarray, counts: sp.csr_array) -> jax.Array:
    """Return the log probabilities of documents and their labels, [D, K]."""
    tiny = np.finfo(np.float32).tiny
    position = {"shares": jnp.log(jnp.asarray(shares)), "topics": jnp.log(jnp.maximum(mean, tiny))}
    return kernel.log_joint(position, _dense(counts))


def labels(mean: np.ndarray, shares: np.ndarray, counts: sp.csr_array) -> np.ndarray:
    """Return the probabilities of the labels of documents, float32 [D, K]."""
    return np.asarray(jax.nn.softmax(_log_joint(mean, shares, counts)), np.float32)


def log_density(mean: np.ndarray, shares: np.ndarray, counts: sp.csr_array) -> float:
    """Return the mean log density of documents."""
    return float(jax.nn.logsumexp(_log_joint(mean, shares, counts), axis=1).mean())


def _known(fitted: Fit, data: Any) -> sp.csr_array:
    """Return the counts of the words that a fit knows."""
    return to_vocabulary(as_data(data), fitted.vocabulary).corpus.counts


def infer(fitted: Fit, data: Any, *, seed: int = 0) -> np.ndarray:
    del seed  # exact
    return labels(fitted.topics, fitted.shares, _known(fitted, data))


def score(fitted: Fit, data: Any, *, seed: int = 0) -> float:
    del seed  # exact
    return log_density(fitted.topics, fitted.shares, _known(fitted, data))


def warn(fitted: Fit) -> list[str]:
    return few_samples(fitted.num_samples)


def describe(plan: Plan) -> dict[str, Any]:
    counts = plan.data.counts
    return {
        "documents": counts.shape[0],
        "tokens": int(counts.sum()),
        "vocabulary": counts.shape[1],
    }
