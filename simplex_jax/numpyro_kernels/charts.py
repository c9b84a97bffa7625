"""How a gradient kernel sees the sites of a model: coordinates, and gradients or counts in them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import constrain_fn, potential_energy

from simplex_jax.base import Kernel
from simplex_jax.estimators import Estimator
from simplex_jax.geometry import manifolds
from simplex_jax.numpyro_kernels import density, simplex_moves, sites, tuning
from simplex_jax.numpyro_kernels.density import Target
from simplex_jax.numpyro_kernels.sites import Layout, Values

Build: TypeAlias = Callable[..., Kernel]

COUNTS, POINTS, REAL = "counts", "points", "real"
_GIVEN = {"estimator", "alpha", "manifold"}
_UNFIT = {
    "log_density": "it takes a log density and cannot be shown minibatches",
    "shape": "it is for one gamma law: SCIR moves gamma sites",
    "precision": "it is for one lognormal law",
}


class Group(NamedTuple):
    """Sites that one kernel moves.

    Attributes:
        names: The sites.
        build: The `build` of a sampler, its options frozen by `functools.partial`.
        chart: `COUNTS` for simplex kernels, which eat generalised counts; `POINTS` for kernels that
            move constrained values; `REAL` for those that move unconstrained ones.
    """

    names: tuple[str, ...]
    build: Build
    chart: str


def chart_of(build: Build) -> str:
    """Return the chart of a kernel, by the arguments that its `build` takes.

    Raises:
        ValueError: It does not take an estimator, or lacks an argument.
    """
    if not callable(build):
        raise ValueError(
            "kernel must be the build function of a sampler, its options frozen: "
            f"functools.partial(sgld.build, step_size=1e-3); it is {build!r}"
        )
    parameters = inspect.signature(build).parameters
    for name, why in _UNFIT.items():
        if name in parameters:
            raise ValueError(f"kernel {_name(build)} cannot be used here: {why}")
    if "form" in parameters and parameters["form"].default == "dual":
        raise ValueError(
            f"kernel {_name(build)} cannot be used here in the dual form, which takes gradients by "
            "the dual variable: those of a model are by its sites. Leave out form='dual'"
        )
    if "estimator" not in parameters:
        raise ValueError(f"kernel {_name(build)} does not take an estimator")
    chart = REAL
    if "alpha" in parameters:
        chart = COUNTS
    elif parameters.keys() & {"manifold", "mirror", "projection"}:
        chart = POINTS
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in _GIVEN
    ]
    if missing:
        raise ValueError(
            f"kernel {_name(build)} needs {', '.join(missing)}: freeze them by "
            f"functools.partial({_name(build)}, {missing[0]}=...)"
        )
    return chart


def check(group: Group, layout: Layout) -> None:
    """Raise a ValueError unless the kernel of a group can move its sites."""
    wrong = [name for name in group.names if not _fits(group, layout.kinds[name])]
    if not wrong:
        return
    kinds = ", ".join(f"{name!r} ({layout.kinds[name]})" for name in wrong)
    advice = {
        COUNTS: "it moves simplex sites; give the others a kernel of their own, {None: "
        "functools.partial(sgld.build, step_size=...)}",
        POINTS: "it moves unit vectors, on the sphere that it is given by default; give the others "
        "a kernel of their own, {None: functools.partial(sgld.build, step_size=...)}",
        REAL: "numpyro has no map from the real numbers to unit vectors; use "
        "functools.partial(gsgnht.build, step_size=..., friction=...) for them",
    }[group.chart]
    raise ValueError(f"kernel {_name(group.build)} cannot move {kinds}: {advice}")


def _fits(group: Group, kind: str) -> bool:
    if group.chart == COUNTS:
        return kind in (sites.SIMPLEX, sites.LOG_SIMPLEX)
    if group.chart == POINTS:
        return kind == sites.SPHERE or not _wants_manifold(group.build)
    return kind != sites.SPHERE


def _wants_manifold(build: Build) -> bool:
    parameter = inspect.signature(build).parameters.get("manifold")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def check_support(group: Group, target: Target, values: Values) -> None:
    """Raise a ValueError where the support of a site depends on sites that others move.

    What is held fixed while those move is the coordinate of the site, and not its value.

    Args:
        group: The group.
        target: The model.
        values: Constrained values of all sites.
    """
    if group.chart != REAL:
        return
    others = {name: value for name, value in values.items() if name not in group.names}
    # Siblings in a Gibbs kernel of numpyro come as this argument.
    siblings = target.kwargs.get("_gibbs_sites", {})

    def supports(others: Values, siblings: Values) -> list[jax.Array]:
        """Return a number for each site, whose program shows what its support is made of."""
        kwargs = {**target.kwargs, "_gibbs_sites": siblings} if siblings else target.kwargs
        trace = density.traced(target._replace(kwargs=kwargs), {**values, **others})
        return [density.summed(trace[name]["fn"].support) for name in group.names]

    depends = density.depending(supports, others, siblings)
    found = [name for name, does in zip(group.names, depends, strict=True) if does]
    if found:
        raise ValueError(
            f"the support of {sites.listed(found)} depends on sites that another kernel moves: "
            "give these to one kernel such as sgld, or write the site as a function of one with a "
            "constant support, for example x = low + (high - low) * u with u ~ Uniform(0, 1)"
        )


def totals(
    group: Group, target: Target, position: Values, fixed: Values
) -> dict[str, tuning.Total]:
    """Return the sums that counts of simplex sites are given, by site; else nothing.

    A likelihood that is normalised in a site has counts of sum 0, and so negative ones, which some
    kernels cannot take; see `simplex_jax.gradients.with_total`.

    Args:
        group: The group.
        target: The model.
        position: Coordinates of the sites of the group.
        fixed: Constrained values of all other sites.
    """

    def evaluate(position: Values) -> density.Density:
        return density.evaluate(target, position, fixed)

    names = group.names if group.chart == COUNTS else ()
    return {name: tuning.safe_total(name, position, evaluate) for name in names}


def kernel(
    group: Group,
    target: Target,
    position: Values,
    fixed: Values,
    totals: Mapping[str, tuning.Total],
) -> Kernel:
    """Build the kernel of a group, given the constrained values of all other sites.

    Args:
        group: The group.
        target: The model.
        position: Coordinates of the sites of the group.
        fixed: Constrained values of all other sites.
        totals: What `totals` returned, of these sites at least.
    """

    def estimate(key: jax.Array, memory: Any, position: Values, batch: Any) -> tuple[Values, Any]:
        del key, batch
        if group.chart == COUNTS:
            counts = density.evaluate(target, position, fixed).counts
            return {
                name: simplex_moves.with_total(counts[name], y, totals[name].of(counts[name]))
                for name, y in position.items()
            }, memory
        return jax.grad(_log_density)(position, group, target, fixed), memory

    options: dict[str, Any] = {}
    if group.chart == COUNTS:
        found = density.evaluate(target, position, fixed).parameters
        options["alpha"] = {name: found[name][0] for name in position}
    elif _wants_manifold(group.build):
        options["manifold"] = manifolds.product({name: manifolds.sphere() for name in group.names})
    return group.build(estimator=Estimator(init=lambda key: (), estimate=estimate), **options)


def _log_density(position: Values, group: Group, target: Target, fixed: Values) -> jax.Array:
    if group.chart == POINTS:
        return density.log_joint(target, {**fixed, **position}, frozenset())[0]
    model = handlers.substitute(density.prepared(target), data=fixed)
    enumerated = target.layout.enumerate_from is not None
    return -potential_energy(model, target.args, dict(target.kwargs), position, enum=enumerated)


def coordinates(group: Group, target: Target, values: Values) -> Values:
    """Return the coordinates that the kernel moves, for constrained values of all sites."""
    mine = {name: values[name] for name in group.names}
    if group.chart == COUNTS:
        kinds = target.layout.kinds
        return {name: sites.native(kinds[name], value) for name, value in mine.items()}
    if group.chart == POINTS:
        return mine
    trace = density.traced(target, values)
    return {name: biject_to(trace[name]["fn"].support).inv(x) for name, x in mine.items()}


def constrained(groups: Sequence[Group], target: Target, position: Values, fixed: Values) -> Values:
    """Return the constrained values of the sites of some groups.

    Args:
        groups: The groups.
        target: The model.
        position: Their coordinates.
        fixed: Constrained values of all other sites.
    """
    values, real = {}, {}
    for group in groups:
        for name in group.names:
            y = position[name]
            if group.chart == REAL:
                real[name] = y
            else:
                kind = target.layout.kinds[name]
                values[name] = y if group.chart == POINTS else sites.constrain(kind, y)
    if real:
        model = density.prepared(target, enumerated=False)
        model = handlers.substitute(model, data={**fixed, **values})
        values.update(constrain_fn(model, target.args, dict(target.kwargs), real))
    return values


def _name(build: Build) -> str:
    function = getattr(build, "func", build)
    module = getattr(function, "__module__", "").rpartition(".")[2]
    return f"{module}.{getattr(function, '__name__', function)}"
