"""The command that merges, drops, renames and reorders topics of a finished run."""

import dataclasses
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from simplex_jax._src.cli import console, options, topic_files
from simplex_jax._src.cli.commands import load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.models import files
from simplex_jax._src.models.lda import MODEL, Fit, editing
from simplex_jax._src.models.lda.regression import column_of
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import saved


def edited(
    fitted: Fit,
    lines: Sequence[topic_files.Line],
    *,
    reorder: bool = False,
    corpus: Any = None,
    samples: Path | None = None,
) -> Fit:
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


def edit_command(
    documents_of: Callable[[Path, Path | None, dict[str, Any]], Any],
    complete: Callable[[Fit, Any, dict[str, Any], Path], Fit],
    outcome: Callable[[Fit], str],
) -> click.Command:
    """Return the command, given how the documents of a run are read and its fit is completed."""

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
        place = out or directory.with_name(f"{directory.absolute().name}-edited")
        if place.absolute() == directory.absolute():
            raise click.UsageError("--out must be another folder: the run stays as it is")
        directories.check(place, MODEL.name, files.names_of(MODEL), overwrite=overwrite)
        fitted, reading = load(MODEL, directory)
        lines = topic_files.read(file, fitted.num_topics)
        config = saved.load_config(directory, MODEL.name)
        samples, corpus = directory / directories.SAMPLES, None
        if any(len(line.topics) > 1 and not line.dropped for line in lines):
            try:
                _, corpus = documents_of(directory, documents, reading)
            except (OSError, ValueError) as error:
                say(
                    "without the documents merged topics have no coherence, and there are no "
                    f"shares over time or correlations; give --documents: {error}"
                )
        result = edited(fitted, lines, reorder=reorder, corpus=corpus, samples=samples)
        if corpus is not None and (fitted.effects or fitted.correlations):
            result = complete(result, corpus, config["source"], samples)
        shown = [options.shown(path) for path in (directory, file, place)]
        command = " ".join(["simplex-jax lda edit", *map(shlex.quote, shown[:2])])
        command += f" --out {shlex.quote(shown[2])}" + (" --reorder" if reorder else "")
        again = f"{fitted.again} && {command}" if fitted.again else command
        result = dataclasses.replace(result, again=again)
        config |= {"again": again, "edited": {"run": str(directory.absolute())}}
        files.save(MODEL, result, place, overwrite=overwrite, config=config, samples=samples)
        tell(outcome(result))
        left_out = f", {counted(len(result.dropped), 'topic')} left out" if result.dropped else ""
        tell(f"{counted(result.num_topics, 'topic')}{left_out}")
        kept = set(map(column_of, result.effects))
        for column in dict.fromkeys(map(column_of, fitted.effects)):
            if column not in kept:
                asked = f"--model {shlex.quote(shown[2])} --by {shlex.quote(column)}"
                tell(f"{'by group:':12} simplex-jax lda effects {asked}")
        tell(f"{'report:':12} {options.shown(place / files.REPORT)}")

    return edit
