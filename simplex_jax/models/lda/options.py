"""The options of LDA, and how those that are left out are settled."""

import dataclasses
import math
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax import arguments, schedules
from simplex_jax.corpus.device import MOST_TOKENS
from simplex_jax.models.lda import model, pages, seeds
from simplex_jax.models.lda.counts import Local, check, check_memoised
from simplex_jax.models.lda.kernel import SAMPLERS, total_of
from simplex_jax.models.options import again, number, option, options
from simplex_jax.models.pipeline import Session
from simplex_jax.models.topics.data import Size, Training, is_stored, size_of, vocabulary_of
from simplex_jax.models.topics.engine import METHODS, resolve
from simplex_jax.models.topics.options import TopicOptions, check_words
from simplex_jax.models.topics.perplexity import SWEEPS
from simplex_jax.runtime import processes, session

Heldout: TypeAlias = tuple[sp.csr_array, sp.csr_array]
"""Counts of the observed and of the target halves of held-out documents."""

_SAMPLE = 100_000
_SEED_SHARE = 0.01  # of the tokens of an average topic, for a seed word
_MOST_SEEDS = 2**24  # beside more, a float32 does not see a token

TARGET_ESS = 100.0
PASSES = 200.0
_PAIR = 5_000_000  # tokens and numbers of topics of which two cores do 400 passes in a minute

# Concentrations where none is given; of learned ones the first value and the prior mean.
ALPHA, BETA = 0.1, 0.05
_FIRST = {"alpha": ALPHA, "beta": BETA}
LEARN = {
    "alpha": {"learn": "vector", "learn-symmetric": "symmetric"},
    "beta": {"learn": "symmetric", "learn-vector": "vector"},
}


def _concentration(name: str, value: Any) -> Any:
    """Return concentrations as plain numbers, or the way in which they are learned."""
    if isinstance(value, str):
        if value not in LEARN[name]:
            raise ValueError(
                f"{name} must be a number or one of {', '.join(LEARN[name])}; it is {value!r}"
            )
        return value
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, or one of each; it is {value!r}") from None
    sound = (array > 0) & np.isfinite(array)
    if array.ndim > 1 or not sound.all():
        raise ValueError(
            f"{name} must be finite and positive, one number or a row; it is {value!r}"
        )
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _typed_concentration(text: str) -> float | str:
    return text if text.startswith("learn") else number("it", text)


def _step_size(name: str, value: Any) -> Any:
    """Return a constant step size, or (A, TAU, KAPPA) of one that decays."""
    if value is None or callable(value):
        return value
    if isinstance(value, tuple | list):
        if len(value) != 3:
            raise ValueError(f"{name} must be a number, or three of a decay; it is {value!r}")
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
        hint="The number of topics is found by simplex-jax hdp.",
        flag="--topics",
        parameter="n_components",
    )
    alpha: Any = option(
        "Concentration of topic shares, per topic (not the sum): a number, or one a topic. learn: "
        "one of each topic is sampled along; learn-symmetric: a common one. Not learned with "
        "control-variate counts.",
        default=ALPHA,
        check=_concentration,
        parse=_typed_concentration,
        metavar="NUMBER|learn|learn-symmetric",
    )
    beta: Any = option(
        "Concentration of words, per word (not the sum): a number, or one a word. learn: a common "
        "one is sampled along; learn-vector: one of each word. Learned with memoised counts only.",
        default=BETA,
        check=_concentration,
        parse=_typed_concentration,
        metavar="NUMBER|learn|learn-vector",
    )
    seed_words: Any = option(
        "Words that topics are to have: a file, or in Python a list, with a line for each topic, "
        "'word word ...' or 'name: word word ...'; topics beyond the lines have none. Not with a "
        "beta that is learned.",
        default=None,
        check=seeds.lines_of,
        parse=Path,
        unset="none",
        metavar="FILE",
    )
    seed_weight: float | None = option(
        "What is added to beta for each seed word: the tokens of it, in pseudo-counts, that the "
        "topic is taken to have had already.",
        default=None,
        unset="a hundredth of the tokens of an average topic",
    )
    sampler: str = option(
        "How the topics move, given the counts.",
        default="scir",
        choices=model.SAMPLERS,
        offered=("scir", "sgrld", "sgrhmc"),
    )
    total: str | None = option(
        "Of a sampler that moves weights, what becomes of the total of a topic's: refreshed before "
        "every step, or carried along from its start, as the papers have it, which is biased.",
        default=None,
        choices=model.TOTALS,
        unset="refreshed, if there is one",
        command=False,
        parameter=None,
    )
    counts: str | None = option(
        "memoised keeps the topics of all tokens and is exact with scir; the others estimate.",
        default=None,
        choices=model.COUNTS,
        unset="memoised, or subsampled for a corpus on disk",
    )
    local: str | None = option(
        "How the topics of tokens are drawn.",
        default=None,
        choices=tuple(sorted(METHODS)),
        unset="collapsed",
        parameter=None,
    )
    sweeps: int | None = option(
        "Gibbs sweeps over a batch.",
        default=None,
        least=1,
        unset="1 if memoised, else 10",
        parameter=None,
    )
    burn_in: int | None = option(
        "Of these, the first whose counts are not used.",
        default=None,
        least=0,
        unset="half of the sweeps of estimated counts",
        command=False,
        parameter=None,
    )
    expected: bool = option(
        "Use expected counts, by blocked sweeps; not with memoised ones.",
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
        "Accelerators, or cores of the CPU, of each process that share the documents.",
        default=None,
        least=1,
        unset="all, or one for the native engine, whose threads use all cores",
        parameter=None,
    )
    target_ess: float | None = option(
        "With memoised counts and no length given: the effective samples, over the chains, at "
        "which the run ends. Nine in ten of the topics must have them of their share; and, where "
        "documents are held out, so must their predictive density, which no longer changes.",
        default=None,
        unset="100",
    )
    passes: float | None = again(
        "passes", default=None, unset="until target_ess is reached; 200 with estimated counts"
    )
    chains: int | None = again(  # type: ignore[assignment]  # settled, an int as elsewhere
        "chains",
        default=None,
        unset="2 where target_ess is the goal and they have the time for 200 passes, else 1",
    )
    time_limit: float | None = option(
        "Seconds of training after which such a run ends in any case.",
        default=None,
        unset="60, or 200 passes if they take longer",
    )

    def __post_init__(self) -> None:
        if self.seed_weight is not None and self.seed_words is None:
            raise ValueError("seed_weight is about seed words: give seed_words too")
        if self.seed_weight is not None and self.seed_weight > _MOST_SEEDS:
            raise ValueError(
                f"seed_weight must be at most {_MOST_SEEDS:,}, to which float32 counts tokens; "
                f"it is {self.seed_weight:g}"
            )


@options
class Arguments(Options, Session):
    """Arguments of `lda.fit`."""


def settle(data: Training, heldout: Heldout | None, given: Options) -> Options:
    """Return options with all that was left out filled in; only the sizes of the data matter.

    Options that do not go together, or with the data, are a ValueError that names them.
    """
    size = size_of(data)
    check_words(size)
    stored = is_stored(data)
    together = processes.count()
    counts = given.counts or ("subsampled" if stored and together == 1 else "memoised")
    if stored and counts == "control-variate":
        raise ValueError(
            "a corpus on disk is sampled with counts='memoised' or 'subsampled', not "
            "'control-variate': give its counts as an array if they fit into memory"
        )
    if together > 1 and counts != "memoised":
        raise ValueError(f"several processes share memoised counts only, not {counts!r}")
    _, learn_alpha = prior("alpha", given.alpha, given.num_topics)
    _, learn_beta = prior("beta", given.beta, size.words)
    seeded = given.seed_words is not None
    model.check_names(given.sampler, counts, learn_alpha, learn_beta, seeded=seeded)
    if seeded:
        seeds.check(given.seed_words, given.num_topics, vocabulary_of(data))
    memoised = counts == "memoised"
    batch_size = given.batch_size
    shape = (given.num_topics, size.words)
    if batch_size is None:
        batch_size = model.default_batch_size(size.documents, size.tokens, shape)
    batch_size = model.check_batch_size(batch_size, size.documents)
    per_pass = -(-size.documents // batch_size)
    sweeps = given.sweeps or (1 if memoised else 10)
    length = session.length(
        per_pass,
        given,
        cost=_cost(size.tokens * sweeps / per_pass, heldout, math.prod(shape)),
        # What batches estimate is too noisy a trace to show how a chain mixes.
        default_passes=None if memoised else PASSES,
    )
    target_ess = given.target_ess
    if length.steps is None and length.seconds is None:
        target_ess = TARGET_ESS if target_ess is None else target_ess
    elif target_ess is not None or given.time_limit is not None:
        raise ValueError(
            "target_ess and time_limit are for memoised counts and runs whose length is not given: "
            "leave them out, or passes, steps and seconds"
        )
    chains = given.chains
    if chains is None:
        few = size.tokens + math.prod(shape) <= _PAIR
        chains = 2 if target_ess is not None and few else 1
    default_burn_in = 0 if memoised else sweeps // 2
    method = given.local or ("blocked" if given.expected else "collapsed")
    chosen = resolve(given.engine)
    # The native engine's threads share the work of one device; more devices would only each draw
    # all topics again.
    threads = chosen == "native" and method == "collapsed"
    devices = given.devices
    if threads and devices is None:
        devices = 1
        alone = dataclasses.replace(given, counts=counts, chains=chains, devices=1)
        if memoised and not pages.on_disk(data, alone):
            # There may be more tokens than a device can number.
            devices = max(1, -(-size.tokens // (MOST_TOKENS * together)))
    settings = dataclasses.replace(
        given,
        total=total_of(given.sampler, given.total),
        counts=counts,
        local=method,
        engine=chosen,
        sweeps=sweeps,
        burn_in=default_burn_in if given.burn_in is None else given.burn_in,
        step_size=_settled_step(given.step_size, given.sampler, counts),
        seed_weight=_settled_weight(given, size),
        batch_size=batch_size,
        passes=None,
        target_ess=target_ess,
        chains=chains,
        **length._asdict(),
        devices=_sharing(devices, batch_size, size, memoised),
    )
    (check_memoised if memoised else check)(shape, local_step(settings))
    return settings


def _cost(tokens: float, heldout: Heldout | None, numbers: int) -> session.Cost:
    """Return the cost of an evaluation and of a sample, in updates of so many tokens.

    Measured on two cores: to draw one of the `numbers` of the topics takes about as long as to draw
    the topic of a token, to add one to the moments half of that, and to add any sample as long as
    `_SAMPLE` tokens.
    """
    update = tokens + numbers
    evaluation = 0.0
    if heldout is not None:
        observed, target = (float(half.sum()) for half in heldout)
        evaluation = SWEEPS * observed + target + numbers
    return session.Cost(evaluation / update, (numbers / 2 + _SAMPLE) / update)


def _settled_step(given: Any, sampler: str, counts: str) -> Any:
    if callable(given):
        raise ValueError("step_size must be a number, or three of a decay, not a function")
    if given is not None:
        first = given[0] if isinstance(given, tuple) else given
        if first >= (limit := SAMPLERS[sampler].limit):
            raise ValueError(
                f"step_size must be below {limit:.3g}, from where {sampler} diverges; it is {first}"
            )
        return given
    default = model.default_step(sampler, counts)
    return tuple(map(float, default)) if default.tau else default.initial


def _settled_weight(given: Options, size: Size) -> float | None:
    if given.seed_words is None or given.seed_weight is not None:
        return given.seed_weight
    return max(1.0, round(_SEED_SHARE * size.tokens / given.num_topics))


def _sharing(devices: int | None, batch_size: int, size: Size, memoised: bool) -> int:
    """Return the largest number of devices a process that changes no batch, hence no sample."""
    available, together = len(jax.local_devices()), processes.count()
    most = available if devices is None else arguments.at_least("devices", devices, 1)
    if most > available:
        raise ValueError(f"devices must be at most {available}, as many as there are; it is {most}")
    if not memoised:
        return 1
    if batch_size == size.documents:
        return most
    even = [n for n in range(1, most + 1) if batch_size % (n * together) == 0]
    if not even:
        raise ValueError(
            f"batch_size must be a multiple of {together}, the number of processes; it is "
            f"{batch_size}"
        )
    return even[-1]


def prior(name: str, value: Any, count: int) -> tuple[float | tuple[float, ...], str | None]:
    """Return concentrations as plain numbers, one or `count` of them, and how they are learned.

    The latter is None, "symmetric" or "vector"; learned ones have their first value and prior mean.
    Values that are out of range or of another number are a ValueError.

    Example:
        >>> prior("alpha", "learn", 3), prior("beta", [0.5, 1.0], 2)
        ((0.1, 'vector'), ((0.5, 1.0), None))
    """
    value = _concentration(name, value)
    if isinstance(value, str):
        return _FIRST[name], LEARN[name][value]
    if isinstance(value, tuple) and len(value) != count:
        raise ValueError(f"{name} must be one number or {count} of them; there are {len(value)}")
    return value, None


def local_step(settings: Any) -> Local:
    """Return the local step of a run."""
    return Local(
        settings.local, settings.sweeps, settings.burn_in, settings.expected, settings.engine
    )


def step_size(settings: Options) -> schedules.StepSize:
    """Return the step size or schedule of a run."""
    if isinstance(settings.step_size, tuple):
        return schedules.polynomial_decay(*settings.step_size)
    return settings.step_size
