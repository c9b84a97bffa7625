"""Fixtures that every test may use, and `--seed`."""

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest
from compiling import QUICK_FLAGS

from simplex_jax._src.runtime import programs

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


PROGRAMS = "SIMPLEX_JAX_TEST_PROGRAMS"
"""The variable that tells the processes of the tests the folder of compiled programs."""


@pytest.fixture(scope="session", autouse=True)
def keep_compiled_programs() -> None:
    """Keep what the processes of the tests compile on disk until the end of the last of them.

    Compiling is most of their time, and modules compile many programs that others have compiled.
    JAX writes entries in place: one that another process has begun to write is an error to the
    decompression, of which JAX warns, and is compiled once more.
    """
    jax.config.update("jax_compilation_cache_dir", os.environ[PROGRAMS])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the programs of the quick tests as fast as can be; the slow ones as users do.

    The quick tests compile thousands of small programs, which takes most of their time.
    """
    # A process of the tests holds millions of objects, all of which a full collection looks at.
    gc.set_threshold(100_000, 20, 100)
    if config.option.markexpr == "not slow":
        os.environ.setdefault("XLA_FLAGS", QUICK_FLAGS)
    if not hasattr(config, "workerinput"):  # the processes of pytest-xdist inherit the variable
        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        os.environ[PROGRAMS] = folder.name


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed of the statistical tests: {config.getoption('--seed')}"


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_programs() -> Iterator[None]:
    """Drop all compiled programs after a module where they have become too many."""
    yield
    programs.forget_many()


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


@pytest.fixture
def cut():
    """A callback that sends Ctrl-C at its first call, and the steps that it was called at."""
    steps = []

    def once(event):
        steps.append(event.step)
        if len(steps) == 1:
            signal.raise_signal(signal.SIGINT)

    return once, steps
