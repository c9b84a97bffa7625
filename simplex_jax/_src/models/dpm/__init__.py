"""Dirichlet-process mixtures: clustering with an unknown number of clusters."""

from typing import Any

from simplex_jax._src.models import pipeline
from simplex_jax._src.models.dpm import data, families, fitting, tables
from simplex_jax._src.models.dpm.fitting import Fit
from simplex_jax._src.models.dpm.model import build
from simplex_jax._src.models.dpm.options import Arguments, Options, resolve_options
from simplex_jax._src.models.dpm.variables import Columns, Words
from simplex_jax._src.models.records import Model
from simplex_jax._src.options import with_options

MODEL = Fit.MODEL = Model(
    name="dpm",
    options=Options,
    fit=Fit,
    as_data=data.as_data,
    digest=data.digest,
    hold_out=data.hold_out,
    resolve_options=resolve_options,
    prepare=fitting.prepare,
    summarise=fitting.summarise,
    warn=fitting.warn,
    judge=fitting.judge,
    describe=fitting.describe,
    files=tables.FILES,
    infer=fitting.infer,
    score=fitting.score,
    alone="the number of its clusters changes while it runs",
)


@with_options(Arguments)
def fit(rows: Any, arguments: Arguments) -> Fit:
    """Sample the partition of rows into an unknown number of clusters.

    Columns of numbers in a data frame are standardised, so that the prior of a cluster matches
    their scale. Missing cells are left out of the likelihood, not imputed; whether a cell is
    missing must not depend on its value.

    Ctrl-C (SIGINT) and SIGTERM end the run early, and the samples so far are summarised.

    Args:
        rows: A `corpus.Corpus`, whose rows are counts; texts, a sequence of N strings, whose words
            `corpus.from_texts` counts with its default options; a data frame, or a mapping from
            names to columns, of numbers, categories and counts (see `kinds`); or rows in the form
            that `family` expects.
            A memory-mapped table (`np.load(..., mmap_mode="r")`) stays in its file, which must not
            change meanwhile, if the device is a CPU and the table is all of an .npy file of float32
            or int32.
        {options}

    Returns:
        The fit. The same rows, options, versions and device give the same numbers, unless `seconds`
        ends the run.

    Raises:
        ValueError: An option is out of range or the rows do not fit the family; a `CheckpointError`
            if `resume` finds only checkpoints that are damaged or belong to another run, such as
            one with other rows.
        FloatingPointError: The state became NaN; the message names the step.

    Example:
        >>> import numpy as np
        >>> from simplex_jax import dpm
        >>> rows = np.repeat([[0, 0, 1], [1, 1, 0]], [25, 15], axis=0)
        >>> fitted = dpm.fit(rows, dpm.families.categorical([2, 2, 2]), passes=100)
        >>> fitted.clusters.labels[[0, 24, 25, 39]].tolist()
        [0, 0, 1, 1]
    """
    given = data.Given(rows, arguments.family, arguments.kinds, arguments.weights)
    return pipeline.fit(MODEL, given, arguments)


load = Fit.load
