"""`simplex-jax lda effects`: what it writes, and what it refuses in one line."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from simplex_jax._src import corpus
from simplex_jax._src.cli import main
from simplex_jax._src.models import files, lda

PAIRS = [("river water stream boat", "goal match team ball"), ("team goal ball", "boat water")]
NUMBERS = ("mean", "sd", "lower", "upper")
COLUMNS = "name,party,year,empty,constant,text"


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(*arguments):
    result = invoke("lda", "effects", *arguments)
    assert result.exit_code == 0, result.stderr
    return result.stderr


def refused(*arguments, status=1):
    result = invoke("lda", "effects", *arguments)
    assert result.exit_code == status, result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("read ")]
    assert status == 2 or len(lines) == 1, result.stderr
    return lines[-1]


def rows():
    """Of the party R, documents of boats become rarer with the years; of D they do not."""
    rng = np.random.default_rng(0)
    for i in range(80):
        party, year = "DR"[i % 2], 1900 + i
        boats = rng.random() < (0.8 if party == "D" else 0.8 - i / 120)
        text = f"{PAIRS[0][not boats]} {PAIRS[1][boats]}" if i else ""
        yield f"doc {i},{party},{year if i != 7 else ''},,same,{text}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("effects")
    (place / "texts.csv").write_text("\n".join([COLUMNS, *rows()]) + "\n")
    common = ["--topics", 2, "--passes", 60, "--seed", 1, "--min-df", 1, "--max-df", 1.0, "--quiet"]
    for name, more in {
        "run": ["--chains", 2, "--keep-samples", 6],
        "bare": ["--keep-samples", 0],
    }.items():
        result = invoke("lda", place / "texts.csv", *common, *more, "--out", place / name)
        assert result.exit_code == 0, result.stderr
    return place


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_groups_of_a_column_of_the_corpus(place, tmp_path):
    out = tmp_path / "party.csv"
    page = tmp_path / "report.html"
    asked = ["--by", "party", "--out", out, "--level", 0.9, "--report", page]
    said = told("--model", place / "run", *asked)
    assert "warning: 1 document without" in said
    assert "79 documents, 12 draws" in said
    actual = table(out)
    assert list(actual[0]) == ["topic", "column", "term", "kind", *["mean", "sd", "lower", "upper"]]
    assert [row["term"] for row in actual[:3]] == ["party=D", "party=R", "party: R - D"]
    assert {row["topic"] for row in actual} == {"0", "1"}
    for row in actual:
        assert float(row["lower"]) < float(row["mean"]) < float(row["upper"])
    assert "party=R" in page.read_text("utf-8")
    # The same from Python, with the same seed.
    data = corpus.read(place / "texts.csv", text=corpus.TextOptions(min_df=1, max_df=1.0))
    same = lda.effects(
        lda.load(place / "run"),
        data,
        {"party": ["D", "R"] * 40},
        samples=place / "run" / "samples",
        level=0.9,
    )
    assert float(actual[2]["mean"]) == pytest.approx(same.mean[0, 2], rel=1e-5)
    assert out.with_suffix(".svg").read_text().startswith("<?xml")


def test_tables_are_named_by_the_columns_and_the_run_shows_them_all(place, tmp_path, monkeypatch):
    run = shutil.copytree(place / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    for asked in (["--by", "party"], ["--by", "year", "--by", "party"]):
        told("--model", "run", *asked)
    names = {"effects_party", "effects_year_party"}
    assert {file.stem for file in tmp_path.glob("effects*.*")} == names
    fitted, page = lda.load(run), (run / "report.html").read_text("utf-8")
    terms = [row["term"] for row in fitted.effects if row["topic"] == 0 and row["kind"] == "mean"]
    # What was asked last replaces what was known of its columns.
    assert [terms[0], *terms[-2:], len(terms)] == ["year=1901", "party=D", "party=R", 41 + 2]
    assert [page.count(f"<h2>By {column}</h2>") for column in ("year", "party")] == [1, 1]
    trends = page[page.index("<h2>By party</h2>") :]
    assert "<bdi>D</bdi>" in trends
    # Nothing is written over, and a report elsewhere leaves the run alone.
    assert "effects_party.csv exists" in refused("--model", "run", "--by", "party")
    more = ["--by", "name", "--every", 3, "--out", "e.csv"]
    assert "every applies only" in refused("--model", "run", *more)
    before = (run / "summary.json").read_bytes()
    told("--model", "run", "--by", "year", "--every", 40, "--out", "e.csv", "--report", "e.html")
    assert (run / "summary.json").read_bytes() == before
    assert "1880-1919" in (tmp_path / "e.html").read_text("utf-8")


def test_what_another_command_has_added_meanwhile_stays(place, tmp_path):
    run = shutil.copytree(place / "run", tmp_path / "run")
    at_first = lda.load(run)
    record = {"topic": 0, "term": "a", "kind": "mean", "level": 0.95, "ordered": False}
    record |= dict.fromkeys(NUMBERS, 0.1)
    for column in ("one", "two"):
        added = [record | {"column": column}]
        files.amend(
            lda.MODEL,
            run,
            "effects",
            lambda fit, added=added: dataclasses.replace(fit, effects=[*fit.effects, *added]),
        )
    found = [entry["column"] for entry in lda.load(run).effects]
    assert found[len(at_first.effects) :] == ["one", "two"]


def test_names_of_files_of_columns_with_other_signs(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = tmp_path / "kinds.csv"
    rows_of = "\n".join(f"doc {i},{'ab'[i % 2]}" for i in range(80))
    kinds.write_text("id,a / b: kind\n" + rows_of)
    told("--model", place / "run", "--by", "a / b: kind", "--metadata", kinds, "--report", "r.html")
    assert (tmp_path / "effects_a-b-kind.csv").exists()
    assert "<h2>By a / b: kind</h2>" in (tmp_path / "r.html").read_text("utf-8")


def test_metadata_in_another_encoding(place, tmp_path):
    metadata, out = tmp_path / "kinds.csv", tmp_path / "kinds-effects.csv"
    lines = [f"doc {i},{'éè'[i % 2]}" for i in range(80)]
    metadata.write_text("\n".join(["id,kind", *lines]), "latin-1")
    asked = ["--model", place / "run", "--by", "kind", "--out", out]
    asked += ["--report", tmp_path / "report.html"]
    assert "kinds.csv:2: " in refused(*asked, "--metadata", metadata)
    told(*asked, "--metadata", metadata, "--encoding", "latin-1")
    assert [row["term"] for row in table(out)][:2] == ["kind=è", "kind=é"]
    for flag, value in (("--encoding", "latin-1"), ("--encoding-errors", "cp1252")):
        said = refused(*asked, flag, value, "--overwrite", status=2)
        assert f"{flag} requires --metadata" in said


def test_numbers_from_another_file_in_another_order(place, tmp_path):
    lines = [line.split(",") for line in rows()]
    metadata = tmp_path / "years.jsonl"
    metadata.write_text(
        "\n".join(
            json.dumps({"key": row[0], "when": int(row[2] or 0) or None}) for row in lines[::-1]
        )
    )
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    said = told("--model", place / "run", "--by", "year", "--out", one, "--every", 40)
    assert "missing covariate" in said
    picture = tmp_path / "other.png"
    told(
        *("--model", place / "run", "--by", "when", "--out", other, "--every", 40, "--quiet"),
        *("--metadata", metadata, "--plot", picture),
    )
    assert one.read_text().replace("year", "when") == other.read_text()
    assert [row["term"] for row in table(one)[:2]] == ["year=1880-1919", "year=1920-1959"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_several_columns_together_and_a_curve(place, tmp_path):
    out = tmp_path / "both.csv"
    told("--model", place / "run", "--by", "party", "--by", "year", "--smooth", 3, "--out", out)
    terms = [row["term"] for row in table(out) if row["topic"] == "0"]
    assert terms[:3] == ["party=D", "party=R", "party: R - D"]
    assert terms[-1] == "year: 1979 - 1901"


def test_documents_that_have_moved_are_given(place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["source"]["input"] = str(tmp_path / "gone.csv")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    arguments = ["--model", tmp_path / "run", "--by", "party", "--out", tmp_path / "e.csv"]
    assert "gone.csv" in refused(*arguments)
    told(place / "texts.csv", *arguments)
    other = tmp_path / "other.csv"
    other.write_text("\n".join([COLUMNS, *list(rows())[1:]]))
    said = refused(other, *arguments, "--overwrite")
    assert f"{other}: these are not" in said
    config["source"]["input"] = "-"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert "documents as INPUT" in refused(*arguments, "--overwrite")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--by", "age"], "no column 'age' among name, party, year, empty, constant, text"),
        (["--by", "constant"], "'constant' has the one value 'same': there is nothing to compare"),
        (["--by", "empty"], "column 'empty' has no value"),
        (["--by", "name"], "79 documents are too few for 79 coefficients of name"),
        (["--by", "party", "--every", 10], "every applies only to numeric and date columns"),
        (["--by", "party", "--smooth", 3], "smooth applies only to numeric and date columns"),
        (["--by", "year", "--smooth", 99], "too few for 100 coefficients"),
        (["--by", "party", "--metadata", "few.csv"], "78 of 80 documents are missing, the first"),
        (["--by", "party", "--metadata", "twice.csv"], "two records are called 'doc 1'"),
        (["--by", "x", "--metadata", "few.csv"], "no column 'x' among id, party"),
        (["--by", "party", "--metadata", "none.csv"], "none.csv"),
    ],
)
def test_what_cannot_be_answered_is_refused(place, tmp_path, given, says):
    (tmp_path / "few.csv").write_text("id,party\ndoc 0,D\ndoc 1,R\n")
    (tmp_path / "twice.csv").write_text("id,party\ndoc 1,D\ndoc 1,R\n")
    given = [tmp_path / word if str(word).endswith(".csv") else word for word in given]
    out = tmp_path / "effects.csv"
    assert says in refused("--model", place / "run", "--out", out, *given)
    assert not out.exists()


def test_a_run_without_samples_is_refused(place, tmp_path):
    out = tmp_path / "effects.csv"
    said = refused("--model", place / "bare", "--by", "party", "--out", out)
    assert f"{place / 'bare'} has no samples" in said
    assert "--keep-samples 50" in said


def test_a_fit_that_python_has_saved_is_refused(place, tmp_path):
    lda.load(place / "run").save(tmp_path / "saved")
    said = refused("--model", tmp_path / "saved", "--by", "party", "--out", tmp_path / "e.csv")
    assert "saved in Python" in said
    assert "call lda.effects there" in said


def test_a_run_that_does_not_say_how_it_was_read(place, tmp_path):
    run = shutil.copytree(place / "run", tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    del config["source"]["reading"]["vocabulary"]
    (run / "config.json").write_text(json.dumps(config))
    said = refused("--model", run, "--by", "party", "--out", tmp_path / "effects.csv")
    assert f"{run / 'config.json'}: does not say" in said


@pytest.mark.slow
def test_texts_without_columns_need_metadata(tmp_path):
    (tmp_path / "x.txt").write_text("river water stream\ngoal match team\n" * 20)
    made = ["--topics", 2, "--steps", 9, "--min-df", 1, "--max-df", 1.0, "--keep-samples", 2]
    result = invoke("lda", tmp_path / "x.txt", *made, "--quiet", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    asked = ["--model", tmp_path / "run", "--by", "sport", "--out", tmp_path / "e.csv"]
    assert "columns (--metadata)" in refused(*asked)
    (tmp_path / "sports.csv").write_text("sport\n" + "no\nyes\n" * 20)
    told(*asked, "--metadata", tmp_path / "sports.csv")
    assert [row["term"] for row in table(tmp_path / "e.csv")][:2] == ["sport=no", "sport=yes"]
    # A stored corpus has no columns of its own either.
    assert invoke("lda", "store", tmp_path / "x.txt", tmp_path / "store", *made[4:8]).exit_code == 0
    streamed = ["--topics", 2, "--steps", 9, "--keep-samples", 2, "--stream", "--quiet"]
    result = invoke("lda", tmp_path / "store", *streamed, "--out", tmp_path / "streamed")
    assert result.exit_code == 0, result.stderr
    asked[1] = tmp_path / "streamed"
    assert "a stored corpus" in refused(*asked, "--overwrite")
    told(*asked, "--overwrite", "--metadata", tmp_path / "sports.csv")


def test_samples_of_another_run_are_refused(place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    (sample,) = (tmp_path / "run" / "samples").glob("*-00003.npz")
    arrays = {"alpha": np.ones((1, 2)), "prevalence": np.ones((1, 2))}
    np.savez(sample, topics=np.ones((1, 2, 3)), **arrays)
    said = refused("--model", tmp_path / "run", "--by", "party", "--out", tmp_path / "e.csv")
    assert "sample-00003.npz: topics (1, 2, 3), not (2, 2, " in said
    sample.write_bytes(b"PK")
    said = refused("--model", tmp_path / "run", "--by", "party", "--out", tmp_path / "e.csv")
    assert "sample-00003.npz: " in said


@pytest.mark.parametrize("option", ["--out", "--plot", "--report"])
def test_overwrite_never_replaces_what_the_command_reads(place, tmp_path, option):
    texts = shutil.copy(place / "texts.csv", tmp_path / "texts.svg")
    given = ["--model", place / "run", "--by", "party", "--overwrite", "--out", tmp_path / "e.csv"]
    for flag, read in (("INPUT", [texts]), ("--metadata", ["--metadata", texts])):
        said = refused(*read, *given, option, texts)
        assert f"{texts} is read as {flag}: " in said
    assert texts.read_bytes() == (place / "texts.csv").read_bytes()


def test_overwrite_never_replaces_the_documents_of_the_run(place, tmp_path):
    texts, run = shutil.copy(place / "texts.csv", tmp_path / "texts.csv"), tmp_path / "run"
    shutil.copytree(place / "run", run)
    config = json.loads((run / "config.json").read_text())
    config["source"]["input"] = str(texts)
    (run / "config.json").write_text(json.dumps(config))
    said = refused("--model", run, "--by", "party", "--overwrite", "--out", texts)
    assert f"{texts} has the documents" in said
    assert texts.read_bytes() == (place / "texts.csv").read_bytes()


def test_a_picture_that_fails_leaves_no_table(place, tmp_path, monkeypatch):
    def plot(effects):
        raise ValueError("no picture")

    monkeypatch.setattr("simplex_jax._src.models.lda.regression.Effects.plot", plot)
    given = ["--model", place / "run", "--by", "party", "--out", tmp_path / "e.csv"]
    assert "no picture" in refused(*given, "--quiet")
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over_and_usage_is_checked(place, tmp_path):
    out = tmp_path / "effects.csv"
    out.write_text("mine")
    arguments = ["--model", place / "run", "--by", "party", "--out", out]
    assert "exists: choose another --out, or pass --overwrite" in refused(*arguments)
    assert out.read_text() == "mine"
    told(*arguments, "--overwrite")
    assert out.read_text().startswith("topic,")
    other = [*arguments[:-1], tmp_path / "other.csv"]
    assert " .svg" in refused(*other, "--plot", "x.gif", status=2)
    svg = tmp_path / "other.svg"
    for given in ([svg], [svg.with_suffix(".csv"), "--report", svg], [out, "--report", out]):
        said = refused(*arguments[:-1], *given, "--overwrite", status=2)
        assert "give --out, --plot and --report different names" in said
    assert not svg.exists()
    assert out.read_text().startswith("topic,")
    assert "--id-column requires --metadata" in refused(*other, "--id-column", "a", status=2)
    assert "--by" in refused("--model", place / "run", "--out", out, status=2)
