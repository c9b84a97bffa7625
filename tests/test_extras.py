"""A plain install has the kernels; who needs more reads which command adds it."""

import subprocess
import sys

import pytest

PLAIN = """
import sys


class Plain:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRA:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])


EXTRA = {"arviz_base", "arviz_stats", "click", "gensim", "h5py", "icu4py", "jinja2", "markupsafe",
         "matplotlib", "numpyro", "optax", "sklearn", "tqdm"}
sys.meta_path.insert(0, Plain())
"""

PARTS = """
from simplex_jax import batches, corpus, draws, estimators, evaluate, geometry, gradients, lda, run
from simplex_jax import runtime, sam, samplers, step_sizes
import jax, jax.numpy as jnp

kernel = samplers.scir.build(estimators.categorical(size=4), alpha=0.1, step_size=0.5)
state = kernel.init(jax.random.key(0), jnp.ones(3))
state, trace = run(
    jax.random.key(1), kernel, state, batches.full(jnp.array([0, 1, 1, 2])), num_steps=4
)
assert jnp.isfinite(trace).all()
assert runtime.EarlyStop
assert corpus.from_counts([[1, 2], [0, 3]]).counts.sum() == 6
limits = corpus.TextOptions(min_df=1, max_df=1.0)
assert corpus.from_texts(["river and bank", "river money bank"], options=limits).counts.sum() == 5
assert len(lda.fit([[1, 2], [3, 4]], 2, passes=1).topics) == 2
assert "x" in evaluate.summary({"x": jnp.arange(8.0).reshape(2, 4) ** 2})

wants = {
    "evaluate.plots": lambda: evaluate.plots.trace([1.0, 2.0]),
    "Progress": lambda: runtime.Progress(),
    "simplex_jax.sklearn": lambda: __import__("simplex_jax.sklearn"),
}
for what, use in wants.items():
    try:
        use()
    except ImportError as error:
        assert any(part in str(error) for part in what.split("|")), error
        assert "pip install 'simplex-jax[topics]'" in str(error)
    else:
        raise AssertionError(what)
"""

COMMAND = """
sys.argv = ["simplex-jax", "lda"]
from simplex_jax.__main__ import main

main()
"""


def _plain(program):
    """Run a program without the packages of extras."""
    command = [sys.executable, "-c", PLAIN + program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_kernels_need_no_extra_and_others_name_theirs():
    result = _plain(PARTS)
    assert result.returncode == 0, result.stderr


def test_command_without_click():
    result = _plain(COMMAND)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "click: pip install 'simplex-jax[topics]'" in result.stderr


@pytest.mark.parametrize("change", ["import click\n", "from sklearn import base\n"])
def test_planted_import_is_found(change):
    """The finder hides what it says."""
    assert _plain(change).returncode == 1
