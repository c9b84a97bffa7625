"""Chains of the numpyro kernels side by side on devices, in a process that has two of them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from support.paths import TESTS

SCRIPT = """
import json
from functools import partial
import jax, jax.numpy as jnp, numpy as np
from numpyro.infer import MCMC
from support import numpyro_cases as cases
from simplex_jax._src.numpyro.scir import SCIR
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import sgrld

x, found = jnp.asarray(cases.POINTS, jnp.float32), {}
kernels = {
    "SCIR": lambda: SCIR(cases.mixture),
    "SGMCMC": lambda: SGMCMC(cases.mixture, partial(sgrld.build, step_size=0.01)),
}
for name, kernel in kernels.items():
    for method in ("parallel", "sequential"):
        mcmc = MCMC(kernel(), num_warmup=4, num_samples=6, num_chains=2, chain_method=method,
                    progress_bar=False)
        mcmc.run(jax.random.key(0), x)
        found[f"{name} {method}"] = mcmc.get_samples(group_by_chain=True)["w"].tolist()
print(json.dumps([jax.local_device_count(), found]))
"""


@pytest.mark.slow
def test_parallel_chains_are_those_of_one_device() -> None:
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(TESTS),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    devices, result = json.loads(done.stdout.splitlines()[-1])
    assert devices == 2
    for name in ("SCIR", "SGMCMC"):
        np.testing.assert_allclose(
            result[f"{name} parallel"], result[f"{name} sequential"], rtol=1e-3, atol=1e-5
        )
