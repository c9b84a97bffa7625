"""The commands of a model, made from its options: fit, transform, evaluate and report."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from simplex_jax.cli import console, options, several
from simplex_jax.cli.declared import declared_options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.cli.groups import DefaultGroup
from simplex_jax.models import NAMES, files, pipeline
from simplex_jax.models.options import declarations
from simplex_jax.models.pipeline import Model, Plan
from simplex_jax.runtime import devices, lock, output, saved
from simplex_jax.runtime import directory as directories
from simplex_jax.runtime.hooks import MetricsLog, Progress
from simplex_jax.runtime.processes import agreed_text, is_first, join
from simplex_jax.runtime.saved import RunError

_LENGTHS = ("passes", "steps", "seconds")
_GOAL = ("target_ess", "time_limit")
_TOGETHER = {"distributed", "coordinator", "processes", "process"}
# What --resume can be given with: the rest is decided by the run that goes on.
_WITH_RESUME = {
    *("resume", "input", "checkpoint_every", "quiet", "debug"),
    *(*_LENGTHS, *_GOAL, *_TOGETHER),
}


class Other(NamedTuple):
    """Documents or rows for a fitted model, in its words.

    Attributes:
        data: As `Model.infer` takes them.
        names: Their names.
        coverage: A sentence on the share of them that the model has words for.
    """

    data: Any
    names: Sequence[str]
    coverage: str


class Transform(NamedTuple):
    """The command `transform`."""

    help: str  # its help
    ending: str  # default ending of the name of its file
    # `(fit, other, out, seed, every, progress) -> files written`; `every` asks for all shares
    write: Callable[[Any, Other, Path, int, bool, pipeline.Progress], list[Path]]
    every: str | None = None  # the help of `--all`; None for a model without
    random: bool = True  # whether it draws, and has a `--seed`


class Commands(NamedTuple):
    """Parts of the commands of a model."""

    model: Model  # the model
    help: str  # the help of `fit`
    reading: Mapping[str, Callable]  # options about reading an input to fit, decorators by name
    file_reading: Mapping[str, Callable]  # those of them that also apply to other files
    # `(input, reading) -> data` as for the model's `fit`; the input is None for the embedded corpus
    read: Callable[[Path | None, dict[str, Any]], Any]
    # `(input, reading) -> reading`, with the options that the input decides
    resolve_reading: Callable[[str | None, dict[str, Any]], dict[str, Any]]
    # `(fit, path, reading, earlier) -> Other`, where `earlier` are the options by which the data of
    # the fit were read.
    other: Callable[[Any, Path, dict[str, Any], dict[str, Any]], Other]
    shown: Sequence[str]  # metrics that the progress shows
    announce: Callable[[Plan], str]  # `Plan -> lines` to print before a run
    outcome: Callable[[Any], str]  # `Fit -> lines` to print after it
    transform: Transform  # the command `transform`
    evaluate: click.Command  # the command `evaluate`
    more: Sequence[click.Command] = ()  # further commands
    of_embedded: Collection[str] = ()  # options of reading that apply to the embedded corpus
    # `(input, reading, typed) -> None`, a UsageError where an option that was typed does nothing
    # for this input; `typed` has flags by name.
    check_reading: Callable[[Path | None, dict[str, Any], dict[str, str]], None] = (
        lambda input, reading, typed: None
    )
    # `settings -> effective samples` at which a run ends; None where it has a length
    target: Callable[[Any], float | None] = lambda settings: None
    # Similarity of topics, see `matching.align`, of models with a number of them
    similarity: Callable | None = None
    # `Plan -> None`, a ValueError for runs that are likely a slip on a command line
    check: Callable[[Plan], None] = lambda plan: None
    # `Plan -> bytes by name`, "total" the last, of the device's memory that a run needs; None where
    # that is unknown, and there is no `--dry-run`.
    memory: Callable[[Plan], Mapping[str, int]] | None = None
    # `(fit, plan, directory, progress) -> None`: what each process of a run writes of its own data;
    # None for a model that one process has to fit.
    share: Callable[[Any, Plan, Path, pipeline.Progress], None] | None = None


def group(commands: Commands) -> click.Group:
    """Return all commands of a model, of which `fit` need not be named."""
    name, makers = commands.model.name, (_fit_command, _transform_command, _report_command)
    every = [*(make(commands) for make in makers), commands.evaluate, *commands.more]
    return DefaultGroup(name, default="fit", commands=every, short_help=NAMES[name])


def _fit_command(commands: Commands) -> click.Command:
    model = commands.model
    names = [name for name, declared, _ in declarations(model.options) if declared.command]

    numbered: list[Callable] = []
    repeats: list[Callable] = []
    if commands.similarity is not None:
        numbered.append(several.each_number(model, commands.shown[0], commands.similarity))
        repeats.append(several.REPEATS)

    @click.command("fit", help=commands.help)
    @click.argument("input", required=False, type=options.PATH)
    @options.together(*declared_options(model.options), *repeats)
    @options.run_options(f"simplex-jax-{model.name}", dry_run=commands.memory is not None)
    @options.process_options(hidden=model.alone is not None)
    @options.together(*commands.reading.values())
    @options.common_options
    @one_line_errors
    @options.together(*numbered)
    def fit(
        input: Path | None,
        resume: Path | None,
        out: Path | None,
        overwrite: bool,
        holdout: int | None,
        holdout_seed: int | None,
        checkpoint_every: float,
        quiet: bool,
        dry_run: bool = False,
        distributed: bool = False,
        coordinator: str | None = None,
        processes: int | None = None,
        process: int | None = None,
        **parameters: Any,
    ) -> None:
        if distributed or any(value is not None for value in (coordinator, processes, process)):
            if model.alone is not None:
                raise click.UsageError(pipeline.refusal(model))
            # Before anything starts JAX.
            join(coordinator, processes, process)
        quiet = quiet or not is_first()
        say = console.speaker(quiet)
        reading = {name: parameters[name] for name in commands.reading}
        settings = {name: parameters[name] for name in names}
        lengths = [name for name in _LENGTHS if settings[name] is not None]
        if len(lengths) > 1:
            raise click.UsageError(f"give one of --{' and --'.join(lengths)}")
        changed = {name: settings.get(name) for name in (*_LENGTHS, *_GOAL)}
        earlier: dict[str, Any] | None = None
        if resume is not None:
            earlier = _earlier(commands, resume, changed)
            if earlier is None:
                say(f"the run in {resume} has come to its end: give it, say, more --passes")
                return
            source = dict(earlier["source"])
            if input is not None:
                source["input"] = options.place(input)
            chosen = files.settings_of(model, earlier["settings"], resume)
        else:
            typed = options.typed(commands.reading)
            idle = [flag for name, flag in typed.items() if name not in commands.of_embedded]
            if input is None and idle:
                raise click.UsageError(f"{idle[0]} is about reading an INPUT, and there is none")
            commands.check_reading(input, reading, typed)
            source = {
                "input": None if input is None else options.place(input),
                "reading": options.absolute(reading),
                "holdout": holdout,
                "holdout_seed": holdout_seed,
            }
            if out is not None and not dry_run and is_first():
                directories.check(out, model.name, files.names_of(model), overwrite=overwrite)
            try:
                chosen = model.options(**settings)
            except ValueError as error:  # Each is in range: they contradict each other.
                raise click.UsageError(str(error)) from None
        # Before anything starts JAX, which takes the cores of a CPU for one device.
        devices.use(getattr(chosen, "devices", None))
        place = source["input"]
        say(f"reading {place or 'the embedded corpus'} ...")
        data = commands.read(None if place is None else Path(place), source["reading"])
        session = pipeline.Session(holdout=source["holdout"], holdout_seed=source["holdout_seed"])
        planned = pipeline.plan_of(model, data, chosen, session)
        if session.holdout is None and not planned.held and len(planned.train.names) > 9:
            say("the documents are too short to hold some out: nothing will be predicted")
        commands.check(planned)
        say(commands.announce(planned))
        if dry_run and commands.memory is not None:
            click.echo(console.memory(commands.memory(planned)))
            return
        source["reading"] = commands.resolve_reading(place, source["reading"])
        config = pipeline.config_of(
            model, planned.settings, pipeline.corpus_of(model, planned), source
        )
        claimed: Any = contextlib.nullcontext(Path())
        if earlier is not None and resume is not None:
            _check_same(earlier, config, resume)
        if is_first() and resume is not None:
            claimed = _reopened(commands, resume, config)
        elif is_first():
            claimed = directories.claim(
                out, config, files.names_of(model), overwrite=overwrite, say=say
            )
        with claimed as place:
            directory = Path(agreed_text(str(place.absolute())))
            _train(commands, planned, directory, checkpoint_every, resume is not None, quiet)

    return fit


@contextmanager
def _reopened(commands: Commands, place: Path, config: Mapping[str, Any]) -> Iterator[Path]:
    """Lock the directory of a run that goes on, and write its new length to `config.json`."""
    with directories.reopen(place, files.names_of(commands.model)) as directory:
        changed = {files.CONFIG: dict(config)}
        if saved.finished(directory):  # It goes further, and is unfinished until it is there.
            summary = saved.load_json(directory / files.SUMMARY)
            changed[files.SUMMARY] = summary | {"interrupted": True}
        before = {name: (directory / name).read_text("utf-8") for name in changed}
        for name, value in changed.items():
            output.write_json(directory / name, value)
        try:
            yield directory
        except ValueError:  # It was refused before it began.
            for name, text in before.items():
                output.write_text(directory / name, text)
            raise


def _train(
    commands: Commands,
    planned: Plan,
    directory: Path,
    checkpoint_every: float,
    resume: bool,
    quiet: bool,
) -> None:
    """Train a run in its directory and write its results."""
    model, say = commands.model, console.speaker(quiet)
    hooks: list[Any] = [MetricsLog(directory / files.METRICS)] if is_first() else []
    if not quiet:
        say("compiling ...")
        settings = planned.settings
        target = commands.target(settings)
        hooks.append(Progress(commands.shown, max_seconds=settings.seconds, target=target))
    session = pipeline.Session(
        hooks=hooks,
        checkpoint=directory / directories.CHECKPOINT,
        checkpoint_every=checkpoint_every,
        resume=resume,
        samples_dir=directory / directories.SAMPLES,
        progress=console.Stages(quiet),
    )
    fitted = pipeline.train(model, planned, session)
    if commands.share is not None:
        commands.share(fitted, planned, directory, console.Stages(quiet))
    if is_first():
        files.write(model, fitted, directory)
    say(commands.outcome(fitted))
    for warning in fitted.warnings:
        say(f"warning: {warning}")
    say(f"written to {directory}; open {directory / files.REPORT}")
    if fitted.interrupted is not None:
        if is_first():
            click.echo(
                f"{fitted.interrupted.name} has ended the run early; go on with: "
                f"simplex-jax {model.name} --resume {directory}",
                err=True,
            )
        raise SystemExit(128 + fitted.interrupted)


def _earlier(
    commands: Commands, directory: Path, changed: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the configuration of the run that goes on; None where nothing is left to do."""
    typed = options.typed()
    if others := [flag for name, flag in typed.items() if name not in _WITH_RESUME]:
        raise click.UsageError(
            f"{others[0]} cannot change a run that goes on: --resume takes all settings but the "
            f"length from {directory / files.CONFIG}"
        )
    config = saved.load_config(directory, commands.model.name)
    if not _sound(config.get("source"), commands.reading):
        raise RunError(f"{directory / files.CONFIG}: it does not say how to go on")
    if is_first():  # for the others, process 0 may be in it already
        lock.check(directory)
    given = {name: value for name, value in changed.items() if value is not None}
    if given:
        # A length takes the place of a goal, and the other way round.
        replaced = _LENGTHS if given.keys() <= set(_GOAL) else (*_LENGTHS, *_GOAL)
        known = config["settings"]
        config["settings"] = known | {name: None for name in replaced if name in known} | given
    elif saved.finished(directory):
        return None
    return config


def _sound(source: Any, reading: Mapping[str, Any]) -> bool:
    """Tell whether the source of a run that goes on is as `fit` writes it."""
    return (
        isinstance(source, dict)
        and source.keys() == {"input", "reading", "holdout", "holdout_seed"}
        and isinstance(source["input"], str | None)
        and isinstance(source["reading"], dict)
        and source["reading"].keys() == reading.keys()
    )


def _check_same(earlier: dict[str, Any], now: dict[str, Any], directory: Path) -> None:
    """Raise a ValueError if a run would not go on with the data that it began with."""
    if earlier["corpus"].get("digest") != now["corpus"]["digest"]:
        raise ValueError(
            f"{now['source']['input']}: these are not the data that the run in {directory} began "
            "with (different digests): put them back, or name them as INPUT if they have moved"
        )


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
    @options.together(*additional)
    @options.together(*commands.file_reading.values())
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
        target = options.target(out, input, transform.ending, overwrite)
        if every:
            options.target(target.with_suffix(".npz"), input, "", overwrite)
        fitted, earlier = load(commands.model, model)
        other = commands.other(fitted, input, reading, earlier)
        say(other.coverage)
        written = transform.write(fitted, other, target, seed, every, console.Stages(quiet))
        say(f"written to {' and '.join(map(str, written))}")

    return run


def load(model: Model, directory: Path) -> tuple[Any, dict[str, Any]]:
    """Return the fit of a run, and the options by which its data were read."""
    fitted = files.load(model, directory)
    source = saved.load_config(directory, model.name).get("source")
    reading = source.get("reading") if isinstance(source, dict) else None
    return fitted, reading if isinstance(reading, dict) else {}


def _report_command(commands: Commands) -> click.Command:
    page = commands.model.files.report

    @click.command("report")
    @click.argument("directory", type=options.PATH)
    @click.option(
        f"--top-{page.items}",
        "top",
        default=page.most,
        type=click.IntRange(1),
        help=f"How many {page.items} describe each.",
    )
    @click.option(
        "--out", type=options.PATH, help="File to write.  [default: DIRECTORY/report.html]"
    )
    @options.common_options
    @one_line_errors
    def report(directory: Path, top: int, out: Path | None, quiet: bool) -> None:
        """Write the report of the run in DIRECTORY again.

        It is one HTML file that needs neither network nor scripts.
        """
        fitted = files.load(commands.model, directory)
        path = files.report(commands.model, fitted, out or directory / files.REPORT, top)
        console.speaker(quiet)(f"written to {path}")

    return report
