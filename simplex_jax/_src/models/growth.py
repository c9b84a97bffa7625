"""States with a capacity for components that grows if an update needs more.

Such a state has a number `needed`. An update that exceeds the capacity changes only `needed`;
`driver.run(..., grow=...)` then enlarges the state and repeats the update with the same key.
"""

import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Info = TypeVar("Info")


def grow_chains_together(old: Any, moved: Any, info: Info, capacity: int) -> tuple[Any, Info]:
    """Return the old chains if any of them exceeds the capacity, else the moved ones.

    All chains grow together and repeat the update. Leaves have an axis of chains.
    """
    most = jnp.max(moved.needed)
    short = most > capacity
    moved = moved._replace(needed=jnp.full_like(old.needed, most))
    old = old._replace(needed=moved.needed)
    return (
        jax.tree.map(lambda before, after: jnp.where(short, before, after), old, moved),
        jax.tree.map(lambda number: jnp.where(short, jnp.zeros_like(number), number), info),
    )


def doubled(capacity: int, needed: int) -> int:
    """Return the capacity, doubled until `needed` fits, so that few sizes are compiled."""
    while capacity < needed:
        capacity *= 2
    return capacity


def by_quarters(capacity: int, needed: int) -> int:
    """Return the capacity, doubled up to 256 and then grown by a quarter, until `needed` fits.

    This suits components that cost time even if unused.
    """
    while capacity < needed:
        capacity = math.ceil(capacity * (2 if capacity < 256 else 1.25))
    return capacity


def from_below(fewest: int, most: int, chains: int) -> list[int]:
    """Return the number of components that each chain starts with, from `fewest` to `most`.

    The numbers are evenly spaced in the logarithm; a single chain starts with the largest. Chains
    that come from both sides and agree have found the number; others show how far it is known.
    """
    if chains == 1:
        return [most]
    return np.geomspace(fewest, most, chains).round().astype(int).tolist()


def starts(middle: int, chains: int) -> list[int]:
    """Return the number of components that each chain starts with.

    Several chains start with numbers from half of `middle` to twice it, evenly spaced in the
    logarithm, so that R-hat of the number is meaningful.
    """
    if chains == 1:
        return [middle]
    spread = np.geomspace(middle / 2, 2 * middle, chains)
    return np.maximum(spread.round(), 1).astype(int).tolist()
