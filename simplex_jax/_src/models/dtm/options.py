"""The options of topics in slices, and their defaults."""

import dataclasses
from typing import Any

from simplex_jax._src.models.dtm import model
from simplex_jax._src.models.dtm.slices import WIDTHS, HeldOut, Sliced
from simplex_jax._src.models.options import (
    MOST_CONCENTRATION,
    check_priors,
    concentration,
    gamma_prior,
    number_kept,
    override,
)
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.models.topics.concentrations import LEAST, Prior
from simplex_jax._src.models.topics.data import check_heldout, size_of
from simplex_jax._src.models.topics.engine import resolve
from simplex_jax._src.models.topics.evaluation import SWEEPS
from simplex_jax._src.models.topics.options import SHARE_ERROR, TopicOptions, check_words
from simplex_jax._src.options import number, option, options
from simplex_jax._src.runtime import session

_PASSES, _SAMPLED, _EVALUATED = 1500.0, 2, 10
# Static passes by default: a share of all, and the most; if time ends the run, a number.
_STATIC_SHARE, _STATIC_MOST, _STATIC_TIMED = 2 / 3, 1000, 150
_MEANS = {"alpha": model.ALPHA, "beta": model.BETA}


@options
class Options(TopicOptions):
    """Options of topics in slices."""

    num_topics: int = option(
        "Number of topics.",
        default=30,
        kw_only=False,
        least=1,
        flag="--topics",
        parameter="n_components",
    )
    batch_size: int | None = override(
        "batch_size",
        default=None,
        help="Documents in an update, always all of them.",
        unset="all",
        command=False,
        parameter=None,
    )
    engine: str | None = override(
        "engine",
        default=None,
        of=TopicOptions,
        help="Engine of the sweeps over tokens: native is C++ on CPUs, xla runs everywhere.",
    )
    chains: int = override("chains", default=2)
    passes: float | None = override(
        "passes", default=None, unset="1500, unless steps or seconds are given"
    )
    static_passes: int | None = option(
        "Number of first passes, in which topics are the same in all slices, as in LDA: a start "
        "for the others, of which no sample is taken.",
        default=None,
        least=0,
        unset="two thirds of the passes, at most 1000; 150 if seconds are given",
    )
    eval_every: int | None = override(
        "eval_every",
        default=None,
        unset="10; more if evaluations would take over a 20th of the time",
    )
    sample_every: int | None = override("sample_every", default=None, unset="2")
    keep_samples: int | None = override(
        "keep_samples",
        default=None,
        help="Posterior samples to keep of each chain, evenly spaced over the last half of the "
        "run, or all of them if there are fewer. Each takes 4 bytes per topic, slice and word, on "
        "disk, or in Python without samples_dir in memory.",
    )
    share_error: float = option(
        "Estimated Monte-Carlo error at which the sampling of a document's topic proportions ends; "
        "a larger one takes less time.",
        default=SHARE_ERROR,
    )
    alpha: Any = concentration(
        "Concentration of the topic proportions of a document, mean over the topics. "
        "learn: sample it.",
        default="learn",
    )
    alpha_prior: tuple[float, float] | None = gamma_prior("alpha", unset="1,10")
    beta: Any = concentration(
        "Concentration of the base of a topic, its mean over the slices, per word (not the sum). "
        "learn: sample it.",
        default="learn",
    )
    beta_prior: tuple[float, float] | None = gamma_prior("beta", unset="1,20")
    document_steadiness: Any = concentration(
        "Concentration of a document's own topics around those of its slice: words come in bursts, "
        "so that one that occurs in a document occurs again. learn: sample it. none: documents "
        "have the topics of their slice, which then follow single long documents.",
        default="learn",
        learn=("learn", "none"),
        most=model.OWN_RANGE[1],
    )

    def __post_init__(self) -> None:
        check_priors(self, *_MEANS)


def _slices(name: str, value: Any) -> str | int | None:
    """Check `slices`: the name of a width, or a number."""
    if value is None or (isinstance(value, str) and value in WIDTHS):
        return value
    try:
        chosen = number(name, value, least=1)
    except ValueError:
        chosen = 0.5
    if chosen != int(chosen):
        raise ValueError(
            f"{name} must be {', '.join(WIDTHS)} or a whole number of slices; it is {value!r}"
        )
    return int(chosen)


@options
class Arguments(Options, Session):
    """Arguments of `dtm.fit`."""

    times: Any = option(
        "The time of each document: years or other numbers, or dates; a list, an array or a column "
        "of a data frame.",
        default=None,
        unset="no times",
    )
    groups: Any = option(
        "The group of each document, such as a party or a source; with times, each group has its "
        "own course in time.",
        default=None,
        unset="no groups",
    )
    slices: Any = option(
        "The periods of the times: year, decade, or a number of periods with about equally many "
        "documents.",
        default=None,
        check=_slices,
        unset="year or decade, if that makes 2 to 30, else 20",
    )
    predict: Any = option(
        "Further times, after the last period or between two, at which to predict topics and "
        "prevalence of the groups that have begun and have no documents then.",
        default=(),
    )


def resolve_options(data: Sliced, heldout: Any, options: Options) -> Options:
    """Return options with all defaults filled in; only the sizes of the data matter.

    Options that conflict with each other or with the data raise a ValueError that names them.
    """
    size = size_of(data.corpus)
    check_words(size, data.corpus.vocabulary)
    if heldout is not None:
        if not isinstance(heldout, HeldOut):
            raise ValueError(
                "heldout would need the slice of each document: give holdout, a number of "
                "documents to hold out of the data"
            )
        check_heldout(tuple(heldout[:2]), size.words)
    if options.batch_size not in (None, size.documents):
        raise ValueError(
            f"batch_size must be {size.documents}, all documents: topics in slices are not "
            f"learned from batches; it is {options.batch_size}"
        )
    evaluation = SWEEPS * float(heldout[0].sum()) / size.tokens if heldout is not None else 0.0
    length = session.length(
        1,
        options,
        default_passes=_PASSES,
        eval_every=max(_EVALUATED, session.interval(1, evaluation)),
        sample_every=_SAMPLED,
    )
    static = options.static_passes
    if static is None:
        static = _STATIC_TIMED
        if length.steps is not None:  # one update is a pass
            static = min(_STATIC_MOST, int(_STATIC_SHARE * length.steps))
    priors: dict[str, Any] = {f"{name}_prior": prior_of(options, name) for name in _MEANS}
    return dataclasses.replace(
        options,
        **priors,
        engine=resolve(options.engine, options.num_topics, bursts=own_of(options) is not None),
        batch_size=size.documents,
        static_passes=static,
        keep_samples=number_kept(
            options.keep_samples,
            options.chains,
            options.num_topics * len(data.slices.names),
            size.words,
        ),
        passes=None,
        **length._asdict(),
    )


def prior_of(options: Options, name: str) -> tuple[float, float] | None:
    """Return shape and rate of the prior of a concentration, None if it is given."""
    if getattr(options, name) != "learn":
        return None
    shape, rate = getattr(options, f"{name}_prior") or (1.0, 1 / _MEANS[name])
    if not LEAST <= shape / rate <= MOST_CONCENTRATION:
        raise ValueError(
            f"the mean of {name}_prior, shape / rate, must be from {LEAST:g} to "
            f"{MOST_CONCENTRATION:,.0f}; it is {shape / rate:g}"
        )
    return shape, rate


def start_of(settings: Options, name: str) -> float | Prior:
    """Return a concentration, "alpha" or "beta", or its prior, from settled options."""
    if (prior := prior_of(settings, name)) is None:
        return getattr(settings, name)
    shape, rate = prior
    return Prior(shape / rate, shape)


def own_of(settings: Options) -> float | str | None:
    """Return the concentration of a document's own topics as `model.build` takes it."""
    chosen = settings.document_steadiness
    return None if chosen == "none" else chosen
