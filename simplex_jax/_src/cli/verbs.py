"""The commands of a model: fit, transform, report, evaluate and the model's own."""

import dataclasses
import functools
import shlex
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from simplex_jax._src.arguments import MOST_SEED
from simplex_jax._src.cli import console, options, topic_files
from simplex_jax._src.cli import groups as groups_of
from simplex_jax._src.cli.commands import Commands, load
from simplex_jax._src.cli.console import one_line_errors, usage
from simplex_jax._src.cli.options import declared_options
from simplex_jax._src.corpus import store
from simplex_jax._src.corpus.embedded import EMBEDDED_NAME
from simplex_jax._src.models import files, pipeline, verdict
from simplex_jax._src.models.records import Model, Plan
from simplex_jax._src.options import declarations
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import devices, lock, output, saved
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime.checkpoint import Store
from simplex_jax._src.runtime.hooks import Hook, MetricsLog, Progress
from simplex_jax._src.runtime.processes import (
    broadcast_text,
    is_first,
    join,
    joined,
    raise_together,
)
from simplex_jax._src.runtime.saved import RunError

REPEATS = click.option(
    "--repeats",
    default=2,
    type=click.IntRange(1),
    show_default=True,
    help="Fits for each of several values of --topics, with successive seeds from --seed.",
)
HEADER = (
    *("topics", "heldout", "heldout_error", "coherence", "coherence_error"),
    *("stability", "in_all_fits", "intervals"),
)
TABLE, PICTURE = "comparison.csv", "comparison.svg"


class Compared(NamedTuple):
    """Fits with one number of topics."""

    entry: Any  # a `compare.Entry`: held-out measure and coherence of each fit
    stability: float  # similarity of topics between fits; NaN for a single fit
    shared: float  # number of topics that all fits have; NaN for a single fit
    intervals: float  # share of topics with an interval


def fit_each_number(
    model: Model, measure: str, similarity: Callable
) -> Callable[[Callable], Callable]:
    """Return a decorator that repeats `fit` for each of several numbers of topics.

    `measure` is the metric to compare; `similarity` is as for `matching.align`. A repeated command
    continues where it was interrupted.
    """

    def decorate(fit: Callable) -> Callable:
        @functools.wraps(fit)
        def each(
            out: Path | None, overwrite: bool, quiet: bool, repeats: int, **parameters: Any
        ) -> None:
            sizes = parameters["num_topics"]
            common = parameters | {"overwrite": overwrite, "quiet": quiet}
            if not isinstance(sizes, tuple):
                if options.typed(("repeats",)):
                    raise click.UsageError("--repeats requires several values of --topics")
                fit(out=out, **common)
                return
            names = ("resume", "dry_run", "distributed", "coordinator", "processes", "process")
            if typed := options.typed(names):
                flag = next(iter(typed.values()))
                raise click.UsageError(f"{flag} does not support several values of --topics")

            first_seed = parameters["seed"]
            seeds = range(first_seed, first_seed + repeats)
            if seeds[-1] > MOST_SEED:
                raise click.UsageError(f"--seed must be at most {MOST_SEED - repeats + 1}")
            runs = [_name(size, seed) for size in sizes for seed in seeds]
            directory = _directory(out, model.name, runs, overwrite)
            if parameters["holdout_seed"] is None:  # All fits predict the same documents.
                common["holdout_seed"] = first_seed

            def fit_size(size: int, seed: int, directory: Path) -> None:
                own = {"num_topics": size, "seed": seed, "one_of_several": True}
                fit(out=directory, **common | own)

            say, tell = (console.speaker(quiet, results=results) for results in (False, True))
            _fit_each(fit_size, model, sizes, seeds, directory, measure, similarity, say, tell)

        return each

    return decorate


def _name(size: int, seed: int) -> str:
    return f"topics-{size}-seed-{seed}"


def _directory(out: Path | None, command: str, runs: Sequence[str], overwrite: bool) -> Path:
    """Return the directory of the runs; it must hold nothing else, unless `overwrite`."""
    directory = out or Path(f"simplex-jax-{command}-topics")
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"output {str(directory)!r} is a file: give a directory")
    if directory.exists() and not overwrite:
        own = {*runs, TABLE, PICTURE}
        others = sorted(path.name for path in directory.iterdir() if path.name not in own)
        if others:
            raise FileExistsError(
                f"output directory {str(directory)!r} is not empty ({others[0]}): choose another "
                "one (--out), or pass --overwrite, which replaces the runs in it"
            )
    return directory


def _fit_each(
    fit: Callable[[int, int, Path], None],
    model: Model,
    sizes: Sequence[int],
    seeds: Sequence[int],
    directory: Path,
    measure: str,
    similarity: Callable,
    say: Callable[[str], None],
    tell: Callable[[str], None],
) -> None:
    """Call `fit(size, seed, directory)` for each size and seed, and compare the fits."""
    from simplex_jax._src.evaluate import plots  # slow to import, and most commands do not need it

    compared = []
    done, total = 0, len(sizes) * len(seeds)
    for size in sizes:
        runs = [directory / _name(size, seed) for seed in seeds]
        for seed, run in zip(seeds, runs, strict=True):
            done += 1
            say(f"== run {done} of {total}: {counted(size, 'topic')}, seed {seed}")
            fit(size, seed, run)
        fits = [files.load(model, run) for run in runs]
        compared.append(_comparison(size, fits, measure, similarity))
    rows = ((row.entry.num_topics, *(f"{x:.6g}" for x in _numbers(row))) for row in compared)
    output.write_csv(directory / TABLE, HEADER, rows)
    axes = plots.comparison([row.entry for row in compared], heldout=measure.replace("_", " "))
    with output.replacing(directory / PICTURE) as file:
        axes[0].figure.savefig(file, format="svg")
    for line in _lines(compared, measure):
        tell(line)
    if advice := _advice(compared):
        tell(advice)
    tell(f"written to {directory / TABLE} and {directory / PICTURE}")


def _comparison(size: int, fits: Sequence[Any], measure: str, similarity: Callable) -> Compared:
    """Compare the fits with one number of topics."""
    from simplex_jax._src.evaluate import compare, diagnostics, matching

    heldout = [fitted.metrics[-1].get(f"{measure}_average", np.nan) for fitted in fits]
    rough = [diagnostics.rough(fitted.diagnostics, fitted.shared).mean() for fitted in fits]
    stability = shared = np.nan
    if len(fits) > 1:
        aligned = matching.align([fitted.topics for fitted in fits], similarity)
        stability = float(aligned.stability.mean())
        shared = float(matching.stable(aligned.shared).sum())
    coherence = [np.nanmean(fitted.coherence) for fitted in fits]
    entry = compare.Entry(size, np.array(heldout), np.array(coherence))
    return Compared(entry, stability, shared, 1 - float(np.mean(rough)))


def _numbers(row: Compared) -> tuple[float, ...]:
    """Return a row of the table, without the number of topics."""
    from simplex_jax._src.evaluate import compare

    return (
        *compare.estimate(row.entry.heldout),
        *compare.estimate(row.entry.coherence),
        row.stability,
        row.shared,
        row.intervals,
    )


def _advice(compared: Sequence[Compared]) -> str:
    """Return a sentence on the number of topics to take, "" if single fits cannot tell.

    More topics nearly always predict better and are more coherent; what a reader can rely on are
    those that a second fit finds again.
    """
    known = [row for row in compared if np.isfinite(row.shared)]
    if len(known) < 2:
        return ""
    best = max(known, key=lambda row: (row.shared, -row.entry.num_topics))
    return (
        f"take {counted(best.entry.num_topics, 'topic')}: {best.shared:.0f} of them are in all "
        "fits, the most of these numbers, so that a reader can rely on the most; held-out "
        "predictions and coherence alone favour ever more topics"
    )


def _lines(compared: Sequence[Compared], measure: str) -> Iterator[str]:
    """Yield the table as lines of text."""
    yield (
        f"{'topics':>6} {measure:>20} {'coherence':>16} {'stability':>10} {'in all fits':>12} "
        f"{'with intervals':>15}"
    )
    for row in compared:
        heldout, heldout_error, coherence, coherence_error, stability, *_ = _numbers(row)
        yield (
            f"{row.entry.num_topics:6d} {heldout:11.2f} ± {heldout_error:6.2f} "
            f"{coherence:7.3f} ± {coherence_error:6.3f} {stability:10.2f} {row.shared:12.0f} "
            f"{row.intervals:15.0%}"
        )


# The command `fit`: a new or resumed run.

_LENGTHS = ("passes", "steps", "seconds")
_PROCESSES = ("distributed", "coordinator", "processes", "process")
# Arguments that change where a run is kept or shown, but not what it is
_PLACES = (
    *("input", "resume", "out", "overwrite", "checkpoint_every", "quiet", "debug", "dry_run"),
    *("repeats", *_PROCESSES),
)
# Options of the first level of the help, and of groups below it; models have the others.
_COMMON = (
    *("time", "by", "slices", "num_topics", "alpha", "beta", "kind", "chains", "passes"),
    *("time_limit", "seed"),
    *("text_column", "stop_words", "out", "overwrite", "resume", "quiet", "help", "help_all"),
)
_LENGTH = ("eval_every", "sample_every", "keep_samples", "share_error", "repeats")
_OUTPUT = ("holdout", "holdout_seed", "checkpoint_every", "dry_run", "debug")
# Options that --resume allows, besides those of a goal; config.json has all others.
_WITH_RESUME = (
    *("resume", "input", "checkpoint_every", "quiet", "debug", "devices"),
    *(*_LENGTHS, *_PROCESSES),
)


class _Request(NamedTuple):
    """A run as requested on the command line."""

    settings: Any  # options of the model, before they are resolved
    source: dict[str, Any]  # its input and reading options, as in `config.json`
    given: list[str]  # the arguments that define it, without its length, as on the command line
    digest: str | None = None  # digest of the data with which a resumed run began


def fit_command(commands: Commands) -> click.Command:
    """Return the command `fit` of a model."""
    model = commands.model
    names = [name for name, declared, _ in declarations(model.options) if declared.command]
    each_number: list[Callable] = []
    repeats: list[Callable] = []
    if commands.similarity is not None:
        each_number.append(fit_each_number(model, commands.shown[0], commands.similarity))
        repeats.append(REPEATS)

    groups: dict[str, Collection[str]] = {
        groups_of.COMMON: _COMMON,
        "Length": (*_LENGTHS, *commands.goal, *_LENGTH),
        "Model": names,
        "Reading": commands.reading,
        "Output": _OUTPUT,
        "Several processes": _PROCESSES,
    }

    @click.command(
        "fit",
        cls=groups_of.GroupedCommand,
        groups=groups,
        examples=[
            " ".join(
                ["simplex-jax", model.name, "INPUT", *commands.needed.split(), "--out", "run/"]
            ),
            f"simplex-jax {model.name} --resume run/ --passes 5000",
            f"simplex-jax {model.name} report run/",
        ],
        help=commands.help,
    )
    @click.argument("input", required=False, type=options.PATH)
    @options.compose(*declared_options(model.options), *repeats)
    @options.run_options(f"simplex-jax-{model.name}", dry_run=commands.memory is not None)
    @options.process_options(hidden=model.alone is not None)
    @options.compose(*commands.reading.values())
    @options.common_options
    @one_line_errors
    @options.compose(*each_number)
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
        one_of_several: bool = False,  # continue the run in `out`; not on the command line
        **parameters: Any,
    ) -> None:
        if distributed or any(value is not None for value in (coordinator, processes, process)):
            if model.alone is not None:
                raise click.UsageError(pipeline.refusal(model))
            # Before JAX starts.
            with usage():
                join(coordinator, processes, process)
        quiet = quiet or not is_first()
        say = console.speaker(quiet)
        settings = {name: parameters[name] for name in names}
        _check_lengths(settings)
        earlier = None  # an earlier run with these settings, possibly finished
        if one_of_several and out is not None and not overwrite and (out / files.CONFIG).exists():
            earlier = out
        if resume is not None:
            resumed = _resumed_run(commands, resume, input, settings)
            if resumed is None:
                say(f"the run in {resume} is finished: give it more --passes, for example")
                return
            request = resumed
        else:
            reading = {name: parameters[name] for name in commands.reading}
            source = _source(commands, input, reading, holdout, holdout_seed)
            if not dry_run:
                _check_apart(input, out)
            if not dry_run and earlier is None and is_first():
                directories.check(out, model.name, files.names_of(model), overwrite=overwrite)
            with usage():  # Each option is in range, but they may contradict each other.
                model_settings = model.options(**settings)
            own = {name: parameters[name] for name in ("num_topics", "seed") if one_of_several}
            if one_of_several:
                own["holdout_seed"] = holdout_seed
            given = options.given({*_PLACES, *pipeline.lengths(model)}, own)
            request = _Request(model_settings, source, given)
        plan = _plan(commands, request, say)
        config = _config(commands, request, plan)
        pipeline.check_alike(plan, resumed=resume is not None)
        if resume is not None:
            _check_digest(request.digest, config, resume)
        elif earlier is not None:
            _check_same(commands, config, earlier)
            if files.finished(model, earlier):
                say(f"the run in {earlier} is finished")
                return
            resume = earlier
        if resume is not None and Store(resume / directories.CHECKPOINT).newest() is None:
            say(
                f"the run in {resume} ended before its first checkpoint: it starts from the "
                "beginning"
            )
        say(commands.announce(plan))
        if dry_run and commands.memory is not None:
            needed = console.memory(commands.memory(plan), commands.remedy)
            if is_first():
                click.echo(needed)
            return
        directory: AbstractContextManager[Path]
        if not is_first():
            directory = nullcontext(Path())
        elif resume is not None:
            directory = _reopen(commands, resume, config)
        else:
            directory = directories.claim(
                out, config, files.names_of(model), overwrite=overwrite, say=say
            )
        with directory as path:
            shared = Path(broadcast_text(str(path.absolute())))
            interrupted = _train(
                commands, plan, config, shared, checkpoint_every, resume is not None, quiet
            )
        if interrupted is not None:
            remedy = f"simplex-jax {model.name} --resume {shlex.quote(str(shared))}"
            if one_of_several:
                remedy = "the same command, which keeps finished fits"
            if is_first():
                click.echo(
                    f"{interrupted.name} has ended the run early; continue with: {remedy}", err=True
                )
            raise SystemExit(128 + interrupted)

    return fit


def _check_lengths(settings: Mapping[str, Any]) -> None:
    """Raise a UsageError if a run is given several lengths."""
    lengths = [name for name in _LENGTHS if settings[name] is not None]
    if len(lengths) > 1:
        raise click.UsageError(f"give one of --{' and --'.join(lengths)}")


def _check_apart(input: Path | None, out: Path | None) -> None:
    """Raise a UsageError for a run in a folder of texts, whose files would be read as more texts.

    It could neither be resumed nor run again.
    """
    if input is None or not input.is_dir() or store.is_stored(input):
        return
    place, texts = (out or Path()).resolve(), input.resolve()
    if not place.is_relative_to(texts):
        return
    if not any(name.startswith(".") for name in place.relative_to(texts).parts):  # not read
        raise click.UsageError(
            f"the files of the run would be among the texts in {input}: give an --out elsewhere"
        )


def _source(
    commands: Commands,
    input: Path | None,
    reading: dict[str, Any],
    holdout: int | None,
    holdout_seed: int | None,
) -> dict[str, Any]:
    """Check the reading options of a new run, and return its source for `config.json`."""
    typed = options.typed(commands.reading)
    extra = [flag for name, flag in typed.items() if name not in commands.of_embedded]
    if input is None and extra:
        raise click.UsageError(f"{extra[0]} requires INPUT")
    commands.check_reading(input, reading, typed)
    return {
        "input": None if input is None else options.input_path(input),
        "reading": options.absolute(reading),
        "holdout": holdout,
        "holdout_seed": holdout_seed,
    }


def _resumed_run(
    commands: Commands, directory: Path, input: Path | None, settings: Mapping[str, Any]
) -> _Request | None:
    """Return a resumed run; None if it is finished and has no new length."""
    config = _resumed_config(commands, directory)
    # Damaged settings are an error of the run; new ones that contradict them, of the command.
    recorded = files.settings_of(commands.model, config["settings"], directory)
    changes = _changes(commands, settings)
    if not changes and files.finished(commands.model, directory):
        return None
    if settings.get("devices") is not None:  # This machine may have fewer than the previous one.
        changes["devices"] = settings["devices"]
    source = dict(config["source"])
    if input is not None:
        source["input"] = options.input_path(input)
    with usage():
        model_settings = dataclasses.replace(recorded, **changes)
    given = [str(argument) for argument in config.get("given", ())]
    return _Request(model_settings, source, given, config["corpus"].get("digest"))


def _resumed_config(commands: Commands, directory: Path) -> dict[str, Any]:
    """Return the configuration of a resumed run, which the command line may change in part."""
    allowed = {*_WITH_RESUME, *commands.goal}
    if refused := [flag for name, flag in options.typed().items() if name not in allowed]:
        raise click.UsageError(
            f"{refused[0]} cannot change a resumed run: all settings but its length and devices "
            f"come from {directory / files.CONFIG}"
        )
    config = saved.load_config(directory, commands.model.name)
    if "edited" in config:
        raise RunError(
            f"{directory}: topics of this run were edited after it ended, so it cannot go on: "
            f"resume the run in {config['edited']['run']}, and edit that again"
        )
    _check_source(config.get("source"), commands.reading, directory / files.CONFIG)
    if is_first():  # Other processes may already see its lock.
        lock.check(directory)
    return config


def _changes(commands: Commands, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a new length or goal of a resumed run changes, if there is one."""
    changed = (*_LENGTHS, *commands.goal)
    overrides = {name: settings[name] for name in changed if settings[name] is not None}
    if not overrides:
        return {}
    # A length replaces a goal, and vice versa.
    replaced = _LENGTHS if overrides.keys() <= set(commands.goal) else changed
    return dict.fromkeys(replaced) | overrides


def _check_source(source: Any, reading: Mapping[str, Any], config: Path) -> None:
    """Raise a RunError unless the source of a run has the form that `fit` writes."""
    if not isinstance(source, dict):
        raise RunError(f"{config}: cannot resume: its source is missing")
    entries = {"input", "reading", "holdout", "holdout_seed"}
    sound = (
        source.keys() == entries
        and isinstance(source["input"], str | None)
        and isinstance(source["reading"], dict)
        and source["reading"].keys() == reading.keys()
    )
    if not sound:
        raise RunError(f"{config}: cannot resume: its source has missing, unknown or wrong entries")


def _plan(commands: Commands, request: _Request, say: Callable[[str], None]) -> Plan:
    """Read the data of a run and resolve its options."""
    # Before JAX starts, which would treat all CPU cores as one device.
    devices.use(commands.devices(request.settings))
    source = request.source
    say(f"reading {source['input'] or 'the embedded corpus'} ...")
    input = None if source["input"] is None else Path(source["input"])
    data = commands.read(input, source["reading"])
    session = pipeline.Session(holdout=source["holdout"], holdout_seed=source["holdout_seed"])
    plan = pipeline.plan_of(commands.model, data, request.settings, session)
    if not isinstance(data, store.Stored) or joined():  # else no proportions are written
        directories.check_names(plan.data.names)
    if session.holdout is None and not plan.held and len(plan.train.names) > 9:
        say("the documents are too short to hold some out: nothing will be predicted")
    return plan


def _config(commands: Commands, request: _Request, plan: Plan) -> dict[str, Any]:
    """Return the contents of `config.json`, with the reading options that the input determines."""
    source = request.source
    reading = commands.resolve_reading(source["input"], source["reading"])
    name = EMBEDDED_NAME if source["input"] is None else Path(source["input"]).name
    facts = pipeline.corpus_of(commands.model, plan) | {"name": name}
    return files.config_of(
        commands.model, plan.settings, facts, source | {"reading": reading}, given=request.given
    )


def _check_digest(digest: str | None, config: Mapping[str, Any], directory: Path) -> None:
    """Raise a ValueError if a run would be resumed with data other than its own."""
    if digest != config["corpus"]["digest"]:
        raise ValueError(
            f"{config['source']['input']}: these are not the data of the run in {directory} "
            "(different digests): put them back, or name them as INPUT if they have moved"
        )


def _check_same(commands: Commands, config: Mapping[str, Any], directory: Path) -> None:
    """Raise a ValueError unless the run in a directory is the requested one."""
    earlier, now = saved.load_config(directory, commands.model.name), output.plain(config)
    assert isinstance(now, dict)
    names = [
        name
        for part in ("settings", "source", "corpus")
        if isinstance(then := earlier.get(part), dict)
        for name in now[part]
        if then.get(name) != now[part][name]
    ]
    if names or not isinstance(earlier.get("source"), dict):
        differing = ", ".join(names) or "source"
        raise ValueError(
            f"the run in {directory} has other settings or data ({differing}): choose another "
            "--out, or pass --overwrite, which replaces it"
        )


@contextmanager
def _reopen(commands: Commands, path: Path, config: Mapping[str, Any]) -> Iterator[Path]:
    """Lock the directory of a resumed run, and write its new length to `config.json`."""
    with directories.reopen(path, files.names_of(commands.model)) as directory:
        changed = {files.CONFIG: dict(config)}
        if saved.finished(directory):  # A longer run is unfinished until it reaches the new length.
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
    plan: Plan,
    config: Mapping[str, Any],
    directory: Path,
    checkpoint_every: float,
    resume: bool,
    quiet: bool,
) -> signal.Signals | None:
    """Train a run in its directory and write its results; return the signal that ended it."""
    model, say = commands.model, console.speaker(quiet)
    hooks: list[Hook] = [MetricsLog(directory / files.METRICS)] if is_first() else []
    if not quiet:
        say("compiling ...")
        hooks.append(Progress(commands.shown, max_seconds=plan.settings.seconds))
    session = pipeline.Session(
        hooks=hooks,
        checkpoint=directory / directories.CHECKPOINT,
        checkpoint_every=checkpoint_every,
        resume=resume,
        samples_dir=directory / directories.SAMPLES,
        progress=console.Stages(quiet),
    )
    fitted = pipeline.train(model, plan, session)
    again = options.again(fitted, config)
    fitted = dataclasses.replace(fitted, again=again, corpus=config["corpus"])
    fitted = commands.complete(fitted, plan, config["source"], directory)
    place = options.shown(directory)
    fitted = pipeline.judged(model, fitted, _longer(model.name, fitted, place))
    if commands.share is not None:
        with raise_together(OSError):  # before any process writes its share
            if is_first():
                directories.remove_shares(directory, files.names_of(model))
        commands.share(fitted, plan, directory, console.Stages(quiet))
    if is_first():
        output.write_json(directory / files.CONFIG, {**config, "again": fitted.again})
        files.write(model, fitted, directory)
    for warning in fitted.warnings:
        say(f"warning: {warning}")
    tell = console.speaker(quiet, results=True)
    tell(commands.outcome(fitted))
    for sentence in fitted.verdict:
        tell(sentence)
    following = {"report": options.shown(directory / files.REPORT), "this again": fitted.again}
    following |= commands.following(fitted, config["source"], place)
    for name, entry in following.items():
        if entry:
            tell(f"{name + ':':12} {entry}")
    return fitted.interrupted


def _longer(model: str, fitted: Any, place: str) -> str:
    """Return the command that makes a run longer, "" if it has no update."""
    length = [f"--{name} {number}" for name, number in verdict.longer(fitted).items()]
    return f"simplex-jax {model} --resume {shlex.quote(place)} {length[0]}" if length else ""


def members(commands: Commands) -> dict[str, click.Command]:
    """Return all commands of a model by name."""
    makers = (fit_command, _transform_command, _report_command)
    everything = [*(make(commands) for make in makers), commands.evaluate, *commands.more]
    return {command.name or "": command for command in everything}


def _transform_command(commands: Commands) -> click.Command:
    transform = commands.transform
    kinds = tuple(dict.fromkeys([Path(transform.ending).suffix, ".csv"]))
    help = f"File to write ({' or '.join(kinds)}).  [default: INPUT's name.{transform.ending}]"
    additional = [options.seed_option] if transform.random else []
    if transform.every:
        additional.insert(0, click.option("--all", "every", is_flag=True, help=transform.every))
    others_of_input = ("seed", "every", *commands.file_reading)

    @click.command("transform", help=transform.help)
    @click.argument("input", type=options.PATH, required=transform.own is None)
    @options.model_option
    @click.option("--out", type=options.PATH, help=help)
    @click.option("--overwrite", is_flag=True, help="Replace the file.")
    @options.compose(*additional)
    @options.compose(*commands.file_reading.values())
    @options.common_options
    @one_line_errors
    def run(
        input: Path | None,
        model: Path,
        out: Path | None,
        overwrite: bool,
        quiet: bool,
        seed: int = 0,
        every: bool = False,
        **reading: Any,
    ) -> None:
        say = console.speaker(quiet)
        if out is not None and out.suffix.lower() not in ("", *kinds):
            raise click.UsageError(f"--out {out}: give a name that ends in {' or '.join(kinds)}")
        tell = console.speaker(quiet, results=True)
        if input is None:
            if out is None or transform.own is None:
                raise click.UsageError("give INPUT, or the --out of a table of the run's documents")
            if others := options.typed(others_of_input):
                raise click.UsageError(f"{next(iter(others.values()))} requires INPUT")
            target = options.target(out, model, "", overwrite)
            tell(f"written to {transform.own(load(commands.model, model)[0], target)[0]}")
            return
        target = options.target(out, input, transform.ending, overwrite)
        if every:
            options.target(target.with_suffix(".npz"), input, "", overwrite)
        fitted, model_reading = load(commands.model, model)
        other = commands.other(fitted, input, reading, model_reading)
        say(other.coverage)
        if every or target.suffix.lower() != ".csv":
            directories.check_names(other.names)
        written = transform.write(fitted, other, target, seed, every, console.Stages(quiet))
        tell(f"written to {' and '.join(map(str, written))}")

    return run


def _topic_names(until: str) -> Callable:
    return click.option(
        "--topic-names",
        type=options.PATH,
        help="File of names of topics, a line for each: its number and the name, with a blank or a "
        "tab between them; or a .csv with columns topic and name. The run keeps them, for its "
        f"tables, {until}; an empty file removes them.",
    )


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
    @options.compose(*([_topic_names(commands.named)] if commands.named else []))
    @options.common_options
    @one_line_errors
    def report(
        directory: Path,
        top: int,
        out: Path | None,
        overwrite: bool,
        quiet: bool,
        topic_names: Path | None = None,
    ) -> None:
        """Write the report of the run in DIRECTORY again.

        It is a single HTML file that needs neither network nor scripts.
        """
        own = directory / files.REPORT
        target = own if out is None else out / files.REPORT if out.is_dir() else out
        if target.absolute() != own.absolute():  # A run's own report may always be replaced.
            options.target(target, directory, "", overwrite)
        fitted = files.load(commands.model, directory)
        if topic_names is not None:
            names = topic_files.read_names(topic_names, len(fitted.topics))
            fitted = files.amend(
                commands.model,
                directory,
                "topic_names",
                lambda fit: dataclasses.replace(fit, topic_names=names),
            )
        path = files.report(commands.model, fitted, target, top)
        console.speaker(quiet, results=True)(f"written to {path}")

    return report
