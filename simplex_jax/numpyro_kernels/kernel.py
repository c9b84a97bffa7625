"""What the kernels of this package share of numpyro's protocol, which is by inheritance."""

import copy
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from simplex_jax.base import PyTree
from simplex_jax.numpyro_kernels import density, sites
from simplex_jax.numpyro_kernels.density import Target
from simplex_jax.numpyro_kernels.sites import Layout, Model, Values

Self = TypeVar("Self", bound="ModelKernel")


class ModelKernel(MCMCKernel):
    """A kernel of a numpyro model, for one chain or for a batch of them.

    What is kept of the model is names and flags, so that the kernel can be pickled and traced. A
    subclass has three methods: `_first` starts a chain, `_moved` takes a step, and `_constrained`
    returns the values that the model sees. Its states have `z`, `i` and `rng_key`.

    Args:
        model: A numpyro model.
        init_strategy: One of ``numpyro.infer.init_to_...``, or None.
    """

    sample_field = "z"

    def __init__(self, model: Model, init_strategy: Callable | None) -> None:
        self._model = model
        self._init_strategy = init_strategy
        self._layout: Layout | None = None

    @property
    def model(self) -> Model:
        """The model."""
        return self._model

    @property
    def _found(self) -> Layout:
        if self._layout is None:
            raise RuntimeError("the kernel was not initialised: call init, or run an MCMC with it")
        return self._layout

    def init(
        self,
        rng_key: jax.Array,
        num_warmup: int,
        init_params: Mapping[str, Any] | None,
        model_args: tuple,
        model_kwargs: Mapping[str, Any] | None,
    ) -> Any:
        """Inspect the model, and start from `init_params` or scattered values.

        Args:
            rng_key: A key, or [chains] of them.
            num_warmup: Number of steps of the warm-up.
            init_params: Constrained values to start from, by site, or None.
            model_args: Arguments of the model.
            model_kwargs: Its keyword arguments, or None.

        Raises:
            ValueError: The model cannot be sampled with this kernel, or a start is not of the
                shape of its site; the message says what to do.
        """
        if not is_prng_key(rng_key):
            return jax.vmap(
                lambda key, params: self.init(key, num_warmup, params, model_args, model_kwargs)
            )(rng_key, init_params)
        kwargs = dict(model_kwargs or {})
        key_next, key_trace, key_start, key_batch, key_first = jax.random.split(
            sites.typed(rng_key), 5
        )
        layout, drawn = sites.inspect(
            self._model, key_trace, model_args, kwargs, self._init_strategy
        )
        self._check(layout)
        self._layout = layout
        values = sites.start(self._init_strategy, drawn, init_params, layout, key_start)
        left_out = density.changing(self._target(model_args, kwargs, key_batch), values)
        if left_out:
            warnings.warn(
                f"samples will not have the deterministic sites {sites.listed(left_out)}, which "
                "change with the minibatch of a step, or with sites that are summed out: compute "
                "them of the samples",
                stacklevel=2,
            )
            kept = tuple(name for name in layout.deterministic if name not in left_out)
            self._layout = layout._replace(deterministic=kept)
        target = self._target(model_args, kwargs, key_batch)
        state = self._first(key_first, values, target, num_warmup)
        return state._replace(rng_key=sites.like(rng_key, key_next))

    def sample(self, state: Any, model_args: tuple, model_kwargs: Mapping[str, Any] | None) -> Any:
        """Take a step, with a fresh minibatch where the model has them."""
        if not is_prng_key(state.rng_key):
            return jax.vmap(lambda one: self.sample(one, model_args, model_kwargs))(state)
        key_next, key_batch, key_moves = jax.random.split(sites.typed(state.rng_key), 3)
        moved = self._moved(key_moves, state, self._target(model_args, model_kwargs, key_batch))
        return moved._replace(i=state.i + 1, rng_key=sites.like(state.rng_key, key_next))

    def wrap_model(self: Self, wrapper: Callable[[Model], Model]) -> Self:
        """Return a copy with another model."""
        kernel = copy.copy(self)
        kernel._model, kernel._layout = wrapper(self._model), None
        return kernel

    def get_constrain_fn(
        self, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values], Values]:
        """Return the map from what moves to the values that the model sees."""
        return partial(self._constrained, self._target(model_args, model_kwargs, jax.random.key(0)))

    def postprocess_fn(
        self, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> Callable[[Values], Values]:
        """Return the map from what moves to samples, deterministic sites included."""
        target = self._target(model_args, model_kwargs, jax.random.key(0))
        return lambda z: density.replay(target, self._constrained(target, z))

    def _target(self, args: tuple, kwargs: Mapping[str, Any] | None, key: jax.Array) -> Target:
        return Target(self._model, self._found, args, dict(kwargs or {}), key)

    def _check(self, layout: Layout) -> None:
        """Raise a ValueError unless the kernel can move these sites."""
        raise NotImplementedError

    def _first(self, key: jax.Array, values: Values, target: Target, num_warmup: int) -> Any:
        """Return the state of a chain that starts from these values; its key is replaced."""
        raise NotImplementedError

    def _moved(self, key: jax.Array, state: Any, target: Target) -> Any:
        """Return the state after a step, its counter and key excepted."""
        raise NotImplementedError

    def _constrained(self, target: Target, z: Values) -> Values:
        """Return the values that the model sees."""
        raise NotImplementedError


def over_chains(state: Any, numbers: PyTree) -> PyTree:
    """Return numbers of a state as they are, or their means where it is one of several chains."""
    if not jnp.ndim(state.i):
        return numbers
    return jax.tree.map(lambda x: x.mean(axis=0), numbers)
