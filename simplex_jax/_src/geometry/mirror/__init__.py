r"""Mirror maps: convex functions h whose gradient maps a convex set onto all of R^d.

In the dual variable y = grad h(x) there is no constraint. A density :math:`\pi(x)` becomes
:math:`\pi(x(y)) / \det \nabla^2 h(x(y))` (Hsieh et al. 2018, equation 2.2). The functions here take
both x and y of a pair, because it depends on the formula which of the two is accurate near the
boundary.
"""

from simplex_jax._src.geometry.mirror.cube import hypercube
from simplex_jax._src.geometry.mirror.entropic import simplex
from simplex_jax._src.geometry.mirror.euclidean_ball import ball
from simplex_jax._src.geometry.mirror.legendre import from_convex
from simplex_jax._src.geometry.mirror.maps import MirrorMap
from simplex_jax._src.geometry.mirror.maps import start as start

__all__ = ["MirrorMap", "ball", "from_convex", "hypercube", "simplex"]
