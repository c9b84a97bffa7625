"""The command line, `simplex-jax`."""

import dataclasses
import functools
import importlib.metadata
import itertools
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import jax
import numpy as np
from click.core import ParameterSource
from jax.errors import JaxRuntimeError

import simplex_jax
from simplex_jax import corpus as corpora
from simplex_jax import topics
from simplex_jax.corpus import Corpus, TextOptions
from simplex_jax.evaluate import checks, report
from simplex_jax.models import lda as model
from simplex_jax.models import local
from simplex_jax.runtime import output
from simplex_jax.runtime.hooks import MetricsLog, Progress

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")
_FILES = (
    "config.json",
    "metrics.jsonl",
    "topics.csv",
    "topics.npz",
    "doc_topics.npz",
    "vocabulary.txt",
    "report.html",
)
_TOP_WORDS = 20
# Options about reading an input, which the embedded corpus is not.

_READING_OPTIONS = (
    "vocab",
    "format_name",
    "encoding",
    "stop_words",
    "min_df",
    "max_df",
    "max_vocabulary",
)
_FEW_SAMPLES = 10
_POSITIVE = click.FloatRange(0, min_open=True)


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the errors of a run into one line and exit status 1; --debug shows the traceback."""

    @functools.wraps(command)
    def guarded(*args: Any, debug: bool, **options: Any) -> None:
        try:
            command(*args, **options)
        except (ValueError, OSError, ArithmeticError, MemoryError, JaxRuntimeError) as error:
            if debug:
                raise
            message = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message:
                message = (
                    f"out of memory: give a smaller --batch-size or --topics ({message[:200]})"
                )
            click.echo(f"simplex-jax: error: {message}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("simplex-jax: interrupted before the results were written", err=True)
            sys.exit(130)

    return guarded


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(simplex_jax.__version__, prog_name="simplex-jax")
def main() -> None:
    """Sample models of the probability simplex."""


@main.command()
@click.argument("input", required=False, type=click.Path(path_type=Path))
@click.option(
    "--topics", "num_topics", default=30, type=click.IntRange(1), help="Number of topics."
)
@click.option("--sampler", default="scir", type=click.Choice(model.SAMPLERS))
@click.option(
    "--counts",
    default="memoised",
    type=click.Choice(model.COUNTS),
    help="memoised keeps the topics of all tokens and is exact with scir; the others estimate.",
)
@click.option(
    "--local",
    "local_step",
    type=click.Choice(sorted(local.SWEEPS)),
    help="How the topics of tokens are drawn.  [default: collapsed]",
)
@click.option(
    "--alpha", default=0.1, type=_POSITIVE, help="Concentration of topic shares, per topic."
)
@click.option("--beta", default=0.05, type=_POSITIVE, help="Concentration of words, per word.")
@click.option("--step-size", type=_POSITIVE, help="A constant.  [default: set by the sampler]")
@click.option("--batch-size", type=click.IntRange(1), help="In documents.  [default: by size]")
@click.option(
    "--sweeps",
    type=click.IntRange(1),
    help="Gibbs sweeps over a batch.  [default: 1 if memoised, else 10]",
)
@click.option("--passes", type=_POSITIVE, help="Length in passes over the corpus.  [default: 200]")
@click.option("--steps", type=click.IntRange(1), help="Length in updates.")
@click.option("--seconds", type=_POSITIVE, help="Length in seconds of training.")
@click.option(
    "--holdout",
    type=click.IntRange(0),
    help="Documents kept for perplexity.  [default: a tenth, at most 1000]",
)
@click.option(
    "--eval-every",
    type=click.IntRange(1),
    help="Updates between evaluations and posterior samples.  [default: a 50th of the run]",
)
@click.option("--seed", default=0, type=click.IntRange(0, 2**32 - 1), help="Of all randomness.")
@click.option("--vocab", type=click.Path(path_type=Path), help="File with one word a line.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(sorted(corpora.FORMATS)),
    help="[default: recognised]",
)
@click.option("--encoding", default="utf-8", help="Of texts.")
@click.option("--stop-words", default="english", help="english, none, or a file (texts).")
@click.option(
    "--min-df", default=5, type=click.IntRange(1), help="Documents a word must be in (texts)."
)
@click.option(
    "--max-df",
    default=0.5,
    type=click.FloatRange(0, 1, min_open=True),
    help="Largest share of documents a word may be in (texts).",
)
@click.option(
    "--max-vocabulary", default=30_000, type=click.IntRange(1), help="Words to keep (texts)."
)
@click.option("--out", type=click.Path(path_type=Path), help="[default: a new simplex-jax-lda*]")
@click.option("--overwrite", is_flag=True, help="Replace the run in --out.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@one_line_errors
def lda(
    input: Path | None,
    vocab: Path | None,
    format_name: str | None,
    encoding: str,
    stop_words: str,
    min_df: int,
    max_df: float,
    max_vocabulary: int,
    holdout: int | None,
    out: Path | None,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Find topics in INPUT and write them, with their uncertainty, to a directory.

    INPUT is a folder of texts, a file with one document a line, UCI bag-of-words (docword) or a
    SciPy sparse matrix (.npz). Without it, topics of the documentation of the installed Python
    packages are found. --alpha and --beta are per topic and per word, not sums.
    """
    lengths = [name for name in ("passes", "steps", "seconds") if options[name] is not None]
    if len(lengths) > 1:
        raise click.UsageError(f"give one of --{' and --'.join(lengths)}")
    given = _given(_READING_OPTIONS)
    if input is None and given:
        raise click.UsageError(f"{given[0]} is about reading an INPUT, and there is none")
    if out is not None:
        output.check(out, overwrite=overwrite)
    say = (lambda _: None) if quiet else functools.partial(click.echo, err=True)

    say(f"reading {input or 'the documentation of the installed Python packages'} ...")
    if input is None:
        data = corpora.embedded_corpus()
        reading: dict[str, Any] = {}
    else:
        limits = TextOptions(
            stop_words=stop_words, min_df=min_df, max_df=max_df, max_vocabulary=max_vocabulary
        )
        reading = {"format": format_name, "vocab": vocab and str(vocab), "encoding": encoding}
        reading |= dataclasses.asdict(limits)
        data = corpora.read(input, format_name, vocab, limits, encoding)
    seed = options["seed"]
    held = min(1000, len(data.names) // 10) if holdout is None else holdout
    train, heldout = _hold_out(data, held, seed)
    if held and heldout is None:
        if holdout is not None:
            raise ValueError(f"--holdout {held} documents have no second token: hold out more")
        held = 0
        say("the documents are too short to hold some out: there will be no perplexity")
    settings = topics.resolve(train.counts, **_fit_options(options))
    say(_described(data, held, settings))
    directory = output.prepare(out or _free_directory(), _FILES, overwrite=overwrite)

    described = {
        "input": str(input) if input else "documentation of the installed Python packages",
        "documents": len(data.names),
        "held_out": held,
        "tokens": int(data.counts.sum()),
        "vocabulary": len(data.vocabulary),
        "digest": corpora.digest(data),
    }
    output.write_json(
        directory / "config.json",
        {
            "settings": settings._asdict(),
            "reading": reading,
            "corpus": described,
            "versions": _versions(),
        },
    )
    hooks: list[Any] = [MetricsLog(directory / "metrics.jsonl")]
    if not quiet:
        hooks.append(Progress(["perplexity", "tokens_per_second"], max_seconds=settings.seconds))
        say("compiling ...")
    fitted = topics.fit(
        train, heldout=heldout, documents=data, hooks=hooks, **_fit_options(options)
    )
    warnings = _warnings(data, fitted)
    _write(directory, data, fitted, described, warnings)
    say(_keys(fitted, data.vocabulary))
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"written to {directory}; open {directory / 'report.html'}")


def _fit_options(options: dict[str, Any]) -> dict[str, Any]:
    renamed = {"counts": "counts_estimate", "local_step": "local"}
    return {renamed.get(name, name): value for name, value in options.items()}


def _hold_out(data: Corpus, held: int, seed: int) -> tuple[Corpus, Any]:
    """Split held-out documents off, and their tokens in two; None where that leaves no target."""
    if held == 0:
        return data, None
    if held >= len(data.names):
        raise ValueError(f"--holdout {held} leaves none of the {len(data.names)} documents")
    train, heldout = corpora.holdout(data, held, seed)
    halves = corpora.split_tokens(heldout.counts, seed)
    return (train, halves) if halves[1].nnz else (data, None)


def _described(data: Corpus, held: int, settings: topics.Settings) -> str:
    """Say what is about to happen, in two lines."""
    device = jax.devices()[0]
    return (
        f"{len(data.names):,} documents ({held:,} held out), {int(data.counts.sum()):,} tokens, "
        f"{len(data.vocabulary):,} words\n"
        f"{settings.num_topics} topics by {settings.sampler} with {settings.counts} counts, "
        f"alpha {settings.alpha:g} per topic (sum {settings.alpha * settings.num_topics:g}), "
        f"beta {settings.beta:g} per word (sum {settings.beta * len(data.vocabulary):g}), "
        f"{settings.batch_size:,} documents a batch, seed {settings.seed}, "
        f"jax {jax.__version__} on {device.device_kind}"
    )


def _free_directory() -> Path:
    names = itertools.chain(
        ["simplex-jax-lda"], (f"simplex-jax-lda-{i}" for i in itertools.count(2))
    )
    return next(path for path in map(Path, names) if not path.exists())


def _versions() -> dict[str, str]:
    versions = {"simplex_jax": simplex_jax.__version__, "python": platform.python_version()}
    return versions | {name: importlib.metadata.version(name) for name in _PACKAGES}


def _given(names: tuple[str, ...]) -> list[str]:
    """Return those of the options that were given on the command line, as typed."""
    context = click.get_current_context()
    flags = {option.name: option.opts[0] for option in context.command.params}
    return [
        flags[name]
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]


def _warnings(data: Corpus, fitted: topics.Fit) -> list[str]:
    found = checks.topic_warnings(fitted.metrics, fitted.mean, fitted.prevalence)
    if fitted.samples < _FEW_SAMPLES:
        found.append(
            f"The means and deviations are of {fitted.samples} posterior samples only: "
            "a longer run or a smaller --eval-every gives more."
        )
    stiffness = fitted.metrics[-1].get("stiffness", 0.0)
    if stiffness > 2:
        found.append(
            f"The steps of SMLD were beyond its stability (stiffness {stiffness:.0f}, at most 2): "
            "the topics are no posterior samples. Steps short enough mix slowly; scir has no limit."
        )
    if empty := int((np.diff(data.counts.indptr) == 0).sum()):
        found.append(f"{empty} documents have no word of the vocabulary.")
    return found


def _write(
    directory: Path,
    data: Corpus,
    fitted: topics.Fit,
    described: dict[str, Any],
    warnings: list[str],
) -> None:
    vocabulary = data.vocabulary
    output.write_npz(directory / "topics.npz", {"mean": fitted.mean, "sd": fitted.sd})
    output.write_npz(
        directory / "doc_topics.npz",
        {"proportions": fitted.proportions, "documents": np.asarray(data.names)},
    )
    output.write_text(directory / "vocabulary.txt", "".join(f"{word}\n" for word in vocabulary))
    output.write_csv(
        directory / "topics.csv",
        ["topic", "rank", "word", "probability"],
        (
            [topic, rank, vocabulary[word], f"{row[word]:.6g}"]
            for topic, row in enumerate(fitted.mean)
            for rank, word in enumerate(_top(row, _TOP_WORDS), start=1)
        ),
    )
    report.write(
        directory / "report.html",
        settings=fitted.settings._asdict() | {"posterior_samples": fitted.samples},
        corpus=described,
        versions=_versions(),
        metrics=fitted.metrics,
        topics=report.Topics(fitted.mean, fitted.sd, vocabulary, fitted.prevalence),
        warnings=warnings,
    )


def _top(row: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(-row, kind="stable")[:count]


def _keys(fitted: topics.Fit, vocabulary: tuple[str, ...]) -> str:
    """Describe the topics, a line each, the most prevalent first."""
    return "\n".join(
        f"{topic:4d} {100 * fitted.prevalence[topic]:5.1f} %  "
        + " ".join(vocabulary[word] for word in _top(fitted.mean[topic], 10))
        for topic in np.argsort(-fitted.prevalence)
    )
