"""LDA and its topics spread over devices, in a process of its own that has four of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import functools, json, re, unittest.mock, jax, jax.numpy as jnp, numpy as np, scipy.sparse as sp
from simplex_jax._src import base; from simplex_jax import run
from simplex_jax._src.corpus import device
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from simplex_jax._src.draws.native import LIBRARY
from simplex_jax._src.models.lda import model as lda, sharding
from simplex_jax._src.models.lda.seeds import Seeds
from simplex_jax._src.samplers import expanded
from simplex_jax._src.models.lda.kernel import Shard, Source, _evidence
from simplex_jax._src.runtime import driver
from simplex_jax._src import sharded_rows
from simplex_jax._src.runtime.moments import Moments

rng = np.random.default_rng(0)
corpus = device.on_host(sp.csr_array(rng.poisson(0.4, (37, 11)).astype(np.int32)))
found = {}
for name, count, chains, learn in (
    ("one", None, 1, None), ("four", 4, 1, None),
    ("chains on one", None, 2, None), ("chains on two", 2, 2, None),
    ("learned", 2, 1, "learn-asymmetric"),
):
    devices = jax.devices()[:count] if count else None
    options = {"alpha": learn, "beta": "learn"} if learn else {}
    kernel, stream = lda.build(corpus, (3, 11), batch_size=8, devices=devices, **options)
    if chains > 1:
        kernel = base.chains(kernel, chains)
    state = kernel.init(jax.random.key(1), jnp.ones((3, 11)))
    compiled = driver._program()._cache_size()
    state, trace = run(jax.random.key(2), kernel, state, stream, 23, chunk=5)
    memory = state.sampler.memory
    found[name] = {
        "trace": trace[..., :3, :].tolist(),
        "tokens": int(memory.counts.sum()) // chains,
        "alpha": np.asarray(state.alpha).tolist(),
        "devices": len(memory.labels.sharding.device_set),
        "compiled": driver._program()._cache_size() - compiled,
    }

# A weight of 0 is refused by the samplers that it would stop, as on one device.
found["zeros"] = {}
for sampler in ("scir", "sgrhmc", "smld"):
    kernel, _ = lda.build(corpus, (3, 11), sampler=sampler, batch_size=8, devices=jax.devices()[:2])
    try:
        kernel.init(jax.random.key(1), jnp.ones((3, 11)).at[1, 2].set(0))
    except ValueError as error:
        found["zeros"][sampler] = str(error)

# Topics that do not share out evenly, with everything that goes by their rows.
def moved(count, **options):
    devices = jax.devices()[:count] if count else None
    kernel, stream = lda.build(corpus, (5, 11), batch_size=12, devices=devices, **options)
    topics = jax.random.exponential(jax.random.key(7), (5, 11))
    state = kernel.init(jax.random.key(1), topics)
    state, trace = run(jax.random.key(2), kernel, state, stream, 9)
    counted = np.asarray(sharded_rows.gather_rows(state.sampler.memory.counts, 5))
    assert lda.mean_topics(state).shape == (5, 11)
    return trace[:, :5].tolist(), counted.tolist(), state.alpha.tolist(), state.beta.tolist()

found["uneven"] = {
    name: [moved(count, **options) for count in (None, 3, 4)]
    for name, options in {
        "seeds": {"seeds": Seeds(np.array([0, 4, 3]), np.array([1, 2, 3]), np.float32(5.0))},
        "beta": {"beta": np.linspace(0.01, 1, 55, dtype=np.float32).reshape(5, 11)},
        "carried": {"total": "carried"},
        "learned": {"alpha": "learn-asymmetric", "beta": "learn-asymmetric"},
        "others": {"sampler": "sgrld"},
    }.items()
}

# So many that compiled code adds up the words of a part of them in another order.
def wide(count):
    many = device.on_host(sp.csr_array(np.ones((8, 300), np.int32)))
    devices = jax.devices()[:count] if count else None
    kernel, stream = lda.build(many, (50, 300), batch_size=8, devices=devices)
    state = kernel.init(jax.random.key(1), jax.random.exponential(jax.random.key(7), (50, 300)))
    return run(jax.random.key(2), kernel, state, stream, 5)[1][:, :50].tolist()

found["wide"] = [wide(None), wide(4)]

# Documents so short for the topics that those of one device are shorter than those of another.
def short(count):
    lengths = np.random.default_rng(3).integers(1, 25, 101)
    places = np.repeat(np.arange(101), lengths), np.arange(lengths.sum()) * 7 % 300
    ones = np.ones(lengths.sum(), np.int32)
    some = device.on_host(sp.coo_array((ones, places), (101, 300)).tocsr())
    devices = jax.devices()[:count] if count else None
    kernel, stream = lda.build(some, (50, 300), batch_size=64, devices=devices)
    state = kernel.init(jax.random.key(1), jax.random.exponential(jax.random.key(7), (50, 300)))
    return run(jax.random.key(2), kernel, state, stream, 5)[1][:, :50].tolist()

found["short"] = [short(None), short(2), short(4)]

def shapes():
    kernel, _ = lda.build(corpus, (5, 11), batch_size=12, devices=jax.devices())
    state = kernel.init(jax.random.key(1), jnp.ones((5, 11)))
    return sorted(
        {
            piece.data.shape
            for rows in (state.sampler.memory.counts, state.position)
            for piece in rows.addressable_shards
        }
    )

found["counts"] = [shapes()]
if LIBRARY.prefix() is not None:
    with unittest.mock.patch.object(type(LIBRARY), "prefix", lambda *_: None):
        found["counts"].append(shapes())

# Labels are changed where they are, however many there are.
def copies():
    kernel, stream = lda.build(corpus, (5, 11), batch_size=12, devices=jax.devices())
    state = kernel.init(jax.random.key(1), jnp.ones((5, 11)))
    tokens = state.sampler.memory.labels.shape[1]
    def loop(key, state):
        return jax.lax.fori_loop(
            0, 9, lambda i, state: kernel.update(key, state, stream(key, i))[0], state
        )
    text = jax.jit(loop, donate_argnums=1).lower(jax.random.key(2), state).compile().as_text()
    return len(re.findall(rf"= u8\\[(?:1,)?{tokens}\\]\\S* (?:copy|fusion)\\(", text))

found["copies"] = copies()

# Mutants: a draw that forgets what comes before it, in the topics, or in their totals.
def forgotten(rows, own):
    return 0 if own.shape[-1] > 1 else place(rows, own)
def forgotten_in_totals(rows, own):
    return 0 if own.shape[-1] == 1 else place(rows, own)
place = expanded.offset
found["mutants"] = []
for mutant in forgotten, forgotten_in_totals:
    jax.clear_caches()
    with unittest.mock.patch.object(expanded, "offset", mutant):
        found["mutants"].append(moved(4))
jax.clear_caches()
found["no mutant"] = [moved(None), moved(4)]

# Topics large enough that compiled code would round them otherwise.
wide = device.on_host(sp.csr_array(np.ones((8, 3000), np.int32)))
topics, starts = jax.random.exponential(jax.random.key(5), (20, 3000)), []
for devices in (None, jax.devices()):
    spread_out, _ = lda.build(wide, (20, 3000), batch_size=8, devices=devices)
    starts.append(np.asarray(sharding.topics_of(spread_out.init(jax.random.key(1), topics))))
found["same start"] = bool((starts[0] == starts[1]).all())

# Blocked sweeps, whose randomness goes by the place of a token and not by its document.
same = device.on_host(sp.csr_array(np.full((40, 2), 3, np.int32)))
options = {"batch_size": 40, "devices": jax.devices(), "local": "blocked"}
kernel, stream = lda.build(same, (2, 2), **options)
state = kernel.init(jax.random.key(1), jnp.ones((2, 2)))
state, _ = kernel.update(jax.random.key(2), state, stream(jax.random.key(3), state.step))
found["blocked"] = np.asarray(state.sampler.memory.labels).tolist()

# What all documents say about alpha, where every token is of the first topic.
one_word = sp.csr_array(np.arange(1, 38, dtype=np.int32)[:, None])
mesh = Mesh(np.asarray(jax.devices()), ("documents",))
def evidence(dealt, engine, shard=Shard("documents", 4)):
    corpus = dealt if shard is None else jax.tree.map(lambda leaf: leaf[0], dealt)
    labels = jnp.zeros(corpus.tokens.size, jnp.uint8)
    config = lda.configure((2, 1), engine=engine, batch_size=3)
    source = Source(corpus, config, device.size(corpus), shard=shard)
    return _evidence(jax.random.key(0), jnp.ones(2), labels, source)
options = {"mesh": mesh, "in_specs": P("documents"), "out_specs": P(), "check_vma": False}
dealt = device.deal(device.on_host(one_word), mesh)
found["evidence"] = []
for engine in ("xla", None):
    spread = jax.shard_map(functools.partial(evidence, engine=engine), **options)(dealt)
    alone = evidence(device.to_device(one_word), engine, shard=None)
    found["evidence"].append([np.hstack(jax.tree.leaves(x)).tolist() for x in (spread, alone)])

# Moments of topics that devices share, which are saved and restored half way.
samples = rng.random((6, 2, 2, 5, 301)).astype(np.float32)
mesh = Mesh(np.asarray(jax.devices()), ("documents",))
rows = NamedSharding(mesh, P(None, "documents"))
whole, *several = [Moments((2, 5, 301), True, sharding) for sharding in (None, rows, rows)]
for i, (value, variance) in enumerate(samples):
    whole.add(value, variance)
    room = [(0, 0), (0, 3), (0, 0)]
    several[i // 3].add(*(
        jax.device_put(np.pad(x, room), rows) for x in (value, variance)
    ))
    if i == 2:
        several[1].load(several[0].save())
pair = whole, several[1]
found["moments"] = [[x.tolist() for x in (each.mean, *each.pooled())] for each in pair]
found["own moments"] = sorted({piece.data.shape for piece in pair[1]._within.addressable_shards})
print(json.dumps(found))
"""


# The quick one is `test_two_processes_give_the_bits_of_one`.
pytestmark = pytest.mark.slow

ENVIRONMENT = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
RUNS = ("one", "four", "chains on one", "chains on two", "learned")


@pytest.fixture(scope="module")
def result():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_devices_change_no_sample(result):
    assert result["four"]["trace"] == result["one"]["trace"]
    assert result["chains on two"]["trace"] == result["chains on one"]["trace"]


def test_a_start_at_zero_is_refused_as_on_one_device(result):
    assert set(result["zeros"]) == {"sgrhmc", "smld"}
    assert all("positive everywhere" in error for error in result["zeros"].values())


def test_topics_are_shared_unevenly_without_changing_a_bit(result):
    for name, (one, *several) in result["uneven"].items():
        assert several == [one] * 2, name
    one, several = result["wide"]
    assert one == several
    one, *several = result["short"]
    assert several == [one] * 2
    one, several = result["no mutant"]
    assert one == several


def test_a_draw_that_forgets_its_place_is_seen(result):
    if len(result["counts"]) == 1:
        pytest.skip("without native code the topics are not shared")
    one, _ = result["no mutant"]
    assert all(mutant != one for mutant in result["mutants"])


def test_topics_are_shared_where_native_code_draws(result):
    *native, xla = result["counts"]
    assert xla == [[5, 11]]
    assert native in ([], [[[2, 11]]])


def test_an_update_copies_no_label(result):
    if len(result["counts"]) == 1:
        pytest.skip("sweeps by XLA do")
    assert result["copies"] <= 1, "more than the copy before the loop"


def test_devices_share_moments_without_changing_a_bit(result):
    one, several = result["moments"]
    assert one == several
    assert result["own moments"] == [[2, 2, 301]]


def test_the_program_moves_what_is_predicted():
    script = Path(__file__).parents[3] / "benchmarks" / "lda_traffic.py"
    command = [sys.executable, script, "--topics", "5", "--words", "70"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["devices"] for row in rows] == [4] * 3
    for row in rows:
        assert row["compiled"] == row["predicted"]


def test_labels_stay_where_their_documents_are(result):
    assert [result[name]["devices"] for name in ("one", "chains on two", "four")] == [1, 2, 4]
    assert all(result[name]["compiled"] == 1 for name in RUNS)


def test_every_token_is_counted(result):
    tokens = {result[name]["tokens"] for name in RUNS}
    assert len(tokens) == 1
    assert min(tokens) > 100


def test_devices_start_at_the_same_topics(result):
    assert result["same start"]


def test_alpha_is_learned_from_all_shards(result):
    alpha = result["learned"]["alpha"]
    assert len(set(alpha)) == 3
    assert all(0 < value < 20 for value in alpha)
    for spread, alone in result["evidence"]:
        assert spread == alone
        first, none, log_x = spread
        assert 37 < first < 37 * 38 / 2
        assert (none, log_x < 0) == (0, True)


def test_blocked_sweeps_of_devices_are_independent(result):
    """Ten documents alike on each of four devices: they agree by chance once in 2^60."""
    assert len({tuple(labels) for labels in result["blocked"]}) == 4
