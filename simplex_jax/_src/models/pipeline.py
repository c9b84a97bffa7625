"""One pipeline for all models: from data to a fit, its files, and back.

A model is a record of functions, `records.Model`, which are called here and in `files`. A run is
planned (`plan` holds out documents and settles every option), trained (`train`) and summarised as a
`Fit` with warnings, files and a report.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.base import current_step
from simplex_jax._src.draws.native import LIBRARY
from simplex_jax._src.evaluate.fits import Fitted
from simplex_jax._src.models import files, verdict
from simplex_jax._src.models.goal import BY_RULE
from simplex_jax._src.models.options import as_json
from simplex_jax._src.models.records import F, Model, O, Plan, Results
from simplex_jax._src.options import changeable, declarations, option, options
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import processes, programs, session
from simplex_jax._src.runtime.checkpoint import Store
from simplex_jax._src.runtime.hooks import Callback, calls_of
from simplex_jax._src.runtime.sample_files import Folder, mark_of
from simplex_jax._src.runtime.session import Progress

INTERRUPTED = "The run was interrupted before its end."
"""The warning of a fit that a signal has ended."""

# Arguments of `fit` that change where a run is kept, but not what it is
_PLACES = ("hooks", "checkpoint", "checkpoint_every", "resume", "samples_dir", "progress")
_PLAIN = bool | int | float | str


@options
class Session:
    """Arguments besides the model's options: held-out data, hooks, checkpoints, samples."""

    holdout: int | None = option(
        "Documents or rows to hold out and predict.",
        default=0,
        least=0,
        unset="none in Python; of the command a tenth, at most 1000, if they can be predicted",
        parameter=None,
    )
    holdout_seed: int | None = option(
        "Seed of the choice of held-out documents.",
        default=None,
        least=0,
        most=arguments.MOST_SEED,
        unset="seed",
        parameter=None,
    )
    heldout: Any = option(
        "Other data to predict, in place of holdout: for models of counts of words, a pair of "
        "arrays [D, V], the counts of the observed and of the target tokens of each document; for "
        "vectors such data, and for rows those that their family expects (for a table with columns "
        "of several kinds, give holdout instead).",
        default=None,
        parameter=None,
    )
    hooks: Sequence[Callback] = option(
        "Hooks, see `simplex_jax.runtime`, called after every evaluation. They are not "
        "in checkpoints: after a resume an `EarlyStop` counts anew.",
        default=(),
        parameter=None,
    )
    checkpoint: Path | None = option(
        "Directory of the checkpoints.", default=None, unset="no checkpoints", parameter=None
    )
    checkpoint_every: float = option(
        "Minimum seconds between checkpoints, of which the first comes after 5; 0 for one at each "
        "evaluation.",
        default=60.0,
        least=0,
        parameter=None,
        metavar="SECONDS",
    )
    resume: bool = option(
        "Continue from the newest checkpoint, with the same samples as an uninterrupted run. If "
        "there is none, start from the beginning.",
        default=False,
        parameter=None,
    )
    samples_dir: Path | None = option(
        "Directory of the kept samples; it must not hold those of another run.",
        default=None,
        check=lambda name, value: None if value is None else Path(value),
        unset="in memory, and in checkpoints",
        parameter=None,
    )
    progress: Progress | None = option(
        "Called after the training with a task, the amount done and the total.",
        default=None,
        parameter=None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Results, Fitted):
    """A fit, to save, load, apply to other data and report; see `Results`."""

    def __repr__(self) -> str:
        """Return a summary: what was fitted, and its topics or clusters in a line each."""
        chains = f" in {counted(self.settings.chains, 'chain')}" if self.settings.chains > 1 else ""
        doubts = f", {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        draws = counted(self.num_samples, "posterior sample")
        first = f"{self.MODEL.name}: {draws}{chains}{doubts}"
        return "\n".join([first, *self.lines()])

    def lines(self) -> list[str]:
        """Return a line for each topic or cluster, the most prevalent first."""
        return []

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit to a directory, with its report, as the command does, and return the path.

        Samples of topics in memory (of `lda`, `dtm` and `sam`) go to `samples/`. Samples already in
        a `samples_dir` stay there, and partitions of `hdp` and `dpm` are not written.

        Args:
            directory: The directory; created if it does not exist.
            overwrite: Replace a run in it, including its checkpoint and samples.

        Raises:
            FileExistsError: The directory holds other files, or a run and `overwrite` is false.
        """
        return files.save(self.MODEL, self, Path(directory), overwrite=overwrite)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a fit written by `save` or by the command.

        Raises:
            RunError: The directory holds no finished run of this model, or a file is damaged.

        Example:
            >>> from simplex_jax import lda
            >>> lda.Fit.load("no/such/directory")
            Traceback (most recent call last):
            simplex_jax.errors.RunError: no/such/directory: there is no such directory
        """
        return files.load(cls.MODEL, Path(directory))

    def transform(self, data: Any, *, seed: int = 0) -> np.ndarray:
        """Return the proportions of other documents, or of rows over clusters, float32 [n, K].

        Where a model has topics or clusters that are not reported, a row leaves their part of 1.

        Args:
            data: Documents or rows as for `fit`, over any vocabulary (but for unit vectors, which
                need that of the model): words unknown to the model are left out, and a document
                without a known word gets the mean of the prior. In texts all known words count,
                however rare. Texts are split with the default options of `corpus.from_texts`; if
                the fit used others, give `corpus.from_texts(texts, options=...,
                vocabulary=fit.vocabulary)`.
            seed: Seed of the random numbers, from 0 to 2^32 - 1. With the same seed equal documents
                get equal proportions, except by `sam`, where they also depend on the row.

        Raises:
            ValueError: Columns of counts have no names and the model has words, or the seed is out
                of range.
        """
        return self.MODEL.infer(self, data, seed=arguments.seed(seed))

    def score(self, data: Any, *, seed: int = 0) -> float:
        """Return how well the fit predicts other documents or rows; larger is better.

        This is what the command `evaluate` measures, as a mean of log densities: for `lda` and
        `hdp`, the log predictive probability of a token of one half of each document, given the
        other half and the mean topics (`lda`), or averaged over the kept samples (`hdp`): its
        perplexity is exp(-score). For `sam`, the log density of a document on the sphere given the
        mean topics, in mean over the documents with a direction. For `dpm`, that of a row, averaged
        over the kept samples and including new clusters, without factors that the family omits; in
        tables, numbers are in standard deviations of their columns.

        Args:
            data: Documents or rows, not those of `fit`, as for `transform`.
            seed: Seed of the random numbers, from 0 to 2^32 - 1; `dpm` uses none.

        Raises:
            ValueError: There is nothing to predict: for `lda` and `hdp`, no document has two words;
                for `sam`, no document has a direction.
        """
        return self.MODEL.score(self, data, seed=arguments.seed(seed))

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and return its path.

        Args:
            path: The file, or a directory that will hold `report.html`.
        """
        return files.report(self.MODEL, self, Path(path))


def plan(model: Model[O, F], data: Any, arguments: Session) -> Plan[O]:
    """Return the plan of a run, from the data and the arguments of a model's `fit`.

    Raises a ValueError that names invalid data or options.
    """
    chosen = {name: getattr(arguments, name) for name, _, _ in declarations(model.options)}
    return plan_of(model, data, model.options(**chosen), arguments)


def plan_of(model: Model[O, F], data: Any, chosen: O, session: Session) -> Plan[O]:
    """Return the plan of a run, as `plan` does, from separate options and session."""
    if model.alone is not None and processes.count() > 1:
        raise ValueError(refusal(model))
    everything = model.as_data(data)
    total = len(everything.names)
    train, heldout, held = everything, session.heldout, 0
    seed = chosen.seed if session.holdout_seed is None else session.holdout_seed
    count = session.holdout
    if count is None:
        count = 0 if heldout is not None else min(1000, total // 10)
    if count:
        if heldout is not None:
            raise ValueError("give holdout or heldout, not both")
        if count >= total:
            raise ValueError(f"holdout {count} leaves none of the {total}: hold out fewer")
        train, heldout = model.hold_out(everything, count, seed)
        held = total - len(train.names)
        if heldout is None and session.holdout is not None:
            raise ValueError(
                f"holdout {count}: all those that were held out, or all others, are empty: "
                "hold out more, or others (holdout_seed, --holdout-seed)"
            )
    settings = model.resolve_options(train, heldout, chosen)
    return Plan(everything, train, heldout, held, settings, model.digest(everything), seed)


def refusal(model: Model) -> str:
    """Return why several processes cannot share a run of a model."""
    return f"{model.name} runs in one process: {model.alone}"


def train(model: Model[O, F], planned: Plan[O], arguments: Session) -> F:
    """Train a run until it ends or is interrupted, and return its fit.

    SIGINT (Ctrl-C) and SIGTERM end the run early, with a checkpoint if it has a directory for them,
    and summarise the samples so far. A second signal stops at once.
    """
    # Checks the arguments before preparing the run, which may be slow.
    calls_of(arguments.hooks)
    check_alike(planned, resumed=arguments.resume)
    programs.forget_many()
    LIBRARY.warn_if_missing()
    LIBRARY.warn_if_old()
    planned = planned._replace(resumed=_resumed(arguments))
    settings = planned.settings
    about = {
        "model": model.name,
        "settings": as_json(settings) | dict.fromkeys(changeable(model.options)),
        "data": planned.digest,
        "heldout": digest_of(planned.heldout),
    }
    place = arguments.samples_dir
    folder = None if place is None else Folder(place, mark_of(about))
    if folder is not None and not planned.resumed:
        folder.begin(over=arguments.resume)
    # The prepared run gets no name: nothing may keep its first state, which can be large.
    run, trained = session.train(
        model.prepare(planned, folder),
        session.Length(*(getattr(settings, name) for name in session.Length._fields)),
        about,
        hooks=arguments.hooks,
        checkpoint=arguments.checkpoint,
        checkpoint_every=arguments.checkpoint_every,
        resume=arguments.resume,
    )
    if arguments.progress is not None:
        run = run._replace(progress=arguments.progress)
    fitted = model.summarise(planned, run, trained)
    goal = run.measures.get("goal")
    fitted = dataclasses.replace(
        fitted,
        corpus=corpus_of(model, planned),
        done=_done(planned, run, trained),
        ended="" if goal is None or fitted.interrupted else goal.reason,
    )
    warnings = list(model.warn(fitted))
    if fitted.interrupted is not None:
        warnings.append(INTERRUPTED)
    return dataclasses.replace(fitted, warnings=warnings)


def check_alike(planned: Plan, **more: Any) -> None:
    """Raise a ValueError if other processes have planned another run."""
    settings = {n: value for n, value in as_json(planned.settings).items() if n != "devices"}
    processes.check_alike({**settings, "digest of the data": planned.digest, **more})


def _resumed(arguments: Session) -> bool:
    """Return whether a run continues from a checkpoint, or raise if it could not save any."""
    if arguments.checkpoint is None:
        if arguments.resume:
            raise ValueError("checkpoint must name the directory to resume from")
        return False
    store = Store(arguments.checkpoint)
    store.check_writable()
    # Damaged checkpoints count: they raise an error, and the run does not start over.
    return arguments.resume and store.newest() is not None


def fit(model: Model[O, F], data: Any, arguments: Session) -> F:
    """Plan a run and train it."""
    fitted = train(model, plan(model, data, arguments), arguments)
    if not fitted.done:
        return judged(model, fitted, "")
    again = _call(model, arguments, repeating(fitted))
    more = _call(model, arguments, _of_length(fitted, verdict.longer(fitted)))
    return judged(model, dataclasses.replace(fitted, again=again), more)


def judged(model: Model[O, F], fitted: F, longer: str) -> F:
    """Return a fit with its verdict, given the command or call of a longer run, or ""."""
    return dataclasses.replace(fitted, verdict=model.judge(fitted, longer))


def repeating(fitted: Results) -> dict[str, Any]:
    """Return the options that give a fit again, in place of a run's length, goal and chains.

    A run that ended by its goal ends there again, without a time limit.
    """
    if fitted.ended in BY_RULE:
        target = getattr(fitted.settings, "target_ess", None)
        return {} if target is None else {"target_ess": target}
    return _of_length(fitted, fitted.done)


def _of_length(fitted: Results, length: dict[str, int]) -> dict[str, Any]:
    chains = fitted.settings.chains
    # Their default depends on the length, but a run that becomes longer keeps its own.
    static = verdict.static_passes(fitted)
    return (
        length
        | ({"chains": chains} if chains > 1 else {})
        | ({"static_passes": static} if static else {})
    )


def lengths(model: Model) -> set[str]:
    """Return the names of the options that say when a run of a model ends."""
    return {*changeable(model.options)} - {"devices", "eval_every"}


def _call(model: Model, arguments: Session, instead: dict[str, Any]) -> str:
    """Return the call of a model's `fit`, with some options instead of length, goal and chains."""
    left_out = {*lengths(model), "chains", *_PLACES}
    values = {
        name: value
        for field in dataclasses.fields(arguments)
        if (name := field.name) not in left_out
        and (value := getattr(arguments, name)) is not field.default
        and not (isinstance(value, _PLAIN) and value == field.default)
    }
    chains = getattr(arguments, "chains", None)
    if "chains" not in instead and chains != _default_chains(model):
        instead = instead | {"chains": chains}
    given = "".join(f", {name}={_shown(name, x)}" for name, x in (values | instead).items())
    return f"{model.name}.fit(data{given})"


def _default_chains(model: Model) -> Any:
    return next(f.default for f in dataclasses.fields(model.options) if f.name == "chains")


def _shown(name: str, value: Any) -> str:
    return repr(value) if isinstance(value, _PLAIN) else name


def _done(planned: Plan, run: session.Run, trained: session.Trained) -> dict[str, int]:
    """Return the number of passes of a run, or of its steps if these are no whole passes."""
    steps = int(current_step(trained.state))
    per_pass = -(-run.measures["records"].documents // planned.settings.batch_size)
    if not steps:
        return {}
    return {"steps": steps} if steps % per_pass else {"passes": steps // per_pass}


def digest_of(tree: Any) -> str:
    """Return the hexadecimal SHA-256 digest of all arrays of a tree, including sparse ones."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        for part in _parts(leaf) if sp.issparse(leaf) else (leaf,):
            array = np.ascontiguousarray(part)
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _parts(counts: sp.csr_array) -> tuple[np.ndarray, ...]:
    # Documents read one by one from a store have wider indices than those in memory.
    index = np.int32 if max(counts.nnz, *counts.shape) < 2**31 else np.int64
    return counts.indptr.astype(index), counts.indices.astype(index), counts.data


def corpus_of(model: Model[O, F], planned: Plan[O]) -> dict[str, Any]:
    """Return the facts about the data of a run that are stored with its results."""
    facts = model.describe(planned)
    return {**facts, "held_out": planned.held, "digest": planned.digest}
