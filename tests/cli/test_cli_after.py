"""The path of a user after a fit: names of one's own, a spreadsheet, topics over time."""

import csv
import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import main, topic_files
from simplex_jax._src.corpus import CorpusError
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda import commands


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on texts with years, in which boats become rarer."""
    place = tmp_path_factory.mktemp("after")
    lines = ["id,year,text"]
    for i in range(120):
        boats = (7 * i) % 120 > i
        words = "river water stream boat" if boats else "goal match team ball"
        lines.append(f"d{i},{1990 + i // 6},{words} {words}")
    (place / "texts.csv").write_text("\n".join(lines))
    options = ["--topics", 2, "--min-df", 1, "--max-df", 1, "--chains", 2, "--passes", 60]
    result = invoke("lda", place / "texts.csv", *options, "--out", place / "run")
    assert result.exit_code == 0, result.stderr
    return place / "run", result.stdout


def test_a_run_ends_with_topics_verdict_and_the_next_commands(run):
    place, text = run
    lines = text.splitlines()
    assert [line[5] for line in lines[:2]] == ["*", "*"]
    assert lines[2].startswith("The predictions have")
    assert lines[3].startswith("Both topics are stable")
    rest = [line.partition(":")[0] for line in lines[4:]]
    assert rest[-6:-3] == ["report", "this again", "over time"]  # no column is left for groups
    assert rest[-3:] == ["spreadsheet", "your names", "merge, drop"]
    assert f"lda effects --model {place} --by year --every 2\n" in text
    summary = json.loads((place / "summary.json").read_text())
    assert lines[2 : 2 + len(summary["verdict"])] == summary["verdict"]


def test_the_report_shows_topics_over_the_years(run):
    page = (run[0] / "report.html").read_text()
    assert "<bdi>texts.csv</bdi>: 120 documents" in page
    trends = page[page.index("<h2>By year</h2>") :]
    fitted = lda.load(run[0])
    means = [row for row in fitted.effects if row["kind"] == "mean" and row["topic"] == 0]
    assert len(means) == 10  # 20 years in pairs
    boats = "boat" in [fitted.vocabulary[w] for w in (-fitted.topics[0]).argsort()[:4]]
    assert (means[0]["mean"] > means[-1]["mean"]) == boats
    assert f"1990-1991: {100 * means[0]['mean']:.1f}%" in trends


def test_names_of_topics_are_kept(run, tmp_path):
    place, _ = run
    file = tmp_path / "names.tsv"
    file.write_text("1 Sports & <games>\n\n", "utf-8")
    assert invoke("lda", "report", place, "--topic-names", file).exit_code == 0
    fitted = lda.load(place)
    assert fitted.titles == ["", "Sports & <games>"]
    assert "Sports &amp; &lt;games&gt;" in (place / "report.html").read_text()
    rows = list(csv.DictReader((place / "topics.csv").read_text().splitlines()))
    assert {row["name"] for row in rows if row["topic"] == "1"} == {"Sports & <games>"}
    result = invoke("lda", "--resume", place, "--passes", 70)
    assert "[Sports & <games>]" in result.stdout
    assert lda.load(place).topic_names == {1: "Sports & <games>"}
    out = tmp_path / "effects.csv"
    invoke("lda", "effects", "--model", place, "--by", "year", "--out", out)
    assert "1: Sports" in out.with_suffix(".svg").read_text()
    file.write_text("")
    invoke("lda", "report", place, "--topic-names", file)
    assert lda.load(place).topic_names == {}
    assert "name" not in (place / "topics.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2\tToo many\n",
            "names.tsv:1: '2\\tToo many' is not a number of a topic from 0 to 1",
        ),
        ("Sports\n", "names.tsv:1: 'Sports' is not a number"),
        ("0\n", "names.tsv:1: topic 0 has no name"),
        ("0\ta\n0\tb\n", "names.tsv:2: topic 0 is in line 1 already"),
    ],
)
def test_bad_names_are_refused(run, tmp_path, text, message):
    (tmp_path / "names.tsv").write_text(text)
    result = invoke("lda", "report", run[0], "--topic-names", tmp_path / "names.tsv")
    assert result.exit_code == 1
    assert message in result.stderr


def test_columns_of_dates_are_found_by_their_names(tmp_path):
    lines = ["Nr;Speech date;Update;Text"]
    for i in range(60):
        words = ("river water stream boat " if i % 2 else "goal match team ball ") * 2
        lines.append(f"{i};{'' if i == 3 else f'{1 + i % 28}.3.{1990 + i // 6}'};x;{words}")
    (tmp_path / "texts.csv").write_text("\n".join(lines))
    options = ["--topics", 2, "--min-df", 1, "--max-df", 1, "--passes", 30, "--quiet"]
    result = invoke("lda", tmp_path / "texts.csv", *options, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert "<h2>By Speech date</h2>" in (tmp_path / "run" / "report.html").read_text()
    terms = [row["term"] for row in lda.load(tmp_path / "run").effects if row["topic"] == 0]
    assert terms[:2] == ["Speech date=1990", "Speech date=1991"]


def test_correlations_are_those_of_all_documents(tmp_path):
    """Also if some have no year; the ending of the name may be of capitals."""
    rng = np.random.default_rng(0)
    themes = np.array([["river", "water"], ["goal", "match"], ["tax", "law"]])
    lines = ["year,text"]
    for i in range(60):
        words = themes[rng.choice(3, 8, p=rng.dirichlet([1, 1, 1])), rng.integers(2, size=8)]
        lines.append(f"{'' if i % 6 == 0 else 1990 + i // 6},{' '.join(words)}")
    (tmp_path / "texts.CSV").write_text("\n".join(lines))
    run, options = tmp_path / "run", ["--topics", 3, "--min-df", 1, "--max-df", 1, "--quiet"]
    result = invoke("lda", tmp_path / "texts.CSV", *options, "--passes", 40, "--out", run)
    assert result.exit_code == 0, result.stderr
    assert lda.load(run).effects
    found = (run / "topic_correlations.csv").read_text()
    again = invoke("lda", "correlate", "--model", run, "--out", tmp_path / "all.csv", "--quiet")
    assert again.exit_code == 0, again.stderr
    assert found == (tmp_path / "all.csv").read_text()


@pytest.mark.parametrize(
    "years", [range(2010, 2019), [1990, 1991, *[""] * 7], [-999999, *[2000] * 8]]
)
def test_years_that_tell_nothing_do_not_end_a_run(tmp_path, years):
    rows = [f"{year},river water stream boat river water" for year in years]
    (tmp_path / "texts.csv").write_text("\n".join(["year,text", *rows]))
    options = ["--topics", 2, "--min-df", 1, "--max-df", 1, "--passes", 20, "--quiet"]
    result = invoke("lda", tmp_path / "texts.csv", *options, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert not lda.load(tmp_path / "run").effects


def test_documents_that_go_during_a_run_do_not_end_it(tmp_path, monkeypatch):
    rows = [f"{1990 + i // 6},river water stream boat" for i in range(30)]
    (tmp_path / "texts.csv").write_text("\n".join(["year,text", *rows]))
    options = ["--topics", 2, "--min-df", 1, "--max-df", 1, "--passes", 20, "--quiet"]
    complete = commands._over_documents

    def without_documents(*arguments):
        (tmp_path / "texts.csv").unlink()
        return complete(*arguments)

    monkeypatch.setattr(commands, "_over_documents", without_documents)
    result = invoke("lda", tmp_path / "texts.csv", *options, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr


def test_shares_of_the_own_documents_are_a_table(run, tmp_path):
    out = tmp_path / "shares.csv"
    result = invoke("lda", "transform", "--model", run[0], "--out", out)
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    fitted = lda.load(run[0])
    assert [row["document"] for row in rows] == list(fitted.names)
    assert [float(row["topic_1"]) for row in rows] == pytest.approx(
        fitted.proportions[:, 1], rel=1e-4
    )
    again = invoke("lda", "transform", "--model", run[0], "--out", out)
    assert again.exit_code == 1
    assert "exists" in again.stderr
    assert "give INPUT, or the --out" in invoke("lda", "transform", "--model", run[0]).stderr
    for ignored in (["--seed", 4], ["--text-column", "text"]):
        result = invoke("lda", "transform", "--model", run[0], "--out", out, *ignored)
        assert (result.exit_code, f"{ignored[0]} requires INPUT" in result.stderr) == (2, True)


def edit(run, tmp_path, text, *options, name="edits.txt"):
    (tmp_path / name).write_text(text, "utf-8")
    out = tmp_path / "edited"
    return out, invoke("lda", "edit", run[0], tmp_path / name, "--out", out, *options)


def test_topics_are_merged_by_a_file(run, tmp_path):
    before = (run[0] / "topics.csv").read_bytes()
    out, result = edit(run, tmp_path, "# one line for each topic\n0+1\tBoth & all\n")
    assert result.exit_code == 0, result.stderr
    assert "0 * 100.0%  [Both & all] " in result.stdout
    assert "1 topic\nreport:" in result.stdout
    fitted, earlier = lda.load(out), lda.load(run[0])
    assert fitted.trained.parts == ((0, 1),)
    assert fitted.prevalence[0] == earlier.prevalence.sum()
    assert fitted.coherence[0] == fitted.coherence[0]
    assert fitted.examples[0][0]["text"]
    assert {row["topic"] for row in fitted.effects} == {0}
    means = [row["mean"] for row in fitted.effects if row["kind"] == "mean"]
    assert means == pytest.approx([1] * len(means), abs=1e-5)
    assert "merged from topics 0, 1 of the run" in (out / "report.html").read_text()
    assert (run[0] / "topics.csv").read_bytes() == before
    assert len(list((out / "samples").iterdir())) == len(list((run[0] / "samples").iterdir()))
    # The commands of a run work on it, but it cannot go on.
    table = tmp_path / "effects.csv"
    assert invoke("lda", "effects", "--model", out, "--by", "year", "--out", table).exit_code == 0
    assert invoke("lda", "report", out).exit_code == 0
    result = invoke("lda", "--resume", out, "--passes", 70)
    assert result.exit_code == 1
    assert f"the run in {run[0]}" in result.stderr


def test_the_run_in_the_current_folder_is_edited(run, tmp_path, monkeypatch):
    (tmp_path / "edits.txt").write_text("0 Boats\n")
    monkeypatch.chdir(run[0])
    result = invoke("lda", "edit", ".", tmp_path / "edits.txt")
    assert result.exit_code == 0, result.stderr
    assert lda.load(run[0].with_name("run-edited")).titles[0] == "Boats"


def test_the_run_itself_is_not_written_over(run, tmp_path):
    (tmp_path / "edits.txt").write_text("0 Boats\n")
    (tmp_path / "latest").symlink_to(run[0])
    for place, out in ((tmp_path / "latest", run[0]), (run[0], run[0] / ".." / run[0].name)):
        result = invoke("lda", "edit", place, tmp_path / "edits.txt", "--out", out, "--overwrite")
        assert result.exit_code == 2
        assert "another folder" in result.stderr
    assert (run[0] / "samples").is_dir()


def test_a_run_whose_documents_moved_is_edited(run, tmp_path):
    place = tmp_path / "copy"
    shutil.copytree(run[0], place)
    config = json.loads((place / "config.json").read_text())
    config["source"]["input"] = str(tmp_path / "gone.csv")
    (place / "config.json").write_text(json.dumps(config))
    (tmp_path / "edits.txt").write_text("0+1 Both\n")
    moved = ["--documents", run[0].parent / "texts.csv", "--out", tmp_path / "edited"]
    result = invoke("lda", "edit", place, tmp_path / "edits.txt", *moved)
    assert result.exit_code == 0, result.stderr
    assert lda.load(tmp_path / "edited").effects
    edited = json.loads((tmp_path / "edited" / "config.json").read_text())
    assert edited["source"]["input"] == str(run[0].parent / "texts.csv")


def test_topics_are_dropped_named_and_reordered_by_a_table(run, tmp_path):
    table = "Topic;words;name\n1;goal match;Sports\n0;;\n"
    out, result = edit(run, tmp_path, table, "--reorder", name="edits.csv")
    assert result.exit_code == 0, result.stderr
    assert lda.load(out).titles == ["Sports", ""]
    assert lda.load(out).trained.parts == ((1,), (0,))
    shares = tmp_path / "named.csv"
    assert invoke("lda", "transform", "--model", out, "--out", shares).exit_code == 0
    assert shares.read_text().splitlines()[0] == "document,error,topic_0 Sports,topic_1"
    _, result = edit(run, tmp_path, "drop 1\n")
    assert "holds a run" in result.stderr
    _, result = edit(run, tmp_path, "drop 1\n", "--overwrite")
    assert "1 topic, 1 topic left out" in result.stdout
    left = lda.load(out)
    assert left.dropped == [1]
    shares = tmp_path / "shares.csv"
    assert invoke("lda", "transform", "--model", out, "--out", shares).exit_code == 0
    assert shares.read_text().splitlines()[0] == "document,error,topic_0,other"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n0+2 x\n", "edits.txt:2: '0+2 x' is not a number of a topic from 0 to 1 and a name"),
        ("0 a\n\n0+1 b\n", "edits.txt:3: topic 0 is in line 1 already"),
        ("drop\n", "edits.txt:1: 'drop' is not a number"),
        ("0 +1 Farms\n", "edits.txt:1: '0 +1 Farms' is not a number"),
        ("drop 0\ndrop 1\n", "drop: keep at least one topic"),
    ],
)
def test_bad_edits_are_refused(run, tmp_path, text, message):
    out, result = edit(run, tmp_path, text)
    assert result.exit_code == 1
    assert message in result.stderr
    assert not out.exists()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_names_that_spreadsheets_save(tmp_path, encoding):
    path = tmp_path / "names.csv"
    path.write_text("topic;name\n0;Boats\n1;Bälle\n", encoding)
    if encoding == "cp1252":
        with pytest.raises(CorpusError, match=r"names.csv:3: .*UTF-8"):
            topic_files.read_names(path, 2)
    else:
        assert topic_files.read_names(path, 2) == {0: "Boats", 1: "Bälle"}


def test_names_alone_do_not_merge(run, tmp_path):
    (tmp_path / "names.txt").write_text("0+1 Both\n")
    result = invoke("lda", "report", run[0], "--topic-names", tmp_path / "names.txt")
    assert result.exit_code == 1
    assert "names.txt:1: " in result.stderr
    (tmp_path / "edits.csv").write_text("number,name\n0,Boats\n")
    result = invoke("lda", "edit", run[0], tmp_path / "edits.csv", "--out", tmp_path / "edited")
    assert "no column topic" in result.stderr


def test_topics_that_rise_and_fall_together(tmp_path):
    themes = ["river water stream boat", "goal match team ball", "bread flour oven cake"]
    for i in range(60):
        words = f"{themes[i % 3]} {themes[(i // 3) % 3]} "
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / f"{i}.txt").write_text(2 * words)
    options = ["--topics", 3, "--min-df", 1, "--max-df", 1, "--passes", 40]
    run = tmp_path / "run"
    result = invoke("lda", tmp_path / "texts", *options, "--out", run)
    assert result.exit_code == 0, result.stderr
    fitted = lda.load(run)
    assert len(fitted.correlations) == 3
    assert '<section id="together">' in (run / "report.html").read_text()
    out = tmp_path / "together.csv"
    report = tmp_path / "with.html"
    arguments = ["--model", run, "--out", out, "--report", report]
    result = invoke("lda", "correlate", *arguments)
    assert result.exit_code == 0, result.stderr
    assert "60 documents, 20 draws" in result.stderr
    assert out.read_text() == (run / "topic_correlations.csv").read_text()
    assert out.with_suffix(".svg").exists()
    assert '<section id="together">' in report.read_text()
    assert invoke("lda", "correlate", *arguments).exit_code == 1
    result = invoke("lda", "correlate", *arguments[:4], "--overwrite", "--level", 0.5)
    assert f"shown in {run / 'report.html'}" in result.stdout
    assert lda.load(run).correlations[0]["upper"] < fitted.correlations[0]["upper"]
    assert out.read_text() == (run / "topic_correlations.csv").read_text()
