"""Settled options of LDA: defaults that depend on the size of the data."""

import dataclasses
import math
from typing import Any, TypeAlias

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.corpus.device import MOST_TOKENS
from simplex_jax._src.models.lda import model, pages, seeds
from simplex_jax._src.models.lda.kernel import SAMPLERS, total_of
from simplex_jax._src.models.lda.local_step import IN_ONE_PLACE, check, check_memoised
from simplex_jax._src.models.lda.options import Options, check_goal, local_step, prior
from simplex_jax._src.models.topics.data import (
    Selection,
    Size,
    Training,
    check_heldout,
    is_stored,
    size_of,
    vocabulary_of,
)
from simplex_jax._src.models.topics.engine import resolve
from simplex_jax._src.models.topics.options import check_words
from simplex_jax._src.models.topics.perplexity import SWEEPS
from simplex_jax._src.runtime import processes, session

Heldout: TypeAlias = tuple[sp.csr_array, sp.csr_array]
"""Counts of the observed and of the target halves of held-out documents."""

TARGET_ESS = 100.0
PASSES = 200.0

_CALL = 100_000
_EVALUATED = 4  # passes between evaluations of a small corpus
_SAMPLED = 0.1  # most of the time of a run that samples take by default
_SEED_SHARE = 0.01  # of the tokens of an average topic, for a seed word
_MOST_COUNTED = 2**31 - 1
_ENTRIES = 1 << 24  # entries of a corpus on disk read at a time
_PAIR = 5_000_000  # tokens plus topic numbers for which two cores do 400 passes in a minute


def settle(data: Training, heldout: Heldout | None, options: Options) -> Options:
    """Return options with all defaults filled in; only the sizes of the data matter.

    Options that conflict with each other or with the data raise a ValueError that names them.
    """
    size = size_of(data)
    check_words(size)
    check_heldout(heldout, size.words)
    counts = _counts(data, options)
    _check_topics(data, size, options, counts)
    memoised, shape = counts == "memoised", (options.num_topics, size.words)
    default = model.default_batch_size(size.documents, size.tokens, shape)
    batch_size = model.check_batch_size(options.batch_size or default, size.documents)
    sweeps = options.sweeps or (1 if memoised else 10)
    burn_in = options.burn_in
    if burn_in is None:
        burn_in = 0 if memoised else sweeps // 2
    length = _length(size, heldout, options, batch_size, sweeps, memoised)
    target_ess = _goal(options, length)
    settings = dataclasses.replace(
        options,
        counts=counts,
        chains=options.chains or _chains(size, shape, target_ess),
        local=options.local or ("blocked" if options.expected else "collapsed"),
        engine=resolve(options.engine, options.num_topics),
    )
    settings = dataclasses.replace(
        settings,
        total=total_of(options.sampler, options.total),
        sweeps=sweeps,
        burn_in=burn_in,
        step_size=_step_size(options.step_size, options.sampler, counts, settings.local),
        seed_weight=_seed_weight(options, size),
        batch_size=batch_size,
        passes=None,
        target_ess=target_ess,
        **length._asdict(),
        devices=_sharing(_devices(data, size, settings), batch_size, size, memoised),
    )
    (check_memoised if memoised else check)(shape, local_step(settings))
    if settings.local == "integrated":
        model.check_integrated(options.sampler, counts, options.total, options.step_size)
        in_one_place = settings.devices == 1 and processes.count() == 1
        if not in_one_place or pages.on_disk(data, settings):
            raise ValueError(IN_ONE_PLACE)
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
    if stored and counts == "control-variate":
        raise ValueError(
            "a corpus on disk is sampled with counts='memoised' or 'subsampled', not "
            "'control-variate': give its counts as an array if they fit into memory"
        )
    if num_processes > 1 and counts != "memoised":
        raise ValueError(f"several processes can share memoised counts only, not {counts!r}")
    return counts


def _check_topics(data: Training, size: Size, options: Options, counts: str) -> None:
    """Raise a ValueError unless sampler, counts, concentrations and seed words are compatible.

    More topics than tokens raise one too: most topics would be empty.
    """
    if options.num_topics > size.tokens:
        raise ValueError(
            f"num_topics must be at most {size.tokens:,}, the number of tokens; it is "
            f"{options.num_topics:,}: give fewer topics"
        )
    _, learn_alpha = prior("alpha", options.alpha, options.num_topics)
    _, learn_beta = prior("beta", options.beta, size.words)
    seeded = options.seed_words is not None
    model.check_names(options.sampler, counts, learn_alpha, learn_beta, seeded=seeded)
    if seeded:
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
    evaluation = 0.0
    if heldout is not None:
        observed, target = (float(half.sum()) for half in heldout)
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


def _goal(options: Options, length: session.Length) -> float | None:
    """Return the effective sample size at which a run ends; None for a run with a length."""
    if length.steps is None and length.seconds is None:
        return TARGET_ESS if options.target_ess is None else options.target_ess
    check_goal(options, has_length=True)
    return None


def _chains(size: Size, shape: tuple[int, int], target_ess: float | None) -> int:
    few = size.tokens + math.prod(shape) <= _PAIR
    return 2 if target_ess is not None and few else 1


def _step_size(step_size: Any, sampler: str, counts: str, method: str | None) -> Any:
    if callable(step_size):
        raise ValueError("step_size must be a number or (A, TAU, KAPPA), not a function")
    if step_size is not None:
        first = step_size[0] if isinstance(step_size, tuple) else step_size
        if first >= (limit := SAMPLERS[sampler].limit):
            raise ValueError(
                f"step_size is {first}: {sampler} diverges at step sizes >= {limit:.3g}"
            )
        return step_size
    default = model.default_step(sampler, counts, method)
    return tuple(map(float, default)) if default.tau else default.initial


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
    if settings.counts != "memoised" or pages.on_disk(data, one_device):
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
