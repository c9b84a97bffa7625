"""One pipeline for all models: from data to a fit, its files, and back.

A model is a record of functions, `Model`; they are called here and in `files`. A run is planned
(`plan`: documents held out, every option settled), trained (`train`) and summarised as a `Fit`,
which has its warnings, its files and its report.
"""

import dataclasses
import hashlib
import platform
import signal
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np
import scipy.sparse as sp

import simplex_jax
from simplex_jax.models.options import as_json, declarations, option, options
from simplex_jax.runtime import processes, session
from simplex_jax.runtime.hooks import Hook
from simplex_jax.runtime.session import Progress, Run

_LENGTH = (*session.Length._fields, "target_ess", "time_limit")
_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")


@options
class Session:
    """Arguments of a fit that do not affect its results, or that no file can store."""

    holdout: int | None = option(
        "Documents, or rows, to hold out and predict.",
        default=0,
        least=0,
        unset="a tenth, at most 1000, if they can be predicted",
        parameter=None,
    )
    holdout_seed: int | None = option(
        "Seed by which they are chosen.", default=None, least=0, unset="seed", parameter=None
    )
    heldout: Any = option(
        "Others to predict, as `hold_out` makes them.", default=None, parameter=None
    )
    hooks: Sequence[Hook] = option(
        "Called with an `Event` after every evaluation, say `hooks.Progress`.",
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
        "Directory of the samples that are kept.", default=None, unset="in memory", parameter=None
    )
    progress: Progress | None = option(
        "Called with a task, how much of it is done and how much there is, after the training.",
        default=None,
        parameter=None,
    )


class Plan(NamedTuple):
    """A run before it starts."""

    data: Any  # all the data, those held out too, as `Model.as_data` returns them
    train: Any  # the data to learn from
    heldout: Any  # the data to predict, or None
    held: int  # number of documents or rows in `data` that are held out
    settings: Any  # the options, every one settled
    digest: str  # digest of the data


class Model(NamedTuple):
    """A model, as the pipeline, the commands and the estimators see it."""

    name: str  # its room, its command and the `command` of `config.json`
    options: type  # the dataclass of its options
    fit: type["Fit"]  # the class of its fits
    # The data of a user of `fit`, checked, with `names`, one a document or row
    as_data: Callable[[Any], Any]
    digest: Callable[[Any], str]  # `data -> digest`, hexadecimal
    # `(data, number, seed) -> (train, heldout)`; `heldout` is None where there is nothing to
    # predict in it.
    hold_out: Callable[[Any, int, int], tuple[Any, Any]]
    # `(train, heldout, options) -> options` with every None that has a default filled in
    settle: Callable[[Any, Any, Any], Any]
    prepare: Callable[[Plan, Path | None], Run]  # `(plan, samples_dir) -> Run`
    summarise: Callable[[Plan, Run, session.Trained], "Fit"]  # `(plan, run, trained) -> Fit`
    warn: Callable[[Any], list[str]]  # `Fit -> sentences`, each a reason for doubt
    # `Plan -> facts` about the data, for `config.json` and the report
    describe: Callable[[Plan], dict[str, Any]]
    files: Any  # files of a fit, see `files.Files`
    # `(fit, data, seed) -> shares` [n, K] of other documents or rows, in the words of the fit
    infer: Callable[..., np.ndarray]
    # Why one process has to fit it; None where several share its data
    alone: str | None = "its data are not shared"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit:
    """Attributes of all fits; those of a model add its results.

    Attributes:
        samples: Number of posterior samples behind the summary, of all chains.
        diagnostics: R-hat and effective sample size over chains and samples, by name.
        metrics: One record an evaluation.
        settings: The options, every one settled.
        corpus: Facts about the data: numbers of documents and words, digest.
        versions: Versions of the packages that the results depend on.
        warnings: Sentences, each a reason to doubt the results.
        interrupted: The signal that ended the run before its time, or None.
        state: Last state of the kernel, of all chains along a first axis if there are several;
            None for a fit that was loaded.
    """

    MODEL: ClassVar[Model]

    samples: int
    diagnostics: dict[str, dict[str, float]]
    metrics: list[dict[str, float]]
    settings: Any
    corpus: dict[str, Any] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: versions())
    warnings: list[str] = dataclasses.field(default_factory=list)
    interrupted: signal.Signals | None = None
    state: Any = None

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fit to a directory, with its report, as the command does, and return the path.

        Args:
            directory: The directory; made if it does not exist.
            overwrite: Replace the run that is there.

        Raises:
            FileExistsError: The directory holds other files, or a run and `overwrite` is false.
        """
        from simplex_jax.models import files

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
        from simplex_jax.models import files

        return files.load(cls.MODEL, Path(directory))  # type: ignore[return-value]

    def transform(self, data: Any, *, seed: int = 0) -> np.ndarray:
        """Return the shares of the topics or clusters in other documents or rows, float32 [n, K].

        Args:
            data: Documents or rows as for `fit`, over any vocabulary: words that the model does
                not have are left out.
            seed: Seed of the random numbers.

        Raises:
            ValueError: The model has none of their words.
        """
        return self.MODEL.infer(self, data, seed=seed)

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and return its path.

        Args:
            path: The file, or a directory that will hold `report.html`.
        """
        from simplex_jax.models import files

        return files.report(self.MODEL, self, Path(path))


def plan(model: Model, data: Any, arguments: Any) -> Plan:
    """Return the plan of a run, from the data and the arguments of a model's `fit`.

    A ValueError names data or an option that cannot be used.
    """
    chosen = {name: getattr(arguments, name) for name, _, _ in declarations(model.options)}
    return plan_of(model, data, model.options(**chosen), arguments)


def plan_of(model: Model, data: Any, chosen: Any, session: Session) -> Plan:
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


def train(model: Model, planned: Plan, arguments: Session) -> Any:
    """Train a run to its end, or to an interruption, and return its fit.

    SIGINT (Ctrl-C) and SIGTERM end the run early, with a checkpoint if there is a directory for
    them; the samples up to then are summarised. A second signal ends at once.
    """
    run = model.prepare(planned, arguments.samples_dir)
    if arguments.progress is not None:
        run = run._replace(progress=arguments.progress)
    settings = planned.settings
    about = {
        "model": model.name,
        # A run that goes on may be longer, and on other devices.
        "settings": as_json(settings) | dict.fromkeys((*_LENGTH, "devices")),
        "data": planned.digest,
        "heldout": digest_of(planned.heldout),
    }
    trained = session.train(
        run,
        session.Length(*(getattr(settings, name) for name in session.Length._fields)),
        about,
        hooks=arguments.hooks,
        checkpoint=arguments.checkpoint,
        checkpoint_every=arguments.checkpoint_every,
        resume=arguments.resume,
    )
    fitted = model.summarise(planned, run, trained)
    fitted = dataclasses.replace(fitted, corpus=corpus_of(model, planned))
    warnings = list(model.warn(fitted))
    if fitted.interrupted is not None:
        warnings.append("The run was interrupted before its time.")
    return dataclasses.replace(fitted, warnings=warnings)


def fit(model: Model, data: Any, arguments: Any) -> Any:
    """Plan a run and train it."""
    return train(model, plan(model, data, arguments), arguments)


def digest_of(tree: Any) -> str:
    """Return the SHA-256 of all arrays of a tree, sparse ones too, hexadecimal."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        for part in _parts(leaf) if sp.issparse(leaf) else (leaf,):
            array = np.ascontiguousarray(part)
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(array.tobytes())
    return total.hexdigest()


def _parts(counts: sp.csr_array) -> tuple[np.ndarray, ...]:
    # Documents of a store have wider indices where they are read one by one than in memory.
    index = np.int32 if max(counts.nnz, *counts.shape) < 2**31 else np.int64
    return counts.indptr.astype(index), counts.indices.astype(index), counts.data


def corpus_of(model: Model, planned: Plan) -> dict[str, Any]:
    """Return the facts about the data of a run that go with its results."""
    facts = model.describe(planned)
    return {**facts, "held_out": planned.held, "digest": planned.digest}


def config_of(
    model: Model, settings: Any, corpus: Mapping[str, Any], source: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the contents of `config.json`.

    The source is the command's input and its options of reading; None for a fit from Python.
    """
    return {
        "command": model.name,
        "source": source,
        "settings": as_json(settings),
        "corpus": dict(corpus),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    own = {"simplex_jax": simplex_jax.__version__, "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in _PACKAGES}
