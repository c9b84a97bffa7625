"""What of a text is counted, and what is said of the rest."""

import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import (
    CorpusError,
    TextOptions,
    drop_words,
    from_counts,
    from_texts,
    read,
    text,
    tokens,
)
from simplex_jax._src.corpus.text import count_texts

ALL = {"min_df": 1, "max_df": 1.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("new_york covid19 AI", ["new_york", "covid19", "ai"]),
        ("#COVID19 @who_int b2b h2o", ["covid19", "who_int", "b2b", "h2o"]),
        ("EU, UN and ИИ or ЕС", ["and", "eu", "un", "ии", "ес"]),
        ("_emphasis_ __init__ a_b x__", ["emphasis", "init", "a_b"]),
        ("2nd 3d 1984 4k ai it", []),
        ("https://t.co/x1y2z3 e-mail user's", ["https", "x1y2z3", "mail", "user"]),
        ("naïve Straße ŁÓDŹ", ["naïve", "straße", "łódź"]),
        ("AIs CPU2 A1", ["ais", "cpu2"]),
    ],
)
def test_words_are_as_users_of_modern_texts_expect(text, words):
    assert sorted(next(iter(tokens([text])))) == sorted(words)


def test_nothing_of_tokenised_texts_is_dropped():
    texts = ["食谱 厨房 面粉", "厨房 a 1984 new_york", "AI x"]
    corpus = from_texts(texts, options=TextOptions(tokens="blanks", stop_words="none", **ALL))
    assert set(corpus.vocabulary) == {"食谱", "厨房", "面粉", "a", "1984", "new_york", "ai", "x"}
    assert corpus.tokens == (9, 9, {})


@pytest.mark.parametrize(
    ("pattern", "words"), [(r"\w*", ["oak", "12"]), (r"(\w{3,})|\d+", ["oak"])]
)
def test_empty_matches_are_no_words(pattern, words):
    assert list(tokens(["oak, 12"], TextOptions(token_pattern=pattern))) == [words]


def test_lists_of_tokens_are_counted_as_they_are():
    lists = [["New York", "AI", "the"], ("ai", "食谱"), []]
    corpus = from_texts((tokens for tokens in lists), options=TextOptions(**ALL))
    assert corpus.vocabulary == ("ai", "new york", "食谱")
    assert corpus.counts.toarray().tolist() == [[1, 1, 0], [1, 0, 1], [0, 0, 0]]
    kept = from_texts(lists, options=TextOptions(lowercase=False, **ALL))
    assert kept.vocabulary == ("AI", "New York", "ai", "食谱")
    with pytest.raises(CorpusError, match=r"text 1 .*\['b', None\]"):
        from_texts([["a"], ["b", None]])


def test_data_may_be_generators_lists_of_tokens_or_bags_of_words():
    expected = [[0, 1], [1, 0]]
    vocabulary = ["ash", "oak"]
    lists = [["an", "Oak"], ["ash"]]
    for data in (lists, iter(lists), (" ".join(words) for words in lists)):
        assert count_texts(data, vocabulary).counts.toarray().tolist() == expected
    bags = [[(0, 2), (3, 1)], [], [(1, 4)]]
    assert from_counts(bags).counts.toarray().tolist() == [[2, 0, 0, 1], [0] * 4, [0, 4, 0, 0]]
    assert from_counts(bags, list("abcdef")).counts.shape == (3, 6)
    with pytest.raises(CorpusError, match=r"^counts: a pair "):
        from_counts([[("oak", 2)]])
    with pytest.raises(CorpusError, match=r"row 0, column 0 .* is 0\.5"):
        from_counts([[(0, 0.5)]])


def test_a_filtered_series_names_its_texts():
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(["an oak", "", "an ash"], index=["x", "y", "z"])
    assert from_texts(series[series != ""], options=TextOptions(**ALL)).names == ("x", "z")
    with pytest.raises(CorpusError, match="text 1"):
        from_texts(pandas.Series(["an oak", None]))


def test_what_is_dropped_is_told_with_its_reason():
    options = TextOptions(min_df=2, max_df=0.6, max_vocabulary=1)
    texts = ["The 1984 oak ash x9 2nd", "an oak ash ash", "ash elm elm oaks oak", "elm fir 7"]
    found = from_texts(texts, options=options).tokens
    assert found is not None
    assert found.dropped == {
        "in more documents than max_df=0.6": 7,
        "in fewer documents than min_df=2": 2,
        "stop words": 2,
        "numbers": 2,
        "of one or two letters": 1,
        "beginning with a digit": 1,
    }
    assert found.found == 18 == found.kept + sum(found.dropped.values())


def test_words_left_out_are_no_kept_tokens():
    options = TextOptions(**ALL)
    kept = from_texts(["The river, a stream, a stream", "2 boats"], options=options)
    found = drop_words(kept, ["stream", "lake"]).tokens
    assert found is not None
    assert found.kept == 2
    assert found.dropped == kept.tokens.dropped | {"words left out": 2}
    assert next(iter(found.dropped.values())) == max(found.dropped.values())
    assert drop_words(kept, ["lake"]).tokens == kept.tokens


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("食谱 厨房 面粉 烤箱", r"4 of 5 words, such as .*--tokens blanks"),
        ("경제 정치 사회를", r"2 of 4 words, such as .*--tokens blanks"),
        ("chr1:0-500 chr2:500-1000", r"4 of 7 tokens .* chr1:0-500: --tokens blanks"),
        (
            "荷物と灯台が見える。船と船がある。",
            "whole clauses in Chinese or Japanese .*--tokens icu",
        ),
        ("我们今天去厨房做蛋糕，然后回家吃饭。", "whole clauses in Chinese or Japanese"),
        ("ภาษาไทยเป็นภาษาที่ไม่มีช่องว่าง", "whole clauses in Thai"),
        ("ພາສາລາວບໍ່ມີຊ່ອງຫວ່າງ", "whole clauses in Lao"),
        ("ភាសាខ្មែរគ្មានដកឃ្លា", "whole clauses in Khmer"),
        ("မြန်မာဘာသာစကားသည်", "whole clauses in Burmese"),
    ],
)
def test_losses_and_scripts_without_blanks_are_warned_of(text, says):
    with pytest.warns(UserWarning, match=says):
        from_texts([text + " river"], options=TextOptions(**ALL))


def test_the_error_of_an_empty_vocabulary_names_what_was_lost():
    """Not only the limits of the vocabulary, which regions such as chr1:0-500 do not meet."""
    texts = ["chr1:0-500 chr2:500-1000"] * 4
    with pytest.raises(CorpusError, match=r"max_df=0.5.*numbers.*--tokens blanks.*; or lower min"):
        from_texts(texts)


def test_texts_that_keep_their_words_have_no_warning(recwarn):
    for line in (
        "The committee doesn't meet on the 3rd of May",
        "apple 7 2020-03-01 12 13",
        "El río y la montaña de la costa no son de él",
        "नदी और हिन्दी भाषा में किताब",
        "كتاب جديد في المدينة",
        "река и дом в лесу",
    ):
        from_texts([line], options=TextOptions(**ALL))
    assert not recwarn


def test_contractions_are_stopped_in_parts():
    words = from_texts(["I don't know, we've, isn't didn’t won haven"], options=TextOptions(**ALL))
    assert words.vocabulary == ("haven", "know", "won")


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("食谱厨房厨房面粉打蛋器", {"食谱", "厨房", "面粉"}),
        ("荷物と灯台が見える。", {"荷物", "灯台"}),
        ("ภาษาไทยเป็นภาษาที่ไม่มีช่องว่าง", {"ภาษา", "ไทย"}),
        ("ພາສາລາວບໍ່ມີຊ່ອງຫວ່າງ", {"ພາສາ", "ລາວ"}),
        ("မြန်မာဘာသာစကားသည်", {"စကား"}),
        ("The new_york AI, 1984!", {"new_york", "ai"}),
    ],
)
def test_icu_separates_words(text, some, recwarn):
    pytest.importorskip("icu4py")
    corpus = from_texts([text], options=TextOptions(tokens="icu", **ALL))
    assert some <= set(corpus.vocabulary)
    assert "1984" not in corpus.vocabulary
    assert not recwarn


def test_icu_names_its_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "icu4py.breakers", None)
    with pytest.raises(ImportError, match=r"pip install 'simplex-jax\[icu\]'"):
        from_texts(["a"], options=TextOptions(tokens="icu"))


def test_options_that_would_have_no_effect_are_refused():
    with pytest.raises(ValueError, match=r"^tokens .*'blank'$"):
        TextOptions(tokens="blank")
    with pytest.raises(ValueError, match=r"^tokens='blanks' .*token_pattern"):
        TextOptions(tokens="blanks", token_pattern=r"\S+")
    assert TextOptions(tokens="blanks").token_pattern == text.PATTERN


def test_the_command_says_what_it_read(tmp_path):
    file = tmp_path / "letters.csv"
    rows = "".join(f"{i},A,the river and 19{i % 90 + 10} boats x\n" for i in range(30))
    file.write_text("id,author,body\n" + rows)
    command = ["lda", str(file), "--topics", "2", "--max-df", "1", "--dry-run"]
    told = " ".join(CliRunner().invoke(main, command).output.split())
    assert "read 30 documents, 60 tokens of 2 words" in told
    assert "120 of 180 tokens dropped" in told
    assert "text from 'body'; names from 'id'; other columns, for --by: author" in told
    assert "60 stop words, 30 numbers, 30 of" in told
    quiet = CliRunner().invoke(main, [*command, "--quiet"]).output
    assert "read 30" not in quiet


@pytest.mark.parametrize(
    "titles", ["document,line,term", "docid,topic,feature", "doc_id,sentence,token,lemma"]
)
def test_tables_of_words_are_not_read_as_documents(tmp_path, titles):
    """As tidytext and udpipe write them: titles became texts."""
    file = tmp_path / "tidy.csv"
    file.write_text(titles + "\n" + "a" + ",b" * titles.count(",") + "\n")
    with pytest.raises(CorpusError, match=r":1: .*--format triples"):
        read(file)
    file.write_text("full_text,summary,word\nthe long river,short,x\n")
    assert read(file, text=TextOptions(**ALL)).vocabulary == ("long", "river")
