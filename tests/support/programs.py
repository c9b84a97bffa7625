"""Compiled programs: a process can hold only so many."""

from pathlib import Path

import jax

MOST_MAPS = 30_000
"""Memory maps at which a process drops its programs; Linux allows 65,530 by default."""


def forget_many() -> None:
    """Drop all compiled programs if there are too many.

    Each keeps a few memory maps open; those of the whole suite exceed Linux's limit per process,
    which then crashes during a compilation.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
