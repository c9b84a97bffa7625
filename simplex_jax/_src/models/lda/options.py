"""The options of LDA."""

from pathlib import Path
from typing import Any

import numpy as np

from simplex_jax._src import schedules
from simplex_jax._src.models.lda import model, seeds
from simplex_jax._src.models.lda.local_step import METHODS, Local
from simplex_jax._src.models.options import MOST_CONCENTRATION, again, number, option, options
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.models.topics.concentrations import LEARN
from simplex_jax._src.models.topics.options import TopicOptions

# First values and prior means of learned concentrations.
_FIRST = {"alpha": model.ALPHA, "beta": model.BETA}
_COUNT = {"alpha": "K", "beta": "V"}


def _concentration(name: str, value: Any) -> Any:
    """Return concentrations as plain numbers, or how they are learned."""
    if isinstance(value, str):
        if value not in LEARN:
            raise ValueError(
                f"{name} must be a number or one of {', '.join(LEARN)}; it is {value!r}"
            )
        return value
    wanted = f"a number or a sequence of {_COUNT[name]} numbers"
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {wanted}; it is {value!r}") from None
    sound = (array > 0) & np.isfinite(array)
    if array.ndim > 1 or not sound.all():
        raise ValueError(f"{name} must be finite and positive, {wanted}; it is {value!r}")
    if array.size and (largest := float(array.max())) > MOST_CONCENTRATION:
        raise ValueError(
            f"{name} must be at most {MOST_CONCENTRATION:,.0f}, where float32 still resolves one "
            f"token; it is {largest:g}"
        )
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _typed_concentration(text: str) -> float | str:
    return text if text.startswith("learn") else number("it", text)


def _step_size(name: str, value: Any) -> Any:
    """Return a constant step size, or (A, TAU, KAPPA) of a decaying one."""
    if value is None or callable(value):
        return value
    if isinstance(value, tuple | list):
        if len(value) != 3:
            raise ValueError(f"{name} must be a number or (A, TAU, KAPPA); it is {value!r}")
        return tuple(number(name, part) for part in value)
    return number(name, value)


def _typed_step_size(text: str) -> Any:
    parts = [number("it", part) for part in text.split(",")]
    return parts[0] if len(parts) == 1 else tuple(parts)


@options
class Options(TopicOptions):
    """Options of LDA."""

    num_topics: int = option(
        "Number of topics.",
        default=30,
        kw_only=False,
        least=1,
        several=True,
        hint="simplex-jax hdp infers the number of topics.",
        flag="--topics",
        parameter="n_components",
    )
    alpha: Any = option(
        "Concentration of topic shares, per topic (not the sum): a number, or in Python one per "
        "topic. learn: sample one common to all topics; learn-asymmetric: sample one for each. "
        "Not learned with control-variate counts.",
        default=model.ALPHA,
        check=_concentration,
        parse=_typed_concentration,
        metavar="NUMBER|learn|learn-asymmetric",
    )
    beta: Any = option(
        "Concentration of words, per word (not the sum): a number, or in Python one per word. "
        "learn: sample one common to all words; learn-asymmetric: sample one for each. Learned "
        "with memoised counts only.",
        default=model.BETA,
        check=_concentration,
        parse=_typed_concentration,
        metavar="NUMBER|learn|learn-asymmetric",
    )
    seed_words: Any = option(
        "Words expected in topics: a file, or in Python a list, with a line for each topic, "
        "'word word ...' or 'name: word word ...'; topics beyond the lines have none. Not with a "
        "learned beta.",
        default=None,
        check=seeds.lines_of,
        parse=Path,
        unset="none",
        metavar="FILE",
    )
    seed_weight: float | None = option(
        "Pseudo-counts added to beta for each seed word: tokens of it that the topic is assumed to "
        "have already.",
        default=None,
        most=MOST_CONCENTRATION,
        unset="a hundredth of the tokens of an average topic",
    )
    sampler: str = option(
        "Sampler of the topics given the counts.",
        default="scir",
        choices=model.SAMPLERS,
        offered=("scir", "sgrld", "sgrhmc"),
    )
    total: str | None = option(
        "How samplers of weights treat a topic's total weight: refreshed before every step, or "
        "carried from the start, as in the papers, which is biased.",
        default=None,
        choices=model.TOTALS,
        unset="refreshed, if there is one",
        command=False,
        parameter=None,
    )
    counts: str | None = option(
        "memoised stores the topics of all tokens and is exact with scir; the others estimate.",
        default=None,
        choices=model.COUNTS,
        unset="memoised, or subsampled for a corpus on disk",
    )
    local: str | None = option(
        "How the topics of tokens are drawn: collapsed integrates out the shares of a document, "
        "and integrated the words of the topics too, which is slower and needs fewer passes. It "
        "needs memoised counts of documents in memory and the native engine of a CPU.",
        default=None,
        choices=tuple(sorted(METHODS)),
        unset="collapsed",
        parameter=None,
    )
    sweeps: int | None = option(
        "Gibbs sweeps per batch.",
        default=None,
        least=1,
        unset="1 if memoised, else 10",
        parameter=None,
    )
    burn_in: int | None = option(
        "First sweeps whose counts are discarded.",
        default=None,
        least=0,
        unset="half of the sweeps of estimated counts",
        command=False,
        parameter=None,
    )
    expected: bool = option(
        "Use expected counts, by blocked sweeps; not with memoised counts.",
        default=False,
        command=False,
        parameter=None,
    )
    step_size: Any = option(
        "A constant, or A,TAU,KAPPA for A (1 + t / TAU)^-KAPPA after t updates.",
        default=None,
        check=_step_size,
        parse=_typed_step_size,
        unset="set by the sampler",
        metavar="NUMBER",
    )
    devices: int | None = option(
        "Accelerators, or CPU cores, of each process that share the documents.",
        default=None,
        least=1,
        unset="all, or on CPUs one for the native engine, whose threads use all cores",
        changeable=True,
        parameter=None,
    )
    target_ess: float | None = option(
        "With memoised counts and no given length, the run ends at this effective sample size over "
        "the chains. Nine in ten topic shares must reach it, and, if documents are held out, their "
        "predictive density, which must also have settled.",
        default=None,
        unset="100",
        changeable=True,
    )
    passes: float | None = again(
        "passes", default=None, unset="until target_ess is reached; 200 with estimated counts"
    )
    chains: int | None = again(  # type: ignore[assignment]  # settled, an int as elsewhere
        "chains",
        default=None,
        unset="2 if target_ess is the goal and the time allows them 200 passes, else 1",
    )
    time_limit: float | None = option(
        "Seconds of training after which a run with target_ess ends in any case.",
        default=None,
        unset="60, or 200 passes if they take longer",
        changeable=True,
    )

    def __post_init__(self) -> None:
        if self.seed_weight is not None and self.seed_words is None:
            raise ValueError("seed_weight requires seed_words")
        # Counts that are left out depend on the data; `settle` checks them.
        counts = self.counts or "memoised"
        learned = (x if isinstance(x, str) else None for x in (self.alpha, self.beta))
        seeded = self.seed_words is not None
        model.check_names(self.sampler, counts, *learned, seeded=seeded)
        lengths = (self.passes, self.steps, self.seconds)
        has_length = counts != "memoised" or any(length is not None for length in lengths)
        check_goal(self, has_length=has_length)


def check_goal(options: Options, *, has_length: bool) -> None:
    """Raise a ValueError if a run has both a goal and a length."""
    if has_length and (options.target_ess is not None or options.time_limit is not None):
        raise ValueError(
            "target_ess and time_limit are for memoised counts and runs without a given length: "
            "leave them out, or passes, steps and seconds"
        )


@options
class Arguments(Options, Session):
    """Arguments of `lda.fit`."""


def prior(name: str, value: Any, count: int) -> tuple[float | tuple[float, ...], str | None]:
    """Return concentrations as plain numbers, one or `count` of them, and how they are learned.

    The latter is None, "learn" or "learn-asymmetric"; for learned ones the number is the first
    value and the prior mean. Values out of range, or too many or too few, raise a ValueError.

    Example:
        >>> prior("alpha", "learn-asymmetric", 3), prior("beta", [0.5, 1.0], 2)
        ((0.1, 'learn-asymmetric'), ((0.5, 1.0), None))
    """
    value = _concentration(name, value)
    if isinstance(value, str):
        return _FIRST[name], value
    if isinstance(value, tuple) and len(value) != count:
        raise ValueError(f"{name} must be one number or {count} of them; there are {len(value)}")
    return value, None


def local_step(settings: Any) -> Local:
    """Return the local step of a run."""
    return Local(
        method=settings.local,
        sweeps=settings.sweeps,
        burn_in=settings.burn_in,
        expected=settings.expected,
        engine=settings.engine,
    )


def step_size(settings: Options) -> schedules.StepSize:
    """Return the step size or schedule of a run."""
    if isinstance(settings.step_size, tuple):
        return schedules.polynomial_decay(*settings.step_size)
    return settings.step_size
