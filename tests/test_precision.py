"""Matrix products in full precision, as the programs say them: on CPUs all are."""

import jax
import jax.numpy as jnp

from simplex_jax._src.precision import full_precision


def products(function, *arguments):
    """Return the lines of the matrix products of a program."""
    text = jax.jit(function).lower(*arguments).as_text()
    return [line for line in text.splitlines() if "dot_general" in line]


def test_products_within_are_precise_and_those_without_are_not():
    x = jnp.ones((3, 3))
    (rounded,) = products(lambda x: x @ x, x)
    assert "HIGHEST" not in rounded
    (precise,) = products(full_precision(lambda x: x @ x), x)
    assert "HIGHEST" in precise


def test_derivatives_are_precise():
    x = jnp.ones((3, 3))
    lines = products(jax.grad(lambda x: full_precision(lambda x: x @ x)(x).sum()), x)
    assert [line for line in lines if "HIGHEST" in line] == lines != []
