"""The commands of the hierarchical Dirichlet process."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from simplex_jax._src import corpus as corpora
from simplex_jax._src.cli import console, counts, edits, options
from simplex_jax._src.cli.commands import Commands, load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.corpus import Corpus
from simplex_jax._src.models.hdp import MODEL, Fit
from simplex_jax._src.models.hdp.fitting import numbers_by_chain
from simplex_jax._src.models.records import Plan
from simplex_jax._src.models.topics import engine, evaluation
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import output


def _read(input: Path | None, reading: dict[str, Any]) -> Corpus:
    return corpora.embedded_corpus() if input is None else counts.read(input, reading)


def _announce(plan: Plan) -> str:
    settings = plan.settings
    starts = settings.starts()
    first = f"{starts[0]} to " if starts[0] < starts[-1] else ""
    initial = first + counted(starts[-1], "topic")
    chains = f" in {settings.chains} chains" if settings.chains > 1 else ""
    priors = [
        f"{name} {'learned' if value == 'learn' else f'{value:g}'}"
        for name, value in (("alpha", settings.alpha), ("gamma", settings.gamma))
    ]
    return (
        f"{counts.describe_plan(plan)}\n"
        f"hierarchical Dirichlet process{chains}, from {initial}, "
        f"{', '.join(priors)}, beta {settings.beta:g}, seed {settings.seed}, {console.machine()}, "
        f"{engine.described(settings.engine)}"
    )


def _outcome(fitted: Fit) -> str:
    """Describe the topics, one line each, the most prevalent first."""
    lines = fitted.lines()
    learned = ", ".join(
        f"{name} {mean:.3g}" + (f" (sd {sd:.2g})" if sd else "")
        for name, mean, sd in (
            ("alpha", fitted.alpha, fitted.alpha_sd),
            ("gamma", fitted.gamma, fitted.gamma_sd),
        )
    )
    lines.append(f"topics in a sample: {numbers_by_chain(fitted)}; {learned}")
    return "\n".join(lines)


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@options.seed_option
@options.compose(*counts.FILE_OPTIONS.values())
@options.common_options
@one_line_errors
def evaluate(input: Path, model: Path, seed: int, quiet: bool, **reading: Any) -> None:
    """Print how well the topics of a run predict documents, as JSON.

    The tokens of each document are split at random into two halves. Topic proportions are inferred
    from one half given all topics of each kept sample, reported or not; `perplexity` is exp of the
    mean negative log-probability of the tokens of the other half, averaged over the samples. Tokens
    of unknown words are ignored. Coherences are those of the ten top words in these documents.
    """
    fitted, earlier = load(MODEL, model)
    mapped = counts.read_as(fitted.vocabulary, earlier, input, reading)
    console.speaker(quiet)(counts.describe_coverage(mapped))
    halves = corpora.split_tokens(mapped.corpus.counts, seed)
    measured = evaluation.measure_completion(fitted, *halves, seed=seed) | {
        "unknown_tokens": mapped.unknown
    }
    click.echo(json.dumps(output.plain(measured), indent=2))


COMMANDS = Commands(
    model=MODEL,
    help="Find topics in INPUT, and their number.\n\n" + counts.INPUT,
    reading=counts.READING,
    file_reading=counts.FILE_OPTIONS,
    read=_read,
    resolve_reading=counts.resolved,
    other=counts.read_other,
    shown=("perplexity", "topics", "tokens_per_second"),
    announce=_announce,
    outcome=_outcome,
    transform=counts.transform_command(
        "hdp",
        error="standard error of each document's most uncertain proportion over the kept samples",
        rest=True,
    ),
    evaluate=evaluate,
    named="until it goes on, which numbers topics anew",
    following=edits.following(MODEL),
    more=(edits.edit_command(MODEL, _outcome, partial(counts.documents_of, MODEL, _read)),),
)
