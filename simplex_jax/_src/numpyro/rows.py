"""Rows of a site that are independent given all other sites, proved from the program of a model.

The plates of a site say which of its axes have rows. The program (jaxpr) of the terms of the log
density proves that they are independent: each term either does not depend on the site, or has the
axis of the plate, and each of its numbers there depends only on the same row of the site. The proof
follows the axis through the program, one operation after another. Unknown operations, including
loops, prove nothing: the site then moves as a whole.

For example, let a site a [rows, 3] be in a plate of dimension -1, and `log(a).sum(axis=-1)` a term.
The proof follows the axis of the rows through its program:

    a                              axis 0, by the plate
    b = log a                      axis 0: elementwise
    c = reduce_sum[axes=(1,)] b    axis 0: another axis is summed over

and c [rows] has the axis of the plate, so that the rows are independent. `sum(axis=0)` mixes rows.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from simplex_jax._src.numpyro import density
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.sites import Rows, Values


class _Mixed(Exception):
    """An operation may mix rows."""


def independent(target: Target, native: Values, name: str) -> Rows:
    """Return the rows of a site, with only the plates whose rows are independent.

    `native` are the native values of all moved sites.
    """

    def terms(y: jax.Array) -> list[jax.Array]:
        return density.terms_of(target, {**native, name: y}).without(name)

    rows = target.layout.plates[name]
    if not rows.plates:
        return rows
    program = jax.make_jaxpr(terms)(native[name])
    plates = tuple(plate for plate in rows.plates if _separates(program, rows, *plate))
    return rows._replace(plates=plates)


def _separates(program: ClosedJaxpr, rows: Rows, dim: int, size: int) -> bool:
    """Return whether a program of terms of a site keeps the rows of a plate apart."""
    try:
        axes = _output_axes(program.jaxpr, [rows.axis(dim)])
    except _Mixed:
        return False
    outputs = [variable.aval.shape for variable in program.jaxpr.outvars]
    return all(
        axis is None or (axis == len(shape) + dim and shape[axis] == size)
        for axis, shape in zip(axes, outputs, strict=True)
    )


# The axis of the rows in an array, or None if the array does not depend on the site.
_Axis = int | None


def _output_axes(program: Jaxpr, axes: Sequence[_Axis]) -> list[_Axis]:
    """Return the axes of the rows in the results of a program, given those in its arguments."""
    axis_by_variable = dict(zip(program.invars, axes, strict=True))

    def axis_of(variable: Any) -> _Axis:
        return None if isinstance(variable, Literal) else axis_by_variable.get(variable)

    for equation in program.eqns:
        inputs = [axis_of(variable) for variable in equation.invars]
        if all(axis is None for axis in inputs):
            continue
        name = equation.primitive.name
        if name in _CALLS:
            inner = next(equation.params[key] for key in _PROGRAMS if key in equation.params)
            outputs = _output_axes(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner, inputs)
        else:
            rule = _elementwise if name in _ELEMENTWISE else _RULES.get(name)
            if rule is None:
                raise _Mixed(name)
            outputs = [rule(equation, inputs)] * len(equation.outvars)
        axis_by_variable |= zip(equation.outvars, outputs, strict=True)
    return [axis_of(variable) for variable in program.outvars]


_CALLS = {"jit", "pjit", "closed_call", "checkpoint", "custom_jvp_call", "custom_vjp_call"}
_PROGRAMS = "jaxpr", "call_jaxpr", "fun_jaxpr"
_NAMES = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp
    convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor
    ge gt igamma igammac integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg
    nextafter not or polygamma pow reduce_precision regularized_incomplete_beta rem round rsqrt
    select_n sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
"""
_ELEMENTWISE = frozenset(_NAMES.split())


def _row_axis(axes: Sequence[_Axis]) -> int:
    """Return the axis of the rows, which must be the same in all inputs that have one."""
    row_axes = {axis for axis in axes if axis is not None}
    if len(row_axes) != 1:
        raise _Mixed
    return row_axes.pop()


def _axis_after_removal(axis: int, removed: Sequence[int]) -> int:
    """Return the position of an axis after others are removed."""
    if axis in removed:
        raise _Mixed
    return axis - sum(other < axis for other in removed)


def _elementwise(equation: Any, inputs: Sequence[_Axis]) -> int:
    # Only axes of size 1 may be stretched, and those of rows are longer.
    axis, ndim = _row_axis(inputs), equation.outvars[0].aval.ndim
    for variable, row_axis in zip(equation.invars, inputs, strict=True):
        if row_axis is not None and variable.aval.ndim != ndim:
            raise _Mixed
    return axis


def _reduced(equation: Any, inputs: Sequence[_Axis]) -> int:
    return _axis_after_removal(_row_axis(inputs), equation.params["axes"])


def _other_axes(key: str) -> Callable[[Any, Sequence[_Axis]], int]:
    """Return the rule for operations along one or more axes, which must not include the rows."""

    def rule(equation: Any, inputs: Sequence[_Axis]) -> int:
        axes = equation.params[key]
        axis = _row_axis(inputs)
        if axis in (axes if isinstance(axes, tuple) else (axes,)):
            raise _Mixed
        return axis

    return rule


def _broadcast(equation: Any, inputs: Sequence[_Axis]) -> int:
    return equation.params["broadcast_dimensions"][inputs[0]]


def _reshaped(equation: Any, inputs: Sequence[_Axis]) -> int:
    old, new = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    axis = _row_axis(inputs)
    for other, size in enumerate(new):
        if size == old[axis] and math.prod(new[:other]) == math.prod(old[:axis]):
            return other
    raise _Mixed


def _transposed(equation: Any, inputs: Sequence[_Axis]) -> int:
    return equation.params["permutation"].index(_row_axis(inputs))


def _squeezed(equation: Any, inputs: Sequence[_Axis]) -> int:
    return _axis_after_removal(_row_axis(inputs), equation.params["dimensions"])


def _sliced(equation: Any, inputs: Sequence[_Axis]) -> int:
    # All rows in order: only a stride of 1 keeps this many.
    axis = _row_axis(inputs)
    if inputs[0] != axis or equation.outvars[0].aval.shape[axis] != _shape(equation)[axis]:
        raise _Mixed
    return axis


def _multiplied(equation: Any, inputs: Sequence[_Axis]) -> int:
    contracted, batch = equation.params["dimension_numbers"]
    # Axes of a result: those of the batch, then the remaining ones of either factor.
    first = len(batch[0])
    outputs: list[_Axis] = []
    for i, axis in enumerate(inputs):
        used = (*contracted[i], *batch[i])
        if axis in batch[i]:
            outputs.append(batch[i].index(axis))
        elif axis is not None:
            outputs.append(first + _axis_after_removal(axis, used))
        first += equation.invars[i].aval.ndim - len(used)
    return _row_axis(outputs)


def _gathered(equation: Any, inputs: Sequence[_Axis]) -> int:
    numbers = equation.params["dimension_numbers"]
    axis, indices = inputs
    if axis is None or indices is not None:
        raise _Mixed
    offsets = set(numbers.offset_dims)
    if axis in numbers.operand_batching_dims:
        # One index per row, for that row.
        place = numbers.operand_batching_dims.index(axis)
        batch = [i for i in range(equation.outvars[0].aval.ndim) if i not in offsets]
        return batch[numbers.start_indices_batching_dims[place]]
    removed = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    if equation.params["slice_sizes"][axis] != _shape(equation)[axis]:
        raise _Mixed
    return numbers.offset_dims[_axis_after_removal(axis, removed)]


def _shape(equation: Any) -> tuple[int, ...]:
    return equation.invars[0].aval.shape


_RULES: dict[str, Callable[[Any, Sequence[_Axis]], int]] = {
    **{f"reduce_{name}": _reduced for name in ("sum", "max", "min", "prod", "and", "or")},
    **dict.fromkeys(("argmax", "argmin"), _reduced),
    **{f"cum{name}": _other_axes("axis") for name in ("sum", "prod", "max", "min", "logsumexp")},
    "split": _other_axes("axis"),
    **dict.fromkeys(("concatenate", "sort"), _other_axes("dimension")),
    "rev": _other_axes("dimensions"),
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "transpose": _transposed,
    "squeeze": _squeezed,
    "slice": _sliced,
    "dynamic_slice": _sliced,
    "dot_general": _multiplied,
    "gather": _gathered,
}
