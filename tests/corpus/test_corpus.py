"""Corpora from arrays and texts, their digest, and their splits."""

import re
import unicodedata

import numpy as np
import pytest
import scipy.sparse as sp

from simplex_jax._src import corpus as corpora
from simplex_jax._src.corpus import (
    MAX_COUNT,
    CorpusError,
    TextOptions,
    digest,
    from_counts,
    from_texts,
    holdout,
    split_tokens,
    text,
    to_vocabulary,
    vectors,
)

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 5, 0, 1]])
EVERY_WORD = TextOptions(min_df=1, max_df=1.0)
ONE_LETTER = TextOptions(min_df=1, max_df=1.0, token_pattern=r"\w")


def random_counts(seed, documents=200, words=30):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.4 * rng.gamma(0.3, size=(documents, words)) * 10)
    counts[::17] = 0
    return from_counts(counts)


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.ndarray.tolist,
        lambda c: c.astype(np.float32),
        lambda c: c.astype(np.uint8),
        np.asfortranarray,
        *(
            lambda c, layout=layout: getattr(sp, layout)(c)
            for layout in (
                "csr_array", "csc_array", "coo_array", "bsr_array", "dia_array", "lil_array",
                "dok_array", "csr_matrix", "coo_matrix",
            )
        ),
    ],
)  # fmt: skip
def test_from_counts_takes_every_kind_of_array(convert):
    corpus = from_counts(convert(COUNTS), ["a", "b", "c", "d"], ["x", "y", "z"])
    assert isinstance(corpus.counts, sp.csr_array)
    assert corpus.counts.dtype == np.int32
    assert corpus.counts.has_canonical_format
    assert corpus.counts.nnz == 4
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    assert corpus.vocabulary == ("a", "b", "c", "d")
    assert corpus.names == ("x", "y", "z")


def test_from_counts_sums_duplicates_and_drops_zeros():
    entries = sp.coo_array(([1, 2, 0, 4], ([0, 0, 1, 1], [1, 1, 0, 1])), shape=(2, 2))
    corpus = from_counts(entries)
    assert corpus.counts.toarray().tolist() == [[0, 3], [0, 4]]
    assert corpus.counts.nnz == 2
    assert corpus.vocabulary == ("w0", "w1")
    assert corpus.names == ("0", "1")


def test_from_counts_leaves_its_argument_alone():
    counts = sp.csr_array(([1, 2, 0], [2, 0, 1], [0, 3]), shape=(1, 3))
    before = [array.copy() for array in (counts.data, counts.indices, counts.indptr)]
    from_counts(counts)
    for array, old in zip((counts.data, counts.indices, counts.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_largest_count_is_kept():
    assert from_counts([[MAX_COUNT]]).counts[0, 0] == MAX_COUNT


def csr(data, indices, indptr, shape):
    """A csr_array with contents that its constructor would refuse."""
    array = sp.csr_array(shape, dtype=np.asarray(data).dtype)
    array.data, array.indices, array.indptr = map(np.asarray, (data, indices, indptr))
    return array


BAD_COUNTS = {
    "negative": ([[0, 1], [-1, 0]], "row 1, column 0"),
    "nan": ([[0.0, np.nan]], "row 0, column 1"),
    "infinite": ([[np.inf, 1.0]], "row 0, column 0"),
    "minus infinity": ([[1.0, -np.inf]], "out of range"),
    "fraction": ([[1.0], [0.5]], "row 1, column 0 .* is 0.5"),
    "huge": ([[MAX_COUNT + 1]], "16777217"),
    "huge unsigned": (np.array([[2**63]], np.uint64), "9223372036854775808"),
    "huge float": (np.array([[1e30]]), "out of range"),
    "half precision fraction": (np.array([[0.1]], np.float16), r"row 0, column 0 .* is 0\.09"),
    "negative, hidden by its duplicate": (
        sp.coo_array(([-1, 3], ([0, 0], [0, 0])), shape=(1, 1)),
        "is -1",
    ),
    "duplicates with a huge sum": (
        sp.coo_array(([MAX_COUNT, 1], ([1, 1], [0, 0])), shape=(2, 1)),
        "row 1, column 0 .* is 16777217",
    ),
    "duplicates beyond int32": (
        sp.coo_array(([MAX_COUNT] * 300, ([0] * 300, [0] * 300)), shape=(1, 1)),
        "out of range",
    ),
    "one dimension": ([1, 2], "1 dimensions"),
    "three dimensions": (np.zeros((2, 2, 2)), "3 dimensions"),
    "scalar": (3, "0 dimensions"),
    "none": (None, "0 dimensions"),
    "masked": (np.ma.array([[1, 9]], mask=[[0, 1]]), "masked"),
    "objects": (np.array([[object()]]), "dtype object"),
    "missing": (np.array([[None]]), "column 0 .* is nan"),
    "ragged": ([[1, 2], [3]], r"^counts: .*valid array"),
    "text": (np.array([["a", "b"]]), "dtype <U1"),
    "words": ([[], ["a", "b"]], r"join .* ' '.join\(words\)"),
    "arrays of words": ([np.array(["a", "b"])], r"arrays of words .*; give lists: \[row.tolist"),
    "dict": ({"a": "apple"}, r"^counts: a dict "),
    "set": ({"apple", "pear"}, r"^counts: a set"),
    "nothing": ([], "an empty list"),
    "bytes": ([b"apple"], r"bytes .*; decode each text"),
    "dicts": ([{"apple": 2}], "dicts .*DictVectorizer"),
    "texts": (np.array([[1, "an apple"]], object), r"dtype object; .* table\["),
    "texts of numbers": (np.array([[1], ["2"]], object), "dtype object"),
    "complex": ([[1j]], "complex"),
    "no document": (np.zeros((0, 3)), r"\(0, 3\)"),
    "no word": (np.zeros((3, 0)), r"\(3, 0\)"),
    "all empty": (np.zeros((2, 3)), "document is empty"),
    "sparse index out of range": (csr([1], [9], [0, 1], (1, 3)), r"^counts: .*valid array"),
    "sparse negative index": (csr([1], [-1], [0, 1], (1, 3)), r"^counts: .*valid array"),
    "sparse pointers decrease": (csr([1, 1], [0, 1], [0, 2, 1], (2, 3)), r"^counts: .*valid array"),
}


@pytest.mark.parametrize(("counts", "message"), BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_bad_counts(counts, message):
    with pytest.raises(CorpusError, match=message) as caught:
        from_counts(counts)
    assert str(caught.value).startswith("counts: ")
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("vocabulary", "names", "message"),
    [
        (["a", "b"], None, r"2 words .* \(3, 4\)"),
        (["a", "b", "c"], None, "transpose"),
        (["a", "b", "b", "c"], None, "word 2 .* repeats word 1, 'b'"),
        (["a", "", "b", "c"], None, "word 1 .* is empty"),
        ("abcd", None, "one string"),
        ({"a", "b", "c", "d"}, None, r"vocabulary .*a set, "),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, None, r"vocabulary .*a dict, "),
        ({"a": "x", "b": 1, "c": 2, "d": 3}, None, r"vocabulary .*a dict, "),
        (["a", "b", None, "d"], None, "word 2 .* is None; give strings"),
        (range(4), None, "word 0 .* is 0; give strings"),
        (None, ["x"], "1 names for 3 documents"),
    ],
)
def test_bad_labels(vocabulary, names, message):
    with pytest.raises(CorpusError, match=message):
        from_counts(COUNTS, vocabulary, names)


def test_a_vocabulary_of_columns_is_in_their_order():
    words = ("d", "c", "b", "a")
    columns = {word: np.int64(words.index(word)) for word in "abcd"}
    corpus = from_counts(COUNTS, columns)
    assert corpus.vocabulary == words
    assert from_texts(["d b"], vocabulary=columns, options=ONE_LETTER).vocabulary == words
    assert to_vocabulary(corpus, columns).corpus is corpus
    assert from_counts(COUNTS, np.array(words)).vocabulary == words


def test_labels_of_a_data_frame_are_kept():
    pandas = pytest.importorskip("pandas")
    # Without them, another frame with the columns in another order has other words.
    frame = pandas.DataFrame({"sea": [2, 0], "ant": [1, 3]}, index=["d1", "d2"])
    corpus = from_counts(frame)
    assert (corpus.vocabulary, corpus.names) == (("sea", "ant"), ("d1", "d2"))
    mapped = to_vocabulary(from_counts(frame[["ant", "sea"]]), corpus.vocabulary)
    assert mapped.corpus.counts.toarray().tolist() == [[2, 1], [0, 3]]
    given = from_counts(frame, ["x", "y"], ["1", "2"])
    assert (given.vocabulary, given.names) == (("x", "y"), ("1", "2"))
    assert from_counts(pandas.DataFrame([[1, 2]])).vocabulary == ("w0", "w1")
    with pytest.raises(CorpusError, match=r"vocabulary word 1 .* repeats word 0, 'sea'"):
        from_counts(frame.set_axis(["sea", "sea"], axis=1))
    numbers = frame.set_axis([1002, 1001.0], axis=1)  # as pivot tables of items have them
    assert from_counts(numbers).vocabulary == ("1002", "1001")
    assert from_counts(frame.set_axis([1, 0], axis=1)).vocabulary == ("1", "0")
    assert from_counts(frame.set_axis([" a", "a"], axis=1)).vocabulary == (" a", "a")
    unit = vectors.from_array(frame, normalise=True)
    assert (unit.vocabulary, unit.names) == (("sea", "ant"), ("d1", "d2"))


def test_nullable_and_mixed_columns_of_a_data_frame_are_counts():
    """Their values are objects, as those of booleans beside numbers are."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sea": [2, 0], "ant": [True, False]})
    for given in (frame, frame.convert_dtypes()):
        assert from_counts(given).counts.toarray().tolist() == [[2, 1], [0, 0]]
    with pytest.raises(CorpusError, match="dtype object"):
        from_counts(np.array([[1, pandas.NA]], object))


def test_a_sparse_data_frame_is_never_dense(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sea": [2, 0], "ant": [0, 3]}, index=["d1", "d2"])
    filled = from_counts(frame.astype(pandas.SparseDtype(float, np.nan)))
    assert filled.counts.toarray().tolist() == [[2, 0], [0, 3]], "though it leaves out NaN"
    sparse = frame.astype(pandas.SparseDtype(int, 0))
    monkeypatch.setattr(pandas.DataFrame, "__array__", None)
    corpus = from_counts(sparse)
    assert corpus.counts.toarray().tolist() == [[2, 0], [0, 3]]
    assert (corpus.vocabulary, corpus.names) == (("sea", "ant"), ("d1", "d2"))


def test_a_written_index_is_no_word(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "x.csv"
    pandas.DataFrame({"sea": [2, 0], "ant": [1, 3]}).to_csv(path)
    for read in (from_counts, lambda frame: vectors.from_array(frame, normalise=True)):
        with pytest.raises(CorpusError, match=r"'Unnamed: 0'.* index_col=0$"):
            read(pandas.read_csv(path))
    assert from_counts(pandas.read_csv(path, index_col=0)).vocabulary == ("sea", "ant")
    counts = pandas.DataFrame({"Unnamed: 0": [1, 1], "ant": [1, 3]})
    assert from_counts(counts).vocabulary == ("Unnamed: 0", "ant"), "two rows have one number"


def test_digest_depends_on_counts_and_words_only():
    corpus = from_counts(COUNTS)
    assert digest(corpus) == digest(from_counts(sp.csc_array(COUNTS), names=["x", "y", "z"]))
    assert digest(corpus) == digest(
        corpus._replace(
            counts=sp.csr_array(
                (
                    corpus.counts.data.astype(np.int64),
                    corpus.counts.indices.astype(np.int64),
                    corpus.counts.indptr.astype(np.int64),
                ),
                shape=corpus.counts.shape,
            )
        )
    )
    others = [
        from_counts(COUNTS[:, [1, 0, 2, 3]]),
        from_counts(COUNTS[:2]),
        from_counts(COUNTS * 2),
        from_counts(COUNTS, ["w0", "w1", "w2", "w4"]),
        from_counts(np.hstack([COUNTS, np.zeros((3, 1))])),
    ]
    assert len({digest(corpus), *map(digest, others)}) == 6


def test_holdout_parts_the_documents():
    corpus = random_counts(1)
    train, heldout = holdout(corpus, 50, seed=3)
    assert train.counts.shape[0] == 150
    assert len(heldout.names) == heldout.counts.shape[0] == 50
    assert set(train.names) | set(heldout.names) == set(corpus.names)
    assert list(map(int, heldout.names)) == sorted(map(int, heldout.names))
    rows = list(map(int, heldout.names))
    assert (corpus.counts[rows] != heldout.counts).nnz == 0
    again = holdout(corpus, 50, seed=3)[1]
    assert again.names == heldout.names
    assert holdout(corpus, 50, seed=4)[1].names != heldout.names


def test_holdout_of_nothing():
    train, heldout = holdout(random_counts(1), 0, seed=0)
    assert train.counts.shape == (200, 30)
    assert heldout.counts.shape == (0, 30)


@pytest.mark.parametrize(("count", "seed"), [(-1, 0), (200, 0), (5, -1), (5, 2**32)])
def test_holdout_refuses(count, seed):
    with pytest.raises(ValueError, match=r"count=|seed must be"):
        holdout(random_counts(1), count, seed)


@pytest.mark.parametrize("seed", range(5))
def test_split_tokens_halves_every_document(seed):
    counts = random_counts(seed).counts
    observed, target = split_tokens(counts, seed)
    assert observed.dtype == target.dtype == counts.dtype
    assert observed.shape == target.shape == counts.shape
    assert (observed + target != counts).nnz == 0
    assert observed.data.min() > 0
    assert target.data.min() > 0
    difference = observed.sum(axis=1) - target.sum(axis=1)
    assert np.abs(difference).max() == 1
    np.testing.assert_array_equal(np.abs(difference), counts.sum(axis=1) % 2)
    again, _ = split_tokens(counts, seed)
    assert (again != observed).nnz == 0


@pytest.mark.parametrize("share", [0.1, 0.2, 0.75])
def test_split_tokens_by_another_share(share):
    counts = random_counts(1).counts
    observed, target = split_tokens(counts, 1, share)
    assert (observed + target != counts).nnz == 0
    expected = share * counts.sum(axis=1)
    assert np.abs(target.sum(axis=1) - expected).max() < 1
    total, sd = expected.sum(), np.sqrt((expected % 1 * (1 - expected % 1)).sum())
    assert abs(target.sum() - total) <= 5 * sd + 1e-9, "false alarm below 1e-6"
    for wrong in (0.0, 1.0, -0.1, np.nan):
        with pytest.raises(ValueError, match="share"):
            split_tokens(counts, 1, wrong)


def pair_excess(split, documents=4000):
    """z of the number of documents `a a b b` whose observed half is `a b`, against 2/3."""
    counts = sp.csr_array(np.full((documents, 2), 2, np.int32))
    observed, _ = split(counts, 7)
    mixed = int((observed.toarray()[:, 0] == 1).sum())
    return (mixed - documents * 2 / 3) / np.sqrt(documents * 2 / 9)


def test_split_tokens_is_uniform_over_halves():
    """Exact hypergeometric law; false alarm below 1e-4 (two-sided z of 4)."""
    assert abs(pair_excess(split_tokens)) < 4

    def coin_for_every_token(counts, seed):
        rng = np.random.default_rng(seed)
        return sp.csr_array(rng.binomial(counts.toarray(), 0.5)), None

    assert abs(pair_excess(coin_for_every_token)) > 4


def test_split_tokens_gives_odd_tokens_to_either_side():
    """False alarm below 1e-4 (two-sided z of 4)."""
    counts = sp.csr_array(np.ones((4000, 1), np.int32))
    observed, _ = split_tokens(counts, 0)
    assert abs(observed.sum() - 2000) < 4 * np.sqrt(1000)


def test_texts_with_all_options(tmp_path):
    texts = ["The Cat and the dog", "A cat, a CAT!", "", "Dog-food for 2 dogs"]
    assert from_texts(texts, options=EVERY_WORD).vocabulary == ("cat", "dog", "dogs", "food")
    plain = TextOptions(min_df=1, max_df=1.0, stop_words="none", lowercase=False)
    assert "The" in from_texts(texts, options=plain).vocabulary
    assert from_texts(texts, options=TextOptions(min_df=2, max_df=3)).vocabulary == ("cat", "dog")
    frequent = TextOptions(min_df=1, max_df=1.0, max_vocabulary=1)
    assert from_texts(texts, options=frequent).vocabulary == ("cat",)
    stop = tmp_path / "stop.txt"
    stop.write_text("Cat\ndog-food\n")
    own = TextOptions(min_df=1, max_df=1.0, stop_words=str(stop))
    assert from_texts(texts, options=own).vocabulary == ("and", "dogs", "for", "the")
    short = TextOptions(min_df=1, max_df=1.0, token_pattern=r"[a-z]+", stop_words="none")
    assert "a" in from_texts(texts, options=short).vocabulary


def test_texts_keep_empty_documents():
    corpus = from_texts(["cat", "", "12 34"], ["x", "y", "z"], options=EVERY_WORD)
    assert corpus.counts.sum(axis=1).tolist() == [1, 0, 0]
    assert corpus.names == ("x", "y", "z")


def test_texts_with_a_given_vocabulary():
    corpus = from_texts(["the dog", "Cat dog dog"], vocabulary=["dog", "the", "unseen", "cat"])
    assert corpus.vocabulary == ("dog", "the", "unseen", "cat")
    assert corpus.counts.toarray().tolist() == [[1, 1, 0, 0], [2, 0, 0, 1]]


def test_texts_are_words_of_any_script():
    corpus = from_texts(["größe naïve Москва 東京都 h2o"], options=EVERY_WORD)
    assert corpus.vocabulary == ("größe", "h2o", "naïve", "москва", "東京都")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (unicodedata.normalize("NFD", "größe naïve größe"), ["größe", "naïve", "größe"]),
        ("İstanbul İl", ["i\u0307stanbul"]),
        ("नदी हिन्दी में", ["नदी", "हिन्दी", "में"]),
        ("தமிழ் நதி, বাংলা ভাষা", ["தமிழ்", "நதி", "বাংলা", "ভাষা"]),
        ("كِتَابٌ جديد", ["كِتَابٌ", "جديد"]),
        ("می\u200cخواهم ภาษาไทย", ["می\u200cخواهم", "ภาษาไทย"]),
        ("\U00011103\U00011127\U00011103", ["\U00011103\U00011127\U00011103"]),  # Chakma
        ("\u2764\ufe0flove 1\u0328abc _yz \u200cabc", ["love", "abc"]),
        ("abc\u03281 ab\u0328\u0328 1ab", ["abc\u03281", "ab\u0328\u0328"]),
    ],
)
def test_marks_are_part_of_words(text, words):
    assert list(corpora.tokens([text])) == [words]


def test_texts_without_marks_have_the_words_of_the_pattern():
    rng = np.random.default_rng(0)
    for alphabet in ("aB1_ .'", "aé1_ \u2019東", "aé1_ \U0001f600\U00020000"):
        for line in ("".join(rng.choice(list(alphabet), 200)) for _ in range(50)):
            assert text.words(line) == re.findall(text.PATTERN, line)


def test_given_words_are_composed_too(tmp_path):
    apart = unicodedata.normalize("NFD", "größe")
    corpus = from_texts(["größe", apart], vocabulary=[apart, "cat"])
    assert corpus.vocabulary == (apart, "cat")
    assert corpus.counts.toarray().tolist() == [[1, 0], [1, 0]]
    with pytest.raises(CorpusError, match=r"word 1 .* repeats word 0"):
        from_texts(["größe"], vocabulary=[apart, "größe"])
    stop = tmp_path / "stop.txt"
    stop.write_text(apart + "\n")
    options = TextOptions(min_df=1, max_df=1.0, stop_words=str(stop))
    assert from_texts(["größe cat"], options=options).vocabulary == ("cat",)


@pytest.mark.parametrize(
    ("texts", "kwargs", "message"),
    [
        ([], {}, "no document"),
        (["cat"], {}, "min_df=5"),
        (["1 2 3"], {"options": EVERY_WORD}, r"--token-pattern \(token_pattern\)"),
        (["the and"], {"options": EVERY_WORD}, "stop_words=english"),
        (["cat"], {"vocabulary": ["dog", "dog"]}, "repeats"),
        (["cat"], {"vocabulary": []}, "no word"),
        (["cat"], {"options": EVERY_WORD, "names": ["x", "y"]}, "2 names"),
    ],
)
def test_bad_texts(texts, kwargs, message):
    with pytest.raises(CorpusError, match=message):
        from_texts(texts, **kwargs)


@pytest.mark.parametrize(
    "options",
    [
        {"min_df": -1},
        {"min_df": 0},
        {"min_df": 1.5},
        {"min_df": True},
        {"max_df": float("nan")},
        {"max_df": "0.5"},
        {"token_pattern": "("},
        {"token_pattern": "(a)(b)"},
        {"token_pattern": None},
        {"max_vocabulary": 0},
        {"stop_words": ("the", "of")},
        {"stop_words": None},
        {"min_df": np.int64(0)},
        {"max_df": np.float32(1.5)},
        {"ngrams": 2},
        {"ngrams": (1, 2.0)},
        {"ngrams": "12"},
    ],
)
def test_bad_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        TextOptions(**options)


def test_options_may_be_numbers_of_numpy():
    options = TextOptions(
        min_df=np.int64(2), max_df=np.float32(0.5), ngrams=np.array([1, 2]), max_vocabulary=9
    )
    assert options == TextOptions(min_df=2, max_df=0.5, ngrams=(1, 2), max_vocabulary=9)
    kinds = [type(value) for value in (options.min_df, options.max_df, *options.ngrams)]
    assert kinds == [int, float, int, int]
