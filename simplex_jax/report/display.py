"""Numbers as the report shows them; a dash for those that are unknown."""

from simplex_jax.evaluate.diagnostics import finite


def count(number: float | None) -> str:
    """Whole, with commas."""
    return f"{number:,.0f}" if finite(number) else "–"


def counted(number: int, noun: str) -> str:
    """A number of things, the noun in its singular or plural.

    Example:
        >>> counted(1, "document"), counted(2_000, "document")
        ('1 document', '2,000 documents')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """A share in per cent, with a decimal or two significant digits."""
    percent = 100 * share
    return f"{percent:.1f}" if percent >= 1 else f"{percent:.2g}"


def number(value: float | None) -> str:
    """With two significant digits."""
    return f"{value:.2g}" if finite(value) else "–"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours, whichever suits."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def value(entry: object) -> str:
    """Any setting, in short."""
    if isinstance(entry, bool) or entry is None:
        return {True: "yes", False: "no", None: "–"}[entry]
    if isinstance(entry, list | tuple):
        if all(isinstance(part, str) for part in entry):
            return ", ".join(entry)
        return f"{len(entry):,} numbers"
    return f"{entry:.6g}" if isinstance(entry, float) else str(entry)


FILTERS = {f.__name__: f for f in (count, percent, number, duration, value)}
"""The functions by name, for templates."""
