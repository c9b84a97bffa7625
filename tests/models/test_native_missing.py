"""A package without native code says so at the first fit, and how to get it."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import simplex_jax
from simplex_jax._src.draws.native import LIBRARY as DRAWS
from simplex_jax._src.models import lda, pipeline
from simplex_jax._src.models.topics import engine
from simplex_jax._src.models.topics.native import library as topics
from simplex_jax._src.native import library as native
from simplex_jax._src.native.library import NativeCodeWarning

PROGRAM = """
import warnings
import numpy as np
from simplex_jax import hdp, lda
from simplex_jax._src.native.library import NativeCodeWarning

counts = np.eye(4, dtype=int)[[0, 1, 2, 3] * 5] + 1
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    lda.fit(counts, 2, passes=2)
    lda.fit(counts, 2, passes=2)
    OTHER
print(*[one.message for one in caught if one.category is NativeCodeWarning], sep="\\n")
"""


def said(folder, other="", **variables):
    # The processes compile the same sweeps by XLA, as fast as the tests and once.
    compiling = {
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "JAX_COMPILATION_CACHE_DIR": os.environ["SIMPLEX_JAX_TEST_PROGRAMS"],
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("OTHER", other)],
        cwd=folder,
        env={"PATH": "", "JAX_PLATFORMS": "cpu"} | compiling | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().splitlines()


@pytest.mark.slow
def test_a_checkout_without_native_code_is_named_once(tmp_path):
    package = Path(simplex_jax.__file__).parent
    libraries = shutil.ignore_patterns("_library*", "_cuda*", "__pycache__")
    shutil.copytree(package, tmp_path / "simplex_jax", ignore=libraries)
    (line,) = said(tmp_path, "hdp.fit(counts, passes=2)")
    assert f"imported from {tmp_path / 'simplex_jax'}, " in line
    assert "install the package" in line
    assert "a C++ compiler" in line
    (tmp_path / "setup.py").touch()
    (line,) = said(tmp_path)
    assert f"'pip install -e {tmp_path}' builds it" in line
    assert said(tmp_path, SIMPLEX_JAX_NATIVE="0") == []


@pytest.mark.slow
@pytest.mark.parametrize("library", ["draws", "models/topics"])
@pytest.mark.parametrize("broken", [True, False])
def test_native_code_that_is_missing_in_part_or_does_not_load_is_named(library, broken, tmp_path):
    package = tmp_path / "simplex_jax"
    shutil.copytree(Path(simplex_jax.__file__).parent, package, symlinks=True)
    file = package / "_src" / library / "native" / "_library.so"
    if not file.exists():
        pytest.skip("there is no native code here")
    file.unlink()
    if broken:
        file.touch()
    (line,) = said(tmp_path)
    assert "some 7 times slower" in line
    place = file if broken else package if library == "draws" else file.parent
    assert str(place) in line
    assert ("another version or" in line) == broken


@pytest.mark.parametrize("broken", [True, False])
def test_native_code_of_topics_alone_is_missed(broken, tmp_path, monkeypatch):
    if DRAWS.prefix() is None or jax.default_backend() != "cpu":
        pytest.skip("other code is missing, too, or not needed")
    if broken:
        (tmp_path / "_library.so").touch()
    monkeypatch.setattr(topics, "LIBRARY", dataclasses.replace(topics.LIBRARY, folder=tmp_path))
    monkeypatch.setattr(native, "_warn", native._warn.__wrapped__)  # once for each test
    what = r"_library\.so .*another version" if broken else "has none"
    with pytest.warns(NativeCodeWarning, match=f"{tmp_path}.*{what}"):
        assert engine.resolve() == "xla"


@pytest.mark.slow
def test_native_code_of_another_machine_is_missed(tmp_path, monkeypatch):
    (tmp_path / "_library.so").touch()
    monkeypatch.setattr(pipeline, "LIBRARY", dataclasses.replace(DRAWS, folder=tmp_path))
    monkeypatch.setattr(native, "_warn", native._warn.__wrapped__)
    with pytest.warns(NativeCodeWarning, match=r"_library\.so is of"):
        lda.fit(np.eye(4, dtype=int) + 1, 2, passes=1, engine="xla")
