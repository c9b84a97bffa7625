"""A fit over several devices, in a process of its own that has two of them."""

import json
import os
import subprocess
import sys

import pytest

# The quick one is `test_two_processes_give_the_bits_of_one`.
pytestmark = pytest.mark.slow

SCRIPT = """
import json, pathlib, sys
import numpy as np, scipy.sparse as sp
from click.testing import CliRunner
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models import lda
from simplex_jax._src.cli import main
from simplex_jax._src.models.lda import memory

place = pathlib.Path(sys.argv[1])
counts = sp.csr_array(np.random.default_rng(0).poisson(1.0, (20, 7)).astype(np.int32))
options = {"batch_size": 4, "steps": 16, "eval_every": 4, "heldout": (counts[:4], counts[4:8])}
found = {"sharing": {
    str((wanted, size)): lda.resolve(
        counts, 2, devices=wanted, batch_size=size, engine="xla"
    ).devices
    for wanted, size in [(None, 4), (None, 5), (None, 20), (1, 4), (2, 4)]
}}
settled = lda.resolve(counts, 2, batch_size=4)
found["default"] = [settled.engine, settled.devices]
found["subsampled"] = lda.resolve(counts, 2, counts="subsampled", devices=2).devices

def fit(devices, **more):
    return lda.fit(counts, 2, devices=devices, **options | more)

def numbers(fitted):
    last = fitted.metrics[-1]
    return [fitted.topics.tolist(), fitted.topics_sd.tolist(), last["perplexity"],
            last["perplexity_average"], fitted.proportions.tolist()]

found["fits"] = [numbers(fit(1)), numbers(fit(2))]
fit(2, checkpoint=place / "run", hooks=[lambda event: event.step == 8])
found["resumed"] = numbers(fit(2, checkpoint=place / "run", resume=True))
fit(2, checkpoint=place / "other", hooks=[lambda event: event.step == 8])
found["resumed on one"] = numbers(fit(1, checkpoint=place / "other", resume=True))
corpus, heldout = from_counts(counts), options["heldout"]
found["bytes"] = [
    memory.estimate(corpus, lda.resolve(corpus, 2, devices=count), heldout=heldout)
    for count in (1, 2)
]

texts = place / "texts.txt"
texts.write_text("river water stream boat\\ngoal match team ball\\n" * 20)
def lda(*arguments):
    return CliRunner().invoke(main, ["lda", *map(str, arguments)])
reading = ["--min-df", 1, "--max-df", 1.0, "--topics", 2, "--steps", 20]
first = lda(texts, *reading, "--devices", 2, "--out", place / "texts")
found["said"] = first.output
config = json.loads((place / "texts" / "config.json").read_text())
found["config"] = config["settings"]["devices"]
for name in ("summary.json", "topics.npz"):
    (place / "texts" / name).unlink()
found["went on"] = lda("--resume", place / "texts").exit_code
found["on one"] = lda("--resume", place / "texts", "--devices", 1, "--steps", 24).exit_code
config = json.loads((place / "texts" / "config.json").read_text())
found["then"] = config["settings"]["devices"]
found["dry"] = lda(texts, *reading, "--dry-run").exit_code
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path_factory.mktemp("devices")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_as_many_devices_as_change_no_batch(result):
    assert result["sharing"] == {
        "(None, 4)": 2,
        "(None, 5)": 1,
        "(None, 20)": 2,
        "(1, 4)": 1,
        "(2, 4)": 2,
    }
    assert result["subsampled"] == 1
    assert result["default"] in (["native", 1], ["xla", 2])  # a device has threads on all cores


def test_their_number_changes_no_result(result):
    one, two = result["fits"]
    assert one == two


def test_a_run_goes_on_with_as_many_and_with_fewer(result):
    assert result["resumed"] == result["fits"][1]
    assert result["resumed on one"] == result["fits"][0]


def test_memory_is_that_of_all_cores(result):
    """The topics are on each, the documents on one; the summary is made on one."""
    one, two = result["bytes"]
    assert one["summary"] == two["summary"]
    assert one["heldout"] == two["heldout"]
    assert one["state"] < two["state"] < 2 * one["state"]
    assert one["corpus"] <= two["corpus"] < 1.5 * one["corpus"]


def test_the_command_line_goes_on_with_as_many_and_with_fewer(result):
    assert "on 2 devices of cpu" in result["said"]
    assert result["config"] == 2
    assert result["went on"] == 0
    assert (result["on one"], result["then"]) == (0, 1)
    assert result["dry"] == 0
