"""The log density of a model and its derivatives by the native values of some of its sites."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.interpreters.partial_eval import dce_jaxpr
from jax.scipy.special import gammaln
from numpyro import handlers
from numpyro.infer.util import log_density
from numpyro.primitives import Messenger

from simplex_jax import batches
from simplex_jax.base import PyTree
from simplex_jax.numpyro_distributions import LogDirichlet
from simplex_jax.numpyro_kernels import sites
from simplex_jax.numpyro_kernels.sites import Layout, Model, Values


class Target(NamedTuple):
    """A model with its arguments, and the key that chooses its minibatch.

    Attributes:
        model: A numpyro model.
        layout: What `sites.inspect` found.
        args: Its arguments.
        kwargs: Its keyword arguments.
        key: A typed key.
    """

    model: Model
    layout: Layout
    args: tuple
    kwargs: Mapping[str, Any]
    key: jax.Array


class Density(NamedTuple):
    """The log joint density at a point.

    Attributes:
        others: Its part without the priors of the sites that are moved.
        priors: The log prior of each of those, up to terms that the sites do not enter.
        counts: Derivatives by the native values y, the site's own prior left out: for
            log-probabilities the generalised counts, see `simplex_jax.gradients.counts`.
        parameters: Of each prior: Dirichlet concentrations, or shape and rate of a gamma law.
    """

    others: jax.Array
    priors: Values
    counts: Values
    parameters: dict[str, tuple[jax.Array, ...]]

    def without(self, name: str) -> jax.Array:
        """Return the log joint density without the prior of one site."""
        return self.others + sum(prior for key, prior in self.priors.items() if key != name)


class _Detach(Messenger):
    """Takes the priors of some sites out of the density and keeps them."""

    def __init__(self, fn: Model, names: frozenset[str]) -> None:
        super().__init__(fn)
        self.names = names
        self.laws: dict[str, dist.Distribution] = {}

    def process_message(self, message: dict[str, Any]) -> None:
        name = message["name"]
        if message["type"] == "sample" and name in self.names:
            if message["scale"] is not None or _masked(message["fn"]):
                raise ValueError(
                    f"the prior of site {name!r} is scaled or masked, which is for likelihoods "
                    "here; move handlers.scale and handlers.mask to the observed sites, or use NUTS"
                )
            self.laws[name] = message["fn"]
            message["fn"] = message["fn"].mask(False)


def _masked(law: dist.Distribution) -> bool:
    while isinstance(law, dist.ExpandedDistribution | dist.Independent):
        law = law.base_dist
    return isinstance(law, dist.MaskedDistribution)


def log_joint(target: Target, values: Values, detached: frozenset[str]) -> tuple[jax.Array, dict]:
    """Return the log density at constrained values, and the laws of the sites left out of it."""
    model, density = prepared(target), log_density
    if target.layout.enumerate_from is not None:
        from numpyro.contrib import funsor

        density = funsor.log_density
    detach = _Detach(model, detached)
    value, _ = density(detach, target.args, dict(target.kwargs), values)
    return value, detach.laws


def prepared(target: Target, *, enumerated: bool = True) -> Model:
    """Return the model with its key and a minibatch, its discrete sites enumerated or drawn.

    numpyro draws a minibatch by a loop that copies the numbers of all the rows; here a draw costs
    the same for any number of rows.
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
    """Return the values of the latent sites together with those of the deterministic sites."""
    names = target.layout.deterministic
    if not names:
        return values
    trace = traced(target, values)
    return {**values, **{name: trace[name]["value"] for name in names}}


def traced(target: Target, values: Values) -> dict[str, Any]:
    """Return the trace of the model at constrained values of its latent sites."""
    model = handlers.substitute(prepared(target, enumerated=False), data=values)
    return handlers.trace(model).get_trace(*target.args, **target.kwargs)


def changing(target: Target, values: Values) -> list[str]:
    """Return the names of the deterministic sites that the latent sites alone do not determine.

    They are inside a plate that shows a minibatch, or made of one, or of sites that are summed out,
    which a replay of the model would draw from their prior.
    """
    layout = target.layout
    names = layout.deterministic
    if not names or not (layout.subsampled or layout.enumerate_from is not None):
        return []
    inside = set()

    def numbers(key: jax.Array) -> list[jax.Array]:
        trace = traced(target._replace(key=key), values)
        for name in names:
            frames = trace[name].get("cond_indep_stack", ())
            if any(frame.name in layout.subsampled for frame in frames):
                inside.add(name)
        return [summed(trace[name]["value"]) for name in names]

    depends = depending(numbers, target.key)
    return [name for name, does in zip(names, depends, strict=True) if does or name in inside]


def summed(tree: PyTree) -> jax.Array:
    """Return the sum of all numbers of a tree, a scalar."""
    return sum((jnp.sum(leaf) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def depending(function: Callable[..., list[jax.Array]], *given: PyTree) -> list[bool]:
    """Tell which results of a function are made of its arguments, as its program shows."""
    program = jax.make_jaxpr(function)(*given).jaxpr
    count = len(program.outvars)

    def depends(i: int) -> bool:
        _, used = dce_jaxpr(program, [i == j for j in range(count)])
        return any(used)

    return [depends(i) for i in range(count)]


def evaluate(
    target: Target, native: Values, fixed: Mapping[str, jax.Array] | None = None
) -> Density:
    """Return the density and its derivatives at native values of simplex and gamma sites.

    Args:
        target: The model.
        native: Native values of the sites that are moved.
        fixed: Constrained values of all other latent sites.
    """
    kinds = target.layout.kinds
    # A prior that is no Dirichlet or gamma law stays in the density, next to a uniform one.
    detached = frozenset(native)

    def total(y: Values) -> tuple[jax.Array, tuple]:
        values = {name: sites.constrain(kinds[name], value) for name, value in y.items()}
        others, laws = log_joint(target, {**(fixed or {}), **values}, detached)
        priors, parameters = {}, {}
        for name, law in laws.items():
            parameters[name] = _parameters(law, y[name])
            if not parameters[name]:
                others = others + law.log_prob(values[name]).sum()
                parameters[name] = (jnp.ones_like(y[name]),)
            priors[name] = _log_prior(kinds[name], y[name], parameters[name])
        return others + sum(priors.values()), (others, priors, parameters)

    gradient, (others, priors, parameters) = jax.grad(total, has_aux=True)(native)
    return Density(others, priors, gradient, parameters)


def _parameters(law: dist.Distribution, y: jax.Array) -> tuple[jax.Array, ...]:
    law = sites.base(law)
    found: tuple[Any, ...]
    if isinstance(law, dist.Dirichlet | LogDirichlet):
        found = (law.concentration,)
    elif isinstance(law, dist.Gamma):
        found = (law.concentration, law.rate)
    elif isinstance(law, dist.Exponential):
        found = (jnp.ones(()), law.rate)
    else:
        return ()
    return tuple(jnp.broadcast_to(jnp.asarray(x, y.dtype), y.shape) for x in found)


def _log_prior(kind: str, y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    """Return the log prior as a function of its parameters; the site's own value is held fixed."""
    y = jax.lax.stop_gradient(y)
    if kind == sites.GAMMA:
        shape, rate = parameters
        density = shape * (jnp.log(rate) + y) - gammaln(shape) - rate * jnp.exp(y)
        return density.sum()
    (alpha,) = parameters
    return (alpha * y).sum() - gammaln(alpha).sum() + gammaln(alpha.sum(axis=-1)).sum()
