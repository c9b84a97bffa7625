"""The exact transition of the Cox-Ingersoll-Ross process, in log space."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.draws import gamma, native, uniform
from simplex_jax._src.draws.bits import offset_of, random_words, refused, use_up

# Above this rate the transition may be written relative to its drift (cir_by_xla): a normal, at
# most 6.3 in size, then cannot cancel the square root of twice the rate.
_LARGE_RATE = 64.0
# Above this step e^h - 1 is e^h to double precision.
_LONG_STEP = 40.0


class Step(NamedTuple):
    """A step size and functions of it, in its own shape, which is often a scalar."""

    size: jax.Array  # h
    scale: jax.Array  # 1 - e^-h
    log_scale: jax.Array
    growth: jax.Array  # e^h - 1, or 1 for a long step
    decay: jax.Array  # 0, or h for a long step: e^h - 1 is growth e^decay


def step_of(h: jax.Array) -> Step:
    """Return a step of size h."""
    short = h < _LONG_STEP
    scale = -jnp.expm1(-h)
    growth, decay = jnp.where(short, jnp.expm1(h), 1), jnp.where(short, 0, h)
    return Step(h, scale, jnp.log(scale), growth, decay)


@partial(jax.jit, static_argnames="shape")
def _cir(
    key: jax.Array,
    log_theta: jax.Array,
    a: jax.Array,
    h: jax.Array,
    offset: jax.Array,
    shape: tuple[int, ...],
) -> jax.Array:
    by_xla = partial(cir_by_xla, shape=shape)
    log_theta, a, step = refused(log_theta), refused(a), step_of(refused(h))
    if log_theta.dtype != jnp.float32:
        return by_xla(key, log_theta, a, step, offset)
    by_native = partial(native.cir, shape=shape)
    return native.LIBRARY.lowered("cir", by_native, by_xla, key, log_theta, a, step, offset)


def cir_by_xla(
    key: jax.Array,
    log_theta: jax.Array,
    a: jax.Array,
    step: Step,
    offset: jax.Array,
    shape: tuple[int, ...],
) -> jax.Array:
    """Do what `cir` does, in XLA."""
    dtype = log_theta.dtype
    number = log_theta <= jnp.finfo(dtype).max  # -inf, a process at zero, is valid
    valid = number & arguments.positive(a) & arguments.positive(step.size)
    log_theta = jnp.where(number, log_theta, 0)
    a = jnp.where(arguments.positive(a), a, 1)
    log_theta, a, h, scale, log_scale, growth, decay = arguments.flatten(shape, log_theta, a, *step)
    size = a.shape[0]
    use_up(key)
    word_first, word_z = random_words(key, size, dtype, offset=offset)
    first, z = uniform.exponential(word_first, dtype), uniform.normal(word_z, dtype)

    # theta' / c is Gamma(a + N) with N ~ Poisson(rate). Let the first point of a unit Poisson
    # process fall at `first`. If that is beyond the rate, N = 0 and first - rate is a fresh
    # exponential: exactly what a small shape, or the boost Gamma(a) = Gamma(a + 1) exp(-E / a),
    # needs. Its uniform comes from the word of the normal, which is not needed there. Otherwise
    # N = 1 + Poisson(rest), and the Gamma(a + 1 + Poisson(rest)) is (z + sqrt(2 rest))^2 /
    # 2 + Gamma(a + 1/2), the noncentral chi-square with at least one degree of freedom. So no
    # Poisson variate is drawn, and the only gamma has shape at least 1/2.
    rate = jnp.exp(log_theta - decay) / growth
    rate = jnp.minimum(rate, float(jnp.finfo(dtype).max) ** 0.75)  # so its root cannot overflow
    rest = rate - first
    empty = rest < 0
    root = jnp.sqrt(2 * jnp.maximum(rest, 0))
    log_x, accepted, ratio = gamma.small(key, a, -rest, word_z, offset)
    accepted = accepted & empty  # and the ratio is for empty ones only
    shape_parameter = a + jnp.where(empty, 1.0, 0.5).astype(dtype)
    g = gamma.standard_gamma(key, shape_parameter, offset, ~accepted)
    noise = z * (root + z / 2)

    total = jnp.where(empty, g, (z + root) ** 2 / 2 + g)
    direct = jnp.log(scale * total) - jnp.where(empty, ratio, 0)
    direct = jnp.where(accepted, log_scale + log_x, direct)

    # scale * rate = theta e^-h, so for a large rate log theta' = log theta - h + log1p(small). The
    # rounding error of the difference is added back: it would be a visible bias.
    drifted = log_theta - h
    change = drifted - log_theta
    rounding = (log_theta - (drifted - change)) - (h + change)
    relative = drifted + (jnp.log1p((noise + (g - first)) / rate) + rounding)

    large = (rate > _LARGE_RATE) & (rate > shape_parameter)
    value = jnp.where(large & ~empty, relative, direct)
    return jnp.where(valid, arguments.unflatten(shape, value), jnp.nan)


def cir(
    key: jax.Array,
    log_theta: ArrayLike,
    shape_parameter: ArrayLike,
    step_size: ArrayLike,
    shape: Sequence[int] | None = None,
    *,
    offset: ArrayLike = 0,
) -> jax.Array:
    """Draw log theta' from the exact transition of the Cox-Ingersoll-Ross process.

    The process d theta = (a - theta) dt + sqrt(2 theta) dW leaves Gamma(a, 1) invariant. After a
    time h, theta is (1 - e^-h) / 2 times a noncentral chi-square with 2 a degrees of freedom and
    noncentrality 2 theta / (e^h - 1) (Baker et al. 2018, equation 2.2).

    Args:
        key: A PRNG key, threefry or rbg.
        log_theta: Log of the current value, down to -inf (theta = 0).
        shape_parameter: Shapes a, finite and positive (accurate in float32 for 1e-6 to 1e8).
        step_size: Times h, finite and positive (accurate in float32 for 1e-6 to 50, and h at least
            1.5e-11 theta). Rounding the result to float32, with spacing d, adds d^2 / 12 to the
            variance of a step, 2 h / theta: at theta = 1e8, where d = 2e-6, 1% at h = 1.5e-3 and
            15% at 1e-4; at 1e6, 4% at h = 1e-6. If the standard deviation of a step is far below d,
            as at h = 1e-6 and theta = 1e8, log theta does not move.
        shape: Shape of the result; by default that of the broadcast arguments.
        offset: Number of variates before these, an integer from 0 to 2^32 - 1, to draw a larger
            array in parts: the parts have the values of the whole.

    Returns:
        Log of the new values in the common dtype of the arguments, float32 by default. NaN if an
        argument is invalid and values cannot be checked (under ``jit``).

    Raises:
        ValueError: An argument is out of range, or the shapes do not fit.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import draws
        >>> start = jnp.full(100_000, jnp.log(5.0))
        >>> theta = jnp.exp(draws.cir(jax.random.key(0), start, 2.0, 0.5))
        >>> expected = 5 * jnp.exp(-0.5) + 2 * (1 - jnp.exp(-0.5))
        >>> bool(abs(theta.mean() - expected) < 0.05)
        True
    """
    log_theta, a, h = arguments.promote(
        log_theta=log_theta, shape_parameter=shape_parameter, step_size=step_size
    )
    shape = arguments.common_shape(shape, log_theta=log_theta, shape_parameter=a, step_size=h)
    largest = jnp.finfo(log_theta.dtype).max
    arguments.require("log_theta", log_theta, log_theta <= largest, "a number or -inf")
    arguments.require("shape_parameter", a, arguments.positive(a), "finite and positive")
    arguments.require("step_size", h, arguments.positive(h), "finite and positive")
    return _cir(key, log_theta, a, h, offset_of(offset), shape)
