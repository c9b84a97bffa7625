"""The options of the Dirichlet-process mixture, and their defaults."""

import dataclasses
from typing import Any

from simplex_jax._src import arguments
from simplex_jax._src.base import PyTree
from simplex_jax._src.evaluate import partitions
from simplex_jax._src.models.dpm import model, variables
from simplex_jax._src.models.dpm.data import Data
from simplex_jax._src.models.dpm.families import family as family_rows
from simplex_jax._src.models.dpm.model import Gamma
from simplex_jax._src.models.options import (
    KEPT,
    MOST_CONCENTRATION,
    RunOptions,
    check_priors,
    concentration,
    gamma_prior,
    override,
)
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.options import option, options
from simplex_jax._src.runtime import session

# Exact updates of all rows find the clusters of the web data in 100 passes.
_PASSES = 500.0
_EVALUATED = 5  # fewest updates between evaluations

# Shape and rate of the prior of the concentration, as in the published code of the SCIR paper.
_PRIOR = (1.0, 1.0)

# Batch size of subsampled counts, as in the SCIR paper.
_SUBSAMPLED = 1_000

# Maximum number of initial clusters: more than most data need, because a chain drops clusters
# faster than it discovers them, but with several rows each; and where there are many rows.
_CLUSTERS, _ROWS_EACH = 60, 5
_MORE_CLUSTERS, _MORE_ROWS_EACH = 240, 100

# Without these moves a chain does not leave tight clusters; more of them gain little.
_SPLIT_MERGE = 4


@options
class Options(RunOptions):
    """Options of the Dirichlet-process mixture."""

    batch_size: int | None = option(
        "Rows in a batch.",
        default=None,
        least=1,
        unset="all; up to 1000 with subsampled counts",
    )
    passes: float | None = override(
        "passes", default=None, unset="500, unless steps or seconds are given"
    )
    eval_every: int | None = override("eval_every", default=None, unset="5, or a 16th of a pass")
    sample_every: int | None = override(
        "sample_every", default=None, unset="1, or a 16th of a pass"
    )
    keep_samples: int = override(
        "keep_samples",
        default=KEPT,
        help="Posterior samples to keep of each chain, evenly spaced over the last half of the "
        "run, or all of them if there are fewer. The clusters are summarised from them, and new "
        "rows assigned. Each takes 1 or 2 bytes per row, in memory, and 4 per missing number "
        "that is drawn.",
        least=1,
        unset=None,
    )
    alpha: float | str = concentration(
        "Concentration of the Dirichlet process; larger ones make more clusters. learn: sample it.",
        default="learn",
    )
    alpha_prior: tuple[float, float] | None = gamma_prior("alpha", unset="1,1")
    concentration: float | None = option(
        "Concentration of the Dirichlet prior of a cluster's probabilities, per value (not the "
        "sum); for counts and categories.",
        default=None,
        most=MOST_CONCENTRATION,
        unset="0.5",
        parameter=None,
    )
    sampler: str = option(
        "Sampler of the weights of the clusters (stick breaking) and of their components.",
        default="exact",
        choices=("exact", "scir"),
    )
    counts: str = option(
        "How the rows outside a batch are counted. memoised: by the clusters that they are in, so "
        "that Gibbs steps are exact for any batch. subsampled: an approximation in which the batch "
        "stands for all rows.",
        default="memoised",
        choices=model.COUNTS,
    )
    atom_step_size: float | None = option(
        "Step size of the sampler scir for the components.", default=None, unset="0.1"
    )
    stick_step_size: float | None = option(
        "Step size of the sampler scir for the weights of the clusters.", default=None, unset="0.1"
    )
    split_merge: int | None = option(
        "Rounds of split-merge moves per update; each proposes moves of up to half of the clusters "
        "(exact sampler, memoised counts).",
        default=None,
        least=0,
        unset="4, where possible",
    )
    initial_clusters: int | None = option(
        "Number of clusters in a random initial partition; several chains use from half to twice "
        "as many. By default a start is searched for, with at most one cluster per 5 rows; the "
        "search does not count towards --seconds.",
        default=None,
        least=1,
        unset="a partition that predicts well, one for each chain, into up to 60; up to 240 with "
        "100 rows each",
    )
    capacity: int = option(
        "Number of clusters that memory is first reserved for; it grows if needed.",
        default=64,
        least=1,
        parameter=None,
    )
    loss: str = option(
        "Loss by which the samples are summarised as one partition: vi is the variation of "
        "information, binder Binder's loss.",
        default="vi",
        choices=partitions.LOSSES,
    )

    def __post_init__(self) -> None:
        model.check(
            self.sampler,
            self.counts,
            self.split_merge or 0,
            atom_step_size=self.atom_step_size,
            stick_step_size=self.stick_step_size,
        )
        check_priors(self, "alpha")


@options
class Arguments(Options, Session):
    """Arguments of `dpm.fit`."""

    family: Any = option(
        "The component distribution with its prior, one of `dpm.families`.",
        default=None,
        kw_only=False,
        unset="that of the corpus or table",
        command=False,
        parameter=None,
    )
    kinds: Any = option(
        'Kinds of the columns of a data frame or a mapping, by name: "number", "category" or '
        '"count". Missing cells are NaN, None, empty texts, and texts such as "NA", "None", "null" '
        'and "?"; of a pandas categorical, what it calls so.',
        default=None,
        unset="text and booleans are categories, numbers are numbers; columns of nonnegative "
        "integers must be named",
        command=False,
        parameter=None,
    )
    weights: Any = option(
        "How many equal rows each row stands for: positive whole numbers, [N]. The result has the "
        "distribution of that of a table with each row repeated as often, whose labels need not be "
        "the same. Several rows with the same fractions are evidence of a tight cluster: weights "
        "are for rows that are equal indeed, such as answers to a survey.",
        default=None,
        unset="1",
        command=False,
        parameter=None,
    )
    # Partitions stay in memory, because the clusters are computed from them.
    samples_dir: None = dataclasses.field(default=None, init=False)


def resolve_options(data: Data, heldout: PyTree, options: Options) -> Options:
    """Return options with all defaults filled in, or raise a ValueError."""
    _check_heldout(data, heldout)
    if data.variables is None and options.concentration is not None:
        raise ValueError("concentration cannot be combined with family")
    if isinstance(data.variables, variables.Columns) and options.concentration is not None:
        variables.check_concentration(data.variables, options.concentration, "concentration")
    if data.variables is not None and options.concentration is None:
        options = dataclasses.replace(options, concentration=data.variables.concentration)
    evident = data.family is None or data.family.log_evidence is not None
    return of_size(data.size, options, evident)


def _check_heldout(data: Data, heldout: PyTree) -> None:
    if heldout is None:
        return
    family = data.family if data.variables is None else data.variables.family()
    assert family is not None
    try:
        family_rows.check(family, family_rows.as_arrays(heldout))
    except ValueError as error:
        raise ValueError(
            f"heldout must be rows of the family: {error}; or give holdout, a number of rows"
        ) from None


def of_size(rows: int, options: Options, evident: bool = True) -> Options:
    """Return options with the defaults that depend on the number of rows and other options.

    `evident` says whether the family has a `log_evidence`, which split-merge moves need.
    """
    rows = arguments.at_least("rows", rows, 1)
    batch_size = options.batch_size
    if batch_size is None:
        batch_size = min(rows, _SUBSAMPLED) if options.counts == "subsampled" else rows
    batch_size = model.check_batch_size(batch_size, rows)
    clusters, split_merge = options.initial_clusters, options.split_merge
    if split_merge is None:
        movable = evident and (options.sampler, options.counts) == ("exact", "memoised")
        split_merge = _SPLIT_MERGE if movable else 0
    per_pass = -(-rows // batch_size)
    length = session.length(
        per_pass,
        options,
        default_passes=_PASSES,
        eval_every=max(session.interval(per_pass, 0.0), _EVALUATED),
        sample_every=session.interval(per_pass, 0.0),
    )
    sizes: Any = (None, None)
    if options.sampler != "exact":
        sizes = model.step_sizes(options.sampler, options.atom_step_size, options.stick_step_size)
    return dataclasses.replace(
        options,
        alpha_prior=(options.alpha_prior or _PRIOR) if options.alpha == "learn" else None,
        atom_step_size=sizes[0],
        stick_step_size=sizes[1],
        initial_clusters=clusters,
        capacity=max(options.capacity, clusters or 1),
        split_merge=split_merge,
        batch_size=batch_size,
        passes=None,
        **length._asdict(),
    )


def most_clusters(rows: int) -> int:
    """Return the maximum number of clusters in a start that is searched for."""
    few = min(_CLUSTERS, max(1, rows // _ROWS_EACH))
    return max(few, min(_MORE_CLUSTERS, rows // _MORE_ROWS_EACH)) if few == _CLUSTERS else few


def process_alpha(settings: Options) -> float | Gamma:
    """Return the concentration of the process, alpha, or its prior."""
    if isinstance(settings.alpha, str):
        return Gamma(*(settings.alpha_prior or _PRIOR))
    return settings.alpha
