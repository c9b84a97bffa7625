"""Records that define a model, and those passed between its functions and the pipeline."""

import dataclasses
import inspect
import platform
import re
import signal
from collections.abc import Callable, Mapping, Sized
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from simplex_jax._src.models.options import RunOptions
from simplex_jax._src.report import page
from simplex_jax._src.runtime.sample_files import Folder
from simplex_jax._src.runtime.session import Run, Trained
from simplex_jax._src.version import __version__

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    own = {"simplex_jax": __version__, "python": platform.python_version()}
    return own | {name: metadata.version(name) for name in _PACKAGES}


class Data(Protocol):
    """Data of a model, as `Model.as_data` returns them."""

    @property
    def names(self) -> Sized:
        """Names of the documents or rows."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results:
    """Attributes of all fits; each model adds its results.

    Attributes:
        num_samples: Number of posterior samples in the summary, over all chains.
        diagnostics: R-hat and effective sample size over chains and samples, by name.
        metrics: One record per evaluation.
        settings: The options, all settled.
        corpus: Facts about the data: numbers of documents and words, digest.
        versions: Versions of the packages that the results depend on.
        warnings: Sentences about what is wrong with the data or the results, each with what to do.
        verdict: At most three sentences: what is good, what is not yet, and the command or call
            that improves it.
        ended: Why the run ended, if it had no length: "goal", "limit" (the most passes of such a
            run) or "clock" (its time limit); else "".
        interrupted: The signal that ended the run early, or None.
        done: Length of the run in the end, as an option: passes, or steps if they are no whole
            passes.
        again: The call or the command that gives this fit again, to the bit on the same device;
            arguments that are not plain values are only named in it. Empty if unknown.
        samples: Posterior draws kept in memory: arrays by name, with draws along the first axis;
            empty if there are none, and for models that keep partitions.
        state: Last state of the kernel, with a first axis of chains if there are several; None for
            a loaded fit.
    """

    MODEL: ClassVar["Model"]

    def __init_subclass__(cls, **options: Any) -> None:
        """Replace a line `{results}` of the docstring by these attributes, for `help`."""
        super().__init_subclass__(**options)
        if "{results}" in (cls.__doc__ or ""):
            own = inspect.cleandoc(cls.__doc__ or "")
            _, _, entries = inspect.cleandoc(Results.__doc__ or "").partition("Attributes:\n")
            others = [
                entry
                for entry in re.split(r"\n(?= {4}\S)", entries)
                if f"\n{entry.partition(':')[0]}:" not in own
            ]
            cls.__doc__ = own.replace("    {results}", "\n".join(others))

    num_samples: int
    diagnostics: dict[str, dict[str, float]]
    metrics: list[dict[str, float]]
    settings: RunOptions
    corpus: dict[str, Any] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: versions())
    warnings: list[str] = dataclasses.field(default_factory=list)
    verdict: list[str] = dataclasses.field(default_factory=list)
    ended: str = ""
    interrupted: signal.Signals | None = None
    done: dict[str, int] = dataclasses.field(default_factory=dict)
    again: str = ""
    samples: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    state: Any = None


O = TypeVar("O", bound=RunOptions)  # noqa: E741, it is not the number
F = TypeVar("F", bound=Results)


class Plan(NamedTuple, Generic[O]):
    """A run before it starts."""

    data: Any  # all the data, including those held out, as `Model.as_data` returns them
    train: Any  # the training data
    heldout: Any  # the data to predict, or None
    held: int  # number of documents or rows in `data` that are held out
    settings: O  # the options, all settled
    digest: str  # digest of the data
    holdout_seed: int = 0  # seed of the choice of those held out
    # Whether the first state comes from a checkpoint: `prepare` may then return only its structure,
    # of arrays or `jax.ShapeDtypeStruct`
    resumed: bool = False


def of_run(plan: Plan[Any], run: Run, trained: Trained) -> dict[str, Any]:
    """Return the attributes of `Results` that follow from a run alone."""
    records, ended = run.measures["records"].records, trained.interrupted
    settings, state = plan.settings, trained.state
    return {"metrics": records, "settings": settings, "interrupted": ended, "state": state}


class Array(NamedTuple):
    """An array of a fit in its files."""

    axes: str  # a letter for each axis, "" for a scalar; equal letters are equally long
    least: float = 0.0  # the smallest number allowed; -inf for logarithms, which may be -inf
    most: float = np.inf  # the largest
    positive: bool = False  # whether 0 is too small
    unknown: bool = False  # whether NaN is allowed, if a single sample or chain is not enough


class Saved(NamedTuple, Generic[O]):
    """Contents of the files of a run, checked one by one."""

    directory: Path  # their directory
    settings: O  # the options, every one settled
    corpus: dict[str, Any]  # facts about the data
    summary: dict[str, Any]  # the contents of `summary.json`
    arrays: dict[str, np.ndarray]  # all arrays by name


class Files(NamedTuple, Generic[O, F]):
    """Functions that write and read fits of a model."""

    names: tuple[str, ...]  # the files that `write` creates, besides those of all runs
    arrays: Mapping[str, Mapping[str, Array]]  # attributes of the fit by file, those of each `.npz`
    # `Saved -> length of each axis`, without the arrays; a RunError names a damaged file
    sizes: Callable[[Saved[O]], Mapping[str, int]]
    # `(fit, directory)`, which writes the files for people
    write: Callable[[F, Path], None]
    summary: Callable[[F], dict[str, Any]]  # `fit -> further entries of summary.json`
    # `Saved -> the attributes of the fit` that are not in `Results`
    restore: Callable[[Saved[O]], dict[str, Any]]
    report: page.Report  # the page of a run
    # `fit -> the arrays by name`; by default its attributes
    values: Callable[[F], Mapping[str, Any]] = vars


class Model(NamedTuple, Generic[O, F]):
    """A model, as the pipeline, the commands and the estimators see it."""

    name: str  # its package, its command and the `command` of `config.json`
    options: type[O]  # the dataclass of its options
    fit: type[F]  # the class of its fits
    # Checks the data given to `fit`, and returns them with `names`, one per document or row
    as_data: Callable[[Any], Data]
    digest: Callable[[Any], str]  # `data -> digest`, hexadecimal
    # `(data, number, seed) -> (train, heldout)`; `heldout` is None if there is nothing to predict
    # in it.
    hold_out: Callable[[Any, int, int], tuple[Any, Any]]
    # `(train, heldout, options) -> options` with every None that has a default filled in
    resolve_options: Callable[[Any, Any, O], O]
    # `(plan, folder) -> Run`; if there is a folder, the kept samples go there
    prepare: Callable[[Plan[O], Folder | None], Run]
    summarise: Callable[[Plan[O], Run, Trained], F]  # `(plan, run, trained) -> Fit`
    warn: Callable[[F], list[str]]  # `Fit -> sentences`, each about what a user should act on
    # `Plan -> facts` about the data, for `config.json` and the report
    describe: Callable[[Plan[O]], dict[str, Any]]
    files: Files[O, F]  # files of a fit
    # `(fit, data, seed) -> proportions` [n, K] of other documents or rows, over its vocabulary
    infer: Callable[..., np.ndarray]
    # `(fit, data, seed) -> mean log predictive density` of other documents or rows
    score: Callable[..., float]
    # `(fit, command or call of a longer run) -> verdict`, see `Results`
    judge: Callable[[F, str], list[str]] = lambda fitted, longer: []
    # Why it needs a single process; None if several can share its data
    alone: str | None = "its data are not shared"
