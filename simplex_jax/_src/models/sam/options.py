"""The options of the spherical admixture model, and their defaults."""

import dataclasses

import numpy as np
import scipy.sparse as sp

from simplex_jax._src import schedules
from simplex_jax._src.models.options import MOST_CONCENTRATION, RunOptions, again, option, options
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.models.sam import joint, model, sparse, step
from simplex_jax._src.models.sam.data import Data
from simplex_jax._src.models.sam.local import METHODS, Local
from simplex_jax._src.models.sam.local import STARTS as LOCAL_STARTS
from simplex_jax._src.models.sam.variational import STARTS
from simplex_jax._src.runtime import session

_MOST = 1e18  # its square does not overflow float32
PER_WORD = {"sigma": 2.0, "kappa0": 2.0, "kappa1": 6.0}
"""Default concentrations per word of the vocabulary."""

# From a variational start the burn-in is some 150 updates of all documents.
PASSES = 300.0

# Between evaluations or samples, which draw shares of documents too: passes of a small corpus, and
# documents visited of a large one.
_EVALUATED, _VISITED = 6, 20_000


@options
class Options(RunOptions):
    """Options of the spherical admixture model."""

    num_topics: int = option(
        "Number of topics, at most one per word.",
        default=20,
        kw_only=False,
        least=1,
        several=True,
        flag="--topics",
        parameter="n_components",
    )
    alpha: float = option(
        "Concentration of topic shares, per topic (not the sum).",
        default=10.0,
        most=MOST_CONCENTRATION,
    )
    # Close to the values of Liu, Zhu and Song (2016) for 5,000 and for 3,000 words.
    sigma: float | None = option(
        "Concentration of the topics about their mean.",
        default=None,
        most=_MOST,
        unset="2 for each word",
    )
    kappa0: float | None = option(
        "Concentration of that mean about the mean direction of the documents.",
        default=None,
        most=_MOST,
        unset="2 for each word",
    )
    kappa1: float | None = option(
        "Concentration of the documents about the mixture of their topics.",
        default=None,
        most=_MOST,
        unset="6 for each word",
    )
    learn: tuple[str, ...] = option(
        "Concentrations to learn; their given values are the prior means.",
        default=(),
        choices=model.LEARN,
    )
    sampler: str = option(
        "Sampler of the topics, given the shares of the documents.",
        default="gsgnht",
        choices=model.SAMPLERS,
        offered=("gsgnht", "sggmc", "gmc-bgibbs"),
    )
    local: str = option(
        "Sampler of the topic shares, given the topics.",
        default="hmc",
        choices=METHODS,
        offered=("hmc", "laplace"),
        parameter=None,
    )
    local_start: str | None = option(
        "Start of the gmc chains of shares: near their mode; or, as in the paper and in every "
        "update, at least squares.",
        default=None,
        choices=LOCAL_STARTS,
        unset="mode, for gmc",
        command=False,
        parameter=None,
    )
    local_fixed: bool = option(
        "Always use the maximum step size of hmc and gmc, as in the paper, not a random share.",
        default=False,
        command=False,
        parameter=None,
    )
    start: str = option(
        "Start of the chains: topics of a short variational inference, from a different prior draw "
        "for each chain; or the prior draws themselves.",
        default="variational",
        choices=STARTS,
    )
    step_size: float | None = option(
        "A constant.",
        default=None,
        check=lambda name, value: None if value is None else schedules.constant(name, value),
        unset="set by the sampler",
    )
    friction: float | None = option(
        "Friction of sggmc and gsgnht.", default=None, unset="set by the sampler", parameter=None
    )
    inertia: float | None = option(
        "Inertia of the thermostat of gsgnht; the paper uses 1.",
        default=None,
        unset="2 / friction^2, critical damping",
        command=False,
        parameter=None,
    )
    noise_estimate: bool = option(
        "With batches, sggmc and gsgnht subtract the gradient noise from the injected noise; those "
        "of the paper do not.",
        default=True,
        command=False,
        parameter=None,
    )
    inner_steps: int | None = option(
        "Steps of the sampler per update.",
        default=None,
        least=1,
        unset="set by the sampler",
        parameter=None,
    )
    # At equilibrium the gradient noise of B out of D documents needs steps so much shorter that
    # some 5 D / B updates are worth one with all documents, each at B / D of its cost.
    batch_size: int | None = option("Documents in a batch.", default=None, least=1, unset="all")
    eval_every: int | None = again(
        "eval_every", default=None, unset="6 passes, or 20,000 documents if they are fewer"
    )
    sample_every: int | None = again("sample_every", default=None, unset="as often as evaluations")
    passes: float | None = again(
        "passes", default=None, unset="300, unless steps or seconds are given"
    )

    def __post_init__(self) -> None:
        if self.friction is not None and step.is_metropolis(self.sampler):
            raise ValueError(f"sampler={self.sampler!r} does not take friction")
        model.check_noise(self.sampler, self.inertia, self.noise_estimate)
        if self.local_start is not None and self.local != "gmc":
            raise ValueError(f"local={self.local!r} does not take local_start")
        if self.local_fixed and self.local == "laplace":
            raise ValueError("local='laplace' does not take local_fixed")


@options
class Arguments(Options, Session):
    """Arguments of `sam.fit`."""


def settle(data: Data, heldout: Data | None, options: Options) -> Options:
    """Return options with all defaults filled in, or raise a ValueError."""
    del heldout
    table = data.vectors.values
    documents, words = table.shape
    if options.num_topics > words:
        raise ValueError(
            f"num_topics must be at most {words}, one a word; it is {options.num_topics}"
        )
    batch_size = model.check_batch_size(options.batch_size, documents, options.sampler)
    concentrations = {
        name: per_word * words if getattr(options, name) is None else getattr(options, name)
        for name, per_word in PER_WORD.items()
    }
    settled = dataclasses.replace(options, batch_size=batch_size, **concentrations)
    hyper, shape = hyperparameters(table, settled), (options.num_topics, words)
    default = step.defaults(options.sampler, documents, shape, hyper, batch_size)
    per_pass = -(-documents // batch_size)
    every = min(_EVALUATED * per_pass, max(1, _VISITED // batch_size))
    length = session.length(
        per_pass, options, default_passes=PASSES, eval_every=every, sample_every=every
    )
    friction = float(default.friction) if options.friction is None else options.friction
    return dataclasses.replace(
        settled,
        step_size=schedules.constant("step_size", options.step_size or default.step_size),
        friction=None if step.is_metropolis(options.sampler) else friction,
        inertia=_inertia(options, friction),
        inner_steps=options.inner_steps or default.inner_steps,
        passes=None,
        **length._asdict(),
    )


def _inertia(options: Options, friction: float) -> float | None:
    if options.sampler != "gsgnht":
        return None
    return step.damped_inertia(friction) if options.inertia is None else options.inertia


def hyperparameters(table: sp.csr_array, settings: Options) -> joint.Hyperparameters:
    """Return the hyperparameters of a run, with the mean direction of its documents."""
    total = np.asarray(table.sum(axis=0), np.float64).ravel()
    length = np.linalg.norm(total)
    if not length > sparse.ROUNDING * table.shape[0]:
        raise ValueError(
            "the documents sum to zero and have no mean direction, which the topics have a prior "
            "about: leave out those that are the opposites of others"
        )
    names = ("alpha", "sigma", "kappa0", "kappa1")
    return joint.hyperparameters(
        (total / length).astype(np.float32), **{name: getattr(settings, name) for name in names}
    )


def local_step(settings: Options) -> Local:
    """Return the local step of a run."""
    return model.default_local(settings.sampler)._replace(
        method=settings.local, start=settings.local_start, fixed=settings.local_fixed
    )
