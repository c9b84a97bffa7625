"""The common base class of the kernels: numpyro's protocol is by inheritance."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from simplex_jax._src.base import PyTree
from simplex_jax._src.draws.keys import by_native_code, like, to_jax_key
from simplex_jax._src.numpyro import density, monitors, sites
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.sites import Layout, Model, Values
from simplex_jax._src.warn import warn_caller

# Same as in `numpyro.infer.util.find_valid_initial_params`.
_TRIES = 100

Self = TypeVar("Self", bound="ModelKernel")


class ModelKernel(MCMCKernel):
    """A kernel of a numpyro model, for one chain or for a batch of them.

    It stores only names and flags of the model, so the kernel can be pickled and traced. A subclass
    has five methods: `_initialize` starts a chain, `_is_valid` checks values to start from, `_step`
    makes a step, `_constrained` returns the values that the model sees, and `_diagnostics_str`
    describes a run. Its states have `z`, `raised` and `still` (see `monitors`), `i`, `num_warmup`
    and `rng_key`.
    """

    sample_field = "z"

    def __init__(self, model: Model, init_strategy: Callable | None) -> None:
        sites.check_model(model)
        self._model = model
        self._init_strategy = init_strategy
        self._layout: Layout | None = None

    def __repr__(self) -> str:
        """Return the call that makes the kernel, with the names of its model and options."""
        return f"{type(self).__name__}({', '.join([_name(self._model), *self._options()])})"

    def _options(self) -> list[str]:
        """Return the options that are not the default, for `repr`."""
        strategy = self._init_strategy
        return [] if strategy is None else [f"init_strategy={_name(strategy)}"]

    @property
    def model(self) -> Model:
        """The model."""
        return self._model

    @property
    def _inspected(self) -> Layout:
        if self._layout is None:
            raise RuntimeError("the kernel was not initialised: call init, or run an MCMC with it")
        return self._layout

    @property
    def _sample_fn(self) -> Callable | None:
        """A step, once a chain was started: numpyro looks here whether a run that goes on may.

        Otherwise it starts a chain to no purpose, without the `init_params` of the first run. With
        minibatches it has to: other data may have other numbers of rows.
        """
        if self._layout is None or self._layout.subsampled:
            return None
        return self.sample

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Mapping[str, Any] | None,
        model_args: tuple,
        model_kwargs: Mapping[str, Any] | None,
    ) -> Any:
        """Inspect the model, and start from `init_params` or scattered values.

        If the log density or its gradient is not finite there, other values are tried for the sites
        missing from `init_params`, as in numpyro's own kernels. Within ``Gibbs``, which passes a
        draw from the prior for them, values are tried for all sites. The key is a single key or
        [chains] keys; `init_params` are constrained values by site, or None.

        It raises a ValueError if this kernel cannot sample the model, or a start has the wrong
        shape, is negative or is not on the simplex; and a RuntimeError if no start has a finite log
        density and gradient, unless `init` itself is traced, as for ``chain_method="parallel"``.
        """
        kwargs = dict(model_kwargs or {})

        def chains(*, search: bool) -> tuple[Any, jax.Array]:
            def chain(key: jax.Array, params: Mapping[str, Any] | None) -> tuple[Any, jax.Array]:
                return self._start(
                    key, num_warmup, params, model_args, kwargs, given=init_params, search=search
                )

            is_single = is_prng_key(rng_key)
            return (chain if is_single else jax.vmap(chain))(rng_key, init_params)

        within_gibbs = sites.SIBLINGS in kwargs
        if within_gibbs and self._init_strategy is not None:
            warn_caller(
                "init_strategy is only used where the start that Gibbs gives has no finite "
                "density: give init_params to MCMC.run instead",
            )
        inputs = jax.tree.leaves((rng_key, init_params, model_args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in inputs):
            return chains(search=True)[0]
        # The search compiles the model again, and few models need it.
        state, valid = chains(search=False)
        if not valid.all():
            if within_gibbs:
                warn_caller(
                    "the log density or its gradient is not finite where Gibbs starts "
                    f"{sites.list_str(self._inspected.kinds)}, at init_params or a draw from the "
                    "prior: other values are tried",
                )
            state, valid = chains(search=True)
        if not valid.all():
            given = None if within_gibbs else init_params
            raise RuntimeError(_no_start_message(self._inspected.kinds, given))
        return state

    def _start(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Mapping[str, Any] | None,
        model_args: tuple,
        kwargs: dict[str, Any],
        *,
        given: Mapping[str, Any] | None,
        search: bool,
    ) -> tuple[Any, jax.Array]:
        """Return the state of a new chain, and whether its start is valid.

        `init_params` are those of this chain, which `vmap` traces, `given` those of all chains.
        """
        key_next, key_trace, key_start, key_batch, key_first = jax.random.split(
            sites.to_typed_key(rng_key), 5
        )

        def inspect_and_start(key_trace: jax.Array, key_start: jax.Array, params: Any) -> Values:
            layout, drawn = sites.inspect(
                self._model, key_trace, model_args, kwargs, self._init_strategy
            )
            if not layout.kinds:
                raise ValueError("the model has no latent site to sample")
            self._check(layout)
            self._layout = layout
            return sites.start(self._init_strategy, drawn, params, layout, key_start)

        # One program, which skips prior draws if only their shape is needed.
        values = jax.jit(inspect_and_start)(key_trace, key_start, init_params)
        layout = self._inspected
        sites.check_given(given, layout)
        least = self._least(self._target(model_args, kwargs, key_batch), values)
        self._layout = layout = layout._replace(least=least)
        left_out = density.changing_sites(self._target(model_args, kwargs, key_batch), values)
        if left_out:
            warn_caller(
                f"samples will not have the deterministic sites {sites.list_str(left_out)}, which "
                "change with the minibatch of a step, with sites that are summed out, or with "
                "numbers that the model draws itself: compute them from the samples",
            )
            names = tuple(name for name in layout.deterministic if name not in left_out)
            self._layout = layout._replace(deterministic=names)
        target = self._target(model_args, kwargs, key_batch)
        if search:
            fixed = {} if sites.SIBLINGS in kwargs else init_params or {}

            def redraw(key: jax.Array, from_prior: jax.Array) -> Values:
                key_trace, key_start = jax.random.split(key)
                strategy = self._init_strategy
                _, drawn = sites.inspect(self._model, key_trace, model_args, kwargs, strategy)
                values = sites.start(strategy, drawn, fixed, layout, key_start)
                drawn |= {name: values[name] for name in fixed}
                return jax.tree.map(partial(jnp.where, from_prior), drawn, values)

            values = _search_start(
                key_start, values, redraw, partial(self._is_valid, target=target)
            )
        state, valid = self._initialize(key_first, values, target, num_warmup)
        return state._replace(rng_key=like(rng_key, key_next)), valid

    def sample(self, state: Any, model_args: tuple, model_kwargs: Mapping[str, Any] | None) -> Any:
        """Make a step, with a fresh minibatch if the model has them."""
        if not is_prng_key(state.rng_key):
            return jax.vmap(lambda one: self.sample(one, model_args, model_kwargs))(state)
        key = by_native_code(sites.to_typed_key(state.rng_key))
        key_next, key_batch, key_moves = jax.random.split(key, 3)
        new = self._step(
            key_moves, state, self._target(model_args, model_kwargs, to_jax_key(key_batch))
        )
        raised = monitors.update_raised(state.raised, new.z, state.i)
        still = monitors.update_still(state.still, new.z, state.i, state.num_warmup)
        key_next = like(state.rng_key, key_next)
        return new._replace(raised=raised, still=still, i=state.i + 1, rng_key=key_next)

    def wrap_model(self: Self, wrapper: Callable[[Model], Model]) -> Self:
        """Return a copy with another model."""
        kernel = copy.copy(self)
        kernel._model, kernel._layout = wrapper(self._model), None
        return kernel

    def get_constrain_fn(
        self, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values], Values]:
        """Return the map from the kernel's values to those that the model sees."""
        return partial(self._constrained, self._target(model_args, model_kwargs, jax.random.key(0)))

    def postprocess_fn(
        self, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values], Values]:
        """Return the map from the kernel's values to samples, with deterministic sites."""
        target = self._target(model_args, model_kwargs, jax.random.key(0))
        return lambda z: density.replay(target, self._constrained(target, z))

    def get_diagnostics_str(self, state: Any) -> str:
        """Return the progress bar's text for a state, with means over several chains.

        Each problem is a ``UserWarning``.
        """
        for message in self._warnings(state):
            warn_caller(message)
        return self._diagnostics_str(state)

    def _warnings(self, state: Any) -> list[str]:
        """Return what is wrong with the samples, and what to do."""
        still = monitors.still_warnings(state.still, state.i - state.num_warmup)
        return still + monitors.raised_warnings(over_chains(state, state.raised))

    def _target(self, args: tuple, kwargs: Mapping[str, Any] | None, key: jax.Array) -> Target:
        return Target(self._model, self._inspected, args, dict(kwargs or {}), key)

    def _least(self, target: Target, values: Values) -> frozenset[str]:
        """Return the sites whose prior is referred to the least concentrations."""
        return density.recursive_sites(target, values)

    @abstractmethod
    def _check(self, layout: Layout) -> None:
        """Raise a ValueError unless the kernel can move these sites."""

    @abstractmethod
    def _initialize(
        self, key: jax.Array, values: Values, target: Target, num_warmup: int
    ) -> tuple[Any, jax.Array]:
        """Return the state of a chain that starts from these values, and whether it can move.

        The caller replaces the key of the state.
        """

    @abstractmethod
    def _is_valid(self, values: Values, target: Target) -> jax.Array:
        """Return whether the log density and its gradient are finite at these values."""

    @abstractmethod
    def _step(self, key: jax.Array, state: Any, target: Target) -> Any:
        """Return the state after a step, without updating its counters and key."""

    @abstractmethod
    def _diagnostics_str(self, state: Any) -> str:
        """Return the diagnostics of every site."""

    @abstractmethod
    def _constrained(self, target: Target, z: Values) -> Values:
        """Return the values that the model sees."""


def _name(function: Callable) -> str:
    """Return the name of a function, without its address."""
    function = getattr(function, "func", function)  # of functools.partial
    return getattr(function, "__name__", type(function).__name__)


def over_chains(state: Any, numbers: PyTree) -> PyTree:
    """Return numbers of a state, or their means if it is a state of several chains."""
    if not jnp.ndim(state.i):
        return numbers
    return jax.tree.map(lambda x: x.mean(axis=0), numbers)


def _search_start(
    key: jax.Array,
    values: Values,
    redraw: Callable[[jax.Array, jax.Array], Values],
    is_valid: Callable[[Values], jax.Array],
) -> Values:
    """Return the first valid values, or the last that were tried.

    `redraw` takes a key and whether to draw from the prior. A flat distribution may be far from
    where the density is positive, and so may the prior, so they alternate.
    """

    def is_searching(carry: tuple[jax.Array, Values]) -> jax.Array:
        i, values = carry
        return (i < _TRIES) & ~is_valid(values)

    def retry(carry: tuple[jax.Array, Values]) -> tuple[jax.Array, Values]:
        i, _ = carry
        return i + 1, redraw(jax.random.fold_in(key, i), i % 2 == 0)

    return jax.lax.while_loop(is_searching, retry, (jnp.zeros((), jnp.int32), values))[1]


def _no_start_message(names: Iterable[str], init_params: Mapping[str, Any] | None) -> str:
    """Return the error message for when no values are valid."""
    init_params = init_params or {}
    if all(name in init_params for name in names):
        return (
            "the log density or its gradient is not finite at init_params: give values at which "
            "the priors and all data have a positive density"
        )
    where = "to start from"
    if init_params:
        where = f"beside the values of {sites.list_str(init_params)} in init_params"
    return (
        f"{_TRIES} draws of the latent sites found none {where} at which the log density and its "
        "gradient are finite: check the model, or give init_params where the priors and all data "
        "have a positive density"
    )
