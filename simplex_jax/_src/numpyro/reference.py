r"""Coordinates for NUTS and HMC in which a gamma or Dirichlet distribution is standard normal.

Each number of a site has a normal score z. For a positive site, :math:`x = F^{-1}(\Phi(z))` with
the distribution function F of the reference distribution Gamma(s, t). For a simplex site, :math:`x
= g / \sum_j g_j` with gamma variates :math:`g_k = F_k^{-1}(\Phi(z_k))` of shapes s_k, whose total
is independent of x. So if the site has the distribution Dirichlet(s), all z are independent and
standard normal, even for tiny shapes: no corner of the simplex is far away, and nothing
underflows. For any other distribution p of the site, z has the density

.. math:: \prod_k \phi(z_k) \; \frac{p(x)}{q(x)}

with the reference distribution q. This includes the log-Jacobian, :math:`\log \phi(z) - \log
f(x)`, and the distribution of the total. It is exact for every reference. A reference near the
posterior makes the density nearly normal, which suits NUTS best.

In logs, with :math:`x = m e^r`, the mean m under the reference, and E and kappa from
`geometry.gamma_scores`, log x has the log density -s E(r) - kappa(s) for a gamma distribution of
shape s. For a simplex site the variables are the log ratios and the log total. For any prior, the
total has the distribution Gamma(S), with the sum S of the s_k: :math:`\rho_k = r_k - \ell`,
:math:`\ell = \log \sum_j (s_j / S) e^{r_j}`, a change of variables of determinant 1. For up to
2,000 shapes, r comes from a table, a spline of the normal scores; the spline's own derivative is
the Jacobian, so the model is the same to rounding. Scores beyond 13 are computed exactly.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.util import sum_rightmost
from numpyro.infer import MCMC, NUTS, init_to_sample
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.reparam import Reparam

from simplex_jax._src.geometry import gamma_scores
from simplex_jax._src.numpyro import density, monitors, sites
from simplex_jax._src.numpyro.distributions import LogDirichlet
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sites import Kind, Layout, Model, Values
from simplex_jax._src.warn import warn_caller

_POSITIVE = (constraints.positive, constraints.softplus_positive)
# A table of normal scores for more shapes would exceed 5 MB.
_MOST_CELLS = 2000
# Range of shapes, in which normal scores are accurate in float32; in float32, 1e-6 is below 1e-6.
_LEAST, _MOST = float(np.float32(1e-6)), 1e6


class GammaReference(Reparam):
    """Write a positive or simplex site in normal scores of a gamma or Dirichlet distribution.

    The sampled site is ``<site>_normal``, standard normal if the site has the distribution
    Gamma(shape, rate) or Dirichlet(shape). The site becomes deterministic, and ``<site>_factor``
    adds the density of its prior relative to that distribution. The model is the same for every
    shape and rate, but HMC and NUTS move best if the reference is near the posterior;
    `learn_reference` finds such a reference.

    Sites may be ``Dirichlet``, `LogDirichlet` or any other distribution on the simplex, and
    ``Gamma``, ``Exponential`` or any other distribution of positive numbers, in plates or not. If
    a site underflows, its value is raised to the smallest normal number; for the named
    distributions, the density is still that of the true value. numpyro does not show a
    ``sample_shape`` to a reparametrisation, which would give a single value: write
    ``fn.expand([5])`` or a plate instead.

    Args:
        shape: Shapes s, from 1e-6 to 1e6, that broadcast to the site.
        rate: Positive rates t, that broadcast to the site. Not for simplex sites.

    Raises:
        ValueError: Shapes or rates are out of range. When the model runs: the site is observed,
            within numpyro's ``scan`` or ``cond``, of another kind or shape, or its prior is scaled
            or masked.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro.handlers import reparam, seed, trace
        >>> from simplex_jax.numpyro import GammaReference
        >>> def model():
        ...     numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.01)))
        >>> model = reparam(model, config={"p": GammaReference(jnp.array([9.0, 0.1, 0.01]))})
        >>> sites = trace(seed(model, jax.random.key(0))).get_trace()
        >>> sorted(sites), sites["p"]["value"].shape
        (['p', 'p_factor', 'p_normal'], (3,))
    """

    def __init__(self, shape: ArrayLike, rate: ArrayLike | None = None) -> None:
        self.shape = np.asarray(shape, np.float64)
        self.rate = None if rate is None else np.asarray(rate, np.float64)
        if not ((self.shape >= _LEAST) & (self.shape <= _MOST)).all():
            raise ValueError(f"shape must be between {_LEAST:g} and {_MOST:g}; it is {shape!r}")
        if self.rate is not None and not ((self.rate > 0) & np.isfinite(self.rate)).all():
            raise ValueError(f"rate must be finite and positive; it is {rate!r}")
        small = self.shape.size <= _MOST_CELLS
        self._cells = gamma_scores.table(self.shape.ravel()) if small else None

    def __repr__(self) -> str:
        """Return the call that makes it, with the shapes of arrays."""
        parameters = {"shape": self.shape, "rate": self.rate}
        shown = (
            f"{name}={value:.3g}" if not value.ndim else f"{name}=<array of {value.shape}>"
            for name, value in parameters.items()
            if value is not None
        )
        return f"GammaReference({', '.join(shown)})"

    def __call__(self, name: str, fn: dist.Distribution, obs: Any) -> tuple[None, jax.Array]:
        """Return the value of the site as a function of its normal scores."""
        kind = _kind(fn)
        if obs is not None or not kind.is_native:
            # From outside, numpyro shows sites within scan with their values.
            reason = "observed, or within scan or cond: there, call handlers.reparam in their body"
            raise ValueError(
                "GammaReference is for latent sites of positive numbers or on the simplex; "
                f"{name!r} is " + (reason if obs is not None else type(sites.base(fn)).__name__)
            )
        if self.rate is not None and kind.on_simplex:
            raise ValueError(f"a reference on the simplex has no rate, but that of {name!r} does")
        z = _scores(name, fn)
        shape = self._full("shape", self.shape, name, z)
        r, log_slope = self._moved(z, shape)
        # Relative to the density of the scores, that of log x; dz / dr belongs to the scores.
        log_weight = log_slope + (z * z + math.log(2 * math.pi)) / 2
        if kind.on_simplex:
            total = shape.sum(axis=-1, keepdims=True)
            centre = jnp.log(shape) - jnp.log(total)
            log_mean = _log_mean(r, shape / total, centre)
            r = r - log_mean
            log_total = -total * gamma_scores.excess(log_mean) - gamma_scores.constant(total)
            log_prior = _log_prior_on_simplex(fn, kind, r, centre)
            ratio = log_prior + sum_rightmost(log_total, fn.event_dim)
        else:
            rate = self._full("rate", np.asarray(1.0 if self.rate is None else self.rate), name, z)
            centre = jnp.log(shape / rate)
            ratio = _log_prior_of_positive(fn, kind, r, centre)
        numpyro.factor(f"{name}_factor", ratio + sum_rightmost(log_weight, fn.event_dim))
        return None, kind.constrain(centre + r)

    def _moved(self, z: jax.Array, shape: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return r of scores and its log derivative, from a table if it covers all z."""

        def exact(z: jax.Array) -> tuple[jax.Array, jax.Array]:
            r = gamma_scores.log_ratio(z, shape)
            return r, gamma_scores.log_slope(z, r, shape)

        if self._cells is None:
            return exact(z)
        cells = jnp.asarray(self._cells, z.dtype)
        columns = np.arange(self.shape.size).reshape(self.shape.shape)
        column = jnp.asarray(np.broadcast_to(columns, z.shape))

        def by_table(z: jax.Array) -> tuple[jax.Array, jax.Array]:
            return gamma_scores.interpolated(z, cells, column)

        return jax.lax.cond((jnp.abs(z) <= gamma_scores.TABLE_REACH).all(), by_table, exact, z)

    def _full(self, what: str, parameter: np.ndarray, name: str, z: jax.Array) -> jax.Array:
        try:
            return jnp.asarray(np.broadcast_to(parameter, z.shape), z.dtype)
        except ValueError:
            raise ValueError(
                f"the {what} of the reference has shape {parameter.shape}, which does not "
                f"broadcast to that of the site {name!r}, {z.shape}"
            ) from None


def _kind(fn: dist.Distribution) -> Kind:
    """Return the kind of a site, as in `sites.kind`, but gamma for any positive distribution."""
    kind = sites.kind({"fn": fn})
    support = sites.support_of(fn)
    return sites.GAMMA if any(support is positive for positive in _POSITIVE) else kind


def _scores(name: str, fn: dist.Distribution) -> jax.Array:
    """Sample the normal scores of a site."""
    normal = dist.Normal(jnp.zeros(fn.shape()), 1).to_event(fn.event_dim)
    with handlers.trace() as trace:
        z = numpyro.sample(f"{name}_normal", normal)
    *_, site = trace.values()  # not by name, which handlers.scope may have changed
    # A power of the prior is not a power of the normal scores' distribution, because of the
    # Jacobian. Outside the reparametrised model a mask may turn all densities off, as in
    # `Predictive`.
    off = getattr(site["fn"], "_mask", None) is False
    masked = density.is_masked(fn) or (density.is_masked(site["fn"]) and not off)
    if masked and sites.is_imputed(name):
        raise ValueError(sites.imputed_message(name))
    if site["scale"] is not None or masked:
        raise ValueError(
            f"the prior of site {name!r} is scaled or masked, so its normal scores would be "
            "another model; move handlers.scale and handlers.mask to the observed sites"
        )
    return z


def _log_dirichlet(rho: jax.Array, shape: jax.Array) -> jax.Array:
    """Return the log density of a Dirichlet variate in log ratios, at the logs of x / E x."""
    terms = shape * rho - gamma_scores.constant(shape)
    return terms.sum(axis=-1) + gamma_scores.constant(shape.sum(axis=-1))


def _log_mean(r: jax.Array, share: jax.Array, log_share: jax.Array) -> jax.Array:
    """Return log of the mean of exp(r), [..., 1], to relative rounding error where it is small."""
    close = (jnp.abs(r) < 0.5).all(axis=-1, keepdims=True)
    near, far = jnp.where(close, r, 0), jnp.where(close, 0, r)
    mean = (share * jnp.expm1(near)).sum(axis=-1, keepdims=True)
    return jnp.where(
        close, jnp.log1p(mean), jax.nn.logsumexp(far + log_share, axis=-1, keepdims=True)
    )


def _log_prior_on_simplex(
    fn: dist.Distribution, kind: Kind, rho: jax.Array, centre: jax.Array
) -> jax.Array:
    """Return the log prior density of log-probabilities centre + rho, in log ratios."""
    distribution = sites.base(fn)
    if isinstance(distribution, dist.Dirichlet | LogDirichlet):
        # Not of the shape of rho, if it depends on sites that are summed out.
        alpha = distribution.concentration
        mean = jnp.log(alpha) - jnp.log(alpha.sum(axis=-1, keepdims=True))
        return sum_rightmost(_log_dirichlet(rho + (centre - mean), alpha), fn.event_dim - 1)
    y = centre + rho
    return _log_prob(fn, kind.constrain(y)) + sum_rightmost(y, fn.event_dim)


def _log_prior_of_positive(
    fn: dist.Distribution, kind: Kind, r: jax.Array, centre: jax.Array
) -> jax.Array:
    """Return the log prior density of the logarithm of a site, centre + r."""
    distribution = sites.base(fn)
    if isinstance(distribution, dist.Gamma | dist.Exponential):
        a = jnp.asarray(
            distribution.concentration if isinstance(distribution, dist.Gamma) else 1, r.dtype
        )
        about_mean = r + (centre - jnp.log(a / distribution.rate))
        log_density = -a * gamma_scores.excess(about_mean) - gamma_scores.constant(a)
        return sum_rightmost(log_density, fn.event_dim)
    y = centre + r
    return _log_prob(fn, kind.constrain(y)) + sum_rightmost(y, fn.event_dim)


def _log_prob(fn: dist.Distribution, value: jax.Array) -> jax.Array:
    """Return the log density of a site from its base distribution, without validation of values."""
    distribution = sites.base(fn)
    shape = jnp.broadcast_shapes(
        distribution.batch_shape, value.shape[: value.ndim - distribution.event_dim]
    )
    log_prob = distribution.expand(shape).log_prob(value)
    return sum_rightmost(log_prob, fn.event_dim - distribution.event_dim)


def learn_reference(
    rng_key: jax.Array,
    model: Model,
    *,
    model_args: tuple = (),
    model_kwargs: Mapping[str, Any] | None = None,
    num_warmup: int = 1000,
    num_samples: int = 2000,
) -> dict[str, GammaReference]:
    r"""Learn references for the positive and simplex sites of a model from a short pilot run.

    The pilot uses `SCIR`, with NUTS for sites that it does not move (numpyro 0.22), or NUTS alone
    if it moves none. The references are the gamma and Dirichlet distributions that match the means
    m of the pilot's samples and the covariances with their logarithms. These are as good as the
    likelihood equations and need no iteration: 1 / t = Cov(x, log x) (Ye and Chen 2017,
    *Closed-form estimators for the gamma distribution derived from likelihood equations*), and in
    the same way :math:`S = (K - 1) / \sum_k \mathrm{Cov}(x_k, \log x_k)`. A pilot that is too
    short gives a reference farther from the posterior and a slower NUTS, but its samples are still
    correct.

    Args:
        rng_key: A PRNG key.
        model: A numpyro model without minibatches.
        model_args: Arguments of the model.
        model_kwargs: Keyword arguments of the model.
        num_warmup: Number of warm-up steps of the pilot, which are discarded.
        num_samples: Number of samples of the pilot, at least 100.

    Returns:
        A reference for each site, for ``numpyro.handlers.reparam(model, config=...)``. Sites within
        numpyro's ``scan`` and ``cond`` cannot be reparametrised and have none.

    Raises:
        ValueError: The model has minibatches, no positive or simplex site outside ``scan`` and
            ``cond``, such a site with a ``sample_shape`` outside plates, or sites that the pilot
            cannot move.
        RuntimeError: It has sites of both kinds, and numpyro is older than 0.22.

    A ``UserWarning`` names sites with numbers that did not move in the pilot.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro.handlers import reparam
        >>> from numpyro.infer import MCMC, NUTS, init_to_sample
        >>> from simplex_jax.numpyro import learn_reference
        >>> def model(y):
        ...     rate = numpyro.sample("rate", dist.Gamma(0.1, 0.1))
        ...     numpyro.sample("y", dist.Poisson(rate), obs=y)
        >>> key, y = jax.random.key(0), jnp.array(20)
        >>> config = learn_reference(key, model, model_args=(y,))
        >>> print(config["rate"].shape.round(-1), config["rate"].rate.round(1))  # 20.1, 1.1
        20.0 1.1
        >>> kernel = NUTS(reparam(model, config=config))
        >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=1000, progress_bar=False)
        >>> mcmc.run(key, y)
        >>> print(mcmc.get_samples()["rate"].mean().round(0))
        18.0
    """
    if num_samples < 100:
        raise ValueError(f"num_samples must be at least 100; it is {num_samples}")
    sites.check_model(model)
    sites.check_args(model_args)
    kwargs = dict(model_kwargs or {})
    layout, _ = sites.inspect(model, sites.to_typed_key(rng_key), model_args, kwargs, None)
    sites.check_all_rows(layout)
    fitted, within = scored_sites(model, sites.to_typed_key(rng_key), model_args, kwargs, layout)
    if not fitted:
        where = f" outside of scan and cond, which have {sites.list_str(within)}: use it as it is"
        raise ValueError(
            "the model has no latent site of positive numbers or on the simplex"
            + (where if within else "")
        )
    mcmc = MCMC(
        pilot(model, layout.kinds),
        num_warmup=num_warmup,
        num_samples=num_samples,
        progress_bar=False,
    )
    mcmc.run(rng_key, *model_args, **kwargs)
    samples = mcmc.get_samples()
    for name, kind in fitted.items():
        one_point = kind.on_simplex and samples[name].shape[-1] == 1
        if not one_point and (share := monitors.share_constant(samples[name])):
            warn_caller(
                f"{share:.2g} of the numbers of {name!r} did not move in the pilot, so its "
                "reference is far from the posterior: NUTS will be right, but slow. Use a longer "
                "num_warmup, or give GammaReference shapes of your own",
            )
    return {name: _fit(kind, samples[name]) for name, kind in fitted.items()}


def scored_sites(
    model: Model, key: jax.Array, args: tuple, kwargs: Values, layout: Layout
) -> tuple[dict[str, Kind], list[str]]:
    """Return the kinds of the sites with normal scores, and the sites within scan or cond.

    One with a `sample_shape`, which reparametrisations do not see, raises a ValueError.
    """
    drawn = handlers.substitute(handlers.seed(model, key), substitute_fn=init_to_sample)
    trace = handlers.trace(drawn).get_trace(*args, **kwargs)
    kinds = {name: _kind(trace[name]["fn"]) for name in layout.kinds}
    kinds = {name: kind for name, kind in kinds.items() if kind.is_native}
    # numpyro's own mark for sites that ran before outer handlers see them.
    within = [name for name in kinds if trace[name].get("_control_flow_done")]
    scored = {name: kind for name, kind in kinds.items() if name not in within}
    for name in scored:
        if shape := trace[name]["kwargs"].get("sample_shape"):
            raise ValueError(
                f"site {name!r} has sample_shape={shape}, which numpyro does not show to a "
                f"reparametrisation: leave it out and write .expand({list(shape)}) after its "
                "distribution, or a plate"
            )
    return scored, within


def pilot(model: Model, kinds: Mapping[str, Kind]) -> MCMCKernel:
    """Return `SCIR` for the sites that it moves, and NUTS for all others."""
    names = sites.native_names(kinds)
    if not names:
        return NUTS(model)
    if len(names) == len(kinds):
        return SCIR(model)
    try:
        from numpyro.infer import Gibbs  # new in numpyro 0.22
    except ImportError:
        raise RuntimeError(
            "a pilot with SCIR for some sites and NUTS for others needs numpyro 0.22: install it, "
            "or give GammaReference shapes of your own"
        ) from None

    return Gibbs([(SCIR(model), names), (NUTS(model), None)])


def _fit(kind: Kind, samples: jax.Array) -> GammaReference:
    """Return the reference fitted to samples of a site, [n, ...]."""
    x = np.asarray(samples, np.float64)
    least = np.finfo(np.float32).tiny
    logs = x if kind.is_log else np.log(np.maximum(x, least))
    x = np.exp(x) if kind.is_log else x
    mean = x.mean(axis=0)
    spread = ((x - mean) * (logs - logs.mean(axis=0))).mean(axis=0)
    # The samples of a stuck pilot have no spread, and no distribution is that narrow.
    if kind.on_simplex:
        spread = spread.sum(axis=-1, keepdims=True)
        total = (mean.shape[-1] - 1) / np.maximum(spread, 1 / _MOST)
        return GammaReference(np.clip(mean * total, _LEAST, _MOST))
    rate = 1 / np.maximum(spread, mean / _MOST)
    shape = np.clip(mean * rate, _LEAST, _MOST)
    return GammaReference(shape, shape / mean)
