"""What docs/single_cell.md does with an AnnData file holds for cells that were simulated."""

import contextlib
import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import click
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from support import pages

from simplex_jax._src import cli
from simplex_jax._src.evaluate import matching, single_cells
from simplex_jax._src.models import lda

PAGE = "single_cell.md"
executed = partial(pages.executed, PAGE)
OPTIONS = ("--alpha", "0.1", "--beta", "0.1", "--passes", "60")


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    """Topics of 400 cells in `cells.h5ad`, as AnnData writes it, in the working directory."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    topics, shares = rng.dirichlet(np.full(200, 0.1), 4), rng.dirichlet(np.full(4, 0.2), 400)
    counts = sp.csr_array(rng.poisson(150 * shares @ topics).astype(np.float32))
    place = tmp_path_factory.mktemp("cells")
    with contextlib.chdir(place), h5py.File("cells.h5ad", "w") as file:
        table = file.create_group("X")
        table.attrs.update({"encoding-type": "csr_matrix", "shape": counts.shape})
        for part in ("data", "indices", "indptr"):
            table[part] = getattr(counts, part)
        names = {
            "obs": [f"cell{number}" for number in range(400)],
            "var": [f"chr{1 + number % 3}:{number}000-{number}500" for number in range(200)],
        }
        for axis, labels in names.items():
            group = file.create_group(axis)
            group.attrs["_index"] = "_index"
            group.create_dataset("_index", data=labels, dtype=h5py.string_dtype())
    return place, topics, shares


@pytest.fixture(autouse=True)
def at_the_cells(truth, monkeypatch):
    monkeypatch.chdir(truth[0])


def invoke(line):
    result = CliRunner().invoke(cli.main, line.split())
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def exported(truth):
    """What `lda export` says of a run, and its folder, `export`."""
    with contextlib.chdir(truth[0]):
        invoke("lda store cells.h5ad stored --quiet")
        invoke(f"lda stored --topics 4 {' '.join(OPTIONS)} --out run --quiet")
        return invoke("lda export --model run --out export")


def test_topics_of_cells_are_found(truth):
    _, topics, shares = truth
    scope = executed("In Python")
    order, similarity, _ = matching.align([topics, scope["topic_region"]])
    assert (similarity > 0.9).all(), similarity
    assert np.abs(scope["cell_topic"][:, order[1]] - shares).mean() < 0.05
    assert scope["regions"][0][0].startswith("chr")
    assert len(scope["regions"]) == 4


def read_h5ad(path):
    """What the page uses of an AnnData object; the versions of anndata restrict those of pandas."""
    h5py, pandas = pytest.importorskip("h5py"), pytest.importorskip("pandas")
    with h5py.File(path) as file:
        axes = {}
        for axis in ("obs", "var"):
            assert file[axis].attrs["encoding-type"] == "dataframe"
            columns = {
                name: array.asstr()[:] if array.dtype.kind == "O" else array[:]
                for name, array in file[axis].items()
            }
            axes[axis] = pandas.DataFrame(columns).set_index(file[axis].attrs["_index"])
        table = file["X"][:] if "X" in file else None
        parts = {name: {k: x[:] for k, x in file[name].items()} for name in ("obsm", "varm")}
    names = axes["obs"].index, axes["var"].index
    return SimpleNamespace(
        **axes,
        **parts,
        obs_names=names[0],
        var_names=names[1],
        to_df=lambda: pandas.DataFrame(table, *names),
    )


class CistopicLDAModel:
    """Takes the arguments of pycisTopic's class, and counts as it does."""

    def __init__(
        self, metrics, coherence, marg_topic, topic_ass, cell_topic, topic_region, parameters
    ):
        del metrics, parameters
        self.coherence, self.marg_topic, self.topic_ass = coherence, marg_topic, topic_ass
        self.cell_topic, self.topic_region = cell_topic, topic_region
        self.n_cells, self.n_topic = cell_topic.shape[1], cell_topic.shape[0]
        self.n_regions = topic_region.shape[0]


def test_scanpy_and_pycistopic_get_the_topics(exported, monkeypatch):
    del exported
    module = ModuleType("pycisTopic.lda_models")
    module.CistopicLDAModel = CistopicLDAModel
    monkeypatch.setitem(sys.modules, "pycisTopic", ModuleType("pycisTopic"))
    monkeypatch.setitem(sys.modules, "pycisTopic.lda_models", module)
    if "anndata" not in sys.modules:
        try:
            import anndata  # noqa: F401
        except ImportError:
            stand_in = SimpleNamespace(read_h5ad=read_h5ad)
            monkeypatch.setitem(sys.modules, "anndata", stand_in)
    scope = executed("In Scanpy and pycisTopic")
    fitted, adata, model = lda.Fit.load("run"), scope["adata"], scope["model"]
    np.testing.assert_array_equal(adata.obsm["X_topics"], fitted.proportions)
    np.testing.assert_array_equal(adata.varm["topics"], fitted.topics.T)
    np.testing.assert_array_equal(adata.varm["topics_sd"], fitted.topics_sd.T)
    assert list(adata.obs_names) == list(fitted.names)
    assert list(adata.var_names) == list(fitted.vocabulary)
    assert (model.n_cells, model.n_topic, model.n_regions) == (400, 4, 200)
    assert list(model.cell_topic.index) == ["Topic1", "Topic2", "Topic3", "Topic4"]
    assert model.cell_topic.loc["Topic2", "cell7"] == fitted.proportions[7, 1]
    region = fitted.vocabulary[9]
    assert model.topic_region.loc[region, "Topic3"] == fitted.topics[2, 9]
    np.testing.assert_allclose(model.marg_topic["Marg_Topic"], fitted.prevalence)


def test_the_regions_of_topics_are_bed_files(exported, truth):
    fitted = lda.Fit.load("run")
    scores = single_cells.topic_scores(fitted.topics)
    sizes = []
    for topic in range(4):
        for kind, most in (("otsu", None), ("top_3000", 200)):
            lines = (
                truth[0] / f"export/region_sets/Topics_{kind}/Topic{topic + 1}.bed"
            ).read_text()
            rows = [line.split("\t") for line in lines.splitlines()]
            named = {"{}:{}-{}".format(*row) for row in rows}
            assert [(row[0], int(row[1])) for row in rows] == sorted(
                (row[0], int(row[1])) for row in rows
            )
            if most is None:
                chosen = single_cells.above_otsu(scores[topic])
                assert named == {fitted.vocabulary[index] for index in chosen}
                sizes.append(len(named))
            else:
                assert len(named) == most
    assert f"{min(sizes)} to {max(sizes)} regions" in exported


def test_other_cells_are_exported_by_a_run_without_proportions(exported):
    del exported
    streamed = "--stream --counts memoised --keep-samples 0 --out streamed --quiet"
    invoke(f"lda stored --topics 3 --passes 5 {streamed}")
    refused = CliRunner().invoke(
        cli.main, ["lda", "export", "--model", "streamed", "--out", "none"]
    )
    assert refused.exit_code == 1
    assert "give the cells" in refused.stderr
    assert "written to streamed-export" in invoke("lda export stored --model streamed")
    cells = read_h5ad("streamed-export/cells.h5ad")
    assert cells.obsm["X_topics"].shape == (400, 3)
    np.testing.assert_allclose(cells.obsm["X_topics"].sum(axis=1), 1, rtol=1e-5)
    again = CliRunner().invoke(cli.main, ["lda", "export", "stored", "--model", "streamed"])
    assert again.exit_code == 1
    assert "exists" in again.stderr


def test_genes_have_no_bed_files(tmp_path):
    genes = [f"G{number}" for number in range(8)]
    lines = ["cell," + ",".join(genes)]
    lines += [f"c{i}," + ",".join(str((i * j) % 5) for j in range(8)) for i in range(1, 20)]
    (tmp_path / "genes.csv").write_text("\n".join(lines))
    place = f"{tmp_path}/genes.csv --format dense --id-column cell"
    invoke(f"lda {place} --topics 2 --passes 5 --chains 1 --out {tmp_path}/run --quiet")
    with contextlib.chdir(tmp_path / "run"):
        assert "no BED files: 'G0'" in invoke("lda export --model .")
    assert not (tmp_path / "run-export/region_sets").exists()
    assert (tmp_path / "run-export/cells.h5ad").exists()


def test_every_block_is_run():
    assert pages.all_run(PAGE, __file__)


def test_commands_exist():
    for line in pages.text(PAGE).splitlines():
        if line.startswith("simplex-jax "):
            with contextlib.suppress(click.BadParameter):  # files of the page are not there
                pages.parse(cli.main, line.split("#")[0].split()[1:])
