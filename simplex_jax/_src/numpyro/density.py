"""The log density of a model, and its derivatives in the native values of some sites."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro import handlers
from numpyro.distributions.util import sum_rightmost
from numpyro.infer.util import compute_log_probs
from numpyro.primitives import Messenger

from simplex_jax._src import batches
from simplex_jax._src.base import PyTree
from simplex_jax._src.numpyro import sites
from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.sites import Kind, Layout, Model, Rows, Values

_LEAST = 1e-6  # the smallest shape of a gamma distribution


class Target(NamedTuple):
    """A model with its arguments, and the typed key that chooses its minibatch."""

    model: Model
    layout: Layout
    args: tuple
    kwargs: Mapping[str, Any]
    key: jax.Array


class Density(NamedTuple):
    """The log joint density at a point.

    The counts are derivatives in the native values y, without the site's own prior: for
    log-probabilities, the generalised counts of `simplex_jax.gradients.counts`.
    """

    others: jax.Array  # the part without the priors of the moved sites
    priors: Values  # their log priors, up to terms without the sites
    by_row: Values  # for sites with rows, the result of `without` by row
    counts: Values
    parameters: dict[str, tuple[jax.Array, ...]]  # Dirichlet concentrations, or shape and rate
    size: jax.Array  # sum of the absolute values of the terms of the log density
    terms: jax.Array  # number of terms; 1 if sites are summed out, which hides them

    @jax.jit
    def is_finite(self) -> jax.Array:
        """Return whether the log density and its gradient are finite."""
        value = self.others + sum(self.priors.values())
        counts = [jnp.isfinite(c).all() for c in self.counts.values()]
        return jnp.isfinite(value) & jnp.stack(counts).all()

    def without(self, name: str) -> jax.Array:
        """Return the log joint density without the prior of one site.

        If the site has rows, return it for each row, up to terms without the site.
        """
        if name in self.by_row:
            return self.by_row[name]
        return self.others + sum(prior for key, prior in self.priors.items() if key != name)


class _Detach(Messenger):
    """Removes the priors of some sites from the density and stores them."""

    def __init__(self, fn: Model, names: frozenset[str]) -> None:
        super().__init__(fn)
        self.names = names
        self.distributions: dict[str, dist.Distribution] = {}

    def process_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "sample" and (name := message["name"]) in self.names:
            check_prior(message)
            self.distributions[name] = message["fn"]
            message["fn"] = message["fn"].mask(False)


def check_prior(message: dict[str, Any]) -> None:
    """Raise a ValueError if the prior of a site is scaled or masked."""
    name = message["name"]
    if is_masked(message["fn"]) and sites.is_imputed(name):
        raise ValueError(sites.imputed_message(name))
    if message["scale"] is not None or is_masked(message["fn"]):
        raise ValueError(
            f"the prior of site {name!r} is scaled or masked, which is for likelihoods "
            "here; move handlers.scale and handlers.mask to the observed sites, or use NUTS"
        )


def is_masked(distribution: dist.Distribution) -> bool:
    """Return whether a distribution is masked, or wraps one that is."""
    while isinstance(distribution, dist.ExpandedDistribution | dist.Independent):
        distribution = distribution.base_dist
    return isinstance(distribution, dist.MaskedDistribution)


def log_joint(
    target: Target, values: Values, detached: frozenset[str]
) -> tuple[dict[str, jax.Array], dict[str, dist.Distribution]]:
    """Return the log density at constrained values, and the distributions of sites left out.

    The density is given as terms by site, or as a single one if sites are summed out.
    """
    detach = _Detach(prepare(target), detached)
    inputs = detach, target.args, dict(target.kwargs), values
    if target.layout.enumerate_from is not None:
        from numpyro.contrib import funsor

        return {"": funsor.log_density(*inputs)[0]}, detach.distributions
    terms, _ = compute_log_probs(*inputs, sum_log_prob=False)
    return {
        name: term for name, term in terms.items() if name not in detached
    }, detach.distributions


def prepare(target: Target, *, enumerated: bool = True) -> Model:
    """Return the model with its key and a minibatch, its discrete sites enumerated or drawn.

    numpyro draws a minibatch in a loop that copies all row numbers; here the cost of a draw does
    not depend on the number of rows.
    """
    model = target.model
    if enumerated and target.layout.enumerate_from is not None:
        from numpyro.contrib import funsor

        model = funsor.enum(funsor.config_enumerate(model), target.layout.enumerate_from)
    key_sites, key_rows = jax.random.split(target.key)
    plates = target.layout.subsampled
    rows = {
        name: batches.permutation(key, jnp.arange(shown), size)
        for key, (name, (size, shown)) in zip(
            jax.random.split(key_rows, len(plates)), plates.items(), strict=True
        )
    }
    return handlers.substitute(handlers.seed(model, key_sites), data=rows)


def replay(target: Target, values: Values) -> Values:
    """Return the values of the latent and the deterministic sites."""
    names = target.layout.deterministic
    if not names:
        return values
    trace = trace_at(target, values)
    return {**values, **{name: trace[name]["value"] for name in names}}


def trace_at(target: Target, values: Values) -> dict[str, Any]:
    """Return the trace of the model at constrained values of its latent sites."""
    model = handlers.substitute(prepare(target, enumerated=False), data=values)
    return handlers.trace(model).get_trace(*target.args, **target.kwargs)


def changing_sites(target: Target, values: Values) -> list[str]:
    """Return the names of the deterministic sites that the latent sites alone do not determine.

    They are inside a plate with minibatches, or depend on a minibatch or on numbers that a replay
    of the model would draw: sites that are summed out or hidden, and `numpyro.prng_key`.
    """
    layout = target.layout
    names = layout.deterministic
    if not names:
        return []
    inside = set()

    def numbers(key: jax.Array) -> list[jax.Array]:
        trace = trace_at(target._replace(key=key), values)
        for name in names:
            frames = trace[name].get("cond_indep_stack", ())
            if any(frame.name in layout.subsampled for frame in frames):
                inside.add(name)
        return [sum_all(trace[name]["value"]) for name in names]

    depends = find_dependent(numbers, target.key)
    return [
        name
        for name, is_dependent in zip(names, depends, strict=True)
        if is_dependent or name in inside
    ]


def is_random(target: Target, values: Values) -> bool:
    """Return whether the log density changes between steps while the sites do not.

    It does with minibatches, and in models that draw their own numbers (``numpyro.prng_key``).
    """

    def joint(key: jax.Array) -> list[jax.Array]:
        terms, _ = log_joint(target._replace(key=key), values, frozenset())
        return [sum_all(terms)]

    return bool(target.layout.subsampled) or find_dependent(joint, target.key)[0]


def check_precision(target: Target, values: Values) -> None:
    """Raise a ValueError if a term of the log density is too coarse for a Metropolis test."""
    terms = jax.eval_shape(lambda: log_joint(target, values, frozenset())[0])
    for name, term in terms.items():
        if jnp.issubdtype(term.dtype, jnp.floating) and term.dtype.itemsize < 4:
            where = f"site {name!r}" if name else "the model"
            raise ValueError(
                f"the log density of {where} is {term.dtype}, too coarse for a Metropolis test: "
                "cast its parameters or its values to float32"
            )


def sum_all(tree: PyTree) -> jax.Array:
    """Return the sum of all numbers of a tree, a scalar."""
    return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def find_dependent(function: Callable[..., list[jax.Array]], *inputs: PyTree) -> list[bool]:
    """Return which results of a function depend on its arguments, according to its program."""
    return [any(used) for used in _used(function, *inputs)]


def _used(function: Callable[..., list[jax.Array]], *inputs: PyTree) -> list[list[bool]]:
    """Return on which leaves of its arguments each result of a function depends."""
    program = jax.make_jaxpr(function)(*inputs).jaxpr
    count = len(program.outvars)
    return [dce_jaxpr(program, [i == j for j in range(count)])[1] for i in range(count)]


def recursive_sites(target: Target, values: Values) -> frozenset[str]:
    """Return the sites whose prior has parameters that depend on the site itself.

    The steps of numpyro's `scan` form one site, and its distribution at a step may depend on its
    value at the previous one. `values` are constrained values of all latent sites.
    """
    names = sorted(values)  # the order of the leaves of a dictionary

    def numbers(values: Values) -> list[jax.Array]:
        trace = trace_at(target, values)
        return [sum_all(_parameters(trace[name]["fn"], values[name])) for name in names]

    used = _used(numbers, {name: values[name] for name in names})
    return frozenset(name for i, name in enumerate(names) if used[i][i])


def unnamed_priors(target: Target, values: Values) -> frozenset[str]:
    """Return the sites whose prior is neither a Dirichlet or gamma distribution nor flat."""
    names: set[str] = set()

    def look(values: Values) -> None:
        trace = trace_at(target, values)
        for name, y in values.items():
            distribution = trace[name]["fn"]
            is_flat = isinstance(sites.base(distribution), dist.ImproperUniform)
            if not is_flat and not _parameters(distribution, y):
                names.add(name)

    jax.eval_shape(look, values)
    return frozenset(names)


def dependent_sites(
    target: Target,
    values: Values,
    names: Sequence[str],
    part: Callable[[dist.Distribution], PyTree],
) -> list[str]:
    """Return the sites whose distribution has a part that depends on sites of other kernels.

    `values` are constrained values of all sites that this kernel sees.
    """
    others = {name: value for name, value in values.items() if name not in names}
    siblings = target.kwargs.get(sites.SIBLINGS, {})

    def numbers(others: Values, siblings: Values) -> list[jax.Array]:
        """Return a number for each site, whose program shows on what the part depends."""
        kwargs = {**target.kwargs, sites.SIBLINGS: siblings} if siblings else target.kwargs
        trace = trace_at(target._replace(kwargs=kwargs), {**values, **others})
        return [sum_all(part(trace[name]["fn"])) for name in names]

    depends = find_dependent(numbers, others, siblings)
    return [name for name, is_dependent in zip(names, depends, strict=True) if is_dependent]


class _Terms(NamedTuple):
    """The terms of the log density at native values of the moved sites."""

    others: Values  # by site, in its batch shape
    priors: Values  # of the moved sites, likewise
    parameters: dict[str, tuple[jax.Array, ...]]

    def without(self, name: str) -> list[jax.Array]:
        """Return the terms without the prior of one site."""
        priors = (prior for key, prior in self.priors.items() if key != name)
        return [jnp.asarray(term) for term in (*self.others.values(), *priors)]


def terms_of(target: Target, y: Values, fixed: Mapping[str, jax.Array] | None = None) -> _Terms:
    """Return the terms of the log density, by site and by batches."""
    kinds = target.layout.kinds
    values = {name: kinds[name].constrain(value) for name, value in y.items()}
    others, distributions = log_joint(target, {**(fixed or {}), **values}, frozenset(y))
    priors, parameters = {}, {}
    for name, distribution in distributions.items():
        if target.layout.enumerate_from is not None and len(distribution.shape()) > jnp.ndim(
            values[name]
        ):
            raise ValueError(
                f"the prior of site {name!r} depends on a site that is summed out; write it as a "
                "mixture (on the simplex dist.MixtureSameFamily), or use NUTS"
            )
        parameters[name] = _parameters(distribution, y[name])
        least = name in target.layout.least
        if least or not parameters[name]:
            # Any other prior stays in the density, relative to a reference with such parameters.
            parameters[name] = _reference(kinds[name], y[name], least=least)
            reference = kinds[name].log_density(y[name], parameters[name])
            reference = sum_rightmost(reference, reference.ndim - len(distribution.batch_shape))
            others[name] = distribution.log_prob(values[name]) - reference
        prior = _log_prior(kinds[name], y[name], parameters[name])
        priors[name] = sum_rightmost(prior, prior.ndim - len(distribution.batch_shape))
    return _Terms(others, priors, parameters)


def evaluate(
    target: Target,
    native: Values,
    fixed: Mapping[str, jax.Array] | None = None,
    rows: Mapping[str, Rows] | None = None,
) -> Density:
    """Return the density and its derivatives at native values of simplex and gamma sites.

    `fixed` are constrained values of all other latent sites; `rows` are the rows of sites that move
    row by row.
    """

    def total(y: Values) -> tuple[jax.Array, tuple]:
        terms = terms_of(target, y, fixed)
        others = sum_all(terms.others)
        priors = {name: prior.sum() for name, prior in terms.priors.items()}
        by_row = {
            name: sum(site_rows.sums_of_term(term) for term in terms.without(name))
            for name, site_rows in (rows or {}).items()
        }
        sizes = [jnp.abs(term).sum() for term in [*terms.others.values(), *priors.values()]]
        number = jnp.asarray(sum(jnp.size(x) for x in terms.others.values()), jnp.float32)
        extras = terms.parameters, sum(sizes), jnp.maximum(number, 1)
        return others + sum(priors.values()), (others, priors, by_row, extras)

    counts, (others, priors, by_row, extras) = jax.grad(total, has_aux=True)(native)
    counts = {name: _without_underflow(native[name], count) for name, count in counts.items()}
    return Density(others, priors, by_row, counts, *extras)


def _without_underflow(y: jax.Array, count: jax.Array) -> jax.Array:
    """Return counts with 0 instead of NaN at tiny values.

    There a product of the model underflows, and a derivative is 0 / 0: of no events of a Poisson
    distribution at a thousandth of a rate of 1e-38, for example. The log density, which decides
    whether moves are accepted, is then that of a rate of 0: events have none.
    """
    is_tiny = y < jnp.log(jnp.finfo(y.dtype).tiny) / 2
    return jnp.where(is_tiny & jnp.isnan(count), 0, count)


def _reference(kind: Kind, y: jax.Array, *, least: bool) -> tuple[jax.Array, ...]:
    """Return prior parameters that do not depend on the site: ones, or the least.

    If the density rises to a corner, the least ones leave no count negative. Ones suit flat priors.
    """
    return (jnp.full_like(y, _LEAST if least else 1),) * kind.num_parameters


def _parameters(distribution: dist.Distribution, y: jax.Array) -> tuple[jax.Array, ...]:
    distribution = sites.base(distribution)
    parameters: tuple[Any, ...] = ()
    if isinstance(distribution, dist.Dirichlet | LogDirichlet):
        parameters = (distribution.concentration,)
    elif isinstance(distribution, dist.Gamma):
        parameters = (distribution.concentration, distribution.rate)
    elif isinstance(distribution, dist.Exponential):
        parameters = (1.0, distribution.rate)
    return tuple(jnp.broadcast_to(jnp.asarray(x, y.dtype), y.shape) for x in parameters)


def _log_prior(kind: Kind, y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    """Return the log prior as a function of its parameters; the site's own value is held fixed."""
    return kind.log_prior(jax.lax.stop_gradient(y), parameters)
