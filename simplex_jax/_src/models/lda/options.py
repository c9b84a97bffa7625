"""The options of LDA, and their defaults, which depend on the size of the data."""

import dataclasses
import math
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.corpus.device import MOST_TOKENS
from simplex_jax._src.models.lda import model, seeds
from simplex_jax._src.models.lda.kernel import Config
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.models.options import MOST_CONCENTRATION, concentration, number_kept, override
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.models.topics.concentrations import LEARN
from simplex_jax._src.models.topics.data import (
    Selection,
    Size,
    Training,
    check_heldout,
    is_stored,
    size_of,
    vocabulary_of,
)
from simplex_jax._src.models.topics.engine import METHODS, label_dtype
from simplex_jax._src.models.topics.evaluation import SWEEPS
from simplex_jax._src.models.topics.options import SHARE_ERROR, TopicOptions, check_words
from simplex_jax._src.options import number, option, options
from simplex_jax._src.runtime import devices, processes, session


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
    alpha: Any = concentration(
        "Concentration of the topic proportions of a document, per topic (not the sum): a number, "
        "or in Python one per topic. learn: sample one common to all topics; learn-asymmetric: "
        "sample one for each.",
        default=model.ALPHA,
        learn=LEARN,
        several=True,
    )
    beta: Any = concentration(
        "Concentration of words, per word (not the sum): a number, or in Python one per word. "
        "learn: sample one common to all words; learn-asymmetric: sample one for each. To learn "
        "it takes memoised counts.",
        default=model.BETA,
        learn=LEARN,
        several=True,
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
        choices=tuple(model.SAMPLERS),
        offered=("scir", "sgrld", "sgrhmc"),
    )
    counts: str | None = option(
        "How the tokens of each topic are counted: memoised stores the topics of all tokens and is "
        "exact with scir; subsampled estimates the counts from batches.",
        default=None,
        choices=model.COUNTS,
        unset="memoised, or subsampled for a corpus on disk",
    )
    local: str | None = option(
        "How the topics of tokens are drawn: collapsed integrates out the proportions of a "
        "document; blocked draws them, which mixes more slowly and suits accelerators.",
        default=None,
        choices=tuple(METHODS),
        unset="collapsed",
        parameter=None,
    )
    sweeps: int | None = option(
        "Gibbs sweeps over the tokens of a batch in each update. With subsampled counts, tokens "
        "start without topics, and the first half of the sweeps is not counted.",
        default=None,
        least=1,
        unset="1 if memoised, else 10",
        parameter=None,
    )
    step_size: Any = option(
        "Step size of the sampler: a constant, or A,TAU,KAPPA for A (1 + t / TAU)^-KAPPA after "
        "t updates.",
        default=None,
        check=_step_size,
        parse=_typed_step_size,
        unset="set by the sampler",
        metavar="NUMBER",
    )
    share_error: float = option(
        "Estimated Monte-Carlo error at which the sampling of a document's topic proportions "
        "ends; a larger one takes less time.",
        default=SHARE_ERROR,
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
        "Effective sample size, over the chains, that the prevalence of nine in ten topics is to "
        "reach before the run ends, which takes long; without it, a run ends when its predictions "
        "have settled. Only for memoised counts and runs without a given length.",
        default=None,
        unset="not awaited",
        changeable=True,
    )
    passes: float | None = override(
        "passes", default=None, unset="until predictions have settled; 200 with estimated counts"
    )
    chains: int | None = override(  # type: ignore[assignment]  # settled, an int as elsewhere
        "chains",
        default=None,
        unset="4 if the run ends by itself and has at most 2.5 million tokens and entries of the "
        "topics (topics times words), 2 if at most 5 million; else 1",
    )
    time_limit: float | None = option(
        "Seconds of training after which a run without a given length ends, settled or not. The "
        "results then depend on the speed of the machine.",
        default=None,
        unset="none",
        changeable=True,
    )

    def __post_init__(self) -> None:
        if self.seed_weight is not None and self.seed_words is None:
            raise ValueError("seed_weight requires seed_words")
        # Counts that are left out depend on the data; `resolve_options` checks them.
        counts = self.counts or "memoised"
        seeded = self.seed_words is not None
        model.check_names(self.sampler, counts, self.alpha, self.beta, seeded=seeded)
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


def configure(settings: Options, words: int, seeds: Seeds | None = None) -> Config:
    """Return the configuration of the kernel of a run, with V words; see `model.configure`."""
    alpha, beta = (
        value if isinstance(value, str) else np.asarray(value, np.float32)
        for value in (settings.alpha, settings.beta)
    )
    return model.configure(
        (settings.num_topics, words),
        alpha=alpha,
        beta=beta,
        seeds=seeds,
        sampler=settings.sampler,
        counts=settings.counts or "memoised",
        local=settings.local,
        sweeps=settings.sweeps,
        engine=settings.engine,
        step_size=settings.step_size,
        batch_size=settings.batch_size or 0,
    )


Heldout: TypeAlias = tuple[sp.csr_array, sp.csr_array]
"""Counts of the observed and of the target halves of held-out documents."""

PASSES = 200.0

_CALL = 100_000
_EVALUATED = 4  # passes between evaluations of a small corpus
_SAMPLED = 0.1  # most of the time of a run that samples take by default
_SEED_SHARE = 0.01  # of the tokens of an average topic, for a seed word
_MOST_COUNTED = 2**31 - 1
_ENTRIES = 1 << 24  # entries of a corpus on disk read at a time
# Tokens plus entries of the topics, of all chains, for which two cores do 400 passes in a minute.
_WORK = 10_000_000


def resolve_options(data: Training, heldout: Heldout | None, options: Options) -> Options:
    """Return options with all defaults filled in; only the sizes of the data matter.

    Options that conflict with each other or with the data raise a ValueError that names them.
    """
    size = size_of(data)
    check_words(size, vocabulary_of(data))
    check_heldout(heldout, size.words)
    _check_topics(data, size, options)
    counts = _counts(data, options)
    memoised, shape = counts == "memoised", (options.num_topics, size.words)
    default = model.default_batch_size(size.documents, size.tokens, shape)
    batch_size = model.check_batch_size(options.batch_size or default, size.documents)
    options = dataclasses.replace(options, counts=counts, batch_size=batch_size)
    _check_step_size(options)
    config = configure(options, size.words)
    length = _length(size, heldout, options, batch_size, config.sweeps, memoised)
    chains = options.chains or _chains(size, shape, _has_goal(options, length))
    settings = dataclasses.replace(
        options,
        chains=chains,
        local=config.local,
        sweeps=config.sweeps,
        engine=config.engine,
        step_size=options.step_size or model.default_step(options.sampler, counts),
        seed_weight=_seed_weight(options, size),
        passes=None,
        **length._asdict(),
        keep_samples=number_kept(options.keep_samples, chains, *shape),
    )
    devices = _sharing(_devices(data, size, settings), batch_size, size, memoised)
    settings = dataclasses.replace(settings, devices=devices)
    if memoised:
        _check_words(data, size)
    return settings


def _check_words(data: Training, size: Size) -> None:
    """Raise a ValueError if a word has more tokens than int32 holds: one topic may have all."""
    if size.tokens <= _MOST_COUNTED:
        return
    if isinstance(data, Corpus):
        tokens = data.counts.sum(axis=0, dtype=np.int64)
    else:
        stored = data.stored if isinstance(data, Selection) else data
        tokens = np.zeros(size.words, np.int64)
        for first in range(0, len(stored.indices), _ENTRIES):
            part = slice(first, first + _ENTRIES)
            tokens += np.bincount(stored.indices[part], stored.data[part], size.words).astype(int)
    if tokens.max() > _MOST_COUNTED:
        word = vocabulary_of(data)[int(tokens.argmax())]
        raise ValueError(
            f"memoised counts allow at most {_MOST_COUNTED:,} tokens per word; {word!r} has "
            f"{tokens.max():,}: leave it out, or use subsampled counts"
        )


def _counts(data: Training, options: Options) -> str:
    """Return the kind of counts of a run, by where the documents are and how many processes run."""
    stored, num_processes = is_stored(data), processes.count()
    counts = options.counts or ("subsampled" if stored and num_processes == 1 else "memoised")
    if num_processes > 1 and counts != "memoised":
        raise ValueError(f"several processes can share memoised counts only, not {counts!r}")
    return counts


def _check_topics(data: Training, size: Size, options: Options) -> None:
    """Raise a ValueError for more topics than tokens, or seed words that fit neither."""
    if options.num_topics > size.tokens:
        raise ValueError(
            f"num_topics must be at most {size.tokens:,}, the number of tokens; it is "
            f"{options.num_topics:,}: give fewer topics"
        )
    if options.seed_words is not None:
        seeds.check(options.seed_words, options.num_topics, vocabulary_of(data))


def _length(
    size: Size,
    heldout: Heldout | None,
    options: Options,
    batch_size: int,
    sweeps: int,
    memoised: bool,
) -> session.Length:
    """Return the length of a run, its evaluations and its samples.

    Measured on two cores: drawing one of the numbers of the topics takes about as long as drawing
    the topic of a token, adding one to the moments half of that, and any evaluation or sample as
    long as `_CALL` tokens, for which a small corpus does not wait more than some passes.
    """
    per_pass = -(-size.documents // batch_size)
    numbers = options.num_topics * size.words
    update = size.tokens * sweeps / per_pass + numbers
    evaluation = float(numbers)  # of the likelihood, if nothing is held out
    if heldout is not None:
        observed, target = (float(checked_counts(half, "heldout").sum()) for half in heldout)
        evaluation = SWEEPS * observed + target + numbers
    call = session.interval(per_pass, _CALL / update)
    return session.length(
        per_pass,
        options,
        # Traces estimated from batches are too noisy to show how a chain mixes.
        default_passes=None if memoised else PASSES,
        eval_every=max(
            session.interval(per_pass, evaluation / update), min(call, _EVALUATED * per_pass)
        ),
        sample_every=max(
            session.interval(per_pass, numbers / 2 / update, _SAMPLED), min(call, per_pass)
        ),
    )


def _has_goal(options: Options, length: session.Length) -> bool:
    """Return whether a goal ends the run instead of a length."""
    if length.steps is None and length.seconds is None:
        return True
    check_goal(options, has_length=True)
    return False


def _chains(size: Size, shape: tuple[int, int], has_goal: bool) -> int:
    # By sizes only: the same command has the same chains on every machine.
    most = _WORK // (size.tokens + math.prod(shape))
    return next((chains for chains in (4, 2) if has_goal and chains <= most), 1)


def _check_step_size(options: Options) -> None:
    """Raise a ValueError for a step size that cannot be saved, or at which any chain diverges."""
    step_size = options.step_size
    if callable(step_size):
        raise ValueError("step_size must be a number or (A, TAU, KAPPA), not a function")
    first = step_size[0] if isinstance(step_size, tuple) else step_size
    limit = model.SAMPLERS[options.sampler].limit
    if first is not None and first >= limit:
        raise ValueError(
            f"step_size is {first}: {options.sampler} diverges at step sizes >= {limit:.3g}"
        )


def _seed_weight(options: Options, size: Size) -> float | None:
    if options.seed_words is None or options.seed_weight is not None:
        return options.seed_weight
    return max(1.0, round(_SEED_SHARE * size.tokens / options.num_topics))


def _devices(data: Training, size: Size, settings: Options) -> int | None:
    """Return the maximum number of devices of a process; None for all of them.

    On a CPU the native engine's threads share the work of one device; with more devices, each would
    draw all topics. More are needed only if one device cannot number all tokens.
    """
    on_cpu = jax.default_backend() == "cpu"
    threads = on_cpu and settings.engine == "native" and settings.local != "blocked"
    if not threads or settings.devices is not None:
        return settings.devices
    one_device = dataclasses.replace(settings, devices=1)
    if settings.counts != "memoised" or on_disk(data, one_device):
        return 1
    return max(1, -(-size.tokens // (MOST_TOKENS * processes.count())))


def _sharing(devices: int | None, batch_size: int, size: Size, memoised: bool) -> int:
    """Return the most devices per process that change no batch, and therefore no sample."""
    available, num_processes = len(jax.local_devices()), processes.count()
    most = available if devices is None else arguments.at_least("devices", devices, 1)
    if most > available:
        raise ValueError(f"devices must be at most {available}, the number available; it is {most}")
    if not memoised:
        return 1
    if batch_size == size.documents:
        return most
    even = [n for n in range(1, most + 1) if batch_size % (n * num_processes) == 0]
    if not even:
        raise ValueError(
            f"batch_size must be a multiple of {num_processes}, the number of processes; it is "
            f"{batch_size}"
        )
    return even[-1]


def on_disk(data: Training, settings: Any) -> bool:
    """Return whether tokens and labels go on disk, given settings with resolved devices.

    They do if they would fill more than half of the memory or are too many for a device to number.
    This needs a stored corpus, memoised counts, one device, one chain and a fixed alpha.
    """
    alone = settings.chains == settings.devices == processes.count() == 1
    learned = isinstance(settings.alpha, str)
    if not (is_stored(data) and settings.counts == "memoised" and alone) or learned:
        return False
    tokens = size_of(data).tokens
    needed = tokens * (4 + 2 * label_dtype(settings.num_topics).itemsize)
    return tokens > MOST_TOKENS or 2 * needed > devices.memory()
