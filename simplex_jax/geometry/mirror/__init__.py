r"""Mirror maps: convex functions h whose gradient takes a convex set to all of R^d.

In the dual variable y = grad h(x) there is no constraint. A density :math:`\pi(x)` becomes
:math:`\pi(x(y)) / \det \nabla^2 h(x(y))` (Hsieh et al. 2018, equation 2.2). Points x and y of one
pair go together into the functions here, as each formula has its own idea of which of the two is
not rounded away near the boundary.
"""

from simplex_jax.geometry.mirror.cube import hypercube
from simplex_jax.geometry.mirror.entropic import simplex
from simplex_jax.geometry.mirror.euclidean_ball import ball
from simplex_jax.geometry.mirror.legendre import from_convex
from simplex_jax.geometry.mirror.maps import MirrorMap, dual_log_density, start

__all__ = ["MirrorMap", "ball", "dual_log_density", "from_convex", "hypercube", "simplex", "start"]
