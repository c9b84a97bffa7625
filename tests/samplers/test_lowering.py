"""Every kernel, and the update of every model, lowers for TPU without native code.

They were not run on one. `tests/support/lowered.py` looks for what a TPU has not.
"""

import os
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from support import lowered
from support.contracts import KERNELS
from support.paths import ROOT


@pytest.mark.slow
def test_every_kernel_and_model_lowers_for_tpu():
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "benchmarks")])
    done = subprocess.run(
        [sys.executable, "-m", "support.lowered"],
        env=os.environ | {"SIMPLEX_JAX_NATIVE": "0", "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert not [line for line in lines if len(line) > 1]
    assert {line[0] for line in lines} == {name for _, name in KERNELS} | {
        "lda",
        "hdp",
        "sam",
        "dpm",
    }


def test_what_a_tpu_has_not_is_seen():
    solve = lowered.lowered(jnp.cumsum, np.ones(3, np.float32))
    assert not any(re.search(pattern, solve) for pattern in lowered.ABSENT.values())
    assert re.search(lowered.ABSENT["float64"], "%0 = stablehlo.add %1 : tensor<3xf64>")
    assert re.search(
        lowered.ABSENT["a foreign call"], "stablehlo.custom_call @simplex_jax_gamma(%0)"
    )
