"""One pipeline for all models: from data to a fit, its files, and back.

A model is a record of functions, `records.Model`; they are called here and in `files`. A run is
planned (`plan`: documents held out, every option settled), trained (`train`) and summarised as a
`Fit`, which has its warnings, its files and its report.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
import scipy.sparse as sp

from simplex_jax import arguments
from simplex_jax.evaluate.fits import Fitted
from simplex_jax.models import files
from simplex_jax.models.options import as_json, changeable, declarations, option, options
from simplex_jax.models.records import F, Model, O, Plan, Results
from simplex_jax.runtime import processes, session
from simplex_jax.runtime.checkpoint import Store
from simplex_jax.runtime.hooks import Callback, calls_of
from simplex_jax.runtime.sample_files import Folder, mark_of
from simplex_jax.runtime.session import Progress


@options
class Session:
    """Arguments besides the model's options: held-out data, hooks, checkpoints, samples."""

    holdout: int | None = option(
        "Documents, or rows, to hold out and predict.",
        default=0,
        least=0,
        unset="a tenth, at most 1000, if they can be predicted",
        parameter=None,
    )
    holdout_seed: int | None = option(
        "Seed by which they are chosen.",
        default=None,
        least=0,
        most=arguments.MOST_SEED,
        unset="seed",
        parameter=None,
    )
    heldout: Any = option(
        "Others to predict, as `hold_out` makes them.", default=None, parameter=None
    )
    hooks: Sequence[Callback] = option(
        "Called with an `Event` after every evaluation, say `hooks.Progress`. Checkpoints do not "
        "hold them: where a run is resumed an `EarlyStop` counts anew.",
        default=(),
        parameter=None,
    )
    checkpoint: Path | None = option(
        "Directory of the checkpoints.", default=None, unset="no checkpoints", parameter=None
    )
    checkpoint_every: float = option(
        "Least number of seconds between checkpoints; 0 for one at each evaluation.",
        default=60.0,
        least=0,
        parameter=None,
        metavar="SECONDS",
    )
    resume: bool = option(
        "Go on from the newest checkpoint, to the samples that an uninterrupted run would have "
        "had. Where there is none yet, start from the beginning.",
        default=False,
        parameter=None,
    )
    samples_dir: Path | None = option(
        "Directory of the samples that are kept; those of another run may not be there.",
        default=None,
        check=lambda name, value: None if value is None else Path(value),
        unset="in memory",
        parameter=None,
    )
    progress: Progress | None = option(
        "Called with a task, how much of it is done and how much there is, after the training.",
        default=None,
        parameter=None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit(Results, Fitted):
    """A fit, which can be saved, loaded, applied to other data and reported; see `Results`."""

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit to a directory, with its report, as the command does, and return the path.

        Samples of topics that the fit holds in memory (`kept`, of `lda` and `sam`) go to
        `samples/`. Those that it has written to a `samples_dir` stay there, and partitions of `hdp`
        and `dpm` are not written.

        Args:
            directory: The directory; made if it does not exist.
            overwrite: Replace the run that is there, with its checkpoint and its samples.

        Raises:
            FileExistsError: The directory holds other files, or a run and `overwrite` is false.
        """
        return files.save(self.MODEL, self, Path(directory), overwrite=overwrite)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a fit that `save`, or the command, has written.

        Raises:
            RunError: The directory holds no finished run of this model, or a file is damaged.

        Example:
            >>> from simplex_jax import lda
            >>> lda.load("no/such/directory")
            Traceback (most recent call last):
            simplex_jax.runtime.saved.RunError: no/such/directory: there is no such directory
        """
        return files.load(cls.MODEL, Path(directory))

    def transform(self, data: Any, *, seed: int = 0) -> np.ndarray:
        """Return the shares of the topics or clusters in other documents or rows, float32 [n, K].

        Args:
            data: Documents or rows as for `fit`, over any vocabulary: words that the model does
                not have are left out. Of texts all words that it has count, however rare; they
                are split by the default options of `corpus.from_texts`, so where the fit had
                others, give `corpus.from_texts(texts, options=..., vocabulary=fit.vocabulary)`.
            seed: Seed of the random numbers, from 0 to 2^32 - 1.

        Raises:
            ValueError: The model has none of their words, or the seed is out of range.
        """
        return self.MODEL.infer(self, data, seed=arguments.seed(seed))

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and return its path.

        Args:
            path: The file, or a directory that will hold `report.html`.
        """
        return files.report(self.MODEL, self, Path(path))


def plan(model: Model[O, F], data: Any, arguments: Session) -> Plan[O]:
    """Return the plan of a run, from the data and the arguments of a model's `fit`.

    A ValueError names data or an option that cannot be used.
    """
    chosen = {name: getattr(arguments, name) for name, _, _ in declarations(model.options)}
    return plan_of(model, data, model.options(**chosen), arguments)


def plan_of(model: Model[O, F], data: Any, chosen: O, session: Session) -> Plan[O]:
    """Return the plan of a run, as `plan` does, from options and session apart."""
    if model.alone is not None and processes.count() > 1:
        raise ValueError(refusal(model))
    everything = model.as_data(data)
    total = len(everything.names)
    train, heldout, held = everything, session.heldout, 0
    count = min(1000, total // 10) if session.holdout is None else session.holdout
    if count:
        if heldout is not None:
            raise ValueError("give holdout or heldout, not both")
        if count >= total:
            raise ValueError(f"holdout {count} leaves none of the {total}: hold out fewer")
        seed = chosen.seed if session.holdout_seed is None else session.holdout_seed
        train, heldout = model.hold_out(everything, count, seed)
        held = total - len(train.names)
        if heldout is None and session.holdout is not None:
            raise ValueError(
                f"holdout {count}: none of them has anything to predict: hold out more"
            )
    settings = model.settle(train, heldout, chosen)
    return Plan(everything, train, heldout, held, settings, model.digest(everything))


def refusal(model: Model) -> str:
    """Return why several processes do not share a run of a model that one has to fit."""
    return f"{model.name} takes one process: {model.alone}"


def train(model: Model[O, F], planned: Plan[O], arguments: Session) -> F:
    """Train a run to its end, or to an interruption, and return its fit.

    SIGINT (Ctrl-C) and SIGTERM end the run early, with a checkpoint if there is a directory for
    them; the samples up to then are summarised. A second signal ends at once.
    """
    # Before the run is prepared, which may take its time: for errors of the arguments.
    calls_of(arguments.hooks)
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
    # No name for the run in between: nothing may hold its first state, which can be large.
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
    fitted = dataclasses.replace(fitted, corpus=corpus_of(model, planned))
    warnings = list(model.warn(fitted))
    if fitted.interrupted is not None:
        warnings.append("The run was interrupted before its time.")
    return dataclasses.replace(fitted, warnings=warnings)


def _resumed(arguments: Session) -> bool:
    """Tell whether a run goes on from a checkpoint, or raise where it could not save any."""
    if arguments.checkpoint is None:
        if arguments.resume:
            raise ValueError("checkpoint must name the directory to resume from")
        return False
    store = Store(arguments.checkpoint)
    store.check_writable()
    # Damaged ones count: they are refused, and the run does not start over.
    return arguments.resume and store.newest() is not None


def fit(model: Model[O, F], data: Any, arguments: Session) -> F:
    """Plan a run and train it."""
    return train(model, plan(model, data, arguments), arguments)


def digest_of(tree: Any) -> str:
    """Return the SHA-256 of all arrays of a tree, sparse ones too, hexadecimal."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        for part in _parts(leaf) if sp.issparse(leaf) else (leaf,):
            array = np.ascontiguousarray(part)
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _parts(counts: sp.csr_array) -> tuple[np.ndarray, ...]:
    # Documents of a store have wider indices where they are read one by one than in memory.
    index = np.int32 if max(counts.nnz, *counts.shape) < 2**31 else np.int64
    return counts.indptr.astype(index), counts.indices.astype(index), counts.data


def corpus_of(model: Model[O, F], planned: Plan[O]) -> dict[str, Any]:
    """Return the facts about the data of a run that go with its results."""
    facts = model.describe(planned)
    return {**facts, "held_out": planned.held, "digest": planned.digest}
