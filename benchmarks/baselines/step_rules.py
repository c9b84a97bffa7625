"""Rules for step sizes of the papers: from gradient noise, and from a bound on the divergence."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from simplex_jax._src import arguments
from simplex_jax._src.base import PyTree
from simplex_jax._src.step_sizes import leaves, leaves_like, smallest


def for_gradient_noise(
    variance: PyTree, fraction: float = 0.1, *, preconditioner: PyTree = 1.0
) -> jax.Array:
    r"""Return the step of Langevin kernels at which injected noise dominates gradient noise.

    In a step :math:`x' = x + h M g + \sqrt{2 h M}\, \xi` the noise of the gradient g has variance
    :math:`h^2 M_j^2 V_j`, and the injected noise :math:`2 h M_j`. Their ratio is at most
    `fraction`:

    .. math:: h = 2 \cdot \text{fraction} \,/\, \max_j M_j V_j

    (Welling and Teh 2011, section 4.2, whose epsilon is 2 h and V_s is V n / N^2). To first order
    it is also the relative increase of the variance of a normal posterior. The paper uses the
    largest eigenvalue of the covariance of g instead of its largest variance: if the coordinates of
    the gradient noise are strongly dependent, divide by the ratio of the two, at most the
    dimension. Stability of the Euler step is a separate bound, not considered here.

    Args:
        variance: Variances of the gradient estimate over batches, at least 0 and not all 0: a tree
            of arrays, `gradients.variance` of an estimator near the mode.
        fraction: Largest ratio, positive and far below 1.
        preconditioner: The diagonal of M, positive: one array or a tree like the variances.

    Returns:
        The step, a scalar; NaN where values cannot be checked and are out of range.

    Raises:
        ValueError: An argument is out of range, all variances are 0 (an exact gradient does not
            limit the step), or the trees differ in structure.

    Example:
        >>> import jax.numpy as jnp
        >>> from baselines import step_rules
        >>> print(step_rules.for_gradient_noise(jnp.array([4.0, 200.0])))
        0.001
    """
    (limit,) = arguments.all_masked(fraction=fraction)
    ratios = []
    scales = leaves_like("preconditioner", preconditioner, variance)
    for v, m in zip(leaves("variance", variance), scales, strict=True):
        arguments.common_shape(None, variance=v, preconditioner=m)
        scale = arguments.masked("preconditioner", m)
        ratios.append(arguments.masked("variance", v, or_zero=True) * scale)
    noise = -smallest([-ratio for ratio in ratios])
    needs = "above 0 somewhere: an exact gradient does not limit the step"
    arguments.require("variance", noise, noise > 0, needs)
    return jnp.where(noise > 0, 2 * limit / noise, jnp.nan)


def for_mirror_langevin(
    num_steps: int,
    *,
    distance: ArrayLike,
    lipschitz: ArrayLike,
    dimension: int,
    variance: ArrayLike = 0.0,
) -> jax.Array:
    r"""Return the best step of mirrored Langevin dynamics for a number of steps T.

    If the dual potential W is convex with second derivatives of at most L, one of :math:`x^1,
    \dots, x^T` chosen at random, with a constant step h, is no further from the target than

    .. math::
        D(x \,\|\, \pi) \le \frac{W_2^2}{2 h T} + h\, (L d + \sigma^2), \qquad
        h = \min\Big( \frac{W_2}{\sqrt{2 T (L d + \sigma^2)}},\; \frac1L \Big)

    This h minimises the bound, to :math:`W_2 \sqrt{2 (L d + \sigma^2) / T}` (Hsieh et al. 2018,
    theorem 4 and equation F.1; the printed step has W_2 in the denominator by mistake). For
    `samplers.mld` and `samplers.smld`; for a Dirichlet posterior whose concentrations sum to A, L
    is A / 2, and d is the number of categories minus one.

    Args:
        num_steps: T, positive.
        distance: W_2 between the initial and the stationary distribution of y, positive. From a
            single point it is the root mean square distance of y to that point.
        lipschitz: L, positive.
        dimension: d of y, positive.
        variance: sigma^2 of the gradient in y, summed over coordinates; 0 with all the data.

    Returns:
        The step, a scalar.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> from baselines import step_rules
        >>> bound = {"distance": 2.0, "lipschitz": 15.0, "dimension": 2}
        >>> print(f"{step_rules.for_mirror_langevin(100, **bound):.4f}")
        0.0258
        >>> print(f"{step_rules.for_mirror_langevin(100, variance=90.0, **bound):.4f}")
        0.0129
    """
    steps = arguments.at_least("num_steps", num_steps, 1)
    d = arguments.at_least("dimension", dimension, 1)
    w, most, noise = arguments.all_masked(
        ("variance",), distance=distance, lipschitz=lipschitz, variance=variance
    )
    return jnp.minimum(w / jnp.sqrt(2.0 * steps * (most * float(d) + noise)), 1 / most)
