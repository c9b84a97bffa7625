"""The latent sites of a numpyro model: their kinds, starts and native values.

Kernels move a site's *native* value, which cannot underflow: log-probabilities on the simplex, and
the logarithm of a gamma variate.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer import init_to_sample
from scipy.special import log_softmax

from simplex_jax._src import arguments
from simplex_jax._src.geometry import gamma_scores
from simplex_jax._src.numpyro.distributions import LogDirichlet

Model: TypeAlias = Callable[..., Any]
Values: TypeAlias = dict[str, jax.Array]

SIBLINGS = "_gibbs_sites"
"""The model's argument in which numpyro's Gibbs kernel passes the sites of the other blocks."""


def _same(value: Any) -> Any:
    return value


def _no_density(y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    raise NotImplementedError  # of kinds that are not native: no kernel asks for their density


class Kind(NamedTuple):
    """What kernels need to know of a kind of site; native values are [..., K] on the simplex.

    The fields after `is_native` are of kinds for which it is true: others have no native values,
    and are moved by kernels of real numbers or of points.
    """

    name: str  # for messages
    is_native: bool = False
    on_simplex: bool = False
    # Whether the model sees log-probabilities, which are never raised.
    is_log: bool = False
    num_parameters: int = 1  # of the named priors: concentrations, or shapes and rates
    # The native value of one that the model sees.
    native: Callable[[jax.Array], jax.Array] = _same
    # The value that the model sees, raised to at least the smallest normal number. Its derivative
    # in the native value is the value itself, even if it was raised: an observed count thus has its
    # full effect at any probability.
    constrain: Callable[[jax.Array], jax.Array] = _same
    # A native value made of real numbers of numpy.
    project: Callable[[np.ndarray], np.ndarray] = _same
    # A value that the model sees, made of unit exponential numbers.
    scatter: Callable[[jax.Array], jax.Array] = _same
    # The log density of a named prior of these parameters at a native value, up to a constant. It
    # is that of positive numbers, of probabilities, or of their log ratios, as for the site.
    log_density: Callable[[jax.Array, tuple[jax.Array, ...]], jax.Array] = _no_density
    # The same as a function of the parameters, up to terms of the value.
    log_prior: Callable[[jax.Array, tuple[jax.Array, ...]], jax.Array] = _no_density


def _log_of(value: jax.Array) -> jax.Array:
    value = jnp.asarray(value)
    return jnp.log(jnp.maximum(value, _tiny(value)))


def _log_of_simplex(value: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(_log_of(value), axis=-1)


def _normalise(value: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(jnp.asarray(value), axis=-1)


def _project_to_simplex(x: np.ndarray) -> np.ndarray:
    return log_softmax(x, axis=-1)


def raised_exp(y: jax.Array) -> jax.Array:
    """Return the exponential, at least the smallest normal number, with a gradient there too."""
    floor = jnp.log(_tiny(y))
    return jnp.exp(y + jax.lax.stop_gradient(jnp.maximum(y, floor) - y))


def _share(x: jax.Array) -> jax.Array:
    return x / x.sum(axis=-1, keepdims=True)


def _log_share(x: jax.Array) -> jax.Array:
    # An exponential number of JAX is 0 with probability 2^-23.
    return _log_of(_share(x))


def _log_dirichlet(y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    return ((parameters[0] - 1) * y).sum(axis=-1)


def _log_dirichlet_of_ratios(y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    return (parameters[0] * y).sum(axis=-1)


def _log_gamma(y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    shape, rate = parameters
    return (shape - 1) * y - rate * raised_exp(y)


def _dirichlet_prior(y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    # No validation: values may be off the simplex.
    return LogDirichlet(parameters[0], validate_args=False).log_prob(y)


def _gamma_prior(y: jax.Array, parameters: tuple[jax.Array, ...]) -> jax.Array:
    shape, rate = parameters
    # Relative to the mean: at shapes of 1e5, cancelling terms would have an error of 0.1.
    about_mean = y - (jnp.log(shape) - jnp.log(rate))
    return -shape * (jnp.expm1(about_mean) - about_mean) - gamma_scores.constant(shape)


SIMPLEX = Kind(
    "simplex",
    is_native=True,
    on_simplex=True,
    native=_log_of_simplex,
    constrain=raised_exp,
    project=_project_to_simplex,
    scatter=_share,
    log_density=_log_dirichlet,
    log_prior=_dirichlet_prior,
)
LOG_SIMPLEX = SIMPLEX._replace(
    name="log simplex",
    is_log=True,
    native=_normalise,
    constrain=_same,
    scatter=_log_share,
    log_density=_log_dirichlet_of_ratios,
)
GAMMA = Kind(
    "gamma",
    is_native=True,
    num_parameters=2,
    native=_log_of,
    constrain=raised_exp,
    log_density=_log_gamma,
    log_prior=_gamma_prior,
)
SPHERE, OTHER = Kind("sphere"), Kind("other")


def underflows(y: jax.Array) -> jax.Array:
    """Return where `Kind.constrain` raises the value."""
    return y < jnp.log(_tiny(y))


def _tiny(value: jax.Array) -> float:
    # Slightly above the smallest normal number, to leave room for rounding by log and exp.
    return 1.001 * float(jnp.finfo(value.dtype).tiny)


class Rows(NamedTuple):
    """The rows of a site in plates; without plates it is a single row, with scalar numbers."""

    plates: tuple[tuple[int, int], ...] = ()  # dimensions, from the right of a batch, and sizes
    ndim: int = 0  # of the site
    event_dim: int = 0  # number of axes of one of its values, on the right

    def axis(self, dim: int) -> int:
        """Return the axis of the site for a batch dimension."""
        return self.ndim - self.event_dim + dim

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array with one number per row, which broadcasts against the site."""
        if not self.plates:
            return ()
        sizes = {self.axis(dim): size for dim, size in self.plates}
        return tuple(sizes.get(axis, 1) for axis in range(self.ndim))

    def sums(self, numbers: jax.Array) -> jax.Array:
        """Return the sum over each row of numbers of the site, whose last axis may be summed."""
        if not self.plates:
            return numbers.sum()
        axes = tuple(axis for axis, size in enumerate(self.shape) if size == 1)
        return numbers.sum(axis=axes, keepdims=True)

    def sums_of_term(self, term: jax.Array) -> jax.Array:
        """Return the sum over each row of a term of the log density; 0 if it has no such rows."""
        if any(term.ndim < -dim or term.shape[dim] != size for dim, size in self.plates):
            return jnp.zeros(self.shape, term.dtype)
        dims = {dim for dim, _ in self.plates}
        others = tuple(dim for dim in range(-term.ndim, 0) if dim not in dims)
        return term.sum(axis=others).reshape(self.shape)


class Layout(NamedTuple):
    """The sites and plates of a model before it runs: names and flags, no arrays."""

    kinds: dict[str, Kind]  # of latent sites, except enumerated ones, by name, in trace order
    enumerate_from: int | None  # first dimension for enumerated discrete sites
    subsampled: dict[str, tuple[int, int]]  # plates with minibatches: all rows, and those shown
    deterministic: tuple[str, ...]  # sites included in samples
    plates: dict[str, Rows]  # rows of the latent sites
    # sites whose prior is referred to the least concentrations, see `density._reference`
    least: frozenset[str] = frozenset()


def check_model(model: Any) -> None:
    """Raise a ValueError for what is no model, such as a kernel or a distribution."""
    if not callable(model) or isinstance(model, type | dist.Distribution):
        kind = "the class" if isinstance(model, type) else "a"
        name = (model if isinstance(model, type) else type(model)).__name__
        raise ValueError(
            f"model must be a numpyro model, a function with numpyro.sample; it is {kind} {name}"
        )


def check_args(model_args: Any) -> None:
    """Raise a ValueError unless the arguments of a model are a tuple; (x) without a comma is x."""
    if not isinstance(model_args, tuple | list):
        kind = type(model_args).__name__
        raise ValueError(f"model_args must be a tuple, such as (x,); it is a {kind}")


def to_typed_key(key: jax.Array) -> jax.Array:
    """Return a typed key, given a typed or raw one."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)


def drawn(site: dict[str, Any], strategy: Callable | None = None) -> jax.Array | None:
    """Return a value of a latent site by an `init_to_...` function of numpyro, or of its prior."""
    # These strategies use unconstrained values, which have no map to the sphere.
    latent = site["type"] == "sample" and not site["is_observed"]
    return None if latent and kind(site) == SPHERE else (strategy or init_to_sample)(site)


def inspect(
    model: Model, key: jax.Array, args: tuple, kwargs: Mapping, strategy: Callable | None
) -> tuple[Layout, Values]:
    """Trace a model once, and return its layout and values of its latent sites.

    The values come from an `init_to_...` function of numpyro, or from the prior. A latent site that
    is local to a minibatch, or discrete and not enumerated, raises a ValueError, and so does a
    minibatch of no rows or of more than the plate has.
    """

    def value_of(site: dict[str, Any]) -> jax.Array | None:
        if site["type"] == "plate":
            _check_shown(site["name"], *site["args"])
        return drawn(site, strategy)

    seeded = handlers.substitute(handlers.seed(model, key), substitute_fn=value_of)
    trace = handlers.trace(seeded).get_trace(*args, **kwargs)
    subsampled = {
        name: site["args"]
        for name, site in trace.items()
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0])
    }
    latent = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    enumerated = {
        name for name, site in latent.items() if site["infer"].get("enumerate") == "parallel"
    }
    for name, site in latent.items():
        if name in enumerated and subsampled:
            raise ValueError(_summed(name, next(iter(subsampled))))
        for frame in site["cond_indep_stack"]:
            if frame.name in subsampled:
                raise ValueError(_local(name, frame.name, *subsampled[frame.name]))
    for name in latent.keys() - enumerated:
        if latent[name]["fn"].support.is_discrete:
            raise ValueError(_discrete(name))
        if not jnp.size(latent[name]["value"]):
            shape = jnp.shape(latent[name]["value"])
            raise ValueError(f"site {name!r} has no numbers: its shape is {shape}")
    depths = [
        -frame.dim
        for site in trace.values()
        if site["type"] == "sample"
        for frame in site["cond_indep_stack"]
    ]
    layout = Layout(
        kinds={name: kind(site) for name, site in latent.items() if name not in enumerated},
        enumerate_from=-max(depths, default=0) - 1 if enumerated else None,
        subsampled=subsampled,
        deterministic=tuple(
            name for name, site in trace.items() if site["type"] == "deterministic"
        ),
        plates={name: _rows(site) for name, site in latent.items()},
    )
    return layout, {name: jnp.asarray(latent[name]["value"]) for name in layout.kinds}


def _check_shown(plate: str, size: int, shown: int | None) -> None:
    if shown is not None and not 0 < shown <= size:
        raise ValueError(
            f"subsample_size of the plate {plate!r} must be from 1 to its {size} rows; "
            f"it is {shown}"
        )


def check_all_rows(layout: Layout) -> None:
    """Raise a ValueError if plates show minibatches."""
    if layout.subsampled:
        raise ValueError(
            f"the plates {list_str(layout.subsampled)} show minibatches, which NUTS cannot sample; "
            "give them all their rows, or use SCIR or SGMCMC"
        )


def _rows(site: Mapping[str, Any]) -> Rows:
    frames = site["cond_indep_stack"]
    plates = tuple((frame.dim, frame.size) for frame in frames if frame.size > 1)
    return Rows(plates, jnp.ndim(site["value"]), site["fn"].event_dim)


def kind(site: Mapping[str, Any]) -> Kind:
    """Return the kind of a latent site."""
    distribution = base(site["fn"])
    if isinstance(distribution, LogDirichlet):
        return LOG_SIMPLEX
    if isinstance(distribution, dist.Gamma | dist.Exponential):
        return GAMMA
    support = support_of(distribution)
    if support is constraints.simplex:
        return SIMPLEX
    return SPHERE if support is constraints.sphere else OTHER


_IMPUTED = "_unobserved"  # numpyro's name for the missing values of a site with obs_mask


def is_imputed(name: str) -> bool:
    """Return whether a masked site is one that numpyro makes of `obs_mask`, by its name."""
    return name.endswith(_IMPUTED)


def imputed_message(name: str) -> str:
    """Return the error for a site that numpyro makes of `obs_mask`."""
    site = name.removesuffix(_IMPUTED)
    return (
        f"site {site!r} has obs_mask, of which numpyro makes a masked latent site {name!r}: it is "
        "not for MCMC (see numpyro.sample). Leave obs_mask out: take the observed rows with "
        "obs=..., and sample the missing ones as a latent site of their own"
    )


def native_names(kinds: Mapping[str, Kind]) -> list[str]:
    """Return the names of the sites that have native values, which `SCIR` moves."""
    return [name for name, kind in kinds.items() if kind.is_native]


def support_of(distribution: dist.Distribution) -> constraints.Constraint:
    """Return the support of a distribution, or of its rows if it is a distribution of several."""
    # Plates and `to_event` wrap distributions; `ImproperUniform` wraps its constraint, even a
    # single one.
    support = base(distribution).support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def base(distribution: dist.Distribution) -> dist.Distribution:
    """Return the distribution inside wrappers that only expand, reshape or mask it."""
    while isinstance(
        distribution, dist.ExpandedDistribution | dist.Independent | dist.MaskedDistribution
    ):
        distribution = distribution.base_dist
    return distribution


def start(
    strategy: Callable | None,
    drawn: Values,
    given: Mapping[str, Any] | None,
    layout: Layout,
    key: jax.Array,
) -> Values:
    """Return constrained values to start from: given ones, else by the strategy, else scattered.

    Without a strategy, probabilities and gamma variates start from a uniform Dirichlet and a unit
    exponential, other kinds from the draw: a draw from a sparse prior has a single category, from
    which others are hard to reach.
    """
    given = dict(given or {})
    if unknown := sorted(given.keys() - drawn.keys()):
        raise ValueError(
            f"init_params has unknown sites {', '.join(unknown)}; the latent sites are "
            f"{', '.join(drawn)}"
        )
    values = {}
    for (name, draw), key_site in zip(
        drawn.items(), jax.random.split(key, max(len(drawn), 1)), strict=False
    ):
        kind = layout.kinds[name]
        if name in given:
            value = jnp.asarray(given[name], draw.dtype)
            if value.shape != draw.shape:
                raise ValueError(
                    f"init_params[{name!r}] must be constrained values of shape {draw.shape}; its "
                    f"shape is {value.shape}"
                )
        elif strategy is not None or not kind.is_native:
            value = draw
        else:
            value = kind.scatter(jax.random.exponential(key_site, draw.shape, draw.dtype))
        values[name] = value
    return values


def check_given(given: Mapping[str, Any] | None, layout: Layout) -> None:
    """Raise a ValueError for starts of simplex and gamma sites that are not such values.

    Zeros are raised, as where a draw from the prior that numpyro's Gibbs kernel gives underflows.
    Other sites have no finite density outside of their support.
    """
    for name, value in (given or {}).items():
        kind = layout.kinds[name]
        if not kind.is_native:
            continue
        value = arguments.as_float(name, value)
        x = jnp.exp(value) if kind.is_log else value
        valid, needs = arguments.nonnegative(x), "finite and at least 0"
        if kind.on_simplex:
            # A sum in single precision, of probabilities that may have been rounded.
            valid &= jnp.abs(x.sum(axis=-1, keepdims=True) - 1) < 1e-3
            needs = "probabilities with the sum 1"
        needs = f"logs of {needs}" if kind.is_log else needs
        arguments.require(f"init_params[{name!r}]", value, valid, needs)


def _local(name: str, plate: str, size: int, subsample_size: int) -> str:
    return (
        f"site {name!r} is inside the plate {plate!r}, which shows {subsample_size} of {size} rows "
        "in each step: such local variables have a new meaning at every step and cannot be "
        "sampled. Marginalise the site, give the plate all its rows, or, for topic models, use "
        "simplex_jax.lda"
    )


def _summed(name: str, plate: str) -> str:
    # A minibatch is not an unbiased estimate of its log density, log sum exp(scale * log p).
    return (
        f"site {name!r} is enumerated, and the plate {plate!r} shows a minibatch: numpyro scales "
        "its rows within the sum over the site, which gives another distribution. Write the "
        "likelihood with the site summed out, for example as dist.MixtureSameFamily, or give "
        "the plate all its rows"
    )


def _discrete(name: str) -> str:
    return (
        f"site {name!r} is discrete. Mark it infer={{'enumerate': 'parallel'}} to sum over its "
        "values (this needs funsor), write the likelihood with the site summed out (for example "
        "as dist.MixtureSameFamily), or sample it in another block: "
        f"Gibbs([(DiscreteGibbs(model), [{name!r}]), (kernel, None)]) of numpyro 0.22"
    )


def list_str(names: Iterable[str]) -> str:
    """Return names as a Python list literal."""
    return "[" + ", ".join(repr(name) for name in names) + "]"
