"""Plots of samples on the triangle and on the sphere."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes

from simplex_jax.evaluate import plots

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
_GRID = 160  # grid points along a side, for a density
_BESIDE = np.array([0.0, 0.0, 0.35])


def triangle(
    probabilities: ArrayLike,
    *,
    log_density: Callable[[np.ndarray], ArrayLike] | None = None,
    names: Sequence[str] = ("1", "2", "3"),
    axes: Axes | None = None,
) -> Axes:
    """Plot samples on the simplex of three categories, as an equilateral triangle.

    Args:
        probabilities: [n, 3]; exponentiate log-probabilities first.
        log_density: `(probabilities [m, 3]) -> [m]`, up to a constant and with respect to the
            uniform distribution on the simplex; shaded behind the samples.
        names: Names of the three corners, where a category has probability 1.
        axes: Where to draw.

    Raises:
        ValueError: Not probabilities [n, 3], or not three names.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.evaluate import shapes
        >>> p = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], size=100)
        >>> axes = shapes.triangle(p, log_density=lambda p: np.log(p) @ [0.0, 1.0, 2.0])
        >>> axes.get_aspect()
        1.0
    """
    p = np.asarray(probabilities, np.float64)
    if p.ndim != 2 or p.shape[1] != 3 or not (np.abs(p.sum(axis=1) - 1) < 1e-3).all():
        raise ValueError(f"probabilities must be [n, 3] with rows that sum to 1; not {p.shape}")
    if p.size and p.min() < -1e-3:
        raise ValueError(f"probabilities must be at least 0; the smallest is {p.min():.3g}")
    if len(names) != 3:
        raise ValueError(f"names must have three entries; it has {len(names)}")
    axes = _bare(axes)
    if log_density is not None:
        _shade(axes, log_density)
    axes.plot(*_CORNERS[[0, 1, 2, 0]].T, color="#444444", lw=1, solid_joinstyle="round")
    axes.scatter(*(p @ _CORNERS).T, **_dots(len(p)), color=plots.COLOURS[0])
    for name, (x, y), below in zip(names, _CORNERS, (True, True, False), strict=True):
        up = "top" if below else "bottom"
        height = y - 0.03 if below else y + 0.03
        axes.text(x, height, name, va=up, ha="center", parse_math=False)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.1, 0.96))
    return axes


def _shade(axes: Axes, log_density: Callable[[np.ndarray], ArrayLike]) -> None:
    """Shade a density, evaluated at cell centres, which are never corners."""
    x, y = np.meshgrid((np.arange(_GRID) + 0.5) / _GRID, (np.arange(_GRID) + 0.5) / _GRID)
    points = np.stack([x.ravel(), y.ravel() * _CORNERS[2, 1]], axis=-1)
    third = points[:, 1] / _CORNERS[2, 1]
    second = points[:, 0] - third / 2
    p = np.stack([1 - second - third, second, third], axis=-1)
    inside = (p > 0).all(axis=1)
    values = np.full(len(p), np.nan)
    logs = np.asarray(log_density(p[inside]), np.float64)
    # If the density is infinite at an edge, only the highest cells would be visible.
    values[inside] = np.exp(np.minimum(logs - np.quantile(logs, 0.98), 0))
    extent = (0, 1, 0, _CORNERS[2, 1])
    picture = values.reshape(_GRID, _GRID)
    axes.imshow(picture, origin="lower", extent=extent, cmap="Greys", vmin=0, vmax=1.6, zorder=0)


def sphere(x: ArrayLike, *, centre: ArrayLike | None = None, axes: Axes | None = None) -> Axes:
    """Plot unit vectors in space, seen from far away; those on the far side are faint.

    Args:
        x: Unit vectors [n, 3].
        centre: Direction from which they are seen, [3]; by default slightly off their mean, so that
            it is not at the centre.
        axes: Where to draw.

    Raises:
        ValueError: Not unit vectors [n, 3], or a centre without a direction.

    Example:
        >>> import numpy as np
        >>> from simplex_jax.evaluate import shapes
        >>> x = np.random.default_rng(0).normal(size=(100, 3))
        >>> axes = shapes.sphere(x / np.linalg.norm(x, axis=1, keepdims=True))
        >>> axes.get_aspect()
        1.0
    """
    points = np.asarray(x, np.float64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"x must be unit vectors [n, 3]; its shape is {points.shape}")
    if not (np.abs(np.linalg.norm(points, axis=1) - 1) < 1e-3).all():
        raise ValueError("x must be unit vectors: divide them by their lengths")
    view = _view(points.mean(axis=0) + _BESIDE if centre is None else centre)
    axes = _bare(axes)
    angle = np.linspace(0, 2 * np.pi, 361)
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    for height in np.sin(np.deg2rad([-60, -30, 0, 30, 60])):
        _line(axes, (ring * np.sqrt(1 - height**2) + [0, 0, height]) @ view.T)
    for longitude in np.deg2rad(np.arange(0, 180, 30)):
        meridian = np.array([np.cos(longitude), np.sin(longitude), 0.0])
        _line(axes, (ring[:, :1] * meridian + ring[:, 1:2] * [0, 0, 1]) @ view.T)
    axes.plot(np.cos(angle), np.sin(angle), color="#444444", lw=1)
    projected = points @ view.T
    front = projected[:, 2] >= 0
    for part, colour in ((~front, "#9bbcd6"), (front, plots.COLOURS[0])):
        axes.scatter(*projected[part, :2].T, **_dots(len(points)), color=colour)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    return axes


def _view(direction: ArrayLike) -> np.ndarray:
    """Return the rotation of a direction to the third axis, towards the viewer, with z up."""
    normal = np.asarray(direction, np.float64)
    length = np.linalg.norm(normal)
    if normal.shape != (3,) or not 0 < length < np.inf:
        raise ValueError(f"centre must be a direction, [3]; it is {direction}")
    normal = normal / length
    up = np.array([0.0, 0.0, 1.0]) if abs(normal[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    right = np.cross(up, normal)
    right = right / np.linalg.norm(right)
    return np.stack([right, np.cross(normal, right), normal])


def _line(axes: Axes, curve: np.ndarray) -> None:
    """Draw the near side of a curve."""
    visible = np.where(curve[:, 2:] >= 0, curve[:, :2], np.nan)
    axes.plot(*visible.T, color="#cccccc", lw=0.6, zorder=0)


def _dots(n: int) -> dict[str, Any]:
    """Return size and opacity for n dots: the more dots, the smaller and fainter."""
    crowd = min(max(n / 200, 1.0), 50.0)
    return {"s": 16 / crowd**0.5, "alpha": max(0.8 / crowd**0.4, 0.12), "linewidths": 0}


def _bare(axes: Axes | None) -> Axes:
    if axes is None:
        (axes,) = plots.figure(width=4.2, height=4.0)
    axes.set_aspect(1)
    axes.set_axis_off()
    return axes
