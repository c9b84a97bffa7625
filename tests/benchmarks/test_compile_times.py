"""Programs do not grow unseen: instructions take time to compile, and counting them takes none."""

import compile_times
import kept
import pytest
from support import native_code
from support.marks import slow_but

from simplex_jax.draws import native

KEPT = kept.read(kept.RESULTS / "compile_times.json")["rows"]
COUNTS = {row["program"]: row["instructions"] for row in KEPT if "instructions" in row}
# Of those that users compile most; each is lowered in a second or less.
QUICK = ("scir", "sgrld", "sgrhmc", "SCIR, one simplex", "SCIR, factorisation")
# Versions of JAX lower a program to more or fewer instructions. A draw by XLA has 1,500 of them.
ROOM = 1.2


def test_all_programs_are_kept():
    assert COUNTS.keys() == compile_times.UPDATES.keys()


@pytest.mark.parametrize("name", slow_but(list(compile_times.UPDATES), *QUICK))
def test_programs_are_no_larger_than_kept_ones(name):
    native_code.needs(native.LIBRARY)
    assert compile_times.instructions(compile_times.UPDATES[name]()) <= ROOM * COUNTS[name]
