"""Any gradient kernel of the library as a numpyro kernel."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src.base import Build, Kernel, PyTree
from simplex_jax._src.numpyro import charts, density, inflation, monitors, sites
from simplex_jax._src.numpyro.charts import Group, Sampler
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.inflation import Noise
from simplex_jax._src.numpyro.kernel import ModelKernel, over_chains
from simplex_jax._src.numpyro.monitors import Still
from simplex_jax._src.numpyro.sites import Layout, Model, Values
from simplex_jax._src.numpyro.tuning import Total


class SGMCMCState(NamedTuple):
    """State of `SGMCMC`."""

    z: Values  # coordinates of all sites, by name, as used by their kernel
    kernels: tuple[PyTree, ...]  # the state of each kernel
    info: tuple[PyTree, ...]  # diagnostics of each kernel in the last step
    # Totals for the counts of simplex sites, by name; see `charts.totals`
    totals: dict[str, Total]
    raised: Values  # mean share of numbers that underflow, for sites where it matters; `monitors`
    still: dict[str, Still]  # which vectors have not moved since the warm-up
    # Minibatch noise of each site, by name, None if unknown; empty if every step uses all the data.
    noise: dict[str, Noise | None]
    i: jax.Array  # number of steps done
    num_warmup: jax.Array  # number of steps of the warm-up
    rng_key: jax.Array  # key of the next step


class SGMCMC(ModelKernel):
    """Stochastic gradient MCMC on a numpyro model, with any gradient kernel of the library.

    Every step uses a fresh minibatch of each ``plate(..., subsample_size=n)``, whose log density
    numpyro scales to all the rows, and the kernel moves the sites by its gradient. There is no
    Metropolis step: the bias is of the order of the step size, which you choose. Jumps of the log
    density (constraints, thresholds, changepoints) have no gradient and are not seen. Only `barker`
    is exact, and it needs all the data.

    Minibatch noise increases the standard deviations of the samples, more with longer steps. The
    factor is shown as the *inflation* of each site. Above 1.1, a warning names the step size that
    would reduce it (see `inflation` for the rule of each kernel; "not known" for
    `recipe`, `sgrld` with refreshed totals, and your own kernels). Models whose log density is
    random itself, by ``numpyro.prng_key()``, are treated in the same way.

    Each sampler has its coordinates:

    - `sgrld`, `smld`, `scir`, `sgrhmc`: simplex sites, as log-probabilities, with generalised
      counts for the gradient and the concentrations of the prior for alpha. `scir` and `sgrhmc`
      set negative counts to 0, a bias that `get_diagnostics_str` shows as "clamped"; the kernel
      `SCIR` does not have it;
    - `sggmc`, `gsgnht`: unit vectors, as points of the sphere, unless they are given a manifold;
    - `mld`: the constrained values;
    - `sgld`, `sghmc`, `sgnht`, `sgbd`, `recipe`, `barker`: any continuous site, through numpyro's
      bijection from the real numbers. This also holds for your own ``build``, unless you name
      its coordinates: ``(build, "counts")``, as of `sgrld`; "points", as of `mld`; "spheres", as of
      `gsgnht`, with the argument ``manifold``; or "density", as of `barker`, with ``log_density``.

    Several kernels take turns within a step, all with the same minibatch. For models without
    minibatches it also works as a block of ``Gibbs``. ``init_params`` are constrained values.

    Args:
        model: A numpyro model.
        kernel: The ``build`` function of a sampler with its options frozen by
            ``functools.partial``, or a pair of it and its coordinates, or a dict of them by site
            name; None stands for all other sites.
        init_strategy: One of ``numpyro.infer.init_to_...``; by default simplex and gamma sites
            start from flat distributions, and others from the prior.

    Raises:
        ValueError: A kernel lacks an option, or needs an argument that no model supplies. When it
            runs: a kernel cannot move its sites, a site is local to a minibatch or discrete, or its
            support depends on the sites of another kernel; the message says what to do instead.
        RuntimeError: When it runs: no start with a finite log density and gradient was found.

    Example: the mean of a thousand numbers, ten at a time.

        >>> from functools import partial
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from simplex_jax.numpyro import SGMCMC
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

    def _options(self) -> list[str]:
        kernels = {
            name: charts.build_name(sampler.build) for name, sampler in self._samplers.items()
        }
        if list(kernels) == [None]:
            return [kernels[None], *super()._options()]
        each = ", ".join(f"{name!r}: {kernel}" for name, kernel in kernels.items())
        return ["{" + each + "}", *super()._options()]

    def _check(self, layout: Layout) -> None:
        for group in self._groups(layout):
            charts.check(group, layout)

    def _least(self, target: Target, values: Values) -> frozenset[str]:
        # Kernels on counts take no negative ones, which other references would give where the
        # density rises to a corner.
        return super()._least(target, values) | density.unnamed_priors(target, values)

    def _initialize(
        self, key: jax.Array, values: Values, target: Target, num_warmup: int
    ) -> tuple[SGMCMCState, jax.Array]:
        valid = jax.jit(partial(self._is_valid, target=target))(values)
        begin: Callable[..., SGMCMCState]
        begin = partial(self._begin, target=target, num_warmup=num_warmup)
        # Kernels raise errors at starts that are not valid, but not while they are traced: the
        # caller looks for another start.
        if not isinstance(valid, jax.core.Tracer) and not valid:
            begin = jax.jit(begin)
        return begin(key, values), valid

    def _begin(
        self, key: jax.Array, values: Values, target: Target, num_warmup: int
    ) -> SGMCMCState:
        groups = self._groups(target.layout)
        kernels, z, info, totals, raised = [], {}, [], {}, {}
        noise: dict[str, Noise | None] = {}
        logs: list[str] = []
        noisy = density.is_random(target, values)
        for group, key_group in zip(groups, jax.random.split(key, len(groups)), strict=True):
            charts.check_support(group, target, values)
            charts.check_noise(group, noisy=noisy)
            if group.chart.is_exact:
                density.check_precision(target, values)
            fixed = {name: value for name, value in values.items() if name not in group.names}
            position = charts.coordinates(group, target, values)
            totals.update(charts.totals(group, target, position, fixed))
            # Prior concentrations may depend on other sites, but not on the site itself.
            kernel = charts.kernel(group, target, position, fixed, totals, remembers=noisy)
            # Simplex kernels start from probabilities and hold their logarithms.
            if group.chart.is_native:
                logs.extend(group.names)
                raised.update(monitors.initialize_raised(target, values, group.names))
                position = jax.tree.map(sites.raised_exp, position)
            state = kernel.init(key_group, position)
            kernels.append(state)
            z.update(state.position)
            if noisy:
                noise.update(inflation.initialize(kernel, state))
            _check_step(kernel, state, target.layout, num_warmup)
            shapes = jax.eval_shape(kernel.update, key_group, state, None)[1]
            info.append(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
        return SGMCMCState(
            z=z,
            kernels=tuple(kernels),
            info=tuple(info),
            totals=totals,
            raised=raised,
            still=monitors.initialize_still(z, logs),
            noise=noise,
            i=jnp.zeros((), jnp.int32),
            num_warmup=jnp.asarray(num_warmup, jnp.int32),
            rng_key=key,
        )

    def _is_valid(self, values: Values, target: Target) -> jax.Array:
        valid = []
        for group in self._groups(target.layout):
            fixed = {name: value for name, value in values.items() if name not in group.names}
            position = charts.coordinates(group, target, values)
            valid.append(charts.is_finite(group, target, position, fixed))
        return jnp.stack(valid).all()

    def _groups(self, layout: Layout) -> list[Group]:
        """Return the sites of each kernel, without kernels that have none."""
        names = tuple(layout.kinds)
        unknown = [name for name in self._samplers if name is not None and name not in names]
        if unknown:
            raise ValueError(
                f"kernel has sites {sites.list_str(unknown)} that the model does not have; its "
                f"latent sites are {sites.list_str(names)}"
            )
        rest = [name for name in names if name not in self._samplers]
        if rest and None not in self._samplers:
            raise ValueError(
                f"no kernel is given for {sites.list_str(rest)}: add "
                "{None: functools.partial(sgld.build, step_size=...)} for all other sites"
            )
        groups = []
        for name, sampler in self._samplers.items():
            members = tuple(rest) if name is None else (name,)
            if members:
                groups.append(Group(members, sampler.build, charts.CHARTS[sampler.chart]))
        return groups

    def _step(self, key: jax.Array, state: SGMCMCState, target: Target) -> SGMCMCState:
        """Move every kernel once."""
        groups = self._groups(target.layout)
        values = self._constrained(target, state.z)
        kernels, z, info, noise = [], dict(state.z), [], dict(state.noise)
        for group, old, key_group in zip(
            groups, state.kernels, jax.random.split(key, len(groups)), strict=True
        ):
            fixed = {name: value for name, value in values.items() if name not in group.names}
            kernel = charts.kernel(
                group, target, old.position, fixed, state.totals, remembers=bool(noise)
            )
            new, kernel_info = kernel.update(key_group, old, None)
            kernels.append(new)
            info.append(kernel_info)
            z.update(new.position)
            if noise:
                before = {name: noise[name] for name in group.names}
                noise |= inflation.update(kernel, old, new, before, state.i, state.num_warmup)
            values = {**fixed, **charts.constrain([group], target, new.position, fixed)}
        return state._replace(z=z, kernels=tuple(kernels), info=tuple(info), noise=noise)

    def _constrained(self, target: Target, z: Values) -> Values:
        return charts.constrain(self._groups(target.layout), target, z, {})

    def refresh(
        self, state: SGMCMCState, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> SGMCMCState:
        """Return the state, which does not store the density."""
        return state

    def _warnings(self, state: SGMCMCState) -> list[str]:
        messages = super()._warnings(state)
        if (state.i <= state.num_warmup).any():
            return messages
        noise = inflation.average_chains(state.noise) if jnp.ndim(state.i) else state.noise
        return messages + [
            inflation.message(repr(name), site_noise)
            for name, site_noise in noise.items()
            if site_noise is not None and site_noise.inflation > inflation.MOST
        ]

    def _diagnostics_str(self, state: SGMCMCState) -> str:
        parts = []
        infos, raised = over_chains(state, (state.info, state.raised))
        noise = inflation.average_chains(state.noise) if jnp.ndim(state.i) else state.noise
        for group, info in zip(self._groups(self._inspected), infos, strict=True):
            # A kernel of the user's own may return anything.
            named = info._asdict() if hasattr(info, "_asdict") else {}
            numbers = [
                f"{name} {float(value):.3g}"
                for name, value in named.items()
                if isinstance(value, jax.Array) and not value.ndim
            ]
            ends = [
                name + inflation.diagnostics_str(noise, name) + monitors.raised_str(raised, name)
                for name in group.names
            ]
            parts.append(", ".join(ends) + (f": {', '.join(numbers)}" if numbers else ""))
        return "; ".join(parts)


def _check_step(kernel: Kernel, state: PyTree, layout: Layout, num_warmup: int) -> None:
    """Warn if a step of a kernel on counts is too long for minibatches of similar rows."""
    ratio = inflation.ratio_of_rows(layout.subsampled)
    if not ratio:
        return
    for name, noise in inflation.expected_noise(kernel, state, ratio, num_warmup).items():
        inflation.check_expected(layout.subsampled, repr(name), noise)
