"""Refusal of derivatives of draws, which JAX would get wrong.

Where rejection decides on a variate, the derivative of the accepted proposal is not that of the
variate: acceptance depends on the parameters too. JAX has no reverse mode for the loops, but its
forward mode passes through them, and counts have the derivative 0.
"""

import jax

_REFUSED = (
    "draws have no derivative in their parameters: apply jax.lax.stop_gradient to these, which "
    "gives the derivative of all else given the draw"
)


@jax.custom_jvp
def refused(parameter: jax.Array) -> jax.Array:
    """Return a parameter of a draw; a derivative in it raises a ValueError."""
    return parameter


@refused.defjvp
def _refuse(primals: tuple, tangents: tuple) -> tuple:
    del primals, tangents
    raise ValueError(_REFUSED)
