"""Is a kernel exactly invariant? The sequential test of Gandy and Scott (2021, arXiv:2001.06465).

Exact draws of the target are passed through the kernel; if it is exact they stay exact draws. A
test of the distribution is repeated with more samples while its smallest p-value is neither small
nor large. This bounds the chance of a false alarm (1e-5) for free seeds, and still finds a slightly
wrong kernel.
"""

from collections.abc import Callable, Mapping

Checks = Callable[[int], Mapping[object, float]]
"""`(number of samples) -> p-values`, from fresh samples at every call."""


def rejects(
    checks: Checks, *, samples: int = 1000, growth: int = 4, rounds: int = 7, level: float = 1e-5
) -> dict[object, float]:
    """Return the failed checks, empty for a kernel that passes.

    The chance that a correct kernel is rejected is at most `level`: every round has the same share
    of it, and since a round continues with probability at most gamma, a later round may reject at
    beta / gamma (Gandy and Scott 2021, algorithm 1).

    Args:
        checks: Draws a number of samples and tests them.
        samples: Samples of the first round. A wrong kernel whose p-values are not small there
            passes at once, so start with enough for the smallest mutant.
        growth: Factor from the first round to the second; later rounds keep that size.
        rounds: Largest number of rounds.
        level: Bound on the chance of a false rejection.
    """
    beta = level / rounds
    gamma = beta ** (1 / rounds)
    for turn in range(rounds):
        p_values = checks(samples)
        # Bonferroni; the minimum of dependent p-values needs no more.
        worst = min(p_values, key=lambda name: p_values[name])
        q = len(p_values) * p_values[worst]
        if not q > beta:
            return {name: p for name, p in p_values.items() if not len(p_values) * p > beta}
        if q > gamma + beta:
            return {}
        beta /= gamma
        if turn == 0:
            samples *= growth
    return {}
