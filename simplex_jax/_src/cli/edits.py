"""The command that merges, drops, renames and reorders topics of a finished run."""

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from simplex_jax._src.cli import console, options, topic_files
from simplex_jax._src.cli.commands import load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.models import files
from simplex_jax._src.models.records import Model
from simplex_jax._src.models.topics import editing
from simplex_jax._src.models.topics.editing import Editable
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import saved


def edited(
    fitted: Editable,
    lines: Sequence[topic_files.Line],
    *,
    reorder: bool = False,
    corpus: Any = None,
    samples: Path | None = None,
) -> Editable:
    """Return a fit with the topics that lines merge, leave out and name."""
    kept = [line for line in lines if not line.dropped]
    of = {min(line.topics): tuple(sorted(line.topics)) for line in kept}
    given = {topic for line in lines for topic in line.topics}
    if len(given) == fitted.num_topics and not of:
        raise ValueError("drop: keep at least one topic")
    rest = {k: (k,) for k in range(fitted.num_topics) if k not in given}
    groups = [*of.values(), *rest.values()] if reorder else sorted([*of.values(), *rest.values()])
    names = {groups.index(tuple(sorted(line.topics))): line.name for line in kept if line.name}
    return editing.edited(fitted, groups, corpus=corpus, samples=samples).rename(names)


def following(model: Model) -> Callable[[Any, dict[str, Any], str], dict[str, str]]:
    """Return the commands about topics to name at the end of a run; see `Commands`."""

    def commands(fitted: Any, source: dict[str, Any], directory: str) -> dict[str, str]:
        run = shlex.quote(directory)
        return {
            "your names": f"simplex-jax {model.name} report {run} --topic-names FILE",
            "merge, drop": f"simplex-jax {model.name} edit {run} FILE",
        }

    return commands


def edit_command(
    model: Model,
    outcome: Callable[[Any], str],
    documents_of: Callable[[Path, Path | None, dict[str, Any]], Any] | None = None,
    complete: Callable[[Any, Any, Any, dict[str, Any], Path], Any] = lambda before, fit, *_: fit,
    lost: Callable[[Any, Any, str], Iterable[str]] = lambda before, after, run: (),
) -> click.Command:
    """Return the command that edits the topics of a run of a model.

    Args:
        model: The model.
        outcome: `fit -> lines` to print, see `Commands`.
        documents_of: `(run, INPUT, reading) -> (path, documents)` of a run, for merged topics.
        complete: `(fit before, fit, documents, source, samples) -> fit` with more results for the
            report.
        lost: `(fit before, fit, run) -> commands` for results that are to be computed again.
    """

    @click.command("edit")
    @click.argument("directory", type=options.PATH)
    @click.argument("file", type=options.PATH)
    @click.option(
        "--out", type=options.PATH, help="Folder of the new run.  [default: DIRECTORY-edited]"
    )
    @click.option(
        "--reorder",
        is_flag=True,
        help="Put the topics of FILE first, in the order of its lines, and the others after them.",
    )
    @click.option(
        "--documents", type=options.PATH, help="The documents of the run, if they have moved."
    )
    @click.option("--overwrite", is_flag=True, help="Replace the run in --out.")
    @options.common_options
    @one_line_errors
    def edit(
        directory: Path,
        file: Path,
        out: Path | None,
        reorder: bool,
        documents: Path | None,
        overwrite: bool,
        quiet: bool,
    ) -> None:
        """Merge, drop, name and reorder the topics of the run in DIRECTORY, without a new run.

        FILE has a line for each topic of the result that changes: its number and name, with a blank
        or a tab between them, or the numbers of topics to merge joined by +, as in 3+7 Farms; and
        drop 5 leaves a topic out. A .csv has these in columns topic and name. Numbers are those of
        the run in DIRECTORY, which stays as it is.

        The new run has the same files and commands. The results of a merged topic come exactly from
        the draws that the run kept (--keep-samples). The model does not change: topics left out
        still explain their words, so that prevalences and proportions sum to less than 1.
        """
        say, tell = (console.speaker(quiet, results=results) for results in (False, True))
        place = out or directory.absolute().with_name(f"{directory.absolute().name}-edited")
        if place.resolve() == directory.resolve():
            raise click.UsageError("--out must be another folder: the run stays as it is")
        directories.check(place, model.name, files.names_of(model), overwrite=overwrite)
        fitted, reading = load(model, directory)
        lines = topic_files.read(file, fitted.num_topics)
        config = saved.load_config(directory, model.name)
        samples, corpus, source = directory / directories.SAMPLES, None, config["source"]
        merged = any(len(line.topics) > 1 and not line.dropped for line in lines)
        if documents_of is not None and merged:
            try:
                path, corpus = documents_of(directory, documents, reading)
                # The new run has them where they are now.
                source |= {} if path is None else {"input": options.input_path(path)}
            except (OSError, ValueError) as error:
                say(
                    "without the documents merged topics have no coherence, and the report has no "
                    f"shares over time or correlations; give --documents: {error}"
                )
        result = edited(fitted, lines, reorder=reorder, corpus=corpus, samples=samples)
        if corpus is not None:
            result = complete(fitted, result, corpus, source, samples)
        shown = [options.shown(path) for path in (directory, file, place)]
        command = " ".join([f"simplex-jax {model.name} edit", *map(shlex.quote, shown[:2])])
        command += f" --out {shlex.quote(shown[2])}" + (" --reorder" if reorder else "")
        again = f"{fitted.again} && {command}" if fitted.again else command
        result = dataclasses.replace(result, again=again)
        config |= {"again": again, "edited": {"run": str(directory.absolute())}}
        files.save(model, result, place, overwrite=overwrite, config=config, samples=samples)
        tell(outcome(result))
        left_out = f", {counted(len(result.dropped), 'topic')} left out" if result.dropped else ""
        tell(f"{counted(result.num_topics, 'topic')}{left_out}")
        for line in lost(fitted, result, shown[2]):
            tell(line)
        tell(f"{'report:':12} {options.shown(place / files.REPORT)}")

    return edit
