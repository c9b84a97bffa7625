"""Inflation of the standard deviations of `SGMCMC` samples by minibatch noise.

A kernel injects noise of a known size, and minibatch noise adds to it. Standard deviations are too
large by a factor, the *inflation*, which the rule of the kernel derives from the variance V of the
estimated gradient or counts (`inflation_rules`).

V comes from differences between the gradients or counts of successive minibatches. They include the
movement of the chain in between, a relative excess of the order of h times the curvature (before
the step is too long for any gradient), and the movement of other sites. So the inflation is an
upper estimate. It is a mean over the warm-up steps, with more weight on later ones, and starts
again when sampling begins.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src.base import Kernel
from simplex_jax._src.numpyro import inflation_rules, minibatches

MOST = minibatches.MOST
# The warm-up counts for at most this many of the steps that follow.
_KEPT = 30


class Noise(NamedTuple):
    """The minibatch noise of a site."""

    mean: jax.Array  # mean of the rule's numbers, such as V, [...] or a scalar
    inflation: jax.Array  # factor of standard deviations, a scalar
    longest: jax.Array  # step at which it would be `MOST`, a scalar


def first(kernel: Kernel, state: Any) -> dict[str, Noise | None]:
    """Return the noise before the first step; None by site if the kernel has no rule."""
    rule = inflation_rules.known(kernel, state)
    if rule is None:
        return dict.fromkeys(state.position)
    zeros = jax.tree.map(jnp.zeros_like, state.position)
    shapes = jax.eval_shape(
        lambda: rule.look(inflation_rules.step(kernel, state, zeros, zeros, state.step))
    )
    one = {name: jnp.ones((), x.dtype) for name, x in state.position.items()}
    return {
        name: Noise(jnp.zeros(shape.shape, one[name].dtype), one[name], jnp.inf * one[name])
        for name, shape in shapes.items()
    }


def expected(kernel: Kernel, state: Any, ratio: float, i: int) -> dict[str, Noise]:
    """Return the expected noise of similar rows after i steps, for kernels on counts."""
    rule = inflation_rules.known(kernel, state)
    if rule is None or rule.look is not inflation_rules.ratio:
        return {}
    zeros = jax.tree.map(jnp.zeros_like, state.position)
    means = {name: jnp.asarray(ratio, x.dtype) for name, x in state.position.items()}
    results = rule.judge(means, inflation_rules.step(kernel, state, zeros, zeros, i))
    return {name: Noise(means[name], *results[name]) for name in means}


def looked_at(
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
    rule = inflation_rules.known(kernel, new)
    if rule is None:
        return noise
    step = inflation_rules.step(
        kernel, new, jax.tree.map(jnp.subtract, new.memory, old.memory), new.memory, old.step
    )
    done = jnp.where(i < num_warmup, i, i - num_warmup + jnp.minimum(num_warmup, _KEPT))
    means = {}
    for name, estimate in rule.look(step).items():
        mean = noise[name].mean  # type: ignore[union-attr]
        # Before the first step there is no gradient.
        gain = jnp.where((i > 0) & jnp.isfinite(estimate), 2 / (done + 1).astype(mean.dtype), 0)
        means[name] = mean + gain * (jnp.where(gain > 0, estimate, mean) - mean)
    return {
        name: Noise(means[name], *(x.astype(new.position[name].dtype) for x in results))
        for name, results in rule.judge(means, step).items()
    }


def of_chains(noise: Mapping[str, Noise | None]) -> dict[str, Noise | None]:
    """Return the noise of all samples from that of chains [n], by averaging variances."""

    def one(site_noise: Noise) -> Noise:
        inflation = jnp.sqrt((site_noise.inflation**2).mean())
        return Noise(site_noise.mean.mean(axis=0), inflation, 1 / (1 / site_noise.longest).mean())

    return {
        name: None if site_noise is None else one(site_noise) for name, site_noise in noise.items()
    }


def message(name: str, noise: Noise) -> str:
    """Return the warning about a site."""
    return (
        f"the noise of the minibatches makes the standard deviations of {name!r} too large by a "
        f"factor of about {float(noise.inflation):.2g}: give its kernel a step_size of at most "
        f"{float(noise.longest):.2g}, or larger minibatches"
    )


def shown(noise: Mapping[str, Noise | None], name: str) -> str:
    """Return the diagnostics of a site, empty if every step uses all the data."""
    if name not in noise:
        return ""
    site_noise = noise[name]
    return (
        " inflation not known"
        if site_noise is None
        else f" inflation {float(site_noise.inflation):.2f}"
    )
