"""Corpora at the edge: what they mean is defined, from the file to the counts."""

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src.corpus import (
    MAX_COUNT,
    CorpusError,
    TextOptions,
    convert,
    drop_words,
    from_counts,
    from_texts,
    holdout,
    read,
    split_tokens,
    store,
    vocabulary,
)

EVERY_WORD = TextOptions(min_df=1, max_df=1.0, stop_words="none")


def written(folder, format, counts):
    """The same counts in a file of any format that holds counts."""
    counts = sp.coo_array(counts)
    rows, words, values = counts.row, counts.col, counts.data
    entries = [f"{i + 1} {j + 1} {n}" for i, j, n in zip(rows, words, values, strict=True)]
    pairs = [[] for _ in range(counts.shape[0])]
    for i, j, n in zip(rows, words, values, strict=True):
        pairs[i].append((int(j), int(n)))
    sizes = " ".join(map(str, (*counts.shape, len(entries))))
    content = {
        "uci": [sizes.replace(" ", "\n"), *entries],
        "mtx": ["%%MatrixMarket matrix coordinate integer general", sizes, *entries],
        "ldac": [" ".join([str(len(row)), *(f"{j}:{n}" for j, n in row)]) for row in pairs],
        "svmlight": [" ".join(["0", *(f"{j + 1}:{n}" for j, n in row)]) for row in pairs],
        "dense": [
            ",".join(f"w{j}" for j in range(counts.shape[1])),
            *(",".join(map(str, row)) for row in counts.toarray()),
        ],
    }
    path = folder / "counts"
    if format == "npz":
        with path.open("wb") as file:
            sp.save_npz(file, counts)
    elif format == "store":
        store.write(path, from_counts(counts))
    else:
        path.write_text("\n".join(content[format]) + "\n")
    (folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(counts.shape[1])))
    return path


COUNTED = ["uci", "mtx", "ldac", "svmlight", "dense", "npz", "store"]


@pytest.mark.filterwarnings("ignore:.*no word has id 0")
@pytest.mark.parametrize("format", COUNTED)
def test_empty_documents_and_documents_of_one_word_stay(tmp_path, format):
    counts = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 7], [0, 0, 0]])
    corpus = read(written(tmp_path, format, counts), format)
    width = corpus.counts.shape[1]
    np.testing.assert_array_equal(corpus.counts.toarray(), counts[:, :width])
    assert len(corpus.names) == 5
    observed, target = split_tokens(corpus.counts, 0)
    assert observed.sum(axis=1)[1] + target.sum(axis=1)[1] == 1
    assert sum(part.counts.shape[0] for part in holdout(corpus, 4, 0)) == 5


@pytest.mark.parametrize("format", COUNTED)
def test_a_document_of_a_million_tokens(tmp_path, format):
    counts = np.zeros((3, 1000), np.int64)
    counts[1] = 1000
    counts[2, 0] = MAX_COUNT
    corpus = read(written(tmp_path, format, counts), format)
    assert corpus.counts.sum(axis=1).tolist() == [0, 10**6, MAX_COUNT]


def test_a_text_of_a_million_tokens(tmp_path):
    text = "apple pear " * 500_000
    (tmp_path / "x.txt").write_text(f"plum\n{text}\n")
    corpus = read(tmp_path / "x.txt", text=EVERY_WORD)
    assert corpus.counts.toarray().tolist() == [[0, 0, 1], [500_000, 500_000, 0]]


@pytest.mark.parametrize("format", ["uci", "mtx", "ldac", "svmlight"])
def test_entries_given_twice_are_summed(tmp_path, format):
    twice = sp.coo_array(([2, 3, 1, 4], ([0, 0, 0, 1], [1, 0, 1, 0])), shape=(2, 2))
    path = written(tmp_path, format, twice)
    assert read(path, format).counts.toarray().tolist() == [[3, 3], [4, 0]]
    if format in ("uci", "ldac"):
        stored = convert(path, tmp_path / "store", format)
        assert stored.rows().toarray().tolist() == [[3, 3], [4, 0]]


@pytest.mark.parametrize("format", COUNTED)
def test_one_document_of_one_token(tmp_path, format):
    path = written(tmp_path, format, np.array([[1]]))
    assert read(path, format).counts.toarray().tolist() == [[1]]


def test_words_that_tell_nothing_are_suggested():
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 400, 300)
    topic = np.arange(300) % 3
    rows = [
        [
            rng.poisson(0.05 * n),  # everywhere alike
            *(rng.poisson(0.3 * n * (topic[i] == k)) for k in range(3)),  # of a topic
            rng.poisson(0.0003 * n),  # rare
            1,  # once in every document: more even than by chance
        ]
        for i, n in enumerate(lengths)
    ]
    corpus = from_counts(rows, ["the", "cat", "dog", "owl", "rare", "once"])
    result = vocabulary.suggest(corpus)
    assert [each.word for each in result] == ["the", "once"]
    assert abs(result[0].information) < 0.02
    assert result[0].share > 0.95
    assert vocabulary.suggest(corpus, count=1) == result[:1]
    information = vocabulary.information(vocabulary.sums_of(corpus.counts), np.arange(6))
    # Words of a topic name one document in three.
    np.testing.assert_allclose(information[1:4], np.log2(3), atol=0.1)
    assert drop_words(corpus, {"the", "once", "not there"}).vocabulary == (
        "cat",
        "dog",
        "owl",
        "rare",
    )


def test_information_is_that_of_shuffled_tokens():
    rng = np.random.default_rng(1)
    counts = from_counts(rng.poisson(rng.gamma(0.5, 2.0, (300, 100)))).counts
    words = np.arange(100)

    def entropy(table):
        share = table / table.sum(axis=0)
        return -np.sum(share * np.log2(np.where(share > 0, share, 1)), axis=0)

    dense = counts.toarray()
    document, word = (np.repeat(part, dense[dense > 0]) for part in np.nonzero(dense))
    shuffled = []
    for _ in range(20):
        table = np.zeros_like(dense)
        np.add.at(table, (rng.permutation(document), word), 1)
        shuffled.append(entropy(table))
    expected = np.mean(shuffled, axis=0) - entropy(dense)
    result = vocabulary.information(vocabulary.sums_of(counts), words)
    assert expected.min() > 0.3
    np.testing.assert_allclose(result, expected, atol=0.04)  # twice what 20 shuffles leave open
    assert abs(np.mean(result - expected)) < 0.01


def test_speeches_suggest_what_any_list_has(shared_data):
    corpus = read(
        shared_data / "sotu" / "documents.txt",
        text=TextOptions(min_df=5, max_df=1.0, stop_words="none"),
    )
    result = [each.word for each in vocabulary.suggest(corpus)]
    assert result[:2] == ["the", "and"]
    assert not {"war", "states", "tax"} & set(result)


def test_leaving_every_word_out_is_an_error():
    corpus = from_texts(["apple pear"], options=EVERY_WORD)
    with pytest.raises(CorpusError, match=r"^words to leave"):
        drop_words(corpus, ["apple", "pear"])
