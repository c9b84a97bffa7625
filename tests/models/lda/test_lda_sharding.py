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
from jax.sharding import Mesh, PartitionSpec as P
from simplex_jax.models.lda import model as lda, counts
from simplex_jax.models.lda.kernel import Learner, _evidence
from simplex_jax.runtime import driver

rng = np.random.default_rng(0)
corpus = device.on_host(sp.csr_array(rng.poisson(0.4, (37, 11)).astype(np.int32)))
found = {}
for name, count, chains, learn in (
    ("one", None, 1, None), ("four", 4, 1, None),
    ("chains on one", None, 2, None), ("chains on two", 2, 2, None), ("learned", 2, 1, "vector"),
):
    devices = jax.devices()[:count] if count else None
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

# Topics large enough that compiled code would round them otherwise.
wide = device.on_host(sp.csr_array(np.ones((8, 3000), np.int32)))
topics, starts = jax.random.exponential(jax.random.key(5), (20, 3000)), []
for devices in (None, jax.devices()):
    spread_out, _ = lda.build(wide, (20, 3000), batch_size=8, devices=devices)
    starts.append(np.asarray(spread_out.init(jax.random.key(1), topics).position))
found["same start"] = bool((starts[0] == starts[1]).all())

# Blocked sweeps, whose randomness goes by the place of a token and not by its document.
same = device.on_host(sp.csr_array(np.full((40, 2), 3, np.int32)))
options = {"batch_size": 40, "devices": jax.devices(), "local_step": counts.Local("blocked")}
kernel, stream = lda.build(same, (2, 2), **options)
state = kernel.init(jax.random.key(1), jnp.ones((2, 2)))
state, _ = kernel.update(jax.random.key(2), state, stream(jax.random.key(3), state.step))
found["blocked"] = np.asarray(state.sampler.memory.labels).tolist()

# Documents of one word: their tables are their tokens, whatever is drawn.
ones = device.on_host(sp.csr_array(np.ones((37, 1), np.int32)))
mesh = Mesh(np.asarray(jax.devices()), ("documents",))
labels = jnp.zeros((4, 10), jnp.uint8)
def evidence(dealt, labels):
    corpus = jax.tree.map(lambda leaf: leaf[0], dealt)
    shard = counts.Shard("documents", 4)
    learner = Learner(corpus=corpus, means=None, learn_alpha=None, learn_beta=None,
        batch_size=3, shard=shard)
    return _evidence(jax.random.key(0), jnp.ones(2), labels[0], learner)
spread = jax.shard_map(evidence, mesh=mesh, in_specs=P("documents"), out_specs=P(), check_vma=False)
found["tables"] = np.asarray(spread(device.deal(ones, mesh), labels).tables).tolist()
print(json.dumps(found))
"""


# The quick one is `test_two_processes_give_the_bits_of_one`.
pytestmark = pytest.mark.slow

RUNS = ("one", "four", "chains on one", "chains on two", "learned")


@pytest.fixture(scope="module")
def found():
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_devices_change_no_sample(found):
    assert found["four"]["trace"] == found["one"]["trace"]
    assert found["chains on two"]["trace"] == found["chains on one"]["trace"]


def test_labels_stay_where_their_documents_are(found):
    assert [found[name]["devices"] for name in ("one", "chains on two", "four")] == [1, 2, 4]
    assert all(found[name]["compiled"] == 1 for name in RUNS)


def test_every_token_is_counted(found):
    tokens = {found[name]["tokens"] for name in RUNS}
    assert len(tokens) == 1
    assert min(tokens) > 100


def test_devices_start_at_the_same_topics(found):
    assert found["same start"]


def test_alpha_is_learned_from_all_shards(found):
    alpha = found["learned"]["alpha"]
    assert len(set(alpha)) == 3
    assert all(0 < value < 20 for value in alpha)
    assert found["tables"] == [37, 0]


def test_blocked_sweeps_of_devices_are_independent(found):
    """Ten documents alike on each of four devices: they agree by chance once in 2^60."""
    assert len({tuple(labels) for labels in found["blocked"]}) == 4
