"""The path of a user after a fit: names of one's own, a spreadsheet, topics over time."""

import csv
import json

import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.models import lda


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
    assert lines[3].startswith("All 2 topics are stable: both chains found them")
    rest = [line.partition(":")[0] for line in lines[4:]]
    assert rest[-5:] == ["report", "this again", "over time", "spreadsheet", "your names"]
    assert f"lda effects --model {place} --by year" in text
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
        ("0\n", "names.tsv:1: '0' is not a number"),
        ("0\ta\n0\tb\n", "names.tsv:2: topic 0 has a name already"),
    ],
)
def test_bad_names_are_refused(run, tmp_path, text, message):
    (tmp_path / "names.tsv").write_text(text)
    result = invoke("lda", "report", run[0], "--topic-names", tmp_path / "names.tsv")
    assert result.exit_code == 1
    assert message in result.stderr


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
