r"""Dirichlet-process mixtures without truncation, by slice samplers.

Rows have :math:`x_i \sim f(\cdot \mid \theta_{z_i})` with :math:`z_i \sim w`, where
:math:`w_j = v_j \prod_{l < j} (1 - v_l)`, :math:`v_j \sim \mathrm{Beta}(1, \alpha)`,
:math:`\theta_j \sim G_0`, and alpha is known or has a Gamma prior. f and G0 are a
`families.Family`.

An update of a batch of rows draws, in this order:

1. alpha given the labels of all rows (`alpha_update`), and optionally split-merge moves;
2. sticks v and atoms theta given the labels (`sampler`): those in use exactly or by a step of a
   simplex kernel, the others from their prior;
3. label moves, which assign clusters to other sticks (`order`);
4. a slice u_i for every row of the batch, which leaves finitely many sticks to choose from;
5. the labels of the batch, each from the sticks above its slice (`labels`).

With memoised counts, step 2 depends on the labels of all rows, whose statistics are kept current:
every update is an exact Gibbs step for any batch, and with full batches this is the slice sampler
of Walker (2007), Papaspiliopoulos (2008) and Kalli, Griffin and Walker (2011). With subsampled
counts, step 2 depends on the old labels of the batch, scaled up (Baker, Fearnhead, Fox and Nemeth
2018, section 4.2): it converges fast but is not exact.

**Nothing is truncated.** A state holds C sticks, all of them drawn. If a slice is below the mass of
the sticks beyond C, the update is not done: the state is returned unchanged except for `needed`,
which is then above C. `grown` enlarges the state, and the same update is repeated with the same
key; `run(..., grow=model.grown)` does both. The randomness of a stick or a row does not depend on
C, so the chain is the same as with a larger capacity from the start (split-merge moves up to the
rounding of sums over the sticks).

Labels are indices of sticks and have no meaning by themselves; only the partition has.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from simplex_jax._src import arguments, batches, schedules
from simplex_jax._src.base import Kernel, PyTree, as_pytree, bind
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.models.dpm import families, step
from simplex_jax._src.models.dpm import labels as dp_labels
from simplex_jax._src.models.dpm.families import Family
from simplex_jax._src.models.dpm.families import rows as family_rows
from simplex_jax._src.models.dpm.state import BLOCK, Gamma, Info, Mixture, Model, State, grow, grown
from simplex_jax._src.models.dpm.sticks import SAMPLERS as SIMPLEX_SAMPLERS
from simplex_jax._src.models.dpm.sticks import WEIGHTED
from simplex_jax._src.schedules import StepSize

__all__ = [
    "ALPHA_UPDATES",
    "COUNTS",
    "SAMPLERS",
    "TOTALS",
    "VARIANTS",
    "Gamma",
    "Info",
    "Mixture",
    "State",
    "build",
    "grow",
    "grown",
    "labels_of",
    "log_predictive",
    "occupied",
    "random_labels",
]

SAMPLERS = ("exact", *SIMPLEX_SAMPLERS)
COUNTS = ("memoised", "subsampled")
TOTALS = ("refreshed", "carried")
VARIANTS = ("dependent", "independent")
ALPHA_UPDATES = ("sticks", "escobar-west")

_STEP_SIZE, _DECAY = 0.1, 0.5

# Running sums of floats are recomputed after this many passes.
_REFRESH = 16


def build(
    rows: PyTree,
    family: Family,
    *,
    sampler: str = "exact",
    total: str = "refreshed",
    counts: str = "memoised",
    batch_size: int | None = None,
    variant: str = "dependent",
    alpha: float | Gamma = 1.0,
    alpha_update: str = "sticks",
    atom_step_size: StepSize | None = None,
    stick_step_size: StepSize | None = None,
    decay: float | None = None,
    label_moves: bool = True,
    split_merge: int = 0,
    capacity: int = 64,
    chains: int | None = None,
) -> tuple[Kernel, Stream]:
    """Return the kernel of a mixture, and the stream of its batches.

    Args:
        rows: Rows in the form that the family expects, see `families`.
        family: The component distribution.
        sampler: Update of sticks and atoms in use given the labels: "exact" redraws them; "scir",
            "sgrld" and "smld" need a family whose atoms are on simplexes, and with memoised counts
            leave the chain exact ("scir") or nearly so (the others, as the step sizes go to 0).
        total: Treatment of the totals of the unnormalised weights of "scir" and "sgrld":
            "refreshed" from their distribution before every step, or "carried" from step to step,
            as in Baker et al. (2018), which is biased. New sticks and atoms always draw their
            totals. "carried" needs subsampled counts and no label moves.
        counts: "memoised" or "subsampled", see above.
        batch_size: Rows in a batch; None for all of them. With memoised counts batches are
            neighbouring rows, each once per epoch, in random order; else uniform subsets.
        variant: Bounds of the slices: "dependent", the weights of the sticks; or "independent", the
            numbers (1 - decay) decay^j, j = 0, 1, ... (Kalli, Griffin and Walker 2011).
        alpha: The concentration, positive, or its prior, `Gamma(shape, rate)`, starting at the
            prior mean.
        alpha_update: Update of an alpha with a prior: "sticks" draws it given the sticks up to the
            last in use; "escobar-west" given the number of clusters, and then redraws the order of
            the clusters, which needs memoised counts.
        atom_step_size: Step size of the sampler of the atoms, or a schedule; 0.1 by default. Not
            for exact draws.
        stick_step_size: Step size of the sampler of the sticks, likewise.
        decay: Decay of the bounds of the "independent" variant, between 0 and 1; 0.5 by default.
        label_moves: Propose swaps of clusters and of neighbouring sticks, see `order.swaps`.
        split_merge: Split-merge moves per update, see `split_merge`; each costs up to a few passes
            over the rows, and four evidences of all sticks. They need memoised counts, exact draws
            and a family with a `log_evidence`; the order of the clusters is then redrawn as well.
        capacity: Initial number of sticks in a state; rounded up to a multiple of 16.
        chains: Number of chains to run together; states have a leading axis, and all chains wait
            if one has to grow.

    Returns:
        A kernel whose `init` takes labels, int32 [N] in 0..capacity - 1 (`random_labels`), or for
        chains also [chains, N]; its position is a `Mixture`. And a stream of row numbers, int32
        [batch_size]; numbers from N on are not rows.

    Raises:
        ValueError: An argument is out of range, not one of the names or not used with the
            others, or the rows do not fit the family.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.models.dpm import model
        >>> from simplex_jax.dpm import families
        >>> rows = families.multinomial_rows([[9, 0, 0], [8, 1, 0], [0, 0, 9], [0, 1, 7]])
        >>> family = families.multinomial(3, concentration=0.5)
        >>> kernel, stream = model.build(rows, family, alpha=model.Gamma(1.0, 1.0))
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(4, jnp.int32))
        >>> state, labels = run(jax.random.key(1), kernel, state, stream, 500,
        ...     collect=model.labels_of, grow=model.grown)
        >>> together = labels[50:, :, None] == labels[50:, None, :]
        >>> print(together.mean(axis=0)[0].round())
        [1. 1. 0. 0.]
    """
    for name, value, names in (
        ("sampler", sampler, SAMPLERS),
        ("total", total, TOTALS),
        ("counts", counts, COUNTS),
        ("variant", variant, VARIANTS),
        ("alpha_update", alpha_update, ALPHA_UPDATES),
    ):
        arguments.choice(name, value, names)
    if isinstance(alpha, Gamma):
        shape, rate = _number("alpha.shape", alpha.shape), _number("alpha.rate", alpha.rate)
        prior, start = Gamma(shape, rate), shape / rate
    else:
        prior, start = None, _number("alpha", alpha)
    split_merge = arguments.at_least("split_merge", split_merge, 0)
    check(
        sampler,
        counts,
        split_merge,
        alpha_update=alpha_update,
        total=total,
        learned=prior is not None,
        atom_step_size=atom_step_size,
        stick_step_size=stick_step_size,
    )
    if total == "carried" and label_moves:
        raise ValueError("label_moves=True is incompatible with total='carried'")
    family = as_pytree(family)
    size = family_rows.size(rows)
    family_rows.check(family, rows)
    rows = families.on_device(rows)
    if sampler != "exact" and family.simplex is None:
        raise ValueError(f"sampler {sampler!r} requires a family with simplex atoms")
    if decay is not None and variant != "independent":
        raise ValueError(f"decay is not used by the {variant} variant; omit it")
    decay = _DECAY if decay is None else decay
    if not 0 < decay < 1:
        raise ValueError(f"decay must be between 0 and 1; it is {decay}")
    batch_size = check_batch_size(size if batch_size is None else batch_size, size)
    if split_merge and family.log_evidence is None:
        raise ValueError("split_merge needs a family with a log_evidence: give 0")
    one = jnp.zeros(1, jnp.int32)
    sums = jax.eval_shape(lambda: family.statistics(family_rows.take(rows, one), one, 1))
    floats = any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(sums))
    atoms, sticks = step_sizes(sampler, atom_step_size, stick_step_size)
    model = Model(
        rows=rows,
        family=family,
        prior=prior,
        start=start,
        atom_step_size=atoms,
        stick_step_size=sticks,
        decay=decay,
        sampler=sampler,
        carried=total == "carried",
        counts=counts,
        variant=variant,
        alpha_update=alpha_update,
        label_moves=bool(label_moves),
        split_merge=split_merge,
        refresh=_REFRESH * -(-size // batch_size) if counts == "memoised" and floats else 0,
        capacity=-(-arguments.at_least("capacity", capacity, 1) // BLOCK) * BLOCK,
        chains=None if chains is None else arguments.at_least("chains", chains, 1),
    )
    kernel = Kernel(init=bind(_init, model), update=bind(step.update, model))
    if counts == "memoised":
        return kernel, device.block_stream(size, batch_size)
    return kernel, batches.uniform(jnp.arange(size, dtype=jnp.int32), batch_size, replace=False)


def step_sizes(
    sampler: str, atoms: StepSize | None, sticks: StepSize | None
) -> tuple[StepSize, StepSize]:
    """Return the step sizes of atoms and sticks, checked, with defaults for None."""
    atoms, sticks = (_STEP_SIZE if size is None else size for size in (atoms, sticks))
    for step_size in (atoms, sticks):
        schedules.check(step_size, below=2.0 if sampler == "sgrld" else math.inf)
    return atoms, sticks


def _number(name: str, value: float | jax.Array) -> jax.Array:
    value = arguments.scalar(name, value)
    return jnp.asarray(value, value.dtype)  # a weak type would cause recompilation


def check(
    sampler: str,
    counts: str,
    split_merge: int,
    *,
    alpha_update: str = "sticks",
    total: str = "refreshed",
    learned: bool = True,
    **step_sizes: StepSize | None,
) -> None:
    """Raise a ValueError if options of `build` conflict; `learned` means alpha has a prior."""
    if total == "carried" and (sampler not in WEIGHTED or counts != "subsampled"):
        raise ValueError(
            f'total "carried" is for {" and ".join(WEIGHTED)} with subsampled counts: leave it out'
        )
    if alpha_update == "escobar-west" and counts != "memoised":
        raise ValueError('alpha_update "escobar-west" needs memoised counts: give "sticks"')
    if not learned and alpha_update != "sticks":
        raise ValueError(f"alpha_update {alpha_update!r} cannot be combined with a fixed alpha")
    if split_merge and (sampler, counts) != ("exact", "memoised"):
        raise ValueError("split_merge needs the exact sampler and memoised counts: give 0")
    for name, step_size in step_sizes.items():
        if sampler == "exact" and step_size is not None:
            raise ValueError(f"{name} is not used by the exact sampler; omit it")


def check_batch_size(batch_size: int, rows: int) -> int:
    """Return a batch size, or raise a ValueError unless it is between 1 and the number of rows."""
    if arguments.at_least("batch_size", batch_size, 1) > rows:
        raise ValueError(f"batch_size must be at most the {rows} rows; it is {batch_size}")
    return batch_size


def _init(model: Model, key: jax.Array, labels: ArrayLike) -> State:
    size, chains = family_rows.size(model.rows), model.chains
    labels = jnp.asarray(labels)
    shapes = [(size,)] if chains is None else [(size,), (chains, size)]
    if labels.shape not in shapes or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(
            f"labels must be integers {' or '.join(str(list(s)) for s in shapes)}; they are "
            f"{labels.dtype} {list(labels.shape)}"
        )
    within = (labels >= 0) & (labels < model.capacity)
    arguments.require("labels", labels, within, f"in 0..{model.capacity - 1} (capacity)")
    # A state may be donated to jitted code, and must not share arrays with the caller.
    return step.init(model, key, jnp.array(labels, jnp.int32, copy=True))


def random_labels(
    key: jax.Array, rows: PyTree, clusters: int = 1, chains: int | None = None
) -> jax.Array:
    """Return random initial labels, uniform over `clusters`, int32 [N] or [chains, N].

    The published code of the SCIR paper uses 20 clusters.
    """
    clusters = arguments.at_least("clusters", clusters, 1)
    shape: tuple[int, ...] = (family_rows.size(rows),)
    if chains is not None:
        shape = (arguments.at_least("chains", chains, 1), *shape)
    return jax.random.randint(key, shape, 0, clusters, jnp.int32)


def occupied(state: State) -> jax.Array:
    """Return the number of clusters with rows, int32, with the leading axes of the state."""
    return jnp.sum(state.occupancy > 0, axis=-1, dtype=jnp.int32)


def labels_of(state: State, info: Info) -> jax.Array:
    """Return the labels of all rows; for use as `collect` of `run`."""
    del info
    return state.labels


def log_predictive(family: Family, mixture: Mixture, rows: PyTree) -> jax.Array:
    r"""Return the log predictive density of each row under the mixture of a state, [n].

    It is :math:`\log \big( \sum_{j \le C} w_j f(x \mid \theta_j) + w_{> C} \int f(x \mid \theta)\,
    dG_0(\theta) \big)`: the weight of the sticks beyond C has the prior predictive density. Factors
    that the family omits are omitted. The mixture has no axis of chains.
    """
    rows = families.on_device(rows)
    size, capacity = family_rows.size(rows), mixture.log_weights.shape[0]
    at_once = dp_labels.rows_at_once(rows, size, capacity)
    parts = dp_labels.in_parts(jnp.arange(size, dtype=jnp.int32), at_once, size)

    def part(ids: jax.Array) -> jax.Array:
        some = family_rows.take(rows, ids)
        logits = family.log_likelihood(some, mixture.atoms) + mixture.log_weights
        rest = mixture.log_rest + family.log_predictive(some)
        return jnp.logaddexp(jax.nn.logsumexp(logits, axis=1), rest)

    return lax.map(part, parts).ravel()[:size]
