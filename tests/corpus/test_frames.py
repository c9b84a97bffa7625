"""Tables of libraries that the tests do not install: what the package uses of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.marks import slow_but

from simplex_jax._src.corpus import CorpusError, frames, from_counts
from simplex_jax._src.corpus.text import count_texts
from simplex_jax._src.models import dpm, hdp, lda, sam


class Polars:
    """A data frame of polars: iteration gives the columns themselves."""

    def __init__(self, columns):
        self._columns = {name: np.asarray(values) for name, values in columns.items()}

    @property
    def columns(self):
        return list(self._columns)

    @property
    def shape(self):
        return len(next(iter(self._columns.values()))), len(self._columns)

    def __iter__(self):
        return iter(self._columns.values())

    def __getitem__(self, name):
        return self._columns[name]

    def __array__(self, dtype=None, copy=None):
        return np.stack(list(self), axis=1).astype(dtype)


class Chunked:
    """A column of pyarrow: iteration gives scalars of its own, and a null of numbers is NaN."""

    def __init__(self, values):
        self._values = values

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return map(repr, self._values)

    def __arrow_c_stream__(self, schema=None):
        raise NotImplementedError

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._values, dtype)


class Arrow(Polars):
    """A table of pyarrow: its `columns` are values."""

    @property
    def columns(self):
        return [Chunked(values) for values in self]

    @property
    def column_names(self):
        return list(self._columns)

    def __getitem__(self, name):
        return Chunked(self._columns[name])


COUNTS = {"bank": [3, 0, 2, 0], "loan": [1, 0, 2, 1], "river": [0, 4, 0, 2]}


@pytest.mark.parametrize("table", [Polars, Arrow])
def test_counts_have_the_words_of_the_columns(table):
    corpus = from_counts(table(COUNTS))
    assert corpus.vocabulary == tuple(COUNTS)
    np.testing.assert_array_equal(corpus.counts.toarray().T, list(COUNTS.values()))


@pytest.mark.parametrize("table", [Polars, Arrow])
def test_columns_have_names(table):
    columns = frames.columns_of(table(COUNTS))
    assert list(columns) == list(COUNTS)
    np.testing.assert_array_equal(np.stack(list(columns.values())), list(COUNTS.values()))
    with pytest.raises(ValueError, match=r"^a list "):
        frames.columns_of([1, 2])
    with pytest.raises(ValueError, match=r"columns .* one name"):
        frames.columns_of({1: [0], "1": [1]})


@pytest.mark.parametrize("table", slow_but([Polars, Arrow], Arrow))
def test_a_mixed_table(table):
    rng = np.random.default_rng(0)
    values = {"age": rng.normal(size=12), "sex": np.array(["f", "m"] * 6, object)}
    values["age"][3] = np.nan
    options = {"passes": 2, "chains": 1}
    ours, theirs = dpm.fit(values, **options), dpm.fit(table(values), **options)
    np.testing.assert_array_equal(ours.clusters.labels, theirs.clusters.labels)
    assert theirs.variables.kinds == ("number", "category")


@pytest.mark.parametrize("table", [Polars, Arrow])
def test_covariates(table):
    counts = table({word: 2 * column for word, column in COUNTS.items()})  # of eight documents
    fitted = lda.fit(counts, num_topics=2, passes=4, keep_samples=4, chains=1)
    years = {"year": [1914.0, 1939.0, 1990.0, 2009.0, 2010.0, 1985.0, 1941.0, 1917.0]}
    ours, theirs = (lda.effects(fitted, counts, x) for x in (years, table(years)))
    np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_texts_in_a_column_without_a_number_of_dimensions():
    class Series:
        shape = (2,)

        def __iter__(self):
            return iter(["An oak.", "An elm."])

    assert count_texts(Series(), ["elm", "oak"]).counts.toarray().tolist() == [[0, 1], [1, 0]]


class Cells:
    """An AnnData object: what of it is used."""

    def __init__(self, X, raw=None, **layers):
        self.X, self.layers, self.raw = X, layers, raw
        width = 3 if X is None else X.shape[1]
        self.var_names = np.array([f"GENE{i}" for i in range(width)], object)
        self.obs_names = np.array(["AAAC-1", "AAAG-1", "AATC-1", "ACTG-1"], object)
        self.shape = (4, width)


CELLS = np.array([[1, 0, 2], [0, 3, 0], [4, 0, 0], [0, 0, 5]])
LOGS = np.log1p(CELLS)


class Backed:
    """A matrix that AnnData leaves in its file."""

    def to_memory(self):
        return sp.csr_matrix(CELLS)

    shape = CELLS.shape


@pytest.mark.parametrize(
    "X",
    [CELLS, CELLS.astype(np.float32), sp.csr_matrix(CELLS), sp.csc_array(1.0 * CELLS), Backed()],
)
def test_counts_of_anndata(X):
    corpus = from_counts(Cells(X))
    np.testing.assert_array_equal(corpus.counts.toarray(), CELLS)
    assert corpus.vocabulary == ("GENE0", "GENE1", "GENE2")
    assert corpus.names == ("AAAC-1", "AAAG-1", "AATC-1", "ACTG-1")


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (Cells(LOGS, counts=CELLS), r"0\.69.*\(adata.layers\['counts'\], adata.var_names, .*\)$"),
        (Cells(sp.csr_array(LOGS), log=LOGS, raw_counts=sp.csc_array(CELLS)), r"'raw_counts'\], a"),
        (Cells(LOGS, raw=Cells(CELLS), spliced=CELLS), r"'spliced'\].* \(or adata.raw.X\)$"),
        (Cells(LOGS, raw=Cells(CELLS)), r"\(adata.raw.X, adata.raw.var_names, adata.obs_names\)$"),
        (Cells(-CELLS, log=LOGS), r"is -1, .*; adata.layers\['log'\] have"),
        (Cells(LOGS), r"0\.69.*no layers"),
        (Cells(None, counts=CELLS), r"there is no X; give the counts: .*layers\['counts'\]"),
        (Cells(0 * CELLS, counts=CELLS), r"document is empty; .*layers\['counts'\]"),
    ],
)  # fmt: skip
def test_anndata_without_counts_names_its_layers(cells, says):
    for read in (from_counts, lambda cells: lda.fit(cells, 2, passes=2, chains=1)):
        with pytest.raises(CorpusError, match=says):
            read(cells)


def test_genes_of_one_name():
    cells = Cells(CELLS)
    cells.var_names[2] = "GENE0"
    with pytest.raises(CorpusError, match=r"repeats word 0, 'GENE0'; .*var_names_make_unique\(\)"):
        from_counts(cells)


def test_genes_in_another_order():
    cells, order = Cells(CELLS), [2, 0, 1]
    fitted = lda.fit(cells, 2, passes=2, chains=1)
    turned = Cells(CELLS[:, order])
    turned.var_names = cells.var_names[order]
    np.testing.assert_array_equal(fitted.transform(turned), fitted.transform(cells))
    with pytest.raises(CorpusError, match=r"adata.X: row 0.*layers\['counts'\]"):
        fitted.transform(Cells(LOGS, counts=CELLS))


@pytest.mark.parametrize("model", slow_but([lda, hdp, dpm, sam], lda, hdp))
def test_models_of_anndata(model):
    cells = Cells(np.random.default_rng(0).poisson(0.7, (4, 6)))
    options = {} if model in (hdp, dpm) else {"num_topics": 2}
    fitted = model.fit(cells, passes=2, chains=1, **options)
    if model is not dpm:
        assert fitted.vocabulary == tuple(cells.var_names)
    if model is lda:
        assert fitted.transform(cells).shape == (4, 2)
