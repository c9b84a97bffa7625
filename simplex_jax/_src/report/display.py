"""Formatting of numbers in the report; unknown ones are dashes."""

from simplex_jax._src.evaluate.diagnostics import finite


def count(number: float | None) -> str:
    """Format as a whole number, with commas."""
    return f"{number:,.0f}" if finite(number) else "–"


def counted(number: int, noun: str) -> str:
    """Format a number of things, with the noun in the singular or plural.

    Example:
        >>> counted(1, "document"), counted(2_000, "document")
        ('1 document', '2,000 documents')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """Format a share in per cent, with one decimal or two significant digits."""
    percent = 100 * share
    return f"{percent:.1f}" if abs(percent) >= 0.995 else f"{percent:#.2g}"


def number(value: float | None) -> str:
    """Format with two significant digits."""
    if not finite(value):
        return "–"
    short = f"{value:.2g}"
    return f"{float(short):,.0f}" if 100 <= abs(float(short)) < 1e7 else short


def duration(seconds: float | None) -> str:
    """Format as seconds, minutes or hours."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def value(entry: object) -> str:
    """Format any setting, briefly."""
    if isinstance(entry, bool) or entry is None:
        return {True: "yes", False: "no", None: "–"}[entry]
    if isinstance(entry, list | tuple):
        if all(isinstance(part, str) for part in entry):
            return ", ".join(entry)
        return f"{len(entry):,} numbers"
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


FILTERS = {f.__name__: f for f in (count, percent, number, duration, value)}
"""Template filters by name."""
