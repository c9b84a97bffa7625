"""Topics of single cells: sets of regions of each topic, BED, and AnnData files."""

import numpy as np
import pytest

from simplex_jax._src.evaluate import single_cells


def best_split(scores):
    """Otsu's threshold by trying every bin: that with the largest variance between two groups."""
    edges = np.linspace(scores.min(), scores.max(), 101)
    centres = (edges[:-1] + edges[1:]) / 2
    binned = centres[np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, 99)]
    best, threshold = -1.0, 0.0
    for centre in centres[:-1]:
        low, high = binned[binned <= centre], binned[binned > centre]
        between = len(low) * len(high) * (low.mean() - high.mean()) ** 2
        if between > best * (1 + 1e-12):
            best, threshold = between, centre
    return threshold


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5])
def test_otsu_divides_scores_where_the_variance_between_groups_is_largest(share):
    rng = np.random.default_rng(0)
    scores = np.where(
        rng.random(2000) < share, rng.normal(0.8, 0.1, 2000), rng.gamma(1, 0.05, 2000)
    )
    found = single_cells.above_otsu(scores)
    np.testing.assert_array_equal(found, np.flatnonzero(scores > best_split(scores)))
    assert abs(len(found) / 2000 - share) < 0.02


def test_equal_scores_have_no_region_above_the_threshold():
    assert single_cells.above_otsu(np.full(5, 0.3)).size == 0


def test_regions_that_all_topics_have_score_low():
    topics = np.array([[0.6, 0.3, 0.1], [0.6, 0.1, 0.3]])
    scores = single_cells.topic_scores(topics)
    assert scores.argmax(axis=1).tolist() == [1, 2]
    assert (scores.min(axis=1) == 0).all()
    assert (scores.max(axis=1) == 1).all()
    # Probabilities that underflow are as small as can be, not NaN.
    assert np.isfinite(single_cells.topic_scores([[1.0, 0.0], [0.5, 0.5]])).all()
    np.testing.assert_allclose(single_cells.topic_scores([[0.5, 0.3, 0.2]]), [[1, 1 / 3, 0]])


@pytest.mark.parametrize("name", ["chr1:100-600", "chr1-100-600", "chr1_100_600"])
def test_names_of_regions_have_three_parts(name):
    assert single_cells.regions_of([name]) == [("chr1", 100, 600)]


@pytest.mark.parametrize("name", ["CD19", "chr1:100", "chr1:1,000-2,000", "chr1:100-600:+"])
def test_other_names_are_no_regions(name):
    with pytest.raises(ValueError, match="not a region"):
        single_cells.regions_of(["chr1:100-600", name])


def test_bed_is_sorted(tmp_path):
    single_cells.write_bed(
        tmp_path / "a.bed", [("chr2", 5, 9), ("chr1", 1000, 1500), ("chr1", 7, 9)]
    )
    assert (tmp_path / "a.bed").read_text() == "chr1\t7\t9\nchr1\t1000\t1500\nchr2\t5\t9\n"


def test_names_that_hdf5_cannot_store_are_written(tmp_path):
    h5py = pytest.importorskip("h5py")
    obs = {"cell": ["caf\udce9", "a\0b"]}
    with single_cells.anndata_file(tmp_path / "a.h5ad", obs, {"region": ["r"]}):
        pass
    with h5py.File(tmp_path / "a.h5ad") as file:
        assert file["obs/cell"].asstr()[:].tolist() == ["caf?", "a\ufffdb"]


def test_anndata_reads_the_files(tmp_path):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("h5py")
    obs = {"cell": ["a", "b"], "title": ["Größe", ""], "error": np.array([0.5, 0.25])}
    var = {"region": ["chr1:1-9", "chr1:10-19", "chr2:1-9"]}
    parts = {"obsm": {"X_topics": np.eye(2)}, "varm": {"topics": np.ones((3, 2), np.float32)}}
    with single_cells.anndata_file(tmp_path / "a.h5ad", obs, var, **parts):
        pass
    with single_cells.anndata_file(tmp_path / "b.h5ad", obs, var, X=np.ones((2, 3))):
        pass
    read = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert read.shape == (2, 3)
    assert read.X is None
    assert read.obs_names.tolist() == ["a", "b"]
    assert read.obs["title"].tolist() == ["Größe", ""]
    assert read.obs["error"].tolist() == [0.5, 0.25]
    np.testing.assert_array_equal(read.obsm["X_topics"], np.eye(2))
    assert read.varm["topics"].dtype == np.float32
    frame = anndata.read_h5ad(tmp_path / "b.h5ad").to_df()
    assert frame.loc["b", "chr2:1-9"] == 1
