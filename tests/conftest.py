"""Fixtures that every test may use, and `--seed`."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

# A shell in the background starts processes that ignore Ctrl-C, and the library leaves it at that.
signal.signal(signal.SIGINT, signal.default_int_handler)

DEFAULT_SEED = 20260101


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        help="seed of the statistical tests; a correct library fails with a fresh one only at the "
        "rates that the tests state",
    )


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed of the statistical tests: {config.getoption('--seed')}"


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_programs() -> Iterator[None]:
    """Drop the programs that a module compiled.

    Each keeps a few memory maps open; those of the whole suite exceed the 65,530 that Linux allows
    a process, which then crashes in the middle of a compilation.
    """
    yield
    jax.clear_caches()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run, for NumPy generators."""
    return int(request.config.getoption("--seed"))


@pytest.fixture
def getkey(seed: int) -> Callable[[], jax.Array]:
    """A function that returns a fresh JAX key at each call, the same ones in every run."""
    drawn = 0

    def next_key() -> jax.Array:
        nonlocal drawn
        drawn += 1
        return jax.random.fold_in(jax.random.key(seed), drawn)

    return next_key


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora: $SIMPLEX_JAX_DATA, or ../shared/data beside the repository."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SIMPLEX_JAX_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set SIMPLEX_JAX_DATA to run this test")
    return folder
