"""What a store gives back: the same bits, or one clear error."""

import json
import os
import subprocess
import sys
import tracemalloc
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from simplex_jax._src.runtime.checkpoint import (
    ANY,
    MAPPED,
    CheckpointError,
    CheckpointWarning,
    Store,
    store,
)

ABOUT = {"num_topics": 10, "alpha": (0.1, 0.2), "corpus": {"digest": "ab12", "words": 50}}


class State(NamedTuple):
    position: jax.Array
    step: jax.Array
    key: jax.Array
    inner: dict


@jax.tree_util.register_pytree_with_keys_class
class Twins:
    def __init__(self, *twins):
        self.twins = twins

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("twin"), twin) for twin in self.twins], None

    @classmethod
    def tree_unflatten(cls, aux, twins):
        return cls(*twins)


def state(seed=0, words=50):
    rng = np.random.default_rng(seed)
    return State(
        position=jnp.asarray(rng.normal(size=(10, words)), jnp.float32),
        step=jnp.int32(7),
        key=jax.random.split(jax.random.key(seed, impl="rbg"), 3),
        inner={"labels": jnp.asarray(rng.integers(0, 10, 99), jnp.uint8), "pair": (1.5, None)},
    )


def bits(tree):
    """A pytree with every array as dtype, shape and bytes."""

    def plain(leaf):
        if jnp.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            return str(jax.random.key_impl(leaf)), plain(jax.random.key_data(leaf))
        array = np.asarray(leaf)
        return array.dtype.name, array.shape, array.tobytes()

    return jax.tree.map(plain, tree)


def test_a_state_comes_back_bit_for_bit(tmp_path):
    store = Store(tmp_path / "a" / "b")
    assert store.latest(state(), ABOUT) is None
    path = store.save(7, state(), ABOUT)
    assert path.name == "000001-step-7"
    saved = store.latest(state(1), ABOUT)
    assert saved.step == 7
    assert bits(saved.tree) == bits(state())
    assert isinstance(saved.tree.position, jax.Array)
    assert saved.tree.inner["pair"] == (1.5, None)
    assert saved.about["alpha"] == [0.1, 0.2]
    shapes = jax.eval_shape(lambda: state()._replace(inner={}))
    shapes = shapes._replace(inner=ANY)
    again = store.latest(shapes, ABOUT).tree
    assert bits(again[:3]) == bits(state()[:3])
    assert again.inner["pair"] == [1.5, None]


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.0, -0.0, np.nan, np.inf, 1e-45], np.float32),
        np.float64(np.pi),
        np.arange(5, dtype=np.uint8),
        np.arange(-3, 3, dtype=np.int64),
        np.array(True),
        np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16),
        np.arange(6, dtype=np.float16)[::-2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3), np.float32),
        np.zeros((2, 0), ml_dtypes.bfloat16),
        np.array([1 + 2j], np.complex64),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_arrays_of_all_kinds(tmp_path, array):
    store = Store(tmp_path)
    store.save(0, {"x": array}, {})
    back = store.latest({"x": array}, {}).tree["x"]
    assert isinstance(back, np.ndarray)
    assert bits(back) == bits(array)
    assert bits(store.latest({"x": ANY}, {}).tree) == bits({"x": array})


def test_an_array_that_stays_in_its_file_takes_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_PIECE", 2**16)
    large, small = np.arange(2**22, dtype=np.uint16).reshape(4, -1), np.arange(3.0)
    Store(tmp_path).save(0, {"x": large, "y": small}, {})
    tracemalloc.start()
    back = Store(tmp_path).latest({"x": MAPPED, "y": small}, {}).tree
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < large.nbytes / 8
    assert bits(back["y"]) == bits(small)
    assert (back["x"].shape, back["x"].dtype) == (large.shape, large.dtype)
    assert list(back["x"].parts) == [(0, 0)]
    assert bits(back["x"].parts[0, 0]) == bits(back["x"].whole()) == bits(large)


def test_foreign_byte_order_becomes_native(tmp_path):
    Store(tmp_path).save(0, np.arange(4, dtype=">i4"), {})
    back = Store(tmp_path).latest(ANY, {}).tree
    assert back.dtype == np.int32
    assert back.tolist() == [0, 1, 2, 3]


def test_plain_values_and_any_shape(tmp_path):
    tree = {
        "records": [{"step": 5, "loss": 2.5}, {"step": 6, "loss": float("inf"), "note": "ß\n"}],
        "none": None,
        "empty": [],
        "nothing": {},
        "big": 2**70,
        "flag": True,
        "exact": 0.1 + 0.2,
        "arrays": [np.arange(3), {"a": np.float32(1.5)}],
        "a/b": 1,
        "a": {"b": 2, "[0]": 3, "~1": 4, "'a/b'": 5},
        "many": {"[0]": 0},
    }
    store = Store(tmp_path)
    store.save(0, {"hook": tree}, {})
    back = store.latest({"hook": ANY}, {}).tree["hook"]
    arrays = back.pop("arrays")
    assert back == {name: tree[name] for name in tree if name != "arrays"}
    assert bits(arrays) == bits(tree["arrays"])
    for plain in ([], {}, {"only": {"plain": 1}}, 5):
        store.save(1, plain, {})
        assert store.latest(ANY, {}).tree == plain
    with pytest.raises(CheckpointError, match=r"the tree .* int32 \[\] "):
        store.latest(jnp.int32(5), {})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": np.array(["x"])}}, "cannot save a/b, an array of <U1"),
        ({"a": object()}, "a, object"),
        ([np.array([None])], r"cannot save \[0\]"),
        (Twins(1, 2), "'twin'"),
    ],
    ids=["strings", "object", "objects", "twins"],
)
def test_what_cannot_be_saved_is_named(tmp_path, tree, message):
    with pytest.raises(CheckpointError, match=message):
        Store(tmp_path).save(0, tree, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({**ABOUT, "num_topics": 20}, r"num_topics is 10 .* 20 in this run"),
        ({**ABOUT, "alpha": [0.1, 0.3]}, r"alpha is \[0.1, 0.2\] .* \[0.1, 0.3\]"),
        ({**ABOUT, "corpus": {"digest": "cd", "words": 50}}, "corpus.digest is 'ab12'"),
        ({**ABOUT, "beta": 0.05}, r"beta .* 0.05"),
        ({"num_topics": 10}, r"alpha is \[0\.1, 0\.2\] .*; corpus is"),
        ({**ABOUT, "num_topics": True}, "num_topics is 10"),
    ],
)
def test_another_run_is_named(tmp_path, about, message):
    Store(tmp_path).save(3, state(), ABOUT)
    with pytest.raises(CheckpointError, match=message) as caught:
        Store(tmp_path).latest(state(), about)
    assert "\n" not in str(caught.value)
    assert "000001-step-3' is not" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"position": jnp.zeros((20, 50))},
            r"position is float32 \[10, 50\] .* float32 \[20, 50\]",
        ),
        ({"position": jnp.zeros((10, 50), jnp.bfloat16)}, r"position is float32 .* bfloat16"),
        ({"key": jax.random.split(jax.random.key(0), 3)}, r"rbg keys .* and threefry2x32 keys"),
        ({"key": jnp.zeros((3, 4), jnp.uint32)}, r"key is rbg .* uint32 \[3, 4\]"),
        ({"step": 7}, r"step is int32 \[\] .*plain value"),
        (
            {"inner": {}},
            r"inner/labels is uint8 .*; inner is absent",
        ),
        (
            {"inner": {**state().inner, "more": jnp.ones(2)}},
            r"inner/more .* float32 \[2\]",
        ),
    ],
)
def test_another_state_is_named(tmp_path, change, message):
    Store(tmp_path).save(3, state(), ABOUT)
    with pytest.raises(CheckpointError, match=message):
        Store(tmp_path).latest(state()._replace(**change), ABOUT)


def test_leaves_whose_names_look_alike_are_told_apart(tmp_path):
    Store(tmp_path).save(3, {"a/b": np.ones(2), "a": {"b": np.ones(2)}}, {})
    with pytest.raises(CheckpointError, match=r"'a/b' is float64 \[2\]"):
        Store(tmp_path).latest({"a": {"b": np.ones(2)}}, {})


def test_other_random_numbers_are_named(tmp_path):
    Store(tmp_path).save(3, np.ones(2), {})
    with (
        jax.threefry_partitionable(not jax.config.jax_threefry_partitionable),
        pytest.raises(CheckpointError, match="jax_threefry_partitionable is True"),
    ):
        Store(tmp_path).latest(np.ones(2), {})


def test_other_versions_are_a_warning(tmp_path, monkeypatch):
    Store(tmp_path).save(3, np.ones(2), {})
    monkeypatch.setattr("simplex_jax._src.runtime.checkpoint.store.__version__", "9.9")
    with pytest.warns(CheckpointWarning, match="may differ .*simplex_jax is .* '9.9'"):
        assert Store(tmp_path).latest(np.ones(2), {}).step == 3


def test_the_newest_are_kept_in_the_order_of_writing(tmp_path):
    store = Store(tmp_path, keep=2)
    for step in (10, 20, 30, 15, 15):
        store.save(step, {"x": np.full(3, step)}, {})
    assert sorted(os.listdir(tmp_path)) == ["000004-step-15", "000005-step-15"]
    foreign = [".000006-step-20.notes.tmp", ".mine.0123abcd.tmp", "notes.txt"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    leftover = tmp_path / ".000006-step-20.0123abcd.tmp"
    leftover.mkdir()
    (leftover / "arrays-0.npz").write_bytes(b"half")
    Store(tmp_path, keep=1).save(20, {"x": np.full(3, 20)}, {})
    assert sorted(os.listdir(tmp_path)) == sorted(["000006-step-20", *foreign])
    assert store.latest({"x": np.zeros(3, int)}, {}).step == 20
    with pytest.raises(ValueError, match="keep"):
        Store(tmp_path, keep=0)


def test_the_sums_are_those_of_sha256sum(tmp_path):
    path = Store(tmp_path).save(1, {"x": np.arange(9)}, {})
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=path, check=False)
    assert done.returncode == 0


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "run").write_text("mine")
    store = Store(tmp_path / "run")
    with pytest.raises(CheckpointError, match="run' is a file"):
        store.latest(np.ones(2), {})
    with pytest.raises(CheckpointError, match="is a file"):
        store.save(1, np.ones(2), {})


def test_a_checkpoint_of_the_first_format_is_refused_in_one_line(tmp_path):
    path = tmp_path / "000001-step-7"
    (path / "arrays").mkdir(parents=True)
    (path / "arrays" / "0").write_bytes(b"by Orbax")
    fields = ("step", "about", "random", "versions", "leaves")
    (path / "manifest.json").write_text(json.dumps({"format": 1} | dict.fromkeys(fields)))
    files = ["arrays/0", "manifest.json"]
    sums = subprocess.run(["sha256sum", *files], cwd=path, capture_output=True, check=True).stdout
    (path / "SHA256SUMS").write_bytes(sums)
    with pytest.raises(
        CheckpointError, match=r"has format 1 and .* reads format 5: use the version"
    ) as caught:
        Store(tmp_path).latest(ANY, {})
    assert "\n" not in str(caught.value)


DEVICES = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from simplex_jax._src.runtime.checkpoint import Store

def sharded(count, array):
    mesh = jax.make_mesh((count,), ("rows",), devices=jax.devices()[:count])
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec("rows")))

rows = jnp.arange(24.0).reshape(8, 3)
for count in (4, 1, 2):
    store = Store(f"{sys.argv[1]}/{count}")
    store.save(count, {"x": sharded(count, rows)}, {})
    for other in (1, 2, 4):
        like = {"x": sharded(other, jnp.zeros_like(rows))}
        back = store.latest(like, {}).tree["x"]
        assert back.sharding == like["x"].sharding
        assert len(back.addressable_shards) == other
        assert (np.asarray(back) == np.asarray(rows)).all()
"""


def test_arrays_come_back_on_another_number_of_devices(tmp_path):
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", DEVICES, str(tmp_path)], env=environment, check=True)
    rows = np.arange(24.0, dtype=np.float32).reshape(8, 3)
    saved = Store(tmp_path / "4").latest({"x": jnp.zeros((8, 3))}, {})
    assert np.array_equal(saved.tree["x"], rows), "in a process with another number of devices"


HEAVY = ["orbax", "tensorstore", "optax", "scipy", "sklearn", "matplotlib", "numpyro", "click"]


def test_it_is_quiet_light_and_leaves_nothing_behind(tmp_path):
    program = (
        "import sys, logging, threading, warnings\n"
        "warnings.simplefilter('error')\n"
        "import numpy as np\n"
        "from simplex_jax._src.runtime.checkpoint import Store\n"
        "store = Store(sys.argv[1])\n"
        "store.save(1, {'x': np.arange(5)}, {})\n"
        "store.latest({'x': np.arange(5)}, {})\n"
        "assert threading.enumerate() == [threading.main_thread()]\n"
        "assert logging.getLogger().handlers == []\n"
        "logging.basicConfig(level=logging.DEBUG)\n"
        "for name in ('jax', 'asyncio'): logging.getLogger(name).setLevel(logging.WARNING)\n"
        "store.save(2, {'x': np.arange(5)}, {})\n"
        "store.latest({'x': np.arange(5)}, {})\n"
        "heavy = {name.split('.')[0] for name in sys.modules} & set(sys.argv[2:])\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *HEAVY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
