"""The options of the spherical admixture model, and their defaults."""

import dataclasses

import scipy.sparse as sp

from simplex_jax._src import schedules
from simplex_jax._src.models.options import (
    RunOptions,
    check_priors,
    concentration,
    gamma_prior,
    number_kept,
    override,
)
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.models.sam import joint, model
from simplex_jax._src.models.sam.data import Data
from simplex_jax._src.models.sam.joint import LEARN
from simplex_jax._src.models.sam.local import Local
from simplex_jax._src.models.sam.variational import STARTS
from simplex_jax._src.options import option, options
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import session

ALPHA = 10.0
_MOST = 1e18  # its square does not overflow float32
PER_WORD = {"sigma": 2.0, "kappa0": 2.0, "kappa1": 6.0}
"""Default concentrations per word of the vocabulary."""

# From a variational start the burn-in is some 150 updates of all documents.
PASSES = 300.0

# Between evaluations or samples, which draw proportions of documents too: passes of a small corpus,
# and documents visited of a large one. Fewer samples than one in two passes would leave too few in
# a run of the default length for intervals.
_EVALUATED, _SAMPLED, _VISITED = 6, 2, 20_000


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
    alpha: float | str = concentration(
        "Concentration of the topic proportions of a document, per topic (not the sum). "
        "learn: sample it.",
        default=ALPHA,
    )
    alpha_prior: tuple[float, float] | None = gamma_prior("alpha", unset="1,0.1")
    # Close to the values of Liu, Zhu and Song (2016) for 5,000 and for 3,000 words.
    sigma: float | str | None = concentration(
        "Concentration of the topics about their mean. learn: sample it.",
        default=None,
        most=_MOST,
        unset="2 for each word",
    )
    sigma_prior: tuple[float, float] | None = gamma_prior("sigma", unset="1,1 / (2 V) for V words")
    kappa0: float | None = option(
        "Concentration of the mean of the topics about the mean direction of the documents.",
        default=None,
        most=_MOST,
        unset="2 for each word",
    )
    kappa1: float | str | None = concentration(
        "Concentration of the documents about the mixture of their topics. learn: sample it.",
        default=None,
        most=_MOST,
        unset="6 for each word",
    )
    kappa1_prior: tuple[float, float] | None = gamma_prior(
        "kappa1", unset="1,1 / (6 V) for V words"
    )
    sampler: str = option(
        "Sampler of the topics, given the proportions of the documents.",
        default="gsgnht",
        choices=("gsgnht", "sggmc", "gmc-bgibbs"),
    )
    local: str = option(
        "Sampler of the topic proportions, given the topics.",
        default="hmc",
        choices=("hmc", "laplace"),
        parameter=None,
    )
    start: str = option(
        "Start of the chains: topics of a short variational inference, from a different prior draw "
        "for each chain; or the prior draws themselves.",
        default="variational",
        choices=STARTS,
    )
    step_size: float | None = option(
        "Step size of the sampler of the topics, the same in all updates.",
        default=None,
        check=lambda name, value: None if value is None else schedules.constant(name, value),
        unset="set by the sampler",
    )
    friction: float | None = option(
        "Friction of the samplers sggmc and gsgnht.",
        default=None,
        unset="set by the sampler",
        parameter=None,
    )
    inner_steps: int | None = option(
        "Steps of the sampler of the topics per update.",
        default=None,
        least=1,
        unset="set by the sampler",
        parameter=None,
    )
    # At equilibrium the gradient noise of B out of D documents needs steps so much shorter that
    # some 5 D / B updates are worth one with all documents, each at B / D of its cost.
    batch_size: int | None = option(
        "Documents in a batch, the same for all chains.", default=None, least=1, unset="all"
    )
    eval_every: int | None = override(
        "eval_every", default=None, unset="6 passes, or 20,000 documents if they are fewer"
    )
    sample_every: int | None = override(
        "sample_every", default=None, unset="2 passes, or 20,000 documents if they are fewer"
    )
    passes: float | None = override(
        "passes", default=None, unset="300, unless steps or seconds are given"
    )

    def __post_init__(self) -> None:
        if self.friction is not None and model.is_metropolis(self.sampler):
            raise ValueError(f"sampler={self.sampler!r} does not take friction")
        check_priors(self, *LEARN)


@options
class Arguments(Options, Session):
    """Arguments of `sam.fit`."""


def resolve_options(data: Data, heldout: Data | None, options: Options) -> Options:
    """Return options with all defaults filled in, or raise a ValueError."""
    table = data.vectors.values
    documents, words = table.shape
    directories.check_words(data.vectors.vocabulary)
    if options.num_topics > words:
        raise ValueError(
            f"num_topics must be at most {words}, one a word; it is {options.num_topics}"
        )
    batch_size = model.check_batch_size(options.batch_size, documents, options.sampler)
    typical = {"alpha": ALPHA} | {name: each * words for name, each in PER_WORD.items()}
    filled = {name: value for name, value in typical.items() if getattr(options, name) is None}
    filled |= {
        f"{name}_prior": (1.0, 1 / typical[name])
        for name in learned(options)
        if getattr(options, f"{name}_prior") is None
    }
    settled = dataclasses.replace(options, batch_size=batch_size, **filled)
    hyper, shape = hyperparameters(table, settled), (options.num_topics, words)
    default = model.default_settings(options.sampler, documents, shape, hyper, batch_size)
    per_pass = -(-documents // batch_size)
    most = max(1, _VISITED // batch_size)
    length = session.length(
        per_pass,
        options,
        default_passes=PASSES,
        eval_every=min(_EVALUATED * per_pass, most),
        sample_every=min(_SAMPLED * per_pass, most),
    )
    friction = float(default.friction) if options.friction is None else options.friction
    return dataclasses.replace(
        settled,
        step_size=schedules.constant("step_size", options.step_size or default.step_size),
        friction=None if model.is_metropolis(options.sampler) else friction,
        inner_steps=options.inner_steps or default.inner_steps,
        passes=None,
        keep_samples=number_kept(options.keep_samples, options.chains, *shape),
        **length._asdict(),
    )


def learned(options: Options) -> tuple[str, ...]:
    """Return the names of the concentrations that are learned."""
    return tuple(name for name in LEARN if isinstance(getattr(options, name), str))


def hyperparameters(table: sp.csr_array, settings: Options) -> joint.Hyperparameters:
    """Return the hyperparameters of a run, with the mean direction of its documents.

    A learned concentration starts at its prior mean.
    """
    values = {name: getattr(settings, name) for name in ("alpha", *PER_WORD)}
    for name in learned(settings):
        shape, rate = getattr(settings, f"{name}_prior")
        values[name] = shape / rate
    return joint.hyperparameters(joint.mean_direction(table), **values)


def local_step(settings: Options) -> Local:
    """Return the local step of a run."""
    return model.default_local(settings.sampler)._replace(method=settings.local)
