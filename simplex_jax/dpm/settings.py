"""The settings of a run: everything that decides it, with what was left out filled in."""

import math
from typing import Any, NamedTuple

import numpy as np

from simplex_jax import schedules
from simplex_jax.draws import arguments
from simplex_jax.evaluate import partitions
from simplex_jax.models import dp_mixture
from simplex_jax.models.dp_mixture import Gamma
from simplex_jax.runtime import session

PRIOR = (1.0, 1.0)
"""Shape and rate of the prior of the concentration, as in the published code of the SCIR paper."""

PASSES = 500.0
"""Length of a run in passes: exact updates of all rows find the clusters of the web data in 100."""

# Rows in a batch of subsampled counts, as the SCIR paper has them.
_SUBSAMPLED = 1_000

# Labels that rows start from, drawn at random: more than most data need, as a chain gives up
# clusters sooner than it finds them, but several rows each.
_CLUSTERS, _ROWS_EACH = 60, 5


class Settings(NamedTuple):
    """Everything that decides a run, with its defaults resolved; every entry can go into JSON.

    Attributes:
        alpha: The concentration, or None where it is learned.
        alpha_shape: Shape of its Gamma prior, where it is learned.
        alpha_rate: Rate of that prior.
        alpha_update: One of `dp_mixture.ALPHA_UPDATES`.
        sampler: One of `dp_mixture.SAMPLERS`.
        counts: One of `dp_mixture.COUNTS`.
        variant: One of `dp_mixture.VARIANTS`.
        atom_step_size: Constant step size of the atoms; None for the exact sampler.
        stick_step_size: That of the sticks.
        split_merge: Split-merge moves in every update.
        initial_clusters: Number of labels that the rows start with at random, see `starts`.
        capacity: Sticks that there is room for at first.
        batch_size: Rows in a batch.
        loss: One of `partitions.LOSSES`.
        num_steps: Updates, or None if time ends the run.
        seconds: Training time that ends the run, or None.
        eval_every: Updates between evaluations.
        chains: Chains side by side.
        keep_samples: Partitions that are kept, of each chain.
        seed: Seed of all randomness.
    """

    alpha: float | None
    alpha_shape: float
    alpha_rate: float
    alpha_update: str
    sampler: str
    counts: str
    variant: str
    atom_step_size: float | None
    stick_step_size: float | None
    split_merge: int
    initial_clusters: int
    capacity: int
    batch_size: int
    loss: str
    num_steps: int | None
    seconds: float | None
    eval_every: int
    chains: int
    keep_samples: int
    seed: int


def resolve(
    rows: int,
    *,
    alpha: float | None = None,
    alpha_shape: float = PRIOR[0],
    alpha_rate: float = PRIOR[1],
    alpha_update: str = "sticks",
    sampler: str = "exact",
    counts: str = "memoised",
    variant: str = "dependent",
    atom_step_size: float | None = None,
    stick_step_size: float | None = None,
    split_merge: int = 0,
    initial_clusters: int | None = None,
    capacity: int = 64,
    batch_size: int | None = None,
    loss: str = "vi",
    passes: float | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    eval_every: int | None = None,
    chains: int = 1,
    keep_samples: int = 25,
    seed: int = 0,
) -> Settings:
    """Return the settings of a run with everything that was left out filled in.

    Args:
        rows: Number of rows N to train on.
        alpha: Concentration of the process; None to learn it.
        alpha_shape: Shape of its Gamma prior.
        alpha_rate: Rate of its Gamma prior.
        alpha_update: How it is learned, one of `dp_mixture.ALPHA_UPDATES`.
        sampler: How sticks and atoms move, one of `dp_mixture.SAMPLERS`.
        counts: One of `dp_mixture.COUNTS`.
        variant: Of the slices, one of `dp_mixture.VARIANTS`.
        atom_step_size: Step size of the atoms, for samplers but the exact one; 0.1 by default.
        stick_step_size: That of the sticks.
        split_merge: Split-merge moves in every update, see `models.dp_split_merge`; with the exact
            sampler and memoised counts.
        initial_clusters: Labels that the rows start with at random; by default 60, or one for five
            rows, or the capacity, whichever is least. A chain may be long in leaving such a number,
            and so several chains start from others, from half to twice of it: see `starts`.
        capacity: Sticks that there is room for at first; more are made when they are needed.
        batch_size: Rows in a batch; by default all, and up to 1,000 with subsampled counts.
        loss: What the point partition makes least, one of `partitions.LOSSES`.
        passes: Length of the run in passes over the rows, 500 by default.
        steps: Its length in updates.
        seconds: Its length in seconds of training.
        eval_every: Updates between evaluations; a 100th of the run or, if it ends by time, a pass.
        chains: Chains side by side, with starts and random numbers of their own.
        keep_samples: Partitions to keep of each chain, evenly spaced over the second half of the
            run: the summary is made of them.
        seed: Seed of all randomness.

    Raises:
        ValueError: An option is out of range or does nothing with the others; the message names it.

    Example:
        >>> from simplex_jax import dpm
        >>> settings = dpm.resolve(5_000, counts="subsampled", sampler="scir", passes=10)
        >>> settings.batch_size, settings.num_steps, settings.initial_clusters
        (1000, 50, 60)
    """
    rows = arguments.at_least("rows", rows, 1)
    for name, value, names in (
        ("alpha_update", alpha_update, dp_mixture.ALPHA_UPDATES),
        ("sampler", sampler, dp_mixture.SAMPLERS),
        ("counts", counts, dp_mixture.COUNTS),
        ("variant", variant, dp_mixture.VARIANTS),
        ("loss", loss, partitions.LOSSES),
    ):
        if value not in names:
            raise ValueError(f"{name} must be one of {', '.join(names)}; it is {value!r}")
    if batch_size is None:
        batch_size = min(rows, _SUBSAMPLED) if counts == "subsampled" else rows
    if arguments.at_least("batch_size", batch_size, 1) > rows:
        raise ValueError(f"batch_size must be at most the {rows} rows; it is {batch_size}")
    if alpha_update == "escobar-west" and counts != "memoised":
        raise ValueError('alpha_update "escobar-west" needs memoised counts: give "sticks"')
    if alpha is not None and alpha_update != "sticks":
        raise ValueError(f"alpha is given: alpha_update {alpha_update!r} would do nothing")
    split_merge = arguments.at_least("split_merge", split_merge, 0)
    if split_merge and (sampler, counts) != ("exact", "memoised"):
        raise ValueError("split_merge needs the exact sampler and memoised counts: give 0")
    if initial_clusters is None:
        initial_clusters = min(_CLUSTERS, max(1, rows // _ROWS_EACH), capacity)
    capacity = arguments.at_least("capacity", capacity, 1)
    if arguments.at_least("initial_clusters", initial_clusters, 1) > capacity:
        raise ValueError(
            f"initial_clusters must be at most the capacity, {capacity}; it is {initial_clusters}"
        )
    if passes is None and steps is None and seconds is None:
        passes = PASSES
    per_pass = -(-rows // batch_size)
    length = session.length(
        per_pass, passes=passes, steps=steps, seconds=seconds, eval_every=eval_every
    )
    if eval_every is None and length.steps is not None:
        length = length._replace(eval_every=max(1, length.steps // 100))
    steps_of = dp_mixture.step_sizes(sampler, atom_step_size, stick_step_size)
    atoms, sticks = (
        None if sampler == "exact" else schedules.constant(name, size)
        for name, size in zip(("atom_step_size", "stick_step_size"), steps_of, strict=True)
    )
    return Settings(
        alpha=None if alpha is None else _positive("alpha", alpha),
        alpha_shape=_positive("alpha_shape", alpha_shape),
        alpha_rate=_positive("alpha_rate", alpha_rate),
        alpha_update=alpha_update,
        sampler=sampler,
        counts=counts,
        variant=variant,
        atom_step_size=atoms,
        stick_step_size=sticks,
        split_merge=split_merge,
        initial_clusters=initial_clusters,
        capacity=capacity,
        batch_size=batch_size,
        loss=loss,
        num_steps=length.steps,
        seconds=length.seconds,
        eval_every=length.eval_every,
        chains=arguments.at_least("chains", chains, 1),
        keep_samples=arguments.at_least("keep_samples", keep_samples, 1),
        seed=session.check_seed(seed),
    )


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be finite and positive; it is {value}")
    return float(value)


def starts(settings: Settings) -> list[int]:
    """Return the number of labels that each chain starts with.

    Several chains start from numbers between half and twice `initial_clusters`, or the capacity, in
    proportion, so that R-hat of the number of clusters means something.

    Example:
        >>> starts(resolve(1_000, chains=3))
        [30, 44, 64]
    """
    middle = settings.initial_clusters
    if settings.chains == 1:
        return [middle]
    spread = np.geomspace(middle / 2, min(2 * middle, settings.capacity), settings.chains)
    return np.maximum(spread.round(), 1).astype(int).tolist()


def kernel_options(settings: Settings) -> dict[str, Any]:
    """Return the options of `dp_mixture.build` that these settings are."""
    same = ["sampler", "counts", "variant", "alpha_update", "batch_size", "capacity"]
    same += ["atom_step_size", "stick_step_size", "split_merge"]
    learned = Gamma(settings.alpha_shape, settings.alpha_rate)
    return {name: getattr(settings, name) for name in same} | {
        "alpha": learned if settings.alpha is None else settings.alpha,
        "chains": settings.chains if settings.chains > 1 else None,
    }
