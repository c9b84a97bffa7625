"""LDA spread over devices, in a process of its own that has four of them."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, jax, jax.numpy as jnp, numpy as np, scipy.sparse as sp
from simplex_jax import base, run
from simplex_jax.corpus import device
from simplex_jax.models import lda
from simplex_jax.runtime import driver

rng = np.random.default_rng(0)
corpus = device.to_device(sp.csr_array(rng.poisson(0.4, (37, 11)).astype(np.int32)))
found = {}
for name, count, chains, learn in (
    ("one", 1, 1, None), ("two", 2, 1, None), ("four", 4, 1, None),
    ("chains on one", 1, 3, None), ("chains on two", 2, 3, None), ("learned", 2, 1, "vector"),
):
    devices = jax.devices()[:count]
    options = {"learn_alpha": learn, "learn_beta": learn and "symmetric"}
    kernel, stream = lda.build(corpus, (3, 11), batch_size=8, devices=devices, **options)
    if chains > 1:
        kernel = base.chains(kernel, chains)
    state = kernel.init(jax.random.key(1), jnp.ones((3, 11)))
    compiled = driver._advance._cache_size()
    state, trace = run(jax.random.key(2), kernel, state, stream, 23, chunk=5)
    memory = state.sampler.memory
    found[name] = {
        "trace": trace.tolist(),
        "tokens": int(memory.counts.sum()) // chains,
        "alpha": np.asarray(state.alpha).tolist(),
        "devices": len(memory.labels.sharding.device_set),
        "compiled": driver._advance._cache_size() - compiled,
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_devices_change_no_sample(found):
    assert found["two"]["trace"] == found["one"]["trace"]
    assert found["four"]["trace"] == found["one"]["trace"]
    assert found["chains on two"]["trace"] == found["chains on one"]["trace"]


def test_labels_stay_where_their_documents_are(found):
    assert [found[name]["devices"] for name in ("one", "two", "four")] == [1, 2, 4]
    assert found["chains on two"]["devices"] == 2
    assert all(run["compiled"] == 1 for run in found.values())


def test_every_token_is_counted(found):
    tokens = {run["tokens"] for run in found.values()}
    assert len(tokens) == 1
    assert min(tokens) > 100


def test_alpha_is_learned_from_all_shards(found):
    alpha = found["learned"]["alpha"]
    assert len(set(alpha)) == 3
    assert all(0 < value < 20 for value in alpha)
