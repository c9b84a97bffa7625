"""What the commands say on the terminal."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence

import click
import jax
import numpy as np

from simplex_jax import topics
from simplex_jax.cli.jobs import Data
from simplex_jax.corpus import Corpus
from simplex_jax.corpus.stopwords import Suggestion
from simplex_jax.evaluate.coherence import top_words

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def speaker(quiet: bool) -> Callable[[str], None]:
    """Return what prints lines to standard error, or nothing if a command is to be quiet."""
    return (lambda line: None) if quiet else functools.partial(click.echo, err=True)


def run(data: Data, settings: topics.Settings) -> str:
    """Say what is about to happen, in two lines."""
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    devices = f"{settings.devices} devices of " if settings.devices > 1 else ""
    words = len(data.documents.vocabulary)
    return (
        f"{len(data.documents.names):,} documents ({data.held:,} held out), "
        f"{int(data.documents.counts.sum()):,} tokens, {words:,} words\n"
        f"{settings.num_topics} topics by {settings.sampler} with {settings.counts} counts{chains},"
        f" alpha {_prior(settings.alpha, settings.learn_alpha, settings.num_topics, 'topic')}, "
        f"beta {_prior(settings.beta, settings.learn_beta, words, 'word')}, "
        f"{settings.batch_size:,} documents a batch, seed {settings.seed}, "
        f"jax {jax.__version__} on {devices}{jax.devices()[0].device_kind}"
    )


def _prior(value: float | tuple[float, ...], learned: str | None, count: int, unit: str) -> str:
    numbers = np.broadcast_to(np.asarray(value, float), count)
    shown = f"{numbers[0]:g} per {unit} (sum {numbers.sum():g})"
    if learned:
        what = f"one of each {unit}" if learned == "vector" else f"one common to all {unit}s"
        return f"learned, {what}, from {shown}"
    return shown


def stop_words(found: Sequence[Suggestion]) -> str:
    """Name the words that tell documents apart least."""
    shown = ", ".join(f"{entry.word} ({100 * entry.share:.0f} %)" for entry in found)
    return f"words that tell documents apart least: {shown}; leave them out with --drop-words FILE"


def memory(needed: Mapping[str, int]) -> str:
    """Say what a run will need of the device's memory, and how much there is, a line each."""
    total, room = needed["total"], _room()
    parts = [(name, count) for name, count in needed.items() if name != "total"]
    lines = [f"{name:10} {size(count):>12}" for name, count in parts]
    lines.append(f"{'in all':10} {size(total):>12}  of {size(room)} on this device")
    if total > room:
        lines.append(
            "it does not fit: give fewer --topics, --chains or a smaller --batch-size, or store "
            "the corpus (simplex-jax lda store) and --stream it"
        )
    return "\n".join(lines)


def _room() -> int:
    """Bytes of the device; on a CPU those of the machine."""
    found = jax.devices()[0].memory_stats() or {}
    return found.get("bytes_limit") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def size(count: int) -> str:
    """Return a number of bytes in the unit that suits it.

    Example:
        >>> size(3 * 2**20)
        '3.0 MiB'
    """
    power = min((max(count, 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count / 2 ** (10 * power):.{min(power, 1)}f} {_UNITS[power]}"


def keys(fitted: topics.Fit, corpus: Corpus) -> str:
    """Describe the topics, a line each, the most prevalent first."""
    words = top_words(fitted.mean, 10)
    return "\n".join(
        f"{topic:4d} {100 * fitted.prevalence[topic]:5.1f} %  "
        + " ".join(corpus.vocabulary[word] for word in words[topic])
        for topic in np.argsort(-fitted.prevalence, kind="stable")
    )
