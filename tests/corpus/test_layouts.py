"""Layouts of files that other programs write: 10x, AnnData's raw, gensim, MALLET, lda-c from 1."""

import gzip
import io
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import (
    CorpusError,
    Reading,
    TextOptions,
    convert,
    read,
    read_columns,
    read_texts,
    read_vectors,
    read_vocabulary,
    reordered,
    resolve,
)
from simplex_jax._src.corpus.formats import registry

EVERY_WORD = TextOptions(min_df=1, max_df=1.0, stop_words="none")
COUNTS = np.array([[1, 0, 2], [0, 3, 0], [4, 0, 0], [0, 0, 5]])  # barcodes by features
BARCODES = ["AAAC-1", "AAAG-1", "AATC-1", "ACTG-1"]
FEATURES = [("E0", "CD4", "Gene Expression"), ("E1", "CD8", "Gene Expression")]
FEATURES += [("E2", "MS4A1", "Gene Expression")]


def market(table):
    file = io.BytesIO()
    scipy.io.mmwrite(file, sp.coo_array(table))
    return file.getvalue()


def write_tenx(folder, features=FEATURES, table=COUNTS.T, prefix="", old=False, packed=True):
    folder.mkdir(exist_ok=True)
    lines = ["\t".join(feature[: 2 if old else 3]) for feature in features]
    contents = {
        "matrix.mtx": market(table),
        "genes.tsv" if old else "features.tsv": "\n".join([*lines, ""]).encode(),
        "barcodes.tsv": "\n".join([*BARCODES, ""]).encode(),
    }
    for name, content in contents.items():
        path = folder / f"{prefix}{name}{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder / f"{prefix}matrix.mtx{'.gz' if packed else ''}"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("prefix", ["", "GSM123_sample_"])
def test_a_10x_folder(tmp_path, prefix, old, packed):
    matrix = write_tenx(tmp_path / "10x", prefix=prefix, old=old, packed=packed)
    for path in (tmp_path / "10x", matrix):
        assert resolve(path, Reading()).format == "10x"
        for told in (False, True):  # the words are in rows, whether or not it is said
            corpus = read(path, transpose=told)
            assert corpus.vocabulary == ("CD4", "CD8", "MS4A1")
            assert corpus.names == tuple(BARCODES)
            np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    assert convert(tmp_path / "10x", tmp_path / "store").vocabulary == corpus.vocabulary
    features = next(
        file for file in matrix.parent.iterdir() if "es.tsv" in file.name and "bar" not in file.name
    )
    assert read_vocabulary(features) == corpus.vocabulary
    by_name = read(matrix, "mtx", transpose=True, vocabulary=features)
    np.testing.assert_array_equal(by_name.counts.toarray(), COUNTS)


def test_a_10x_matrix_that_lies_the_other_way(tmp_path):
    write_tenx(tmp_path / "10x", table=COUNTS)
    np.testing.assert_array_equal(read(tmp_path / "10x").counts.toarray(), COUNTS)


def test_names_of_features_that_occur_again(tmp_path):
    features = [("E0", "A", "Peaks"), ("E1", "A", "Peaks"), ("E2", "A-1", "Peaks")]
    write_tenx(tmp_path / "10x", features)
    assert read(tmp_path / "10x").vocabulary == ("A", "A-2", "A-1")


def test_features_of_several_types(tmp_path):
    features = [*FEATURES[:2], ("Ab", "CD4", "Antibody Capture")]
    write_tenx(tmp_path / "10x", features)
    told = r"features of 2 types: 'Gene Expression' \(2\), 'Antibody Capture' \(1\); .* --layer"
    with pytest.raises(CorpusError, match=told):
        read(tmp_path / "10x")
    genes = read(tmp_path / "10x", layer="Gene Expression")
    assert genes.vocabulary == ("CD4", "CD8")
    np.testing.assert_array_equal(genes.counts.toarray(), COUNTS[:, :2])
    assert read(tmp_path / "10x", layer="Antibody Capture").vocabulary == ("CD4",)
    with pytest.raises(CorpusError, match="type 'genes', but 'Gene"):
        read(tmp_path / "10x", layer="genes")


@pytest.mark.parametrize(
    ("change", "content", "says"),
    [
        ("barcodes", b"A\nB\n", "features.tsv.gz and 2 barcodes"),
        ("barcodes", None, "matrix.mtx.gz: a matrix "),
        ("features", b"\n", "features.tsv.gz: no feature in"),
        ("features", b"A\n\nB\n", r":2: .*is blank"),
        ("features", b"\tA\n", ":1: no id"),
        ("b_", None, r"2 matrices .*b_matrix.mtx.gz, matrix.mtx"),
    ],
)
def test_bad_10x_folders(tmp_path, change, content, says):
    write_tenx(tmp_path / "10x")
    file = tmp_path / "10x" / f"{change}.tsv.gz"
    if change == "b_":
        write_tenx(tmp_path / "10x", prefix=change)
    elif content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(CorpusError, match=says):
        read(tmp_path / "10x")


def write_cellranger(path, version=3, types=("Gene Expression",) * 3, groups=("matrix",)):
    h5py = pytest.importorskip("h5py")
    table = sp.csc_array(COUNTS.T)  # features by barcodes
    with h5py.File(path, "w") as file:
        for name in groups:
            group = file.create_group(name)
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(table, part)
            group["shape"] = np.array(table.shape, np.int32)
            group["barcodes"] = np.array(BARCODES, "S")
            if version == 2:
                group["genes"] = np.array([feature[0] for feature in FEATURES], "S")
                group["gene_names"] = np.array([feature[1] for feature in FEATURES], "S")
                continue
            features = group.create_group("features")
            for place, part in enumerate(("id", "name")):
                features[part] = np.array([feature[place] for feature in FEATURES], "S")
            features["feature_type"] = np.array(types, "S")
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_cellranger_hdf5(tmp_path, version, monkeypatch):
    groups = ("GRCh38",) if version == 2 else ("matrix",)
    path = write_cellranger(tmp_path / "x.h5", version, groups=groups)
    assert resolve(path, Reading()).format == "10x"
    corpus = read(path)
    assert (corpus.vocabulary, corpus.names) == (("CD4", "CD8", "MS4A1"), tuple(BARCODES))
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    monkeypatch.setattr("simplex_jax._src.corpus.formats.hdf5._ENTRIES", 2)
    stored = convert(path, tmp_path / "store")
    assert (stored.vocabulary, stored.names) == (corpus.vocabulary, corpus.names)
    np.testing.assert_array_equal(stored.rows().toarray(), COUNTS)


def test_types_and_genomes_in_cellranger_hdf5(tmp_path):
    types = ("Gene Expression", "Peaks", "Gene Expression")
    path = write_cellranger(tmp_path / "x.h5", types=types)
    with pytest.raises(CorpusError, match="features of 2 types"):
        read(path)
    chosen = read(path, layer="Gene Expression")
    np.testing.assert_array_equal(chosen.counts.toarray(), COUNTS[:, [0, 2]])
    stored = convert(path, tmp_path / "store", layer="Gene Expression")
    np.testing.assert_array_equal(stored.rows().toarray(), COUNTS[:, [0, 2]])
    path = write_cellranger(tmp_path / "y.h5", 2, groups=("hg19", "mm10"))
    with pytest.raises(CorpusError, match=r"genomes: hg19, mm10; .* --layer"):
        read(path)
    np.testing.assert_array_equal(read(path, layer="mm10").counts.toarray(), COUNTS)


@pytest.mark.parametrize("place", [2_000_000_000, 100, -5])
def test_places_beyond_a_table_of_cellranger_are_refused(tmp_path, place):
    """SciPy would index with them, up to a segmentation fault."""
    h5py = pytest.importorskip("h5py")
    types = ("Gene Expression", "Peaks", "Gene Expression")
    path = write_cellranger(tmp_path / "x.h5", types=types)
    with h5py.File(path, "a") as file:
        file["matrix/indices"][1] = place
    with pytest.raises(CorpusError, match="inconsistent arrays"):
        read(path, layer="Gene Expression")


def write_anndata(path, **places):
    """An AnnData file with matrices at these places; `raw` has a word more."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for place, table in places.items():
            file[place.replace("__", "/")] = table
        tables = {"obs": BARCODES, "var": ["CD4", "CD8", "MS4A1"]}
        if any(place.startswith("raw") for place in places):
            tables["raw/var"] = [*tables["var"], "GAPDH"]
        for axis, labels in tables.items():
            group = file.create_group(axis)
            group.attrs["_index"] = "name"
            group.create_dataset("name", data=labels, dtype=h5py.string_dtype())
    return path


RAW = np.hstack([COUNTS, [[7], [8], [9], [0]]])


def test_raw_counts_of_anndata(tmp_path):
    path = write_anndata(tmp_path / "x.h5ad", X=np.log1p(COUNTS), raw__X=RAW)
    with pytest.raises(CorpusError, match=r"X has values .* give --layer .* there are: raw$"):
        read(path)
    corpus = read(path, layer="raw")
    assert corpus.vocabulary == ("CD4", "CD8", "MS4A1", "GAPDH")
    assert corpus.names == tuple(BARCODES)
    np.testing.assert_array_equal(corpus.counts.toarray(), RAW)
    stored = convert(path, tmp_path / "store", layer="raw")
    assert stored.vocabulary == corpus.vocabulary
    np.testing.assert_array_equal(stored.rows().toarray(), RAW)


def test_a_layer_called_x_is_not_x(tmp_path):
    path = write_anndata(tmp_path / "x.h5ad", X=COUNTS, layers__X=COUNTS * 5)
    np.testing.assert_array_equal(read(path).counts.toarray(), COUNTS)
    np.testing.assert_array_equal(read(path, layer="layers/X").counts.toarray(), COUNTS * 5)


def test_packed_tables_in_a_folder_are_tables(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("text\nriver water\n")
    with pytest.raises(CorpusError, match=r"a table .* among texts"):
        read(tmp_path)


@pytest.mark.parametrize("transpose", [False, True])
def test_columns_of_anndata_are_told(tmp_path, transpose):
    h5py = pytest.importorskip("h5py")
    path = write_anndata(tmp_path / "x.h5ad", X=COUNTS.T if transpose else COUNTS)
    with h5py.File(path, "a") as file:
        axis = "var" if transpose else "obs"
        if transpose:
            file["old"], file["new"] = file["obs"], file["var"]
            del file["obs"], file["var"]
            file["obs"], file["var"] = file["new"], file["old"]
        file[f"{axis}/batch"] = np.arange(4)
    flags = ["--transpose"] if transpose else []
    told = CliRunner().invoke(main, ["lda", str(path), "--topics", "2", "--dry-run", *flags])
    said = " ".join(told.output.split())
    assert f"15 tokens of 3 words; columns of {axis}, for --by: batch" in said, told.output


def test_layers_of_anndata_are_named(tmp_path):
    path = write_anndata(tmp_path / "x.h5ad", layers__counts=COUNTS)
    with pytest.raises(CorpusError, match=r"no X; .*--layer \(layer\).*: counts"):
        read(path)
    np.testing.assert_array_equal(read(path, layer="counts").counts.toarray(), COUNTS)
    path = write_anndata(tmp_path / "y.h5ad", X=COUNTS, layers__raw=COUNTS * 2, raw__X=RAW)
    with pytest.raises(CorpusError, match=r"no layer 'counts'; .*: X, raw, raw.X"):
        read(path, layer="counts")
    np.testing.assert_array_equal(read(path, layer="raw").counts.toarray(), COUNTS * 2)
    np.testing.assert_array_equal(read(path, layer="raw.X").counts.toarray(), RAW)
    path = write_anndata(tmp_path / "z.h5ad", X=COUNTS / 3, layers__log=COUNTS / 2, raw__X=RAW)
    with pytest.raises(CorpusError, match=r"layer log .*: X, raw$"):
        read(path, layer="log")


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (["matrix", "row_attrs/Gene", "col_attrs/CellID"], r"anndata\.io\.read_loom"),
        (["mod/rna/X", "obsmap"], "a MuData file"),
        (["assays/RNA", "cell.names"], "a Seurat file"),
        (["barcode_idx", "molecule_info"], "molecule_info.h5.*filtered_feature_bc_matrix.h5"),
        (["df/table"], "there is no X"),
    ],
)
def test_other_hdf5_files_are_named(tmp_path, members, told):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for member in members:
            file[member] = np.zeros((2, 2))
    with pytest.raises(CorpusError, match=told):
        read(tmp_path / "x.h5")


@pytest.mark.parametrize("member", [".zgroup", "zarr.json", "X/c/0"])
def test_zarr_is_named(tmp_path, member):
    root = tmp_path / ("x.zarr" if member == "X/c/0" else "store")
    (root / member).parent.mkdir(parents=True)
    (root / member).write_text("{}")
    (root / "a.txt").write_text("apple")
    with pytest.raises(CorpusError, match=r"anndata\.read_zarr"):
        read(root)


WORDS = ["apple", "pear", "plum", "quince"]


def write_gensim(folder, values=COUNTS, ending="bow", words=WORDS, first="4\n"):
    """A corpus as gensim's MmCorpus writes it, which ends at its last word."""
    lines = ["%%MatrixMarket matrix coordinate real general"]
    rows, columns = np.nonzero(values)
    lines.append(f"{values.shape[0]} {columns.max() + 1} {len(rows)}".ljust(50))
    lines += [f"{i + 1} {j + 1} {values[i, j]:g}" for i, j in zip(rows, columns, strict=True)]
    (folder / f"x_{ending}.mm").write_text("\n".join([*lines, ""]))
    entries = [f"{number}\t{word}\t{number + 1}\n" for number, word in enumerate(words)]
    (folder / "dictionary.txt").write_text(first + "".join(sorted(entries, reverse=True)))
    return folder / f"x_{ending}.mm"


@pytest.mark.parametrize("first", ["4\n", ""])
def test_gensim_corpus_and_dictionary(tmp_path, first):
    path = write_gensim(tmp_path, first=first)
    for corpus in (read(path, vocabulary=tmp_path / "dictionary.txt"), read(path)):
        assert corpus.vocabulary == tuple(WORDS)
        np.testing.assert_array_equal(corpus.counts.toarray()[:, :3], COUNTS)
    path = path.rename(tmp_path / "Wiki_bow.mm")
    (tmp_path / "dictionary.txt").rename(tmp_path / "Wiki_wordids.txt")
    assert read(path).vocabulary == tuple(WORDS)
    (tmp_path / "Wiki_wordids.txt").write_text("not a dictionary\n")
    assert read(path).vocabulary == ("w0", "w1", "w2")


def test_a_dictionary_that_does_not_fit_is_refused(tmp_path):
    path = write_gensim(tmp_path, words=WORDS[:2])
    with pytest.raises(CorpusError, match=r"2 words .* 3 columns"):
        read(path)
    (tmp_path / "dictionary.txt").write_text("4\n0\tapple\t1\n2\tpear\t1\n3\tplum\t1\n")
    with pytest.raises(CorpusError, match=r"dictionary.txt: .* 1; .*compactify"):
        read(path)
    (tmp_path / "dictionary.txt").write_text("4\n0\tapple\t1\n0\tpear\t1\n")
    with pytest.raises(CorpusError, match=r"dictionary.txt:3: id 0 occurs again"):
        read(path)
    (tmp_path / "dictionary.txt").write_text("4\n0\tapple\t1\npear\n")
    with pytest.raises(CorpusError, match=r"dictionary.txt:3: .*gensim"):
        read(path)


def test_a_vocabulary_with_more_columns_is_refused(tmp_path):
    """Its tabs broke the files of a run, since words were whole lines."""
    (tmp_path / "words.tsv").write_text("apple\t12\npear\t3\n")
    with pytest.raises(CorpusError, match=r"words.tsv:1: 2 fields.*cut -f"):
        read_vocabulary(tmp_path / "words.tsv")


@pytest.mark.parametrize(
    ("name", "fields"), [("marker_genes.tsv", ("2.5", "-1e-3")), ("mygenes.tsv", ("B cell", "T"))]
)
def test_a_table_about_genes_is_not_the_features_of_10x(tmp_path, name, fields):
    """Its second column was the vocabulary."""
    rows = zip(("CD4", "CD8"), fields, strict=True)
    (tmp_path / name).write_text("".join(f"{gene}\t{field}\n" for gene, field in rows))
    with pytest.raises(CorpusError, match=rf"{name}:1: 2 fields.*cut -f"):
        read_vocabulary(tmp_path / name)


def test_gensim_tfidf_is_read_as_unit_vectors(tmp_path):
    values = COUNTS / np.linalg.norm(COUNTS, axis=1, keepdims=True)
    path = write_gensim(tmp_path, values, "tfidf")
    assert registry.recognised(path, "vectors", "counts").kind == "vectors"
    for given in (None, tmp_path / "dictionary.txt"):
        vectors = read_vectors(path, vocabulary=given)
        assert vectors.vocabulary == tuple(WORDS)
        np.testing.assert_allclose(vectors.values.toarray()[:, :3], values, atol=1e-5)
    counts = write_gensim(tmp_path)
    assert registry.recognised(counts, "vectors", "counts").kind == "counts", "though they are real"
    (tmp_path / "y.mtx").write_bytes(gzip.compress(market(values)))
    assert registry.recognised(tmp_path / "y.mtx", "vectors", "counts").kind == "vectors"
    assert read_vectors(tmp_path / "y.mtx").vocabulary == ("w0", "w1", "w2")


@pytest.mark.parametrize("vocabulary", [None, ["apple", "pear", "plum"]])
def test_lda_c_with_ids_from_1(tmp_path, vocabulary):
    path = tmp_path / "x.dat"
    path.write_text("2 1:1 3:2\n1 2:3\n1 1:4\n1 3:5\n")
    if vocabulary:
        (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
        with pytest.raises(CorpusError, match=r"word id 3 is not in 0..2; .*--first-index .* 1 if"):
            read(path)
    else:
        with pytest.warns(UserWarning, match=r"id 0.*--first-index \(first_index\)"):
            assert read(path).counts.shape == (4, 4)
        assert read(path, first_index=0).counts.shape == (4, 4)
    np.testing.assert_array_equal(read(path, first_index=1).counts.toarray(), COUNTS)
    if vocabulary:
        stored = convert(path, tmp_path / "store", first_index=1)
        np.testing.assert_array_equal(stored.rows().toarray(), COUNTS)
        (tmp_path / "vocab.txt").write_text("\n".join([*vocabulary, "quince"]))
        with pytest.warns(UserWarning, match="give --first-index"):
            convert(path, tmp_path / "other")
    path.write_text("2 0:1 3:2\n")
    with pytest.raises(CorpusError, match=r"x.dat:1: word id 0 is not in 1\.\."):
        read(path, first_index=1)


INSTANCES = [
    ("a1", "en", "apples and pears"),
    ("a2", "en", "plums, and apples"),
    ("a3", "de", "äpfel und birnen"),
    ("a4", "de", "pflaumen"),
    ("a5", "en", "pears"),
    ("a6", "de", "birnen und quitten"),
]


def lines_of(instances, separator):
    return "".join(separator.join(instance) + "\n" for instance in instances)


def test_mallet_instances_between_tabs(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text(lines_of(INSTANCES, "\t"), "utf-8")
    assert resolve(path, Reading()).format == "mallet"
    assert list(read_texts(path)) == [(name, text) for name, _, text in INSTANCES]
    corpus = read(path, text=EVERY_WORD)
    assert corpus.names == tuple(name for name, _, _ in INSTANCES)
    assert not {"en", "de", "a1"} & set(corpus.vocabulary)
    labels = reordered(read_columns(path, ["label"]), corpus.names, path)
    assert labels.columns == {"label": [label for _, label, _ in INSTANCES]}


@pytest.mark.parametrize("separator", [" ", "  "])
def test_mallet_instances_between_blanks_may_be_texts(tmp_path, separator):
    """Two readings are possible, so the format must be named."""
    path = tmp_path / "x.txt"
    path.write_text(lines_of(INSTANCES, separator), "utf-8")
    for function in (read, resolve, read_texts):
        with pytest.raises(CorpusError, match=r"as MALLET's .* --format"):
            list(function(path, Reading()) if function is resolve else function(path))
    expected = [(name, text) for name, _, text in INSTANCES]
    assert list(read_texts(path, format="mallet")) == expected
    assert "en" in read(path, "lines", text=replace(EVERY_WORD, token_pattern=r"\w+")).vocabulary


def test_names_of_mallet_instances_may_repeat(tmp_path):
    """Names and labels became words, without a message."""
    instances = [(f"page{i % 4}", label, text) for i, (_, label, text) in enumerate(INSTANCES * 2)]
    path = tmp_path / "x.txt"
    path.write_text(lines_of(instances, " "), "utf-8")
    with pytest.raises(CorpusError, match=r"as MALLET's .* --format"):
        read(path)
    path.write_text(lines_of(instances, " ") + "apples like Page1\n", "utf-8")
    assert resolve(path, Reading()).format == "lines"


def test_column_names_above_lines_like_those_of_mallet(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("id\tlabel\ttext\n" + lines_of(INSTANCES, "\t"), "utf-8")
    with pytest.raises(CorpusError, match=r"--format .* tsv, or mallet"):
        read(path)
    assert read(path, "tsv", text=EVERY_WORD).names == tuple(name for name, *_ in INSTANCES)


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("id\ttext\tyear", "tsv"),
        ("id,text", "csv"),
        ('"Name";"Body"', "csv"),
        ("id|abstract", "csv"),
        ("document,term,n", "triples"),
    ],
)
def test_column_names_above_lines(tmp_path, header, kind):
    path = tmp_path / "x.txt"
    separator = next(sign for sign in "\t,;|" if sign in header)
    fields = [header.split(separator), *([str(i), "apple", "7"] for i in range(9))]
    rows = [separator.join(row[: len(fields[0])]) + "\n" for row in fields]
    path.write_text("".join(rows))
    says = rf"x.txt:1: .*--format .* {kind}, or lines"
    with pytest.raises(CorpusError, match=says):
        read(path, text=EVERY_WORD)
    options = {} if kind == "triples" else {"text": EVERY_WORD}
    assert read(path, kind, **options).vocabulary == ("apple",)
    assert len(read(path, "lines", text=EVERY_WORD).names) == 10


@pytest.mark.parametrize("line", ["A review, a summary", "text", "body of evidence", "id: text"])
def test_first_lines_that_only_name_texts_are_texts(tmp_path, line):
    path = tmp_path / "x.txt"
    path.write_text(line + "\napple\n")
    assert len(read(path, text=EVERY_WORD).names) == 2


def test_blank_lines_and_errors_of_mallet_instances(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("a1 en , apples\n\na2 de\n")
    assert list(read_texts(path, format="mallet")) == [("a1", "apples"), ("a2", "")]
    path.write_text("a1 en apples\na2\n")
    with pytest.raises(CorpusError, match=r"x.txt:2: no label; write `name label text`"):
        list(read_texts(path, format="mallet"))


@pytest.mark.parametrize(
    "lines",
    [
        ["The cat sat on the mat"] * 8,
        [f"{word} was a good year for apples" for word in WORDS],
        [f"line{i} word{i} and more text here" for i in range(30)],
        ["apples", "pears and plums", "", "quinces"],
        [f"d{i}\tterm\t{i}" for i in range(9)],
        [f"{i} {i % 2} {i}" for i in range(9)],
        ["We will see", "They are here", "We are glad that they came", "They will stay"] * 4,
        ["nice room", "nice staff", "bad room", "bad food"] * 4,
        ["river water stream boat", "goal match team ball"] * 20,
    ],
)
def test_other_lines_are_not_of_mallet(tmp_path, lines):
    (tmp_path / "x.txt").write_text("\n".join(lines))
    assert resolve(tmp_path / "x.txt", Reading()).format == "lines"


STATE = """#doc source pos typeindex type topic
#alpha : 0.5 0.5
#beta : 0.01
0 file:/a b.txt 0 0 apple 1
0 file:/a b.txt 1 2 plum 0
0 file:/a b.txt 2 2 plum 0
2 file:/c.txt 0 5 pear 1
"""


def test_a_state_of_mallet(tmp_path):
    path = tmp_path / "topic-state.gz"
    path.write_bytes(gzip.compress(STATE.encode()))
    assert resolve(path, Reading()).format == "mallet-state"
    corpus = read(path)
    assert corpus.vocabulary == ("apple", "plum", "pear")
    assert corpus.names == ("file:/a b.txt", "1", "file:/c.txt")
    assert corpus.counts.toarray().tolist() == [[1, 2, 0], [0, 0, 0], [0, 0, 1]]
    path.write_bytes(STATE.replace("file:/a b.txt", "NA").replace("file:/c.txt", "NA").encode())
    assert read(path).names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("#doc source", "#doc of", r"first line|not a token"),
        ("type topic", "type", r"topic-state:1: .*first line"),
        ("2 2 plum", "2 x plum", "topic-state:6: '0 file:/a b.txt 2 x plum 0' "),
        ("2 2 plum", "2 2 pears", "topic-state:6: word 2 is 'pears' here and 'plum' before"),
        ("2 file:/c.txt", "9999999999 file:/c.txt", "out of range"),
        ("2 file:/c.txt", "99999999 file:/c.txt", "100000000 documents, 3 entries"),
        (STATE[37:], "\n", r"not a token|no token"),
    ],
)
def test_malformed_states(tmp_path, old, new, says):
    assert old in STATE
    (tmp_path / "topic-state").write_text(STATE.replace(old, new))
    if old == "#doc source":
        assert read(tmp_path / "topic-state").names[0] == "file:/a b.txt"
        return
    with pytest.raises(CorpusError, match=says):
        read(tmp_path / "topic-state")
