"""The settings of a run: everything that decides it, with what was left out filled in."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax import schedules
from simplex_jax.corpus.vectors import UnitVectors
from simplex_jax.draws import arguments
from simplex_jax.models import sam, sam_joint, sam_local, sam_step
from simplex_jax.runtime import session
from simplex_jax.spherical.starts import STARTS

ALPHA = 10.0
PER_WORD = {"sigma": 2.0, "kappa0": 2.0, "kappa1": 6.0}
"""Concentrations for each word of the vocabulary, where none are given."""

# From a variational start the chain has settled after some 150 updates of all documents.
PASSES = 300.0
"""Length of a run, where none is given."""

# Documents visited between evaluations of a run that ends by time.
_EVAL_TIMED = 20_000


class Settings(NamedTuple):
    """Everything that decides a run, with its defaults resolved; every entry can go into JSON.

    Attributes:
        num_topics: K.
        alpha: Concentration of topic proportions, per topic; where it is learned, its first value
            and its prior mean, as those below.
        sigma: Concentration of the topics about their mean.
        kappa0: Concentration of that mean about the mean direction of the documents.
        kappa1: Concentration of the documents.
        learn: Names of the concentrations that are learned.
        sampler: One of `models.sam.SAMPLERS`.
        local: One of `models.sam_local.METHODS`.
        start: One of `starts.STARTS`.
        step_size: A constant step size.
        friction: That of the stochastic gradient samplers; 0 for the others.
        inner_steps: Steps of the sampler in an update.
        batch_size: Documents in a batch.
        num_steps: Updates, or None if time ends the run.
        seconds: Training time that ends the run, or None.
        eval_every: Updates between evaluations and posterior samples.
        chains: Chains side by side.
        keep_samples: Samples of the topics to keep, at most.
        seed: Seed of all randomness.
    """

    num_topics: int
    alpha: float
    sigma: float
    kappa0: float
    kappa1: float
    learn: tuple[str, ...]
    sampler: str
    local: str
    start: str
    step_size: float
    friction: float
    inner_steps: int
    batch_size: int
    num_steps: int | None
    seconds: float | None
    eval_every: int
    chains: int
    keep_samples: int
    seed: int


def resolve(
    vectors: UnitVectors | sp.csr_array,
    num_topics: int,
    *,
    alpha: float = ALPHA,
    sigma: float | None = None,
    kappa0: float | None = None,
    kappa1: float | None = None,
    learn: tuple[str, ...] = (),
    sampler: str = "gsgnht",
    local: str = "hmc",
    start: str = "variational",
    step_size: float | None = None,
    friction: float | None = None,
    inner_steps: int | None = None,
    batch_size: int | None = None,
    passes: float | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    eval_every: int | None = None,
    chains: int = 1,
    keep_samples: int = 0,
    seed: int = 0,
) -> Settings:
    """Return the settings of a run with everything that was left out filled in.

    Args:
        vectors: Unit vectors of documents [D, V].
        num_topics: K, 1 to V.
        alpha: Concentration of topic proportions, per topic (not the sum).
        sigma: Concentration of the topics about their mean, by default 2 for each word.
        kappa0: Concentration of that mean about the mean direction of the documents, likewise.
        kappa1: Concentration of the documents about theirs, by default 6 for each word. These are
            about what Liu, Zhu and Song (2016) take for 5,000 and for 3,000 words.
        learn: Those of "alpha", "kappa1" and "sigma" that are sampled along; what is given for
            them is then their prior mean.
        sampler: One of `models.sam.SAMPLERS`.
        local: How topic proportions are drawn, one of `models.sam_local.METHODS`.
        start: Where chains begin: "variational", at topics of a short variational inference, from
            different draws of the prior for different chains; or "prior", at those draws.
        step_size: A constant; by default as `models.sam.build` has it.
        friction: Likewise.
        inner_steps: Steps of the sampler in an update, likewise.
        batch_size: In documents; by default all. At equilibrium a batch of B out of D documents
            wants steps so much shorter for the noise of its gradient that some 5 D / B updates are
            worth one of all documents, at a cost of B / D each.
        passes: Length of the run in passes over the documents, 300 by default.
        steps: Its length in updates.
        seconds: Its length in seconds of training.
        eval_every: Updates between evaluations and posterior samples; a 50th of the run or, if it
            ends by time, as many as visit 20,000 documents.
        chains: Chains side by side, with starts and random numbers of their own.
        keep_samples: Samples of the topics to keep, evenly spaced over the second half of the run.
        seed: Seed of all randomness.

    Raises:
        ValueError: An option is out of range; the message names it.

    Example:
        >>> import scipy.sparse as sp
        >>> from simplex_jax import spherical
        >>> settings = spherical.resolve(sp.csr_array([[1.0, 0.0], [0.6, 0.8]]), 2, passes=50)
        >>> settings.sigma, settings.kappa1, settings.batch_size, settings.num_steps
        (4.0, 12.0, 2, 50)
    """
    table = values_of(vectors)
    documents, words = table.shape
    num_topics = arguments.at_least("num_topics", num_topics, 1)
    if num_topics > words:
        raise ValueError(f"num_topics must be at most {words}, one a word; it is {num_topics}")
    sam.check_names(sampler, learn)
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}; it is {start!r}")
    given: dict[str, Any] = {"sigma": sigma, "kappa0": kappa0, "kappa1": kappa1}
    concentrations = {
        name: PER_WORD[name] * words if value is None else float(value)
        for name, value in given.items()
    } | {"alpha": float(alpha)}
    hyper = hyperparameters(table, concentrations)
    batch_size = sam.check_batch_size(batch_size, documents, sampler)
    default = sam_step.defaults(sampler, documents, (num_topics, words), hyper, batch_size)
    if passes is None and steps is None and seconds is None:
        passes = PASSES
    length = session.length(
        -(-documents // batch_size),
        passes=passes,
        steps=steps,
        seconds=seconds,
        eval_every=eval_every,
        eval_timed=max(1, _EVAL_TIMED // batch_size),
    )
    settings = Settings(
        num_topics=num_topics,
        **concentrations,
        learn=tuple(learn),
        sampler=sampler,
        local=local,
        start=start,
        step_size=schedules.constant(
            "step_size", default.step_size if step_size is None else step_size
        ),
        friction=_friction(sampler, float(default.friction), friction),
        inner_steps=arguments.at_least(
            "inner_steps", default.num_steps if inner_steps is None else inner_steps, 1
        ),
        batch_size=batch_size,
        num_steps=length.steps,
        seconds=length.seconds,
        eval_every=length.eval_every,
        chains=arguments.at_least("chains", chains, 1),
        keep_samples=arguments.at_least("keep_samples", keep_samples, 0),
        seed=session.check_seed(seed),
    )
    sam_local.check(local_step(settings))
    return settings


def _friction(sampler: str, default: float, given: float | None) -> float:
    if sam_step.is_metropolis(sampler):
        if given is not None:
            raise ValueError(f"friction is for sggmc and gsgnht; {sampler} has none")
        return 0.0
    value = float(default if given is None else given)
    if not 0 < value < np.inf:
        raise ValueError(f"friction must be finite and positive; it is {given}")
    return value


def values_of(vectors: UnitVectors | sp.csr_array) -> sp.csr_array:
    """Return the table of documents."""
    return vectors.values if isinstance(vectors, UnitVectors) else sp.csr_array(vectors)


def hyperparameters(table: sp.csr_array, concentrations: dict[str, float]) -> Any:
    """Return the hyperparameters of a run, with the mean direction of its documents.

    Raises:
        ValueError: A concentration is out of range, or the documents sum to nothing.
    """
    total = np.asarray(table.sum(axis=0), np.float64).ravel()
    length = np.linalg.norm(total)
    if not length > 0:
        raise ValueError("the documents sum to zero and have no mean direction")
    return sam_joint.hyperparameters((total / length).astype(np.float32), **concentrations)


def local_step(settings: Settings) -> sam_local.Local:
    """Return the local step of a run."""
    return sam.default_local(settings.sampler)._replace(method=settings.local)
