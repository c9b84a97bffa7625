"""Sweeps of the native library."""

import jax
import jax.numpy as jnp
import pytest

from simplex_jax._src.models.topics.native import calls
from simplex_jax._src.models.topics.native.library import LIBRARY
from support import native_code


def needs(lowering):
    """Skip a test of the native lowering if there is no library."""
    if lowering == "native":
        native_code.needs(LIBRARY)


def sweep(key, likelihood, alpha, documents, labels, *, kind=None, prefix=None, width=16):
    """A sweep like `local.Sweep`."""
    needs("native")
    if kind in ("sparse", "integer") and jax.default_backend() != "cpu":
        pytest.skip("GPUs have no such sweeps")
    weights = calls.lay_out(jnp.log(likelihood), prefix=prefix)
    options = {"burn_in": 0, "count": "nothing", "tally": False, "kind": kind, "width": width}
    return calls.sweep(
        key[None],
        weights,
        alpha,
        documents,
        labels,
        jnp.zeros((0, 0), jnp.int32),
        prefix=prefix,
        **options,
    )[0]


def mutated(folder, file, old, new):
    """A prefix of calls like the library's, but with one piece of its source replaced."""
    return native_code.mutated(LIBRARY, folder, file, old, new)
