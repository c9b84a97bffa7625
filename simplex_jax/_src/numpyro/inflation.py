r"""How much minibatch noise inflates the standard deviations of samples.

A kernel injects noise of a known size, and minibatch noise adds to it. Near the posterior, where
the drift is linear, a sampler with T times the intended noise has T times the variance: standard
deviations are too large by the *inflation*, :math:`\sqrt T`.

**Gradients.** With the variance V of a coordinate of the estimated gradient, step size h,
preconditioner M, mass m, friction c and noise estimate W (0 if there is none),

.. math::
    T - 1 = \tfrac12 h M V \text{ (sgld, mld)}, \qquad
    \frac{h (V - W)}{2 c\, m} \text{ (sghmc, sggmc)}.

**Counts.** A site x has the distribution Gamma(a, b), or is on the simplex, where b is the sum of
its shapes a. A CIR transition over time h draws it towards a / b with variance :math:`(1 -
e^{-2h})\, v / b`, where v = x, or x (1 - x) on the simplex. Minibatches estimate a and b, and
their noise adds :math:`(1 - e^{-h})^2\, \mathrm{Var}[\hat a - \hat b x] / b^2`: :math:`\rho
\tanh(h / 2)` times as much (Baker et al. 2018, Corollary 3.2, for estimates of any kind), with

.. math:: \rho = \mathrm{Var}[\hat a - \hat b x] \,/\, (b\, v).

For similar rows, n of N without replacement, :math:`\rho = (N / n) (N - n) / (N - 1)`. It is larger
for other rows, and smaller for counts that a prior outweighs. T - 1 is

.. math::
    \rho \tanh(h / 2) \text{ (SCIR, scir)}, \qquad
    \frac{\rho h}{2 c} \text{ (sgrhmc)}, \qquad \tfrac12 \rho h b / S \text{ (sgrld)},

since the weights of `sgrld` sum not to b but to some S, about the sum of the prior's
concentrations. S moves slowly, and 1 / S has a large mean if that sum is small: a run that has not
visited small S underestimates T. For `smld`, whose noise is that of log omega, it is
:math:`\tfrac12 h V` times :math:`\mathrm{tr} J^2 / (\mathrm{tr} J)^2`, with J = diag(omega) - omega
omega' and V summed over coordinates.

- A **thermostat** (sgnht, gsgnht) raises its friction from c until the mean temperature of its
  coordinates is 1. It absorbs noise that is equal in all coordinates: no inflation. Otherwise
  :math:`T_j = (c + h V_j / 2) / (c + h \bar V / 2)`, and the inflation shown is for a variance that
  is off by the root mean square of T_j - 1. On a manifold, a site has a single V, and differences
  within it are not seen.
- **sgbd** chooses signs: noise makes them more random, and weakens the drift by the mean of
  :math:`z^2 / \sqrt{\max(1 - z^2 W / 1.702^2, 0) + z^2 V / 1.702^2}` over that of z^2, z ~ N(0, 2 h
  M). A correct noise estimate compensates for that while the first term is positive.

T is a mean over the coordinates of a site. If they are correlated, deviations along the directions
that the posterior determines best are inflated most, and those of single coordinates less than the
mean.

V and rho come from differences between the gradients or counts of successive minibatches. They
include the movement of the chain in between, a relative excess of the order of h times the
curvature (before the step is too long for any gradient), and the movement of other sites; `SCIR`
compares minibatches at the same x. So the inflation is an upper estimate. It is a mean over the
warm-up steps, with more weight on later ones, which counts as a few steps when sampling begins.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src import schedules, step_sizes
from simplex_jax._src.base import Kernel, PyTree, move
from simplex_jax._src.geometry import simplex
from simplex_jax._src.numpyro.sites import Values
from simplex_jax._src.samplers import (
    gsgnht,
    mld,
    scir,
    sgbd,
    sggmc,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
    smld,
)
from simplex_jax._src.warn import warn_caller

MOST = 1.1
"""The inflation above which to warn."""

# The longest step considered for `scir`, which then forgets everything.
_LONGEST = 10.0
# The largest acceptable T - 1.
_EXCESS = MOST**2 - 1
_PROBIT = 1.702  # as in `samplers.skewed`
# The warm-up counts for at most this many of the steps that follow.
_KEPT = 30
# Quadrature for means of functions of a normal variate.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_SUM = (_WEIGHTS * _NODES**2).sum()
_SCALES = 2.0 ** (-np.arange(160) / 8)


class Noise(NamedTuple):
    """The minibatch noise of a site."""

    mean: jax.Array  # mean of the numbers that noise is measured by, such as V or rho
    inflation: jax.Array  # factor of standard deviations, a scalar
    longest: jax.Array  # step at which it would be `MOST`, a scalar


def ratio_of_rows(plates: Mapping[str, tuple[int, int]]) -> float:
    """Return the ratio rho for similar rows, from the sizes of plates and of their minibatches.

    If a model has several plates, return the largest.
    """
    return max(
        (size / shown * (size - shown) / max(size - 1, 1) for size, shown in plates.values()),
        default=0.0,
    )


@jax.jit
def factor(ratio: jax.Array, step: jax.Array) -> jax.Array:
    """Return the inflation of a CIR transition."""
    return jnp.sqrt(1 + ratio * jnp.tanh(step / 2))


@functools.partial(jax.jit, static_argnames=("most", "largest"))
def longest_step(ratio: jax.Array, most: float = MOST, largest: float = _LONGEST) -> jax.Array:
    """Return the longest CIR transition with at most this inflation, capped at `largest`."""
    return step_sizes.for_inflation(1.0, ratio, most**2 - 1, largest=largest)


def message(names: str, noise: Noise) -> str:
    """Return the warning about sites."""
    return (
        f"the noise of the minibatches makes the standard deviations of {names} too large by a "
        f"factor of about {float(noise.inflation):.2g}: use a step_size of at most "
        f"{float(noise.longest):.2g}, or larger minibatches"
    )


def check_expected(
    plates: Mapping[str, tuple[int, int]], names: str, noise: Noise, hint: str = ""
) -> None:
    """Warn if the noise that is expected for similar rows is too large, unless it is traced."""
    # A comparison of arrays would be traced under `jit`, even that of known ones.
    if isinstance(noise.inflation, jax.core.Tracer) or float(noise.inflation) <= MOST:
        return
    sizes = ", ".join(f"{shown} of {size} rows" for size, shown in plates.values())
    warn_caller(
        f"with minibatches of {sizes} (if they outweigh the prior) {message(names, noise)}{hint}",
    )


# Kernels of `SGMCMC`.


def initialize(kernel: Kernel, state: Any) -> dict[str, Noise | None]:
    """Return the noise before the first step; None by site if the kernel has no rule."""
    rule = rule_for(kernel, state)
    if rule is None:
        return dict.fromkeys(state.position)
    zeros = jax.tree.map(jnp.zeros_like, state.position)
    shapes = jax.eval_shape(lambda: rule.measure(_step(kernel, state, zeros, zeros, state.step)))
    one = {name: jnp.ones((), x.dtype) for name, x in state.position.items()}
    return {
        name: Noise(jnp.zeros(shape.shape, one[name].dtype), one[name], jnp.inf * one[name])
        for name, shape in shapes.items()
    }


def expected_noise(kernel: Kernel, state: Any, ratio: float, i: int) -> dict[str, Noise]:
    """Return the expected noise of similar rows after i steps, for kernels on counts."""
    rule = rule_for(kernel, state)
    if rule is None or rule.measure is not _ratio:
        return {}
    zeros = jax.tree.map(jnp.zeros_like, state.position)
    means = {name: jnp.asarray(ratio, x.dtype) for name, x in state.position.items()}
    results = rule.evaluate(means, _step(kernel, state, zeros, zeros, i))
    return {name: Noise(means[name], *results[name]) for name in means}


def update(
    kernel: Kernel,
    old: Any,
    new: Any,
    noise: dict[str, Noise | None],
    i: jax.Array,
    num_warmup: jax.Array,
) -> dict[str, Noise | None]:
    """Return the noise of the sites of a kernel after a step, with i steps done before it.

    The memories of the two states hold the gradients or counts of the last two minibatches.
    """
    rule = rule_for(kernel, new)
    if rule is None:
        return noise
    step = _step(
        kernel, new, jax.tree.map(jnp.subtract, new.memory, old.memory), new.memory, old.step
    )
    done = jnp.where(i < num_warmup, i, i - num_warmup + jnp.minimum(num_warmup, _KEPT))
    means = {}
    for name, estimate in rule.measure(step).items():
        mean = noise[name].mean  # type: ignore[union-attr]
        # Before the first step there is no gradient.
        gain = jnp.where((i > 0) & jnp.isfinite(estimate), 2 / (done + 1).astype(mean.dtype), 0)
        means[name] = mean + gain * (jnp.where(gain > 0, estimate, mean) - mean)
    return {
        name: Noise(means[name], *(x.astype(new.position[name].dtype) for x in results))
        for name, results in rule.evaluate(means, step).items()
    }


def average_chains(noise: Mapping[str, Noise | None]) -> dict[str, Noise | None]:
    """Return the noise of all samples from that of chains [n], by averaging variances."""

    def one(site_noise: Noise) -> Noise:
        inflation = jnp.sqrt((site_noise.inflation**2).mean())
        return Noise(site_noise.mean.mean(axis=0), inflation, 1 / (1 / site_noise.longest).mean())

    return {
        name: None if site_noise is None else one(site_noise) for name, site_noise in noise.items()
    }


def diagnostics_str(noise: Mapping[str, Noise | None], name: str) -> str:
    """Return the diagnostics of a site, empty if every step uses all the data."""
    if name not in noise:
        return ""
    site_noise = noise[name]
    return (
        " inflation not known"
        if site_noise is None
        else f" inflation {float(site_noise.inflation):.2f}"
    )


class Step(NamedTuple):
    """A step of a kernel, from which its noise is measured."""

    change: Values  # of the gradients, or counts, of the last two minibatches
    counts: Values  # of the last one
    state: Any  # of the kernel, after the step
    options: Mapping[str, Any]  # frozen by its `build`
    h: jax.Array

    def tree(self, name: str) -> Values:
        """Return an option, one array or a tree, by site; 0 if it is not set."""
        option, position = self.options.get(name), self.state.position
        if callable(option):
            option = option(position, None)
        leaves = simplex.like(name, jnp.zeros(()) if option is None else option, position)
        return jax.tree.unflatten(jax.tree.structure(position), leaves)


class Rule(NamedTuple):
    """How noise affects a kernel."""

    measure: Callable[[Step], Values]  # numbers by site, to be averaged over the steps
    # Inflation and longest step by site, from those means.
    evaluate: Callable[[Values, Step], dict[str, tuple[jax.Array, jax.Array]]]


def rule_for(kernel: Kernel, state: Any) -> Rule | None:
    """Return the rule of a kernel, or None if it has none."""
    update, options = _unwrap(kernel.update)
    if update is sgrld.update and state.log_total is None:
        return None
    if update is smld.update and options.get("reference") is not None:
        return None  # its noise is that of the other coordinates
    if update in (sggmc.update, gsgnht.update):
        # No rule for matrices or functions of the position.
        given = options["friction"], options["noise_estimate"]
        settings = jax.tree.leaves(given, is_leaf=callable)  # functions are nodes, see `bind`
        if any(callable(x) or jnp.ndim(x) for x in settings):
            return None
    return RULES.get(update)


def _unwrap(function: Any) -> tuple[Any, dict[str, Any]]:
    """Return a function without the options frozen by `partial` and `base.freeze`, and those."""
    options: dict[str, Any] = {}
    while True:
        if isinstance(function, functools.partial):
            options = {**function.keywords, **options}
            function = function.args[0] if function.func is move else function.func
        elif hasattr(function, "fun"):  # nested JAX `Partial`s
            function = function.fun
        else:
            return function, options


def _step(kernel: Kernel, state: Any, change: Values, counts: Values, i: jax.Array | int) -> Step:
    """Return a step of a kernel, with i updates done before it."""
    options = _unwrap(kernel.update)[1]
    h = schedules.evaluate(options["step_size"], jnp.asarray(i, jnp.int32))
    return Step(change, counts, state, options, h)


# Averaged numbers.


def _variance(step: Step) -> Values:
    # For independent minibatches, half a squared difference has the variance as its mean.
    return {name: x**2 / 2 for name, x in step.change.items()}


def _dual_variance(step: Step) -> Values:
    inverse, state = step.options["mirror"].inverse_hessian, step.state
    return {
        name: inverse(state.position[name], state.dual[name], x) ** 2 / 2
        for name, x in step.change.items()
    }


def _tangent_variance(step: Step) -> Values:
    """Return means over dimensions for the sum of inner steps, which share a minibatch."""
    manifold, x = step.options["manifold"], step.state.position
    along = manifold.project(x, step.change)
    share = manifold.dimension(x) / sum(leaf.size for leaf in x.values())
    return {
        name: step.options["num_steps"] * (v**2).mean() / 2 / share for name, v in along.items()
    }


class _Pull(NamedTuple):
    """Sums over a simplex site."""

    noise: jax.Array  # the variance of a - b x
    spread: jax.Array  # x (1 - x), times a weight for each row


def _pull(step: Step, weight: Callable[[str], jax.Array]) -> dict[str, _Pull]:
    pulls = {}
    for name, change in step.change.items():
        x = jnp.exp(step.state.position[name])
        pull = change - x * change.sum(axis=-1, keepdims=True)
        pulls[name] = _Pull((pull**2).sum() / 2, (weight(name) * x * (1 - x)).sum())
    return pulls


def _ratio(step: Step) -> Values:
    """Return rho, which does not depend on the step size."""
    alpha = step.tree("alpha")

    def rate(name: str) -> jax.Array:
        a = jnp.broadcast_to(alpha[name] + step.counts[name], step.counts[name].shape)
        return a.sum(axis=-1, keepdims=True)

    return {name: pull.noise / pull.spread for name, pull in _pull(step, rate).items()}


def _ratio_to_total(step: Step) -> Values:
    def total(name: str) -> jax.Array:
        return jnp.exp(step.state.log_total[name])

    return {name: pull.noise / pull.spread for name, pull in _pull(step, total).items()}


def _ratio_of_logs(step: Step) -> Values:
    ratios = {}
    for name, pull in _pull(step, lambda name: jnp.ones(())).items():
        x = jnp.exp(step.state.position[name])
        squares = (x**2).sum(axis=-1, keepdims=True)
        ratios[name] = pull.noise * (x**2 * ((1 - x) ** 2 + squares - x**2)).sum() / pull.spread**2
    return ratios


# Inflations and longest steps that follow.

Results = dict[str, tuple[jax.Array, jax.Array]]


def _linear(factor: Callable[[Step, str], PyTree], less: str = "") -> Callable:
    """Return the rule T - 1 = h mean(factor V), where V is reduced by a noise estimate."""

    def evaluate(means: Values, step: Step) -> Results:
        estimate = step.tree(less) if less else dict.fromkeys(means, jnp.zeros(()))
        results = {}
        for name, mean in means.items():
            excess = step.h * _mean(factor(step, name) * (mean - estimate[name]))
            longest = jnp.where(excess > 0, step.h * _EXCESS / excess, jnp.inf)
            results[name] = jnp.sqrt(jnp.maximum(1 + excess, 0)), longest
        return results

    return evaluate


def _mean(x: jax.Array) -> jax.Array:
    """Return the mean; 0 of a site without coordinates, a simplex of one point."""
    return x.mean() if x.size else jnp.zeros((), x.dtype)


def _tanh(means: Values, step: Step) -> Results:
    return {name: (factor(rho, step.h), longest_step(rho)) for name, rho in means.items()}


def _thermostat(means: Values, step: Step) -> Results:
    """Return the inflations of a thermostat with friction c."""
    frictions, estimate = step.tree("friction"), step.tree("noise_estimate")
    h = step.h
    # A mean over a site is a single number that represents this many coordinates.
    sizes = {name: x.size for name, x in step.state.position.items()}
    variances = {name: v - estimate[name] for name, v in means.items()}
    total = sum(_mean(v) * sizes[name] for name, v in variances.items())
    overall = total / max(sum(sizes.values()), 1)
    results = {}
    for name, v in variances.items():
        spread = jnp.sqrt(_mean((v - overall) ** 2)) / 2
        excess, c = spread - _EXCESS * overall / 2, frictions[name].mean()
        longest = jnp.where(excess > 0, _EXCESS * c / excess, jnp.inf)
        results[name] = jnp.sqrt(1 + h * spread / (c + h * overall / 2)), longest
    return results


def _signs(means: Values, step: Step) -> Results:
    scales, estimate = step.tree("preconditioner"), step.tree("noise_estimate")
    unit = 2 * step.h / _PROBIT**2
    results = {}
    for name, mean in means.items():
        u, w = (unit * _mean(scales[name] * v) for v in (mean, estimate[name]))
        longest = (
            step.h * jnp.where(_drift_loss(u * _SCALES, w * _SCALES) <= MOST**2, _SCALES, 0).max()
        )
        results[name] = jnp.sqrt(_drift_loss(u, w)), longest
    return results


def _drift_loss(u: jax.Array, w: jax.Array) -> jax.Array:
    """Return the factor by which drift is weaker if z^2 V, z^2 W are u, w times a chi-square."""
    square = _NODES**2
    total = jnp.maximum(1 - w[..., None] * square, 0) + u[..., None] * square
    return 1 / ((_WEIGHTS * square / jnp.sqrt(jnp.maximum(total, 1e-6))).sum(axis=-1) / _SUM)


def _langevin(step: Step, name: str) -> jax.Array:
    return step.tree("preconditioner")[name] / 2


def _half(step: Step, name: str) -> float:
    return 0.5


def _momentum(step: Step, name: str) -> jax.Array:
    return _per_friction(step, name) / step.tree("mass")[name]


def _per_friction(step: Step, name: str) -> jax.Array:
    return 1 / (2 * step.tree("friction")[name])


RULES: dict[Callable, Rule] = {
    sgld.update: Rule(_variance, _linear(_langevin)),
    mld.update: Rule(_dual_variance, _linear(_half)),
    sgbd.update: Rule(_variance, _signs),
    sghmc.update: Rule(_variance, _linear(_momentum, less="noise_estimate")),
    sgnht.update: Rule(_variance, _thermostat),
    sggmc.update: Rule(_tangent_variance, _linear(_per_friction, less="noise_estimate")),
    gsgnht.update: Rule(_tangent_variance, _thermostat),
    scir.update: Rule(_ratio, _tanh),
    sgrhmc.update: Rule(_ratio, _linear(_per_friction)),
    sgrld.update: Rule(_ratio_to_total, _linear(_half)),
    smld.update: Rule(_ratio_of_logs, _linear(_half)),
}
