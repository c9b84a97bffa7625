"""What docs/single_cell.md does with an AnnData file holds for cells that were simulated."""

import contextlib
from functools import partial

import click
import numpy as np
import pytest
import scipy.sparse as sp
from support import pages

from simplex_jax._src import cli
from simplex_jax._src.evaluate import matching

PAGE = "single_cell.md"
executed = partial(pages.executed, PAGE)


@pytest.fixture
def truth(tmp_path, monkeypatch):
    """Topics of 400 cells in `cells.h5ad`, as AnnData writes it, in the working directory."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    topics, shares = rng.dirichlet(np.full(200, 0.1), 4), rng.dirichlet(np.full(4, 0.2), 400)
    counts = sp.csr_array(rng.poisson(150 * shares @ topics).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    with h5py.File("cells.h5ad", "w") as file:
        table = file.create_group("X")
        table.attrs.update({"encoding-type": "csr_matrix", "shape": counts.shape})
        for part in ("data", "indices", "indptr"):
            table[part] = getattr(counts, part)
        for axis, count in zip(("obs", "var"), counts.shape, strict=True):
            group = file.create_group(axis)
            group.attrs["_index"] = "_index"
            names = [f"{axis}{number}" for number in range(count)]
            group.create_dataset("_index", data=names, dtype=h5py.string_dtype())
    return topics, shares


def test_topics_of_cells_are_found(truth):
    topics, shares = truth
    scope = executed("In Python")
    order, similarity, _ = matching.align([topics, scope["topic_region"]])
    assert (similarity > 0.9).all(), similarity
    assert np.abs(scope["cell_topic"][:, order[1]] - shares).mean() < 0.05
    assert scope["regions"][0][0].startswith("var")
    assert len(scope["regions"]) == 4


def test_every_block_is_run():
    assert pages.all_run(PAGE, __file__)


def test_commands_exist():
    for line in pages.text(PAGE).splitlines():
        if line.startswith("simplex-jax "):
            with contextlib.suppress(click.BadParameter):  # files of the page are not there
                pages.parse(cli.main, line.split("#")[0].split()[1:])
