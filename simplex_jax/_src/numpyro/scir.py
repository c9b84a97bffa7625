"""SCIR for the simplex and gamma sites of any numpyro model."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from simplex_jax._src import schedules
from simplex_jax._src.numpyro import density as densities
from simplex_jax._src.numpyro import (
    floors,
    minibatches,
    moves,
    rounding,
    rows,
    sites,
    stillness,
    tuning,
)
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.kernel import ModelKernel, over_chains
from simplex_jax._src.numpyro.moves import State
from simplex_jax._src.numpyro.sites import Layout, Model, Rows, Values
from simplex_jax._src.schedules import StepSize

# Step of uncorrected moves with all the data, and start of the adaptation of corrected ones.
_STEP_SIZE = 0.3


class SCIR(ModelKernel):
    r"""Stochastic Cox-Ingersoll-Ross moves of the simplex and gamma sites of a numpyro model.

    It moves ``Dirichlet`` sites, all others whose support is the simplex, `LogDirichlet`, and
    ``Gamma`` and ``Exponential`` sites, one after another. For any likelihood, one gradient of the
    model is enough: it gives generalised counts c = dL / d log omega, which determine the shapes of
    the gamma laws behind the site (see `simplex_moves`). There is no bijection and no mass matrix:
    a category of probability e^-1000 is as easy as any other.

    - If the likelihood is **conjugate** in the site, the shapes do not depend on the site, and the
      log density changes as they predict, up to rounding. Every step checks both, and the site is
      then drawn from its law given all other sites.
    - Otherwise a step is a CIR transition with shapes from the gradient, as in Baker et al. 2018,
      with a Metropolis correction, so the chain is exact. The step size is learned during warm-up.
      Its first quarter accepts every finite move, because a start may be far away. With
      ``metropolis=False`` there is no correction, and the bias is of the order of ``step_size``.
    - In a model with ``plate(..., subsample_size=n)``, every step uses a fresh minibatch without
      correction, and jumps of a likelihood are not seen. Minibatch noise multiplies the standard
      deviations of the samples by about sqrt(1 + (N / n) tanh(h / 2)). This *inflation* is measured
      and shown, with a warning above 1.1; by default the step is learned during warm-up so that it
      stays below. Moves of other sites count as noise, which makes it an upper estimate.
    - Uncorrected rows with a nonpositive shape, which a steep likelihood or a noisy minibatch can
      cause, take a reflected Euler step of SGRLD instead. The progress bar and
      `get_diagnostics_str` show how many ("clamped").

    It works alone if these are all the latent sites, and otherwise as a block of the ``Gibbs``
    kernel of numpyro 0.22: ``Gibbs([(SCIR(model), ["weights"]), (NUTS(model), None)])``. All chain
    methods work ("vectorized" only alone, as ``Gibbs`` refuses it). Samples are ordinary
    probabilities, raised to the smallest normal number if they underflow. If another kernel learns
    a concentration from a sparse site, use `LogDirichlet`, which has no such floor:
    `get_diagnostics_str` shows how many were raised there ("raised"), and warns. ``init_params``
    are constrained values.

    Args:
        model: A numpyro model.
        step_size: Step size h of inexact moves, or a schedule of it. For corrected moves,
            adaptation starts there. By default 0.3, or with minibatches the longest, up to 0.3, at
            which their noise has little effect.
        metropolis: Whether moves are corrected, if the model has no minibatches.
        target_accept: Target acceptance rate of the step size adaptation.
        init_strategy: One of ``numpyro.infer.init_to_...``; by default sites start from flat laws.
            If the density is 0 there, other starts are tried; see `init`.

    Raises:
        ValueError: An argument is out of range. When it runs: the model has latent sites of other
            kinds, local to a minibatch, or discrete; the message says what to do instead.
        RuntimeError: When it runs: no start with a finite log density was found.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from simplex_jax.numpyro import SCIR
        >>> def model(x):
        ...     p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.5)))
        ...     with numpyro.plate("rows", len(x)):
        ...         numpyro.sample("x", dist.Categorical(p), obs=x)
        >>> mcmc = numpyro.infer.MCMC(
        ...     SCIR(model), num_warmup=0, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), jnp.array([0, 0, 0, 1]))
        >>> print(mcmc.get_samples()["p"].mean(axis=0).round(1))  # (3.5, 1.5, 0.5) / 5.5
        [0.6 0.3 0.1]
        >>> mcmc.sampler.get_diagnostics_str(mcmc.last_state)
        'p exact'
    """

    def __init__(
        self,
        model: Model,
        step_size: StepSize | None = None,
        *,
        metropolis: bool = True,
        target_accept: float = 0.6,
        init_strategy: Callable | None = None,
    ) -> None:
        if step_size is not None:
            schedules.check(step_size)
        if not 0 < target_accept < 1:
            raise ValueError(f"target_accept must be between 0 and 1; it is {target_accept!r}")
        super().__init__(model, init_strategy)
        self._step_size = step_size
        self._metropolis = metropolis
        self._target_accept = target_accept
        self._curved: frozenset[str] = frozenset()
        self._rows: dict[str, Rows] = {}

    def _options(self) -> list[str]:
        options = [] if self._step_size is None else [f"step_size={self._step_size!r}"]
        options += [] if self._metropolis else ["metropolis=False"]
        options += [] if self._target_accept == 0.6 else [f"target_accept={self._target_accept}"]
        return options + super()._options()

    def _check(self, layout: Layout) -> None:
        supported = {sites.SIMPLEX, sites.LOG_SIMPLEX, sites.GAMMA}
        movable = [name for name, kind in layout.kinds.items() if kind in supported]
        rest = [name for name, kind in layout.kinds.items() if kind not in supported]
        if not layout.kinds:
            raise ValueError("the model has no latent site to sample")
        others, own = sites.listed(rest), sites.listed(movable)
        if not movable:
            raise ValueError(
                "SCIR moves Dirichlet, LogDirichlet, Gamma and Exponential sites, and the model "
                f"has none: its latent sites are {others}. Use NUTS, or SGMCMC for minibatches"
            )
        if rest and layout.subsampled:
            raise ValueError(
                f"SCIR moves simplex and gamma sites, not {others}; for a model with minibatches "
                f"use SGMCMC(model, {{...}}) with one kernel for {own} and another for the rest"
            )
        if rest:
            raise ValueError(
                f"SCIR moves simplex and gamma sites, not {others}; with numpyro 0.22 use "
                f"Gibbs([(SCIR(model), {own}), (NUTS(model), None)]), and with an older one "
                "SGMCMC(model, {...}) with a kernel for each"
            )

    def _first(
        self, key: jax.Array, values: Values, target: Target, num_warmup: int
    ) -> tuple[State, jax.Array]:
        kinds = target.layout.kinds
        if not target.layout.subsampled and densities.is_random(target, values):
            raise ValueError(
                "the log density of the model is random itself, for example by numpyro.prng_key(), "
                "and SCIR needs an exact one; use SGMCMC(model, {...})"
            )
        if not target.layout.subsampled:
            densities.check_precision(target, values)
        z = jax.jit(partial(_native, target.layout))(values)
        evaluate = jax.jit(partial(densities.evaluate, target))
        step = self._step(target.layout, jnp.zeros((), jnp.int32))
        ratio = minibatches.ratio_of_rows(target.layout.subsampled)
        # The arguments may have minibatches now, unlike those of an earlier start.
        self._curved, self._rows = frozenset(), {}
        if step is None:
            step = minibatches.longest(jnp.asarray(ratio))
        if target.layout.subsampled:
            self._check_step(target.layout, ratio, num_warmup)
        else:
            self._curved = frozenset(
                name for name in kinds if tuning.is_curved(name, kinds, z, evaluate)
            )
            if self._metropolis:
                self._rows = self._rows_apart(target, z, evaluate)
        learned = {}
        for name, kind in kinds.items():
            site = tuning.first(name, kind, z, step, evaluate)
            site = tuning.by_row(site, self._rows.get(name, Rows()))
            if target.layout.subsampled:
                noise = minibatches.first(name, kind, z, site.total, evaluate, ratio)
                site = site._replace(noise=noise)
            learned[name] = site
        density = jax.jit(partial(densities.evaluate, target, rows=self._rows))(z)
        state = State(
            z=z,
            tuning=learned,
            density=None if target.layout.subsampled else density,
            raised=floors.first(target, values, tuple(kinds)),
            still=stillness.first(z, [name for name in kinds if kinds[name] != sites.GAMMA]),
            i=jnp.zeros((), jnp.int32),
            num_warmup=jnp.asarray(num_warmup, jnp.int32),
            rng_key=key,
        )
        return state, density.is_finite()

    def _rows_apart(self, target: Target, z: Values, evaluate: tuning.Evaluate) -> dict[str, Rows]:
        """Return the rows of sites that move row by row; conjugate sites need not."""
        rows_by_name = {name: rows.independent(target, z, name) for name in z}
        return {
            name: site_rows
            for name, site_rows in rows_by_name.items()
            if site_rows.plates
            if not tuning.is_conjugate(name, target.layout.kinds, z, evaluate)
        }

    def _is_valid(self, values: Values, target: Target) -> jax.Array:
        return densities.evaluate(target, _native(target.layout, values)).is_finite()

    def _moved(self, key: jax.Array, state: State, target: Target) -> State:
        """Move every site once."""
        step = self._step(target.layout, state.i)
        kinds = target.layout.kinds
        move = minibatches.drift if target.layout.subsampled else moves.jump
        evaluate = partial(densities.evaluate, target, rows=self._rows)
        # All keys at once: each call is a separate loop, slow to compile.
        keys = jax.random.split(key, (len(kinds), moves.KEYS))
        for (name, kind), keys_site in zip(kinds.items(), keys, strict=True):
            site = moves.Site(
                name,
                kind,
                step,
                self._metropolis,
                self._target_accept,
                name in self._curved,
                self._rows.get(name, Rows()),
            )
            state = move(keys_site, site, state, evaluate)
        return state

    def _step(self, layout: Layout, i: jax.Array) -> jax.Array | None:
        """Return the step of uncorrected moves; None if minibatches decide."""
        if self._step_size is None:
            return None if layout.subsampled else jnp.asarray(_STEP_SIZE)
        return jnp.asarray(schedules.at(self._step_size, i))

    def _check_step(self, layout: Layout, ratio: float, num_warmup: int) -> None:
        """Warn if a given step is too long for minibatches of similar rows."""
        if self._step_size is None:
            return
        with jax.ensure_compile_time_eval():
            step = schedules.at(self._step_size, jnp.asarray(num_warmup, jnp.int32))
            inflation = minibatches.inflation(jnp.asarray(ratio), step)
            if isinstance(inflation, jax.core.Tracer) or inflation <= minibatches.MOST:
                return
            longest = float(minibatches.longest(jnp.asarray(ratio), minibatches.MOST))
        sizes = ", ".join(f"{shown} of {size} rows" for size, shown in layout.subsampled.values())
        warnings.warn(
            f"with minibatches of {sizes} a step_size of {float(step):.2g} makes standard "
            f"deviations too large by a factor of about {float(inflation):.2g}: leave step_size "
            f"out, or give at most {longest:.2g}; larger minibatches allow longer steps",
            stacklevel=2,
        )

    def refresh(
        self, state: State, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> State:
        """Evaluate the density again after another block of a ``Gibbs`` kernel moved."""
        if state.density is None:
            return state
        target = self._target(model_args, model_kwargs, jax.random.key(0))
        evaluate = partial(densities.evaluate, target, rows=self._rows)
        learned = {
            name: tuning.refreshed(name, self._inspected.kinds[name], old, state.z, evaluate)
            for name, old in state.tuning.items()
        }
        return state._replace(density=evaluate(state.z), tuning=learned)

    def _constrained(self, target: Target, z: Values) -> Values:
        kinds = target.layout.kinds
        return {name: sites.constrain(kinds[name], y) for name, y in z.items()}

    def _doubts(self, state: State) -> list[str]:
        doubts = super()._doubts(state)
        shown = over_chains(state, state.tuning)
        if state.density is not None:
            return doubts + [
                rounding.message(name, float(site.bound))
                for name, site in shown.items()
                if site.exact == 1 and site.bound > rounding.MOST
            ]
        if (state.i < state.num_warmup).any():
            return doubts
        for name, site in shown.items():
            if site.noise.inflation > minibatches.MOST:
                longest = minibatches.longest(site.noise.ratio, minibatches.MOST)
                doubts.append(
                    f"the noise of the minibatches makes the standard deviations of {name!r} too "
                    f"large by a factor of about {float(site.noise.inflation):.2g}: give a "
                    f"step_size of at most {float(longest):.2g}, or larger minibatches"
                )
        return doubts

    def _shown(self, state: State) -> str:
        parts = []
        shown, raised = over_chains(state, (state.tuning, state.raised))
        for name in self._inspected.kinds:
            site = shown[name]
            clamped = f"clamped {float(site.clamped):.1%}"
            if state.density is None:
                about = "conjugate" if site.exact == 1 else "shapes by gradient"
                step, inflation = float(jnp.exp(site.log_step)), float(site.noise.inflation)
                parts.append(
                    f"{name} minibatch, {about}, h={step:.2g}, inflation {inflation:.2f}, {clamped}"
                )
            elif site.exact == 1:
                parts.append(f"{name} {rounding.shown(float(site.bound))}")
            elif self._metropolis:
                accepted = f"accepted {float(site.accepted.mean()):.2f}"
                parts.append(f"{name} {_steps(site.log_step)}, {accepted}, {clamped}")
            else:
                parts.append(f"{name} uncorrected, {clamped}")
            parts[-1] += floors.shown(raised, name)
        return "; ".join(parts)


def _steps(log_step: jax.Array) -> str:
    """Return the diagnostics of the steps of corrected moves."""
    shortest, longest = float(jnp.exp(log_step.min())), float(jnp.exp(log_step.max()))
    if not log_step.ndim:
        return f"h={shortest:.2g}"
    return f"h={shortest:.2g} to {longest:.2g} by row"


def _native(layout: Layout, values: Values) -> Values:
    return {name: sites.native(layout.kinds[name], value) for name, value in values.items()}
