"""Coordinates in which samplers move the sites of a model, and their gradients or counts."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import constrain_fn, potential_energy

from simplex_jax._src.base import Build, Kernel, build_name
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.numpyro import density, simplex_moves, sites, tuning
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.sites import Kind, Layout, Values
from simplex_jax._src.samplers import (
    barker,
    cir,
    dirichlet_paths,
    gbm,
    gmc,
    gsgnht,
    mamla,
    mapla,
    mld,
    scir,
    sggmc,
    sgrhmc,
    sgrld,
    smld,
)

_REAL_ADVICE = (
    "numpyro has no map from the real numbers to unit vectors; use "
    "functools.partial(gsgnht.build, step_size=..., friction=...) for them"
)
_OWN_KERNEL = (
    "give the others their own kernel, {None: functools.partial(sgld.build, step_size=...)}"
)


class Chart(NamedTuple):
    """Coordinates that kernels move."""

    name: str
    given: frozenset[str]  # arguments of `build` that the model supplies
    fits: Callable[[Kind], bool]  # whether it has coordinates for a kind of site
    advice: str = ""  # where it has none
    is_native: bool = False  # native values of simplex sites, with counts for gradients
    is_real: bool = False  # unconstrained values

    @property
    def is_exact(self) -> bool:
        """Whether its kernels take the log density, which must be exact."""
        return "log_density" in self.given


def _is_not_spherical(kind: Kind) -> bool:
    return kind != sites.SPHERE


COUNTS = Chart(
    "counts",
    frozenset({"estimator", "alpha"}),
    lambda kind: kind.on_simplex,
    f"it moves simplex sites; {_OWN_KERNEL}",
    is_native=True,
)
POINTS = Chart("points", frozenset({"estimator"}), lambda kind: True)
SPHERES = Chart(
    "spheres",
    frozenset({"estimator", "manifold"}),
    lambda kind: kind == sites.SPHERE,
    f"it moves unit vectors, on the sphere that it is given by default; {_OWN_KERNEL}",
)
REAL = Chart("real", frozenset({"estimator"}), _is_not_spherical, _REAL_ADVICE, is_real=True)
DENSITY = REAL._replace(name="density", given=frozenset({"log_density"}))
CHARTS = {chart.name: chart for chart in (REAL, POINTS, DENSITY, COUNTS, SPHERES)}
# Coordinates of the samplers that do not move real numbers.
_CHARTS: dict[Build, Chart] = {
    **dict.fromkeys((scir.build, sgrhmc.build, sgrld.build, smld.build), COUNTS),
    **dict.fromkeys((gsgnht.build, sggmc.build), SPHERES),
    mld.build: POINTS,
    barker.build: DENSITY,
}
_UNFIT: dict[Build, str] = {
    **dict.fromkeys(
        (gmc.build, mamla.build, mapla.build),
        "it takes a log density of points of a manifold, a mirror map or a metric; for one of "
        "real numbers use barker",
    ),
    cir.build: "it is for one gamma distribution: SCIR moves gamma sites",
    gbm.build: "it is for one lognormal distribution",
    dirichlet_paths.build: "it is for counts at several times or of several groups",
}
# Option values with which a kernel is unfit: option, value and reason.
_UNFIT_OPTIONS: dict[Build, tuple[str, str, str]] = {
    mld.build: (
        "form",
        "dual",
        "in the dual form, which takes gradients in the dual variable: model gradients are with "
        "respect to the sites. Leave out form='dual'",
    )
}
_NAMED = {"estimator": "an estimator", "log_density": "a log_density"}


class Sampler(NamedTuple):
    """Your own `build` function for `SGMCMC`, and the coordinates that its kernel moves.

    Attributes:
        build: Takes an `estimator` or a `log_density`; freeze its options with `functools.partial`.
        chart: "counts" for simplex kernels, which take generalised counts and `alpha`; "points" for
            kernels that move constrained values; "spheres" for those that also take a `manifold`;
            "density" for exact kernels of unconstrained values, which take a `log_density`; "real"
            for those that take an estimator, the default for any other function.
    """

    build: Build
    chart: str


class Group(NamedTuple):
    """Sites that one kernel moves: their names, and the sampler."""

    names: tuple[str, ...]
    build: Build
    chart: Chart


def sampler(kernel: Build | Sampler) -> Sampler:
    """Return a sampler with its chart, or raise a ValueError if it cannot be used."""
    if isinstance(kernel, tuple) and len(kernel) == 2 and not isinstance(kernel, Kernel):
        kernel = Sampler(*kernel)
    function = kernel.build if isinstance(kernel, Sampler) else getattr(kernel, "func", kernel)
    if not callable(function):
        built = isinstance(function, Kernel)
        raise ValueError(
            "kernel must be the build function of a sampler, its options frozen, such as "
            "functools.partial(sgld.build, step_size=1e-3), or a pair of it and its coordinates; "
            f"it is {'a kernel, which build has returned' if built else repr(kernel)}"
        )
    if not isinstance(kernel, Sampler):
        if function in _UNFIT:
            raise ValueError(f"kernel {build_name(kernel)} cannot be used here: {_UNFIT[function]}")
        kernel = Sampler(kernel, _CHARTS.get(function, REAL).name)
    build, name = kernel
    if name not in CHARTS:
        raise ValueError(f"the chart of a kernel must be one of {', '.join(CHARTS)}, not {name!r}")
    chart = CHARTS[name]
    parameters = _parameters(build)
    option, value, reason = _UNFIT_OPTIONS.get(getattr(build, "func", build), ("", "", ""))
    if option and parameters[option].default == value:
        raise ValueError(f"kernel {build_name(build)} cannot be used here {reason}")
    target = "log_density" if chart.is_exact else "estimator"
    if target not in parameters:
        if target in inspect.signature(getattr(build, "func", build)).parameters:
            raise ValueError(f"options of kernel {build_name(build)} must be frozen by name")
        raise ValueError(f"kernel {build_name(build)} does not take {_NAMED[target]}")
    # A manifold of their own is for kernels that else are given spheres.
    supplied = chart.given - {"manifold"} & getattr(build, "keywords", {}).keys()
    if supplied:
        raise ValueError(
            f"the model supplies {', '.join(sorted(supplied))} to kernel {build_name(build)}: "
            "do not freeze it"
        )
    required = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if "manifold" in chart.given and "manifold" not in required:
        chart = POINTS  # of the manifold that is frozen
    missing = [name for name in required if name not in chart.given]
    if missing:
        raise ValueError(
            f"kernel {build_name(build)} needs {', '.join(missing)}: freeze them by "
            f"functools.partial({build_name(build)}, {missing[0]}=...)"
        )
    return Sampler(build, chart.name)


def _parameters(build: Build) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a sampler; raise a ValueError if it lacks one that is frozen."""
    function = getattr(build, "func", build)
    known = inspect.signature(function).parameters
    others = getattr(build, "keywords", {}).keys() - known.keys()
    if others and all(p.kind != p.VAR_KEYWORD for p in known.values()):
        raise ValueError(
            f"kernel {build_name(build)} has no option {min(others)!r}; it has {', '.join(known)}"
        )
    return inspect.signature(build).parameters


def check(group: Group, layout: Layout) -> None:
    """Raise a ValueError unless the kernel of a group can move its sites."""
    unfit = [name for name in group.names if not group.chart.fits(layout.kinds[name])]
    if not unfit:
        return
    kinds = ", ".join(f"{name!r} ({layout.kinds[name].name})" for name in unfit)
    raise ValueError(f"kernel {build_name(group.build)} cannot move {kinds}: {group.chart.advice}")


def check_support(group: Group, target: Target, values: Values) -> None:
    """Raise a ValueError if the support of a site depends on sites that others move.

    While those move, the coordinate of the site stays fixed, but not its value.
    """
    if not group.chart.is_real:
        return
    dependent = density.dependent_sites(
        target, values, group.names, lambda distribution: distribution.support
    )
    if dependent:
        raise ValueError(
            f"the support of {sites.list_str(dependent)} depends on sites that another kernel "
            "moves: give them all to one kernel such as sgld, or write the site as a function of "
            "one with a constant support, for example x = low + (high - low) * u with u ~ "
            "Uniform(0, 1)"
        )


def check_noise(group: Group, *, noisy: bool) -> None:
    """Raise a ValueError if an exact kernel gets minibatches or other noise."""
    if noisy and group.chart.is_exact:
        raise ValueError(
            f"kernel {build_name(group.build)} needs the exact log density, but that of this model "
            "changes from step to step: give its plates all their rows, or use "
            "functools.partial(sgbd.build, step_size=...), which takes minibatches"
        )


def totals(
    group: Group, target: Target, position: Values, fixed: Values
) -> dict[str, tuning.Total]:
    """Return the totals for the counts of simplex sites, by site; none for other groups.

    A likelihood that is normalised in a site has counts that sum to 0, so some are negative, which
    some kernels cannot handle; see `simplex_jax.gradients.with_total`. The position has the
    coordinates of the group's sites, `fixed` the constrained values of all others.
    """

    def evaluate(position: Values) -> density.Density:
        return density.evaluate(target, position, fixed)

    names = group.names if group.chart.is_native else ()
    return {name: tuning.safe_total(name, position, evaluate) for name in names}


def kernel(
    group: Group,
    target: Target,
    position: Values,
    fixed: Values,
    totals: Mapping[str, tuning.Total],
    *,
    remembers: bool,
) -> Kernel:
    """Build the kernel of a group, given the constrained values of all other sites.

    If `remembers`, the memory of its estimator is the estimate from the last minibatch.
    """

    def log_density(position: Values) -> jax.Array:
        return _log_density(position, group, target, fixed)

    if group.chart.is_exact:
        return group.build(log_density=log_density)

    def init(key: jax.Array) -> Any:
        return jax.tree.map(jnp.zeros_like, position) if remembers else ()

    def estimate(key: jax.Array, memory: Any, position: Values, batch: Any) -> tuple[Values, Any]:
        if group.chart.is_native:
            counts = density.evaluate(target, position, fixed).counts
            result = {
                name: simplex_moves.with_total(counts[name], y, totals[name].of(counts[name]))
                for name, y in position.items()
            }
        else:
            result = jax.grad(log_density)(position)
        return result, result if remembers else memory

    options: dict[str, Any] = {}
    if group.chart.is_native:
        parameters = density.evaluate(target, position, fixed).parameters
        options["alpha"] = {name: parameters[name][0] for name in position}
    if "manifold" in group.chart.given:
        options["manifold"] = manifolds.product({name: manifolds.sphere() for name in group.names})
    return group.build(estimator=Estimator(init=init, estimate=estimate), **options)


def _log_density(position: Values, group: Group, target: Target, fixed: Values) -> jax.Array:
    if not group.chart.is_real:
        return density.sum_all(density.log_joint(target, {**fixed, **position}, frozenset())[0])
    model = handlers.substitute(density.prepare(target), data=fixed)
    enumerated = target.layout.enumerate_from is not None
    return -potential_energy(model, target.args, dict(target.kwargs), position, enum=enumerated)


def is_finite(group: Group, target: Target, position: Values, fixed: Values) -> jax.Array:
    """Return whether the log density and its gradient are finite in the coordinates of a group."""
    if group.chart.is_native:
        return density.evaluate(target, position, fixed).is_finite()
    value, gradient = jax.value_and_grad(_log_density)(position, group, target, fixed)
    return jnp.isfinite(value) & jnp.stack([jnp.isfinite(g).all() for g in gradient.values()]).all()


def coordinates(group: Group, target: Target, values: Values) -> Values:
    """Return the coordinates that the kernel moves, for constrained values of all sites."""
    group_values = {name: values[name] for name in group.names}
    if group.chart.is_native:
        kinds = target.layout.kinds
        return {name: kinds[name].native(value) for name, value in group_values.items()}
    trace = density.trace_at(target, values)
    for name in group.names:  # of real numbers numpyro would scale the Jacobian, too
        density.check_prior(trace[name])
    if not group.chart.is_real:
        return group_values
    return {name: biject_to(trace[name]["fn"].support).inv(x) for name, x in group_values.items()}


def constrain(groups: Sequence[Group], target: Target, position: Values, fixed: Values) -> Values:
    """Return the constrained values of the sites of some groups, given those of all others."""
    values, real = {}, {}
    for group in groups:
        for name in group.names:
            y = position[name]
            if group.chart.is_real:
                real[name] = y
            elif group.chart.is_native:
                values[name] = target.layout.kinds[name].constrain(y)
            else:
                values[name] = y
    if real:
        known = {**fixed, **values}
        model = density.prepare(target, enumerated=False)
        # A prior that cannot be drawn from has another value: supports do not depend on others.
        model = handlers.substitute(
            model, substitute_fn=lambda site: None if site["name"] in known else sites.drawn(site)
        )
        model = handlers.substitute(model, data=known)
        values.update(constrain_fn(model, target.args, dict(target.kwargs), real))
    return values
