"""Any gradient kernel of the library as a kernel of numpyro."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax.base import PyTree
from simplex_jax.numpyro_kernels import charts, floors, sites
from simplex_jax.numpyro_kernels.charts import Build, Group, Sampler
from simplex_jax.numpyro_kernels.density import Target
from simplex_jax.numpyro_kernels.kernel import ModelKernel, over_chains
from simplex_jax.numpyro_kernels.sites import Layout, Model, Values
from simplex_jax.numpyro_kernels.tuning import Total


class SGMCMCState(NamedTuple):
    """State of `SGMCMC`."""

    z: Values  # coordinates of all sites, by name, as their kernel has them
    kernels: tuple[PyTree, ...]  # the state of each kernel
    info: tuple[PyTree, ...]  # diagnostics of each kernel in the last step
    # Sums that the counts of simplex sites are given, by name; see `charts.totals`
    totals: dict[str, Total]
    raised: Values  # mean share of numbers that underflow, of sites where that matters; `floors`
    i: jax.Array  # number of steps done
    rng_key: jax.Array  # key of the next step


class SGMCMC(ModelKernel):
    """Stochastic gradient MCMC on a numpyro model, with any gradient kernel of the library.

    Every step sees a fresh minibatch of each ``plate(..., subsample_size=n)``, whose log density
    numpyro scales to all the rows, and the kernel moves the sites by its gradient. There is no
    Metropolis step: the bias is of the order of the step size, and it is yours to choose. Jumps of
    the log density (constraints, thresholds, changepoints) have no gradient and are not seen.

    Each sampler has its coordinates:

    - `sgrld`, `smld`, `scir`, `sgrhmc`, `reflected_cir`, `rld`: simplex sites, as
      log-probabilities, with generalised counts for the gradient and the concentrations of the
      prior for alpha. `scir`,
      `sgrhmc` and `reflected_cir` take negative counts as 0, a bias that `get_diagnostics_str`
      shows as "clamped"; the kernel `SCIR` has none there;
    - `sggmc`, `gsgnht`: unit vectors, as points of the sphere, unless they are given a manifold;
    - `mld`, `plmc`, `myula`: constrained values as they are;
    - `sgld`, `sghmc`, `sgnht`, `recipe`: any continuous site, through numpyro's bijection from the
      real numbers. So is a ``build`` of your own, unless a `Sampler` declares its coordinates.

    Several kernels take turns within a step, all with the same minibatch. Works as a block of
    ``Gibbs`` too, for models without minibatches. ``init_params`` are constrained values.

    Args:
        model: A numpyro model.
        kernel: The ``build`` function of a sampler with its options frozen by
            ``functools.partial``, or a `Sampler`, or a dict of them by site name; None stands for
            all other sites.
        init_strategy: One of ``numpyro.infer.init_to_...``; by default simplex and gamma sites
            start from flat laws, and others from the prior.

    Raises:
        ValueError: A kernel lacks an option, or needs what no model gives. When it runs: a kernel
            cannot move its sites, a site is local to a minibatch or discrete, or its support
            depends on the sites of another kernel; the message says what to do instead.
        RuntimeError: When it runs: no start was found where log density and gradient are finite.

    Example: the mean of a thousand numbers, ten at a time.

        >>> from functools import partial
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from simplex_jax.numpyro_kernels import SGMCMC
        >>> from simplex_jax.samplers import sgld
        >>> def model(x):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 10))
        ...     with numpyro.plate("rows", len(x), subsample_size=10) as rows:
        ...         numpyro.sample("x", dist.Normal(mu, 1), obs=x[rows])
        >>> kernel = SGMCMC(model, partial(sgld.build, step_size=1e-4))
        >>> mcmc = numpyro.infer.MCMC(
        ...     kernel, num_warmup=200, num_samples=500, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), 3 + jax.random.normal(jax.random.key(1), (1000,)))
        >>> print(mcmc.get_samples()["mu"].mean().round(1))
        3.0
    """

    def __init__(
        self,
        model: Model,
        kernel: Build | Sampler | Mapping[str | None, Build | Sampler],
        *,
        init_strategy: Callable | None = None,
    ) -> None:
        super().__init__(model, init_strategy)
        kernels = kernel if isinstance(kernel, Mapping) else {None: kernel}
        self._samplers = {name: charts.sampler(kernel) for name, kernel in kernels.items()}

    def _check(self, layout: Layout) -> None:
        for group in self._groups(layout):
            charts.check(group, layout)

    def _first(
        self, key: jax.Array, values: Values, target: Target, num_warmup: int
    ) -> tuple[SGMCMCState, jax.Array]:
        groups = self._groups(target.layout)
        kernels, z, info, totals, raised = [], {}, [], {}, {}
        for group, key_group in zip(groups, jax.random.split(key, len(groups)), strict=True):
            charts.check_support(group, target, values)
            fixed = {name: value for name, value in values.items() if name not in group.names}
            position = charts.coordinates(group, target, values)
            totals.update(charts.totals(group, target, position, fixed))
            # Concentrations of the prior may depend on other sites, not on the site itself.
            kernel = charts.kernel(group, target, position, fixed, totals)
            # Simplex kernels start from probabilities and hold their logarithms.
            logs = group.chart == charts.COUNTS
            if logs:
                raised.update(floors.first(target, values, group.names))
            state = kernel.init(key_group, jax.tree.map(jnp.exp, position) if logs else position)
            kernels.append(state)
            z.update(state.position)
            shapes = jax.eval_shape(kernel.update, key_group, state, None)[1]
            info.append(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
        count = jnp.zeros((), jnp.int32)
        state = SGMCMCState(z, tuple(kernels), tuple(info), totals, raised, count, key)
        return state, jax.jit(partial(self._is_valid, target=target))(values)

    def _is_valid(self, values: Values, target: Target) -> jax.Array:
        valid = []
        for group in self._groups(target.layout):
            fixed = {name: value for name, value in values.items() if name not in group.names}
            position = charts.coordinates(group, target, values)
            valid.append(charts.is_finite(group, target, position, fixed))
        return jnp.stack(valid).all()

    def _groups(self, layout: Layout) -> list[Group]:
        """Return the sites of each kernel, kernels without a site left out."""
        names = tuple(layout.kinds)
        unknown = [name for name in self._samplers if name is not None and name not in names]
        if unknown:
            raise ValueError(
                f"kernel has sites {sites.listed(unknown)} that the model does not have; its "
                f"latent sites are {sites.listed(names)}"
            )
        rest = [name for name in names if name not in self._samplers]
        if rest and None not in self._samplers:
            raise ValueError(
                f"no kernel is given for {sites.listed(rest)}: add "
                "{None: functools.partial(sgld.build, step_size=...)} for all other sites"
            )
        groups = []
        for name, sampler in self._samplers.items():
            members = tuple(rest) if name is None else (name,)
            if members:
                groups.append(Group(members, *sampler))
        return groups

    def _moved(self, key: jax.Array, state: SGMCMCState, target: Target) -> SGMCMCState:
        """Let every kernel move once."""
        groups = self._groups(target.layout)
        values = self._constrained(target, state.z)
        kernels, z, info = [], dict(state.z), []
        for group, old, key_group in zip(
            groups, state.kernels, jax.random.split(key, len(groups)), strict=True
        ):
            fixed = {name: value for name, value in values.items() if name not in group.names}
            kernel = charts.kernel(group, target, old.position, fixed, state.totals)
            new, kernel_info = kernel.update(key_group, old, None)
            kernels.append(new)
            info.append(kernel_info)
            z.update(new.position)
            values = {**fixed, **charts.constrained([group], target, new.position, fixed)}
        return state._replace(z=z, kernels=tuple(kernels), info=tuple(info))

    def _constrained(self, target: Target, z: Values) -> Values:
        return charts.constrained(self._groups(target.layout), target, z, {})

    def refresh(
        self, state: SGMCMCState, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> SGMCMCState:
        """Return the state, which keeps nothing of the density."""
        return state

    def _shown(self, state: SGMCMCState) -> str:
        parts = []
        infos, raised = over_chains(state, (state.info, state.raised))
        for group, info in zip(self._groups(self._inspected), infos, strict=True):
            numbers = [
                f"{name} {float(value):.3g}"
                for name, value in info._asdict().items()
                if isinstance(value, jax.Array) and not value.ndim
            ]
            ends = [f"{name}{floors.shown(raised, name)}" for name in group.names]
            parts.append(f"{', '.join(ends)}: {', '.join(numbers)}")
        return "; ".join(parts)
