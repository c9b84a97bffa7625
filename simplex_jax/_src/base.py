"""The kernel protocol, a pair of pure functions, and two ways to combine kernels.

A kernel can be used inside any JAX program: both functions are pure and can be traced, vmapped and
scanned. The kernels built here are also pytrees (their functions are `jax.tree_util.Partial`), so a
kernel passed to a jitted function brings its arrays as arguments: data is never compiled into a
program, and a new step size or corpus of the same shape does not recompile.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from simplex_jax._src import arguments
from simplex_jax._src.draws.keys import by_native_code

PyTree: TypeAlias = Any
"""Any nesting of tuples, lists, dicts and NamedTuples with arrays as leaves."""

Position: TypeAlias = PyTree
"""The quantity that is sampled. For simplex kernels: log-probabilities, leaves [..., K]."""

Batch: TypeAlias = PyTree
"""Data for one update; their meaning is up to the estimator."""

State: TypeAlias = Any
"""A NamedTuple with at least `position` and `step`, the number of updates done (int32)."""

Info: TypeAlias = PyTree
"""Diagnostics of one update: numbers to plot."""

Init: TypeAlias = Callable[[jax.Array, Position], State]
Update: TypeAlias = Callable[[jax.Array, State, Batch], tuple[State, Info]]


class Kernel(NamedTuple):
    """A sampling algorithm: an initialisation and an update.

    Attributes:
        init: `(key, position) -> state`.
        update: `(key, state, batch) -> (state, info)`, which keeps the structure, shapes and
            dtypes of the state and adds one to `state.step`.
    """

    init: Init
    update: Update

    def __repr__(self) -> str:
        return f"Kernel({_describe(self.update)})"


Build: TypeAlias = Callable[..., Kernel]
"""A function that returns a kernel, as `build` of a sampler; options may be frozen."""


def build_name(build: Build) -> str:
    """Return the module and the name of a sampler, of which options may be frozen."""
    function = getattr(build, "func", build)
    module = getattr(function, "__module__", "").rpartition(".")[2]
    return f"{module}.{getattr(function, '__name__', function)}"


def _describe(value: Any) -> str:
    """Return a function as a call with what it binds; of arrays the shape, of records the type."""
    function = value
    bound: list[Any] = []
    named: dict[str, Any] = {}
    # JAX wraps a partial function of a `Partial`, to hash it.
    while isinstance(function := getattr(function, "fun", function), functools.partial):
        bound, named = [*function.args, *bound], {**function.keywords, **named}
        function = function.func
    if function is move:
        return _describe(bound[0])
    if hasattr(function, "__qualname__"):
        parts = [*map(_describe, bound), *(f"{key}={_describe(named[key])}" for key in named)]
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        return f"{name}({', '.join(parts)})" if parts else name
    if isinstance(value, jax.Array | np.ndarray):
        return f"{value.dtype}{list(value.shape)}" if value.shape else str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_describe(value[key])}' for key in value)}}}"
    plain = isinstance(value, Kernel | bool | int | float | str | None)
    return repr(value) if plain else f"{type(value).__name__}(...)"


@functools.cache
def static(function: Callable, **options: Any) -> Callable:
    """Fix hashable options of a function; equal options give the same object.

    JAX compares functions by identity, so kernels built alike share compiled code.
    """
    return functools.partial(function, **options)


def as_pytree(tree: PyTree) -> PyTree:
    """Wrap plain functions among the leaves, so that the tree can be passed to jitted code."""
    return jax.tree.map(lambda leaf: Partial(leaf) if callable(leaf) else leaf, tree)


def bind(function: Callable, *arguments: PyTree, **named: PyTree) -> Partial:
    """Freeze leading and named arguments of a function, as a pytree of those arguments.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import bind
        >>> double = bind(jnp.multiply, 2.0)
        >>> float(double(3.0)), jax.tree.leaves(double)
        (6.0, [2.0])
    """
    return Partial(function, *as_pytree(arguments), **as_pytree(named))


def freeze(
    init: Callable,
    update: Callable,
    shared: Mapping[str, PyTree],
    *,
    of_init: Any = None,
    **of_update: PyTree,
) -> Kernel:
    """Return the kernel of two functions with shared and separate hyperparameters.

    `of_init` maps those of `init` alone, or is None. Native code, if available, splits the keys of
    `update`, which halves compile time: pass `draws.keys.to_jax_key` of such a key to the functions
    of users.

    Raises:
        ValueError: The `estimator` or the `log_density` among the shared ones is something else.
    """
    _check_target(shared)
    start = bind(init, **shared, **(of_init or {}))
    return Kernel(bind(_start, start), bind(move, bind(update, **shared, **of_update)))


def _check_target(shared: Mapping[str, PyTree]) -> None:
    """Raise a ValueError for a function as an estimator or a space, or a density that is none."""
    estimator, log_density = shared.get("estimator"), shared.get("log_density")
    if "estimator" in shared and (
        isinstance(estimator, type) or not hasattr(estimator, "estimate")
    ):
        name = getattr(estimator, "__name__", type(estimator).__name__)
        given = f"the function {name} itself" if callable(estimator) else f"a {name}"
        raise ValueError(
            "estimator must be an estimator, as estimators.categorical(size=...) and "
            f"gradients.density(log_density) return; it is {given}"
        )
    for name in ("manifold", "mirror"):
        if callable(space := shared.get(name)):  # as manifolds.sphere for manifolds.sphere()
            of = getattr(space, "__name__", type(space).__name__)
            raise ValueError(f"{name} must be what {of}() returns; it is {of} itself")
    if "log_density" in shared and not callable(log_density):
        raise ValueError(
            f"log_density must be a function of the position; it is a {type(log_density).__name__}"
        )


def _start(init: Init, key: jax.Array, position: Position) -> State:
    """Start a chain whose state owns its arrays.

    An update whose state is donated deletes the arrays of the old state. They must not be the
    caller's position or arrays of the kernel, such as an estimator's initial memory, and none
    may occur twice.
    """
    state = init(key, position)
    used_ids = {id(leaf) for leaf in jax.tree.leaves((init, position))}

    def own(leaf: jax.Array) -> jax.Array:
        if id(leaf) in used_ids:
            leaf = jnp.copy(leaf)
        used_ids.add(id(leaf))
        # A weak type would compile the update twice.
        return jnp.asarray(leaf, jnp.asarray(leaf).dtype)

    return jax.tree.map(own, state)


def move(update: Update, key: jax.Array, state: State, batch: Batch) -> tuple[State, Info]:
    """Update with a key that native code splits, as in kernels made by `freeze`."""
    return update(by_native_code(key), state, batch)


def current_step(state: State) -> jax.Array:
    """Return the number of updates done, an int32 scalar.

    Chains move together: if `state.step` has leading axes, all its entries are equal and the first
    is used.

    Raises:
        ValueError: The state has no `step`, for example because it is a position.
    """
    try:
        step = state.step
    except AttributeError:
        kind = type(state).__name__
        raise ValueError(f"state must be one that kernel.init returns; it is {kind}") from None
    if not isinstance(step, jax.core.Tracer):
        step = np.asarray(step)  # operations on it compile nothing
    return step.ravel()[0]


def chains(
    kernel: Kernel, n: int, *, position_axis: int | None = None, batch_axis: int | None = None
) -> Kernel:
    """Run `n` independent chains side by side.

    Args:
        kernel: The kernel of one chain.
        n: Number of chains.
        position_axis: Chain axis of the leaves of the initial position; None starts all chains at
            one position.
        batch_axis: Chain axis of the leaves of a batch; None gives all chains the same batch.

    Returns:
        A kernel whose state and info have a leading axis `n`, `step` included.
        Chain i uses the i-th of `jax.random.split(key, n)`.

    Raises:
        ValueError: `n` is not a positive integer.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import chains, estimators
        >>> from simplex_jax.samplers import scir
        >>> one = scir.build(estimators.categorical(size=3), alpha=0.5, step_size=1.0)
        >>> many = chains(one, 8)
        >>> state = many.init(jax.random.key(0), jnp.ones(4))
        >>> state, info = many.update(jax.random.key(1), state, jnp.array([0, 0, 2]))
        >>> state.position.shape
        (8, 4)
    """
    n = arguments.at_least("n", n, 1)
    options = {"n": n, "batch_axis": batch_axis}
    return Kernel(
        init=bind(static(_init_chains, n=n, position_axis=position_axis), kernel.init),
        update=bind(static(_update_chains, **options), kernel.update),
    )


def _init_chains(
    init: Init, key: jax.Array, position: Position, *, n: int, position_axis: int | None
) -> State:
    keys = jax.random.split(key, n)
    return jax.vmap(init, in_axes=(0, position_axis), axis_size=n)(keys, position)


def _update_chains(
    update: Update, key: jax.Array, state: State, batch: Batch, *, n: int, batch_axis: int | None
) -> tuple[State, Info]:
    keys = jax.random.split(key, n)
    return jax.vmap(update, in_axes=(0, 0, batch_axis), axis_size=n)(keys, state, batch)


class ProductState(NamedTuple):
    """State of a product of kernels.

    Attributes:
        sites: The state of each site's kernel, by name.
    """

    sites: dict[str, State]

    @property
    def position(self) -> dict[str, Position]:
        """The positions of all sites, by name."""
        return {name: state.position for name, state in self.sites.items()}

    @property
    def step(self) -> jax.Array:
        """Number of sweeps done; each moves every site once."""
        return next(iter(self.sites.values())).step


Conditional: TypeAlias = Callable[[jax.Array, dict[str, Position], Batch], Batch]
"""`(key, positions, batch) -> batch of a site`, given the latest positions of all sites."""


def product(
    kernels: Mapping[str, Kernel], conditionals: Mapping[str, Conditional] | None = None
) -> Kernel:
    """Gibbs over named sites: in the given order, each is updated given all others.

    Args:
        kernels: The kernel of each site, by name.
        conditionals: For a site, the function that makes its kernel's batch from the raw batch and
            the latest positions of all sites; it may be random. Other sites get the raw batch.

    Returns:
        A kernel whose position, and info, are dicts by site. Its `init` takes such a dict.

    Raises:
        ValueError: `kernels` is not a dict or is empty, a conditional is for an unknown site, or a
            position has other sites.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators, product
        >>> from simplex_jax.samplers import scir
        >>> one = scir.build(estimators.categorical(size=2), alpha=1.0, step_size=1.0)
        >>> both = product(
        ...     {"colour": one, "shape": one},
        ...     {site: (lambda key, positions, batch, s=site: batch[s]) for site in
        ...      ("colour", "shape")},
        ... )
        >>> state = both.init(jax.random.key(0), {"colour": jnp.ones(3), "shape": jnp.ones(2)})
        >>> batch = {"colour": jnp.array([0, 2]), "shape": jnp.array([1, 1])}
        >>> state, info = both.update(jax.random.key(1), state, batch)
        >>> {site: log_p.shape for site, log_p in state.position.items()}
        {'colour': (3,), 'shape': (2,)}
    """
    conditionals = dict(conditionals or {})
    if not isinstance(kernels, Mapping) or not kernels:
        raise ValueError(
            "kernels must be a dict of kernels by site, with at least one; it is "
            f"{kernels if not kernels else type(kernels).__name__}"
        )
    if unknown := sorted(set(conditionals) - set(kernels)):
        raise ValueError(f"conditionals names sites without a kernel: {', '.join(unknown)}")
    # A dict passed to jitted code comes back with sorted keys: the scan order is stored separately.
    order = tuple(kernels)
    return Kernel(
        init=bind(static(_init_product, order=order), dict(kernels)),
        update=bind(static(_update_product, order=order), dict(kernels), conditionals),
    )


def _init_product(
    kernels: dict[str, Kernel], key: jax.Array, position: dict[str, Position], *, order: tuple
) -> ProductState:
    if not isinstance(position, Mapping) or set(position) != set(order):
        raise ValueError(f"position must be a dict with exactly the sites {', '.join(order)}")
    keys = jax.random.split(key, len(order))
    return ProductState(
        {name: kernels[name].init(k, position[name]) for name, k in zip(order, keys, strict=True)}
    )


def _update_product(
    kernels: dict[str, Kernel],
    conditionals: dict[str, Conditional],
    key: jax.Array,
    state: ProductState,
    batch: Batch,
    *,
    order: tuple[str, ...],
) -> tuple[ProductState, dict[str, Info]]:
    infos = {}
    for name, key_site in zip(order, jax.random.split(key, len(order)), strict=True):
        key_batch, key_update = jax.random.split(key_site)
        site_batch = batch
        if name in conditionals:
            site_batch = conditionals[name](key_batch, state.position, batch)
        site_state, infos[name] = kernels[name].update(key_update, state.sites[name], site_batch)
        state = ProductState({**state.sites, name: site_state})
    return state, infos
