"""The commands of LDA."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, options, topics
from simplex_jax._src.cli.commands import Commands, load
from simplex_jax._src.cli.errors import one_line_errors
from simplex_jax._src.corpus import stopwords
from simplex_jax._src.corpus.store import Stored
from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.coherence import top_words
from simplex_jax._src.models.lda import MODEL, Fit, memory, pages, seeds
from simplex_jax._src.models.lda.commands import inputs
from simplex_jax._src.models.lda.commands.effects import effects
from simplex_jax._src.models.lda.options import prior
from simplex_jax._src.models.lda.probability import left_to_right
from simplex_jax._src.models.pipeline import Progress
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import data, engine, listing
from simplex_jax._src.models.topics.measures import completed, quality, windowed
from simplex_jax._src.models.topics.proportions import shards
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import output, processes


def _announce(plan: Plan) -> str:
    size, settings = data.size_of(plan.data), plan.settings
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    alpha = _prior("alpha", settings.alpha, settings.num_topics, "topic")
    beta = _prior("beta", settings.beta, size.words, "word")
    lines = [
        topics.described(plan),
        f"{counted(settings.num_topics, 'topic')} by {settings.sampler} with {settings.counts} "
        f"counts{chains}, alpha {alpha}, beta {beta}, "
        f"{counted(settings.batch_size, 'document')} a batch, "
        f"seed {settings.seed}, {console.machine(settings.devices)}, "
        f"{engine.described(settings.engine, settings.local)}",
    ]
    if settings.seed_words is not None:
        words = data.vocabulary_of(plan.data)
        names = seeds.names(settings.seed_words, settings.num_topics, words)
        named = ", ".join(f"{k} {name}" for k, name in enumerate(names) if name)
        lines.append(f"{settings.seed_weight:g} pseudo-counts for each seed word of topics {named}")
    if pages.on_disk(plan.train, settings):
        lines.append(pages.described(data.size_of(plan.train).tokens, settings.num_topics))
    if least := stopwords.suggest(data.in_memory(plan.data), 10):
        shown = ", ".join(f"{entry.word} ({100 * entry.share:.0f}%)" for entry in least)
        lines.append(f"least informative words: {shown}; leave them out with --drop-words FILE")
    return "\n".join(lines)


def _prior(name: str, value: Any, count: int, unit: str) -> str:
    initial, learned = prior(name, value, count)
    numbers = np.broadcast_to(np.asarray(initial, float), count)
    shown = f"{numbers[0]:g} per {unit} (sum {numbers.sum():g})"
    if learned:
        each = learned == "learn-asymmetric"
        what = f"one of each {unit}" if each else f"one common to all {unit}s"
        return f"learned, {what}, from {shown}"
    return shown


def _outcome(fitted: Fit) -> str:
    """Describe each topic in a line, the most prevalent first."""
    words = top_words(fitted.topics, 10)
    names = seeds.names(fitted.settings.seed_words, len(words), fitted.vocabulary)
    described = [
        (f"[{name}] " if name else "") + " ".join(fitted.vocabulary[word] for word in leading)
        for name, leading in zip(names, words, strict=True)
    ]
    lines = listing.listed(fitted.prevalence, described)
    if not len(fitted.proportions):
        lines.append("topic shares of documents: simplex-jax lda transform --model RUN INPUT")
    return "\n".join(lines)


# INPUT, --observed, --target
_GIVEN = ([True, False, False], [False, True, True])


@click.command()
@click.argument("input", required=False, type=options.PATH)
@options.model_option
@click.option("--observed", type=options.PATH, help="Part of each document that is known.")
@click.option("--target", type=options.PATH, help="Part of the same documents to predict.")
@click.option(
    "--method",
    default="completion",
    type=click.Choice(["completion", "left-to-right"]),
    help="Predict the second half of a document from the first, or all of it from left to right.",
    show_default=True,
)
@click.option(
    "--particles",
    default=256,
    type=click.IntRange(8),
    help="Particles a document for --method left-to-right, rounded up to a multiple of eight; more "
    "reduce the error.",
    show_default=True,
)
@click.option(
    "--moves",
    default=8,
    type=click.IntRange(0),
    help="Labels that --method left-to-right draws again before each token; more reduce the error.",
    show_default=True,
)
@click.option(
    "--windows",
    is_flag=True,
    help="Also compute coherences over sliding windows of the texts of INPUT, by gensim (pip "
    "install 'simplex-jax[coherence]').",
)
@options.seed_option
@options.together(*counts.FILE_OPTIONS.values())
@options.common_options
@one_line_errors
def evaluate(
    input: Path | None,
    model: Path,
    observed: Path | None,
    target: Path | None,
    method: str,
    particles: int,
    moves: int,
    windows: bool,
    seed: int,
    quiet: bool,
    **reading: Any,
) -> None:
    """Print how well the topics of a run predict other documents, as JSON.

    Give either the two parts of the documents as --observed and --target, or whole documents as
    INPUT, whose tokens are split at random in two halves. The topic shares of a document are
    inferred from the observed part given the mean topics; `perplexity` is exp of the mean negative
    log-probability of the target tokens. Tokens of words that the model does not know are left out.
    Coherences are computed from the ten top words in these documents.

    With --windows, `coherence_in_windows` has C_V and C_NPMI, which count words as co-occurring
    within 110 or 10 successive words of a text, including stop words.

    With --method left-to-right, the perplexity is that of whole documents, each token given those
    before it, with its standard error, which includes the bias that may be left (Wallach et al.
    2009; particles are resampled, which makes the probability unbiased).
    """
    if [path is not None for path in (input, observed, target)] not in _GIVEN:
        raise click.UsageError("give either INPUT, or both --observed and --target")
    is_left_to_right, typed = method == "left-to-right", options.typed(("particles", "moves"))
    if is_left_to_right and input is None:
        raise click.UsageError("--method left-to-right takes whole documents: give INPUT")
    if typed and not is_left_to_right:
        raise click.UsageError(f"{next(iter(typed.values()))} requires --method left-to-right")
    if windows and input is None:
        raise click.UsageError("--windows requires INPUT")
    say = console.speaker(quiet)
    fitted, earlier = load(MODEL, model)
    more = windowed(fitted, counts.words(earlier, input, reading)) if windows and input else {}
    if input is not None:
        mapped = counts.read_as(fitted.vocabulary, earlier, input, reading)
        say(counts.described(mapped))
        if is_left_to_right:
            documents = mapped.corpus.counts
            measures = _probability(fitted, documents, seed, particles=particles, moves=moves)
            measures |= more | {"unknown_tokens": mapped.unknown}
            click.echo(json.dumps(output.plain(measures), indent=2))
            return
        parts = corpora.split_tokens(mapped.corpus.counts, seed)
        more |= {"unknown_tokens": mapped.unknown}
    else:
        sides = [
            counts.read_as(fitted.vocabulary, earlier, path, reading)
            for path in (observed, target)
            if path
        ]
        for name, side in zip(("observed", "target"), sides, strict=True):
            say(f"{name}: {counts.described(side)}")
        one, other = (side.corpus for side in sides)
        _check_order(one.names, other.names)
        parts = one.counts, other.counts
        more = {"unknown_tokens": sides[0].unknown, "unknown_target_tokens": sides[1].unknown}
    click.echo(json.dumps(output.plain(completed(fitted, *parts, seed=seed) | more), indent=2))


def _check_order(observed: Sequence[str], target: Sequence[str]) -> None:
    """Raise a ValueError if two parts have documents of the same names in different orders."""
    # The names of two parts may differ, as in one folder for each.
    if len(observed) != len(target) or set(observed) != set(target):
        return
    for row, (one, other) in enumerate(zip(observed, target, strict=True), start=1):
        if one != other:
            raise ValueError(
                f"document {row} is {one!r} in --observed and {other!r} in --target: give two "
                "parts of the same documents, in the same order"
            )


def _probability(fitted: Fit, documents: sp.csr_array, seed: int, **cost: int) -> dict[str, Any]:
    likelihood = left_to_right(fitted.topics, fitted.alpha, documents, seed=seed, **cost)
    lengths = documents.sum(axis=1)
    value, error = likelihood.perplexity(lengths)
    return {
        "perplexity": value,
        "perplexity_error": error,
        "documents": documents.shape[0],
        "tokens": int(lengths.sum()),
        **quality(fitted, documents),
    }


@click.command("store")
@click.argument("input", type=options.PATH)
@click.argument("directory", type=options.PATH)
@options.together(*counts.READING.values())
@options.common_options
@one_line_errors
def store_command(input: Path, directory: Path, quiet: bool, **reading: Any) -> None:
    """Write INPUT to DIRECTORY as a corpus that can be read batch by batch.

    DIRECTORY is then an INPUT like any other; with --stream, only batches of it are in memory.
    Bag-of-words files (uci, ldac) are never loaded whole.
    """
    stored = counts.convert(input, directory, reading)
    console.speaker(quiet, results=True)(
        f"{counted(stored.documents, 'document')}, {counted(stored.tokens, 'token')}, "
        f"{counted(len(stored.vocabulary), 'word')} written to {directory}"
    )


def _share(fitted: Fit, plan: Plan, directory: Path, progress: Progress) -> None:
    """Write the shares of this process's documents, if no process reads all documents."""
    if not (processes.joined() and isinstance(plan.data, Stored)):
        return
    numbers, number = processes.share(plan.data.documents), processes.number()
    folder = directory / directories.SHARES
    folder.mkdir(exist_ok=True)
    rows = plan.data.rows(numbers.start, numbers.stop)
    settings = fitted.settings
    inferred = shards(
        fitted.topics,
        fitted.alpha,
        rows,
        seed=settings.seed,
        share_error=settings.share_error,
        engine=settings.engine,
    )

    def parts() -> Iterator[directories.Part]:
        for part in inferred:
            yield part.proportions, part.error
            progress("shares of documents", part.first + len(part.error), len(numbers))

    path = folder / f"part-{number:05d}-of-{processes.count():05d}.npz"
    names = plan.data.names[numbers.start : numbers.stop]
    directories.write_proportions(path, names, len(fitted.alpha), parts())


COMMANDS = Commands(
    model=MODEL,
    help="Find topics in INPUT and write them, with their uncertainty, to a directory.\n\n"
    + topics.INPUT,
    reading={"stream": inputs.STREAM, **counts.READING},
    file_reading=counts.FILE_OPTIONS,
    check_reading=inputs.check_reading,
    read=inputs.read,
    resolve_reading=inputs.resolve,
    other=topics.other,
    shown=("perplexity", "tokens_per_second"),
    goal=("target_ess", "time_limit"),
    target=lambda settings: settings.target_ess,
    devices=lambda settings: settings.devices,
    similarity=matching.affinity,
    announce=_announce,
    outcome=_outcome,
    transform=topics.transform("lda"),
    evaluate=evaluate,
    more=(effects, store_command),
    memory=lambda plan: memory.estimate(plan.train, plan.settings, heldout=plan.heldout),
    remedy="give fewer --topics, --chains or a smaller --batch-size, or store the corpus "
    "(simplex-jax lda store) and --stream it",
    share=_share,
)
