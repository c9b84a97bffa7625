"""Topic proportions of the spherical admixture model by geodesic Monte Carlo, as in its paper.

Liu, Zhu and Song (2016) move the proportions of a document on the flat simplex, with the topics
given. `sam.build` takes these settings as its `local_step`.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from simplex_jax._src import arguments
from simplex_jax._src.geometry import manifolds
from simplex_jax._src.models.sam import local
from simplex_jax._src.models.sam.local import Start, Target, _choose, _Moving, _Point, _point, _Turn

STARTS = ("mode", "least-squares")

_FLAT = manifolds.simplex_flat()


class Geodesic(NamedTuple):
    """Draws of the proportions of documents, for alpha of 1 or more.

    Below 1 the density is unbounded at the faces, and moves near them are rejected.

    Attributes:
        samples: Samples per document for the update of the topics, N.
        burn_in: Metropolis steps before the first sample.
        num_steps: Leapfrog steps per Metropolis step.
        step_size: Maximum step size on the simplex; by default half the shortest scale of a
            proportion of each document, theta_k / sqrt(mass_k) at the mode. Every step uses a
            random share of at least a half.
        floor: Least proportion in the start of a chain, by default 3e-3, or 1e-6 with least
            squares. Near a face the force of the prior is (alpha - 1) / theta, and too close to it
            every move is rejected.
        start: "mode" starts near the mode; with all documents in a batch the chain continues from
            update to update. "least-squares", as in the paper, restarts every update at the
            proportions whose mixture of topics is nearest to the document, raised to at least
            `floor`. Draws then depend on the start unless `burn_in` is long enough.
        fixed: Always use the maximum step size, as in the paper.
    """

    samples: int = 1
    burn_in: int = 4
    num_steps: int = 20
    step_size: float | None = None
    floor: float | None = None
    start: str = "mode"
    fixed: bool = False

    def check(self) -> None:
        """Raise a ValueError unless all settings are in range."""
        arguments.choice("start", self.start, STARTS)
        for name, least in (("samples", 1), ("burn_in", 0), ("num_steps", 1)):
            arguments.at_least(name, getattr(self, name), least)
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise ValueError(f"step_size must be finite and positive; it is {self.step_size}")
        if self.floor is not None and not 0 < self.floor < 1:
            raise ValueError(f"floor must be above 0 and below 1; it is {self.floor}")

    def draw(
        self, key: jax.Array, law: Target, start: Start | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Move along straight lines, reflected at the faces (Byrne and Girolami 2013)."""
        mode, mass, _ = local.scales_of(law)
        likely = jax.nn.softmax(mode)
        if self.start == "least-squares":
            theta = _raised(least_squares(law), self.floor or 1e-6)
        else:
            theta = _raised(likely, self.floor or 3e-3)
            if start is not None:
                theta = jnp.where(start.fresh, theta, jax.nn.softmax(start.ratios))
        if self.step_size is None:
            longest = 0.5 * jnp.min(likely * lax.rsqrt(mass), axis=-1, keepdims=True)
        else:
            longest = jnp.full_like(theta[:, :1], self.step_size)

        def log_density(theta: jax.Array) -> jax.Array:
            fit = law.kappa * local.cosine(law, theta)
            return fit + (law.alpha - 1) * jnp.sum(jnp.log(theta), axis=-1)

        def leap(_: int, moving: _Moving, h: jax.Array) -> _Moving:
            x, force = moving.point.position, moving.point.slope
            x, v = _FLAT.flow(x, moving.velocity + h / 2 * _FLAT.project(x, force), h)
            new = _point(log_density, x)
            return _Moving(new, v + h / 2 * _FLAT.project(x, new.slope))

        def step(old: _Point, key: jax.Array) -> tuple[_Point, _Turn]:
            key_velocity, key_length, key_accept = jax.random.split(key, 3)
            h = longest * self._share(key_length, longest)
            drawn = jax.random.normal(key_velocity, old.position.shape, old.position.dtype)
            velocity = _FLAT.project(old.position, drawn)
            new, last = lax.fori_loop(0, self.num_steps, partial(leap, h=h), _Moving(old, velocity))
            gain = new.value - old.value + (jnp.sum(velocity**2, -1) - jnp.sum(last**2, -1)) / 2
            return _choose(key_accept, gain, new, old)

        keys = jax.random.split(key, self.burn_in + self.samples)
        _, (trace, accepted) = lax.scan(step, _point(log_density, theta), keys)
        draws = jnp.log(trace[self.burn_in :])
        draws = draws - jnp.mean(draws, axis=-1, keepdims=True)
        return jnp.moveaxis(draws, 0, 1), jnp.mean(accepted, axis=0, dtype=theta.dtype)

    def _share(self, key: jax.Array, like: jax.Array) -> jax.Array:
        """Return the step size of each document, relative to the maximum."""
        if self.fixed:
            return jnp.ones_like(like)
        return jax.random.uniform(key, like.shape, like.dtype, 0.5, 1)


def least_squares(law: Target) -> jax.Array:
    """Return the least-squares coefficients of each document in the topics, of any sign, [B, K].

    NaN if topics are linearly dependent.
    """
    _, inverse = local.cholesky(law.gram[None])
    einsum = partial(jnp.einsum, precision="highest")
    return einsum("bl,lk->bk", einsum("bk,lk->bl", law.cosines, inverse[0]), inverse[0])


def _raised(theta: jax.Array, floor: float) -> jax.Array:
    """Raise proportions to a floor, also replacing NaN, and normalise them."""
    theta = jnp.where(theta > floor, theta, floor)
    return theta / jnp.sum(theta, axis=-1, keepdims=True)
