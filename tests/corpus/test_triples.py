"""A word of a document in each record: tables of tidytext and quanteda, and data frames."""

import gzip

import numpy as np
import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import (
    CorpusError,
    Reading,
    convert,
    from_counts,
    read,
    resolve,
)
from simplex_jax._src.corpus.formats.tables import read_frame
from simplex_jax._src.models import dpm, lda

SONNETS = [("s2", "rose", 3), ("s1", "time", 1), ("s2", "time", 2), ("s1", "rose", 1)]
COUNTS = [[3, 2], [1, 1]]  # of s2 and s1 by rose and time


def written(path, titles, rows=SONNETS, separator=",", end="\n", encoding="utf-8"):
    lines = [titles, *(separator.join(map(str, row)) for row in rows), ""]
    content = end.join(lines).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def check(corpus):
    assert (corpus.names, corpus.vocabulary) == (("s2", "s1"), ("rose", "time"))
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)


@pytest.mark.parametrize(
    ("file", "titles", "separator", "options"),
    [
        ("tidytext.csv", "document,term,count", ",", {}),
        ("quanteda.csv", "document,feature,frequency", ",", {}),
        ("excel.csv", "Doc_ID;Word;N", ";", {"end": "\r\n", "encoding": "utf-8-sig"}),
        ("polars.tsv", "doc\ttoken\tfreq", "\t", {"encoding": "utf-16"}),
        ("packed.csv.gz", "id, term, n", ", ", {}),
    ],
)
def test_layouts(tmp_path, file, titles, separator, options):
    path = written(tmp_path / file, titles, separator=separator, **options)
    assert resolve(path, Reading()).format == "triples"
    check(read(path))
    stored = convert(path, tmp_path / "store")
    np.testing.assert_array_equal(stored.rows().toarray(), COUNTS)


def test_row_names_and_other_columns_are_left_out(tmp_path):
    """As write.csv of R and bind_tf_idf of tidytext write them."""
    rows = [(f'"{row}"', f'"{d}"', f'"{w}"', n, 0.25) for row, (d, w, n) in enumerate(SONNETS, 1)]
    check(read(written(tmp_path / "x.csv", '"","document","term","n","tf"', rows)))


def test_quotes_between_tabs(tmp_path):
    """As write.table of R writes them."""
    rows = [(f'"{document}"', f'"{word}"', count) for document, word, count in SONNETS]
    path = written(tmp_path / "x.tsv", '"document"\t"term"\t"count"', rows, separator="\t")
    assert resolve(path, Reading()).text_column == "term"
    check(read(path))


def test_records_of_one_word_are_summed_and_zeros_keep_the_document(tmp_path):
    rows = [("a", "elm", "2"), ("b", "elm", "0"), ("a", "oak", "1.0"), ("a", "elm", "1e+02")]
    corpus = read(written(tmp_path / "x.csv", "document,term,n", rows))
    assert corpus.names == ("a", "b")
    np.testing.assert_array_equal(corpus.counts.toarray(), [[102, 1], [0, 0]])


def test_a_token_in_each_record(tmp_path):
    rows = [(document, word) for document, word, count in SONNETS for _ in range(count)]
    path = written(tmp_path / "x.csv", "document,word", rows)
    check(read(path))
    path = written(tmp_path / "y.csv", "doc_id,token,lemma", [(*row, row[1]) for row in rows])
    with pytest.raises(CorpusError, match=r"y.csv:1: .* --format triples .* --text-column"):
        read(path)
    check(read(path, "triples", text_column="lemma"))


def test_weights_that_are_no_counts_are_told(tmp_path, recwarn):
    rows = [(document, word, count / 7) for document, word, count in SONNETS]
    read(written(tmp_path / "x.csv", "document,term,tfidf", rows), "triples")
    assert "each in tfidf" in str(recwarn.pop())
    # Numbers of tokens are no counts: some words of a document occur again.
    rows = [(d, i, word) for d, word, count in SONNETS for i in range(count)]
    check(read(written(tmp_path / "y.csv", "document,token_id,token", rows), "triples"))
    assert not recwarn


def test_columns_with_other_names(tmp_path):
    path = written(tmp_path / "x.csv", "book,word,n")
    with pytest.raises(CorpusError, match=r"--format .* dense .*, triples "):
        read(path)
    check(read(path, "triples", id_column="book"))
    path = written(tmp_path / "x.txt", "Poem, Wort, n")
    check(read(path, "triples", id_column="Poem", text_column="Wort"))


def test_tables_of_texts_stay_texts(tmp_path):
    for titles in ("id,token,text", "document,review,term,count", "id,body,n"):
        path = tmp_path / "x.csv"
        path.write_text(titles + "\n1" + ",the long river" * titles.count(",") + "\n")
        assert resolve(path, Reading()).format == "csv", titles
    many = [f"w{i}" for i in range(9)]
    path.write_text(",".join(["document", "term", "count", *many]) + "\n" + ",".join("0" * 12))
    assert resolve(path, Reading(text_column="document")).format == "csv"  # a word a column


def test_only_the_words_of_a_vocabulary(tmp_path):
    (tmp_path / "words").write_text("time\nlove\n")
    path = written(tmp_path / "x.csv", "document,term,count")
    corpus = read(path, vocabulary=tmp_path / "words")
    assert corpus.vocabulary == ("time", "love")
    np.testing.assert_array_equal(corpus.counts.toarray(), [[2, 0], [1, 0]])
    assert corpus.tokens.dropped == {"not in the vocabulary": 4}


def test_the_command_and_transform_say_what_they_read(tmp_path):
    rows = [(f"d{i}", word, 2) for i in range(30) for word in ("bread", "flour", "boat")]
    path = written(tmp_path / "x.csv", "document,term,n", rows)
    out = tmp_path / "run"
    command = ["lda", str(path), "--topics", "2", "--passes", "4", "--chains", "1"]
    told = CliRunner().invoke(main, [*command, "--out", str(out)])
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    assert "read 30 documents, 180 tokens of 3 words" in said
    assert "document, term, n" in said
    new = written(tmp_path / "new.csv", "document,term,n", [("x", "boat", 3), ("y", "sea", 1)])
    told = CliRunner().invoke(
        main,
        ["lda", "transform", str(new), "--model", str(out), "--out", str(tmp_path / "new.npz")],
    )
    assert told.exit_code == 0, told.output
    assert "2 documents, 4 tokens: 1 (25.0%)" in " ".join(told.output.split())


@pytest.mark.slow
def test_dpm_clusters_the_documents(tmp_path):
    rows = [(f"d{i}", word, 2) for i in range(8) for word in ("bread", "flour", "boat")]
    path = written(tmp_path / "x.csv", "document,term,n", rows)
    kind = ["--format", "table", "--kind", "categories"]
    for flags, size in (([], 8), (kind, 24)):
        out = ["--out", str(tmp_path / str(size))]
        command = ["dpm", str(path), "--passes", "2", "--chains", "1", *out, *flags]
        told = CliRunner().invoke(main, command)
        assert f"{size} rows" in told.output, told.output


def frame(**columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def test_data_frames():
    documents, words, counts = zip(*SONNETS, strict=True)
    table = frame(document=documents, term=words, count=counts)
    check(from_counts(table))
    check(from_counts(table.convert_dtypes()))
    numbered = from_counts(frame(doc_id=[2.0, 1, 2, 1], word=words, n=counts))
    assert numbered.names == ("2", "1")
    fitted = lda.fit(table, 1, passes=2, chains=1)
    assert fitted.topics.shape[-1] == 2


@pytest.mark.slow
def test_categories_with_such_columns_stay_categories(tmp_path):
    table = read_frame(written(tmp_path / "x.csv", "document,term,count", SONNETS * 3), Reading())
    assert len(dpm.fit(table.columns, passes=2, chains=1).clusters.labels) == 12


def test_bad_data_frames():
    with pytest.raises(CorpusError, match=r"column 'term' has \w+ in row 1"):
        from_counts(frame(document=["a", "b"], term=["elm", None], n=[1, 2]))
    with pytest.raises(CorpusError, match=r"row 1, column 1 .* is 0\.5"):
        from_counts(frame(document=["a", "b"], term=["elm", "oak"], n=[1, 0.5]))
    for cell in (None, "two"):
        table = frame(document=["a", "b"], term=["elm", "oak"], n=[1, cell]).convert_dtypes()
        with pytest.raises(CorpusError, match=r"column 'n' |is nan"):
            from_counts(table)
    with pytest.raises(CorpusError, match=r"^counts: .*vocabulary and names"):
        from_counts(frame(document=["a"], term=["elm"], n=[1]), ["elm"])
    words = from_counts(frame(document=[0, 2], term=[1, 0], count=[3, 3]))
    assert words.vocabulary == ("document", "term", "count"), "a table with a column for each word"
