"""Compiled programs, of which a process can hold only so many."""

from pathlib import Path

import jax

MOST_MAPS = 30_000
"""Memory maps from which on a process drops its programs; Linux allows 65,530 by default."""


def forget_many() -> None:
    """Drop all compiled programs if they have become too many.

    Each keeps a few memory maps open; those of the whole suite exceed what Linux allows a process,
    which then crashes in the middle of a compilation.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
