"""Programs do not grow unseen: instructions take time to compile, and counting them takes none."""

import compile_times
import jax
import kept
import pytest
from support import native_code
from support.marks import slow_but

from simplex_jax._src.draws import native

RESULT = kept.read(kept.RESULTS / "compile_times.json")
KEPT, VERSION = RESULT["rows"], RESULT["about"]["versions"]["jax"]
COUNTS = {row["program"]: row["instructions"] for row in KEPT if "instructions" in row}
PROGRAMS = {row["program"]: row["programs"] for row in KEPT if "programs" in row}
# Of those that users compile most; each is lowered in a second or less.
QUICK = ("scir", "sgrld", "sgrhmc", "SCIR, one simplex", "SCIR, factorisation")
ROOM = 1.2  # a draw by XLA in place of a native one has 1,500 instructions more

# lgamma, for one, is a single instruction as jax 0.10 lowers it, and a function of many in 0.12.
as_kept = pytest.mark.skipif(jax.__version__ != VERSION, reason=f"kept with jax {VERSION}")


def test_all_programs_are_kept():
    assert COUNTS.keys() == compile_times.UPDATES.keys() | compile_times.FITS.keys()


@as_kept
@pytest.mark.parametrize("name", slow_but(list(compile_times.UPDATES), *QUICK))
def test_programs_are_no_larger_than_kept_ones(name):
    native_code.needs(native.LIBRARY)
    assert compile_times.instructions(compile_times.UPDATES[name]()) <= ROOM * COUNTS[name]


@as_kept
@pytest.mark.slow
@pytest.mark.parametrize("name", compile_times.FITS)
def test_fits_compile_no_more_than_kept_ones_and_nothing_twice(name):
    native_code.needs(native.LIBRARY)
    result = compile_times.calls(compile_times.FITS[name])
    assert result["programs"] <= ROOM * PROGRAMS[name]
    assert result["instructions"] <= ROOM * COUNTS[name]
    assert result["again"] == 0


@pytest.mark.slow
def test_a_program_that_is_compiled_twice_is_seen():
    # As a fit that passes a new lambda each time: its program is another one to JAX.
    result = compile_times.calls(lambda: jax.jit(lambda x: x + 1)(1.0))
    assert result["again"] == 1
