"""Compiled programs: the same bits from disk, whatever happens to the folder; not too many."""

import os
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

from simplex_jax import lda
from simplex_jax._src.runtime import programs
from simplex_jax._src.runtime.programs import Programs

FIT = ("lda", "--passes", "2", "--topics", "3", "--holdout", "0", "--keep-samples", "1", "--quiet")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "programs" / "key"


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_programs_come_back_by_their_keys(folder):
    kept = Programs(folder)
    assert kept.get("jit_f-1") is None
    kept.put("jit_f-1", b"one")
    kept.put("jit_<lambda>/..-2", b"two")
    assert Programs(folder).get("jit_f-1") == b"one"
    assert kept.get("jit_<lambda>/..-2") == b"two"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(files(folder)) == 2


@pytest.mark.parametrize("change", [b"", b"\0" * 40, None])
def test_a_damaged_program_is_left_out_and_written_again(folder, change):
    kept = Programs(folder)
    kept.put("a", b"program of some length")
    (path,) = files(folder)
    path.write_bytes(path.read_bytes()[:-1] if change is None else change)
    assert kept.get("a") is None
    assert not files(folder)
    kept.put("a", b"program")
    assert kept.get("a") == b"program"


def test_a_program_under_another_key_is_left_out(folder):
    kept = Programs(folder)
    kept.put("a", b"program")
    (path,) = files(folder)
    kept.put("b", b"other")
    (other,) = set(files(folder)) - {path}
    other.write_bytes(path.read_bytes())
    assert kept.get("b") is None


def test_a_folder_that_others_can_write_to_is_not_used(folder):
    kept = Programs(folder)
    kept.put("a", b"program")
    folder.chmod(0o777)
    assert kept.get("a") is None
    kept.put("b", b"program")
    assert len(files(folder)) == 1


@pytest.mark.parametrize("place", ["/dev/null/programs/key", "/proc/no/such/folder"])
def test_a_folder_that_cannot_be_made_is_harmless(place):
    kept = Programs(programs.Path(place))
    kept.put("a", b"program")
    assert kept.get("a") is None


def test_the_least_recently_used_go_first(folder):
    kept = Programs(folder)
    for number in range(10):
        kept.put(str(number), bytes(1000))
        os.utime(folder / kept._file(str(number)).name, (number, number))
    kept.get("0")
    earlier = folder.parent / "earlier version"
    earlier.mkdir()
    (earlier / "old").write_bytes(bytes(1000))
    os.utime(earlier / "old", (0, 0))
    programs.shrink(folder.parent, 5000)
    left = [number for number in range(10) if kept.get(str(number)) is not None]
    assert left == [0, 9]
    assert not earlier.exists()


def test_writing_keeps_the_bound(folder):
    kept = Programs(folder, most=100_000)
    for number in range(300):
        kept.put(str(number), bytes(1000))
    assert sum(path.stat().st_size for path in files(folder)) < 2 * 100_000
    assert kept.get("299") is not None


def test_several_may_write_and_read_at_once(folder):
    """A reader sees all of a program or nothing."""
    kept, wrong = Programs(folder), []
    program = os.urandom(200_000)

    def work():
        for number in range(20):
            kept.put(str(number % 3), program)
            if kept.get(str(number % 3)) != program:
                wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(files(folder)) == 3, "no leftovers"


def test_the_digest_changes_with_native_code_and_cpu(monkeypatch, tmp_path):
    before = programs.digest()
    assert programs.digest() == before
    with monkeypatch.context() as patch:
        patch.setattr(programs, "_cpu", lambda: ["flags: another"])
        assert programs.digest() != before
    place = tmp_path / "models" / "native"
    place.mkdir(parents=True)
    monkeypatch.setattr(programs, "__file__", str(tmp_path / "runtime" / "programs.py"))
    (place / "_library.so").write_bytes(b"one")
    first = programs.digest()
    (place / "_library.so").write_bytes(b"two")
    assert programs.digest() != first


def run(tmp_path, name, *, setup="", **variables):
    """Fit in another process, and return the bytes of its topics and its messages."""
    program = f"import sys; {setup}\nfrom simplex_jax.__main__ import main; main()"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "caches")} | variables
    command = [sys.executable, "-c", program, *FIT, "--out", str(tmp_path / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return (tmp_path / name / "topics.npz").read_bytes(), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="caches are elsewhere")
def test_a_second_command_compiles_nothing_and_has_the_same_bits(tmp_path):
    """Also without the folder, with damaged programs in it, and with a cache of the user's own."""
    first, _ = run(tmp_path, "first")
    kept = files(tmp_path / "caches")
    assert len(kept) > 20
    refuse = (
        "from jax._src import compiler\n"
        "def refuse(*given): raise ValueError('it compiles')\n"
        "compiler._compile_and_write_cache = refuse"
    )
    assert run(tmp_path, "second", setup=refuse)[0] == first
    for path in kept:
        path.write_bytes(path.read_bytes()[:-10])
    damaged, messages = run(tmp_path, "damaged")
    assert damaged == first
    assert not messages
    assert files(tmp_path / "caches") == kept
    own = tmp_path / "own"
    variables = {
        "JAX_COMPILATION_CACHE_DIR": str(own),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    assert run(tmp_path, "own run", XDG_CACHE_HOME=str(tmp_path / "none"), **variables)[0] == first
    assert files(own)
    off = {"SIMPLEX_JAX_PROGRAMS": "0", "XDG_CACHE_HOME": str(tmp_path / "none")}
    assert run(tmp_path, "off", **off)[0] == first
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts memory maps of Linux")
def test_a_fit_drops_the_programs_of_earlier_ones_if_they_are_too_many(monkeypatch):
    """With 65,530 memory maps, as after some 30 mixtures of other shapes, LLVM ends the process."""
    double = jax.jit(lambda x: 2 * x)
    for most, kept in ((10**9, 1), (0, 0)):
        monkeypatch.setattr(programs, "MOST_MAPS", most)
        double(1.0)
        lda.fit(np.eye(4, dtype=int), 2, steps=1, holdout=0)
        assert double._cache_size() == kept


def test_quick_options_are_for_cpus_and_yield_to_flags(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    options = programs.quick_options()
    assert options["xla_backend_optimization_level"] == 1
    assert jax.jit(lambda x: x + 1, compiler_options=options)(1.0) == 2.0
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=2")
    assert "xla_backend_optimization_level" not in programs.quick_options()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.delenv("XLA_FLAGS")
    assert programs.quick_options() == {}
