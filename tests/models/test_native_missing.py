"""A package without native code says so at the first fit, and how to get it."""

import shutil
import subprocess
import sys
from pathlib import Path

import simplex_jax

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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("OTHER", other)],
        cwd=folder,
        env={"PATH": "", "JAX_PLATFORMS": "cpu"} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().splitlines()


def test_a_checkout_without_native_code_is_named_once(tmp_path):
    package = Path(simplex_jax.__file__).parent
    libraries = shutil.ignore_patterns("_library*", "_cuda*", "__pycache__")
    shutil.copytree(package, tmp_path / "simplex_jax", ignore=libraries)
    (line,) = said(tmp_path, "hdp.fit(counts, passes=2)")
    assert f"it was imported from {tmp_path / 'simplex_jax'}, which has none" in line
    assert "to install the package again" in line
    assert "a C++ compiler" in line
    (tmp_path / "setup.py").touch()
    (line,) = said(tmp_path)
    assert f"'pip install -e {tmp_path}' builds it" in line
    assert said(tmp_path, SIMPLEX_JAX_NATIVE="0") == []
