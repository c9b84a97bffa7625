"""The commands of a model: fit, transform, report, evaluate and the model's own."""

from pathlib import Path
from typing import Any

import click

from simplex_jax._src.cli import console, options
from simplex_jax._src.cli.commands import Commands, load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.cli.verbs import fit_command
from simplex_jax._src.models import files


def members(commands: Commands) -> dict[str, click.Command]:
    """Return all commands of a model by name."""
    makers = (fit_command, _transform_command, _report_command)
    everything = [*(make(commands) for make in makers), commands.evaluate, *commands.more]
    return {command.name or "": command for command in everything}


def _transform_command(commands: Commands) -> click.Command:
    transform = commands.transform
    kind = Path(transform.ending).suffix
    help = f"File to write ({kind}).  [default: INPUT's name.{transform.ending}]"
    additional = [options.seed_option] if transform.random else []
    if transform.every:
        additional.insert(0, click.option("--all", "every", is_flag=True, help=transform.every))

    @click.command("transform", help=transform.help)
    @click.argument("input", type=options.PATH)
    @options.model_option
    @click.option("--out", type=options.PATH, help=help)
    @click.option("--overwrite", is_flag=True, help="Replace the file.")
    @options.compose(*additional)
    @options.compose(*commands.file_reading.values())
    @options.common_options
    @one_line_errors
    def run(
        input: Path,
        model: Path,
        out: Path | None,
        overwrite: bool,
        quiet: bool,
        seed: int = 0,
        every: bool = False,
        **reading: Any,
    ) -> None:
        say = console.speaker(quiet)
        if transform.every and out is not None and out.suffix == ".npz":
            raise click.UsageError(
                f"--out {out} is for a table: give {out.with_suffix('.csv')}; the .npz of --all is "
                "written beside it"
            )
        target = options.target(out, input, transform.ending, overwrite)
        if every:
            options.target(target.with_suffix(".npz"), input, "", overwrite)
        fitted, model_reading = load(commands.model, model)
        other = commands.other(fitted, input, reading, model_reading)
        say(other.coverage)
        written = transform.write(fitted, other, target, seed, every, console.Stages(quiet))
        tell = console.speaker(quiet, results=True)
        tell(f"written to {' and '.join(map(str, written))}")

    return run


def _report_command(commands: Commands) -> click.Command:
    page = commands.model.files.report

    @click.command("report")
    @click.argument("directory", type=options.PATH)
    @click.option(
        f"--top-{page.items}",
        "top",
        default=page.most,
        type=click.IntRange(1),
        help=f"Number of {page.items} to describe each.",
    )
    @click.option(
        "--out", type=options.PATH, help="File to write.  [default: DIRECTORY/report.html]"
    )
    @click.option("--overwrite", is_flag=True, help="Replace the file in --out.")
    @options.common_options
    @one_line_errors
    def report(directory: Path, top: int, out: Path | None, overwrite: bool, quiet: bool) -> None:
        """Write the report of the run in DIRECTORY again.

        It is a single HTML file that needs neither network nor scripts.
        """
        own = directory / files.REPORT
        target = own if out is None else out / files.REPORT if out.is_dir() else out
        if target.absolute() != own.absolute():  # A run's own report may always be replaced.
            options.target(target, directory, "", overwrite)
        fitted = files.load(commands.model, directory)
        path = files.report(commands.model, fitted, target, top)
        console.speaker(quiet, results=True)(f"written to {path}")

    return report
