"""Warnings about samplers with velocities that are not at equilibrium."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

LARGEST_ENERGY = 0.1
"""Largest deviation of the kinetic energy per dimension from equilibrium, beyond chance."""

MOST_NOISE = 0.5
"""Largest share of the injected noise that the noise of the gradient may replace."""

_MOST_FRICTION = 1.5
_LEAST_ACCEPTED = 0.1


def energy_warnings(
    records: Sequence[Mapping[str, float | None]], damping: float | None = None
) -> list[str]:
    r"""Return warnings if the second half of the records of a sampler is not at equilibrium.

    The kinetic energy per dimension of an exact chain is 1 on average; that of `samplers.sggmc` is
    x / sinh(x) with x = C h. A mean counts as different if it is off by more than a tenth plus
    three standard errors, which assume independent records.

    Each record has some of the numbers of an Info of `samplers.sggmc` or `samplers.gsgnht`:
    `kinetic`, `step_size`, `gradient_noise` and, for a thermostat, `thermostat`. In a sampler with
    `acceptance` a Metropolis test corrects the energy, and only the acceptance rate is checked.
    Without the damping C h the energy should be 1, and the thermostat is not checked.
    """
    half = records[len(records) // 2 :]
    if accepted := _numbers(half, "acceptance"):
        share = float(np.mean(accepted))
        if share >= _LEAST_ACCEPTED:
            return []
        return [f"Only {100 * share:.1f}% of the moves were accepted: use a smaller step size."]
    thermostat = _numbers(half, "thermostat")
    expected = 1.0
    if damping and not thermostat:  # x / sinh(x), which does not overflow
        expected = -2 * damping * math.exp(-damping) / math.expm1(-2 * damping)
    sentences = _energy(_numbers(half, "kinetic"), expected)
    if (noise := _numbers(half, "gradient_noise")) and np.mean(noise) > MOST_NOISE:
        sentences.append(
            f"The noise of the gradient is {np.mean(noise):.3g} of the noise to be injected, and "
            f"should be at most {MOST_NOISE:g}: a smaller step size, more friction or larger "
            "batches reduce it."
        )
    steps = _numbers(half, "step_size")
    if damping is not None and thermostat and steps:
        level = float(np.mean(thermostat) * np.mean(steps)) / damping
        if level > _MOST_FRICTION:
            sentences.append(
                f"The thermostat has raised the friction to {level:.3g} of its setting to absorb "
                "heat: a smaller step size, larger batches or a longer run reduce this."
            )
    return sentences


def _numbers(records: Sequence[Mapping[str, float | None]], name: str) -> list[float]:
    values = (record.get(name) for record in records)
    return [value for value in values if value is not None and math.isfinite(value)]


def _energy(values: list[float], expected: float) -> list[str]:
    """Check a kinetic energy; a single value does not show how much it varies."""
    if len(values) < 2:
        return []
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if abs(mean - expected) <= LARGEST_ENERGY + 3 * error:
        return []
    advice = (
        "It is too hot: a smaller step size, more friction, larger batches or a longer run cool it."
        if mean > expected
        else "It is too cold: more is subtracted from the injected noise than the noise of the "
        "gradient, or the friction is too high: a smaller step size or larger batches help."
    )
    return [
        "The sampler is not at equilibrium: it samples the wrong distribution. Its kinetic energy "
        f"per dimension is {mean:.3g} and should be {expected:.3g}. {advice}"
    ]
