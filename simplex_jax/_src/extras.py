"""Packages that a plain install leaves out."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(what: str, extra: str = "topics") -> Iterator[None]:
    """Import packages of an extra in the block.

    Args:
        what: What needs them, as the subject of a sentence.
        extra: The extra in `pyproject.toml` that installs them.

    Raises:
        ImportError: A package is missing; the message has the command that installs the extra.

    Example:
        >>> with needed("drawing", "topics"):
        ...     import no_such_package
        Traceback (most recent call last):
        ImportError: drawing needs no_such_package: pip install 'simplex-jax[topics]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        command = f"pip install 'simplex-jax[{extra}]'"
        raise ImportError(f"{what} needs {package}: {command}", name=error.name) from None
