"""Pages of the papers' experiments say what the kept results say; one command runs them all."""

import importlib
import itertools
import re

import kept
import pytest
from scipy import stats
from support.paths import BENCHMARKS, ROOT

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("experiments", "which_sampler")
}


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "papers"))


def tables():
    return importlib.import_module("tables")


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_the_page_has_the_tables_of_the_kept_results(page):
    assert tables().filled(page) == page, "run python benchmarks/papers/tables.py"
    first = re.search(r"<!-- table [\w.]+ -->\n.*?(\d\.\d)", page, re.DOTALL)
    wrong = page[: first.start(1)] + "9.9" + page[first.end(1) :]
    assert tables().filled(wrong) != wrong
    assert tables().filled(wrong) == page


def test_every_kept_result_is_shown():
    shown = {name for page in PAGES.values() for name in re.findall(r"<!-- table ([\w.]+)", page)}
    results = {file.stem for file in (kept.RESULTS / "papers").iterdir()}
    assert {name.partition(".")[0] for name in shown} == results
    assert shown <= set(tables().TABLES)


def test_exact_kernels_have_no_bias_and_others_do():
    """Of the kept results: rate 1e-3 over all statistics, targets and step sizes."""
    files = (kept.RESULTS / "papers" / f"{name}.json" for name in ("bias", "bias_mapla"))
    rows = [row for file in files for row in kept.read(file)["rows"]]
    exact = [row["worst"] for row in rows if row["exact"]]
    bound = stats.norm.isf(1e-3 / 2 / (6 * len(exact)))  # of six statistics at most
    assert max(exact) < bound
    told = {row["kernel"] for row in rows if not row["exact"] and row["worst"] > bound}
    assert told == {row["kernel"] for row in rows if not row["exact"]}


def summary():
    """The cells of the table of all figures, and the sections of the page by their anchors."""
    page = PAGES["experiments"]
    _, _, after = page.partition("<!-- summary -->\n")
    table, _, rest = after.partition("<!-- end -->")
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", rest, re.DOTALL | re.MULTILINE))
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): text
        for title, text in sections.items()
    }
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return rows[2:], anchors


def unsupported(row, sections):
    """The numbers of a row that are not in the section it is from."""
    link = re.search(r"\(#([\w-]+)\)", row[0])
    if link is None:
        return []
    text = sections[link[1]]
    numbers = re.findall(r"(?<![\w.])-?\d+\.?\d+(?:%|\b)", " ".join(row[1:]))
    return [
        number for number in numbers if not re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", text)
    ]


def test_the_summary_has_the_numbers_of_its_sections():
    rows, sections = summary()
    assert len(rows) == 18
    for row in rows:
        assert unsupported(row, sections) == [], row[0]
    wrong = [cell.replace("0.411", "0.412") for cell in rows[1]]
    assert unsupported(wrong, sections) == ["0.412"]


def test_other_tables_say_that_their_run_was_not_kept():
    """In the paragraph before them, or before another such table that it is about as well."""
    marked = r"<!-- (?:table \w+|summary) -->.*?<!-- end -->"
    others = re.sub(marked, "", PAGES["experiments"], flags=re.DOTALL)
    paragraphs = [text for text in others.split("\n\n") if text.strip()]
    for before, table in itertools.pairwise(paragraphs):
        if table.startswith("|"):
            assert re.search(r"not\skept", before), table


def test_results_are_written_and_read(tmp_path):
    rows = [{"a": 1, "b": 0.123456789, "c": "x"}, {"a": 2, "b": float("nan"), "c": ""}]
    kept.write(tmp_path / "new" / "one.json", rows, seconds=3.0)
    result = kept.read(tmp_path / "new" / "one.json")
    assert result["rows"] == [{"a": 1, "b": 0.123457, "c": "x"}, {"a": 2, "b": None, "c": ""}]
    assert result["seconds"] == 3
    assert {"versions", "date", "machine", "cores", "command"} <= set(result["about"])


def test_a_failed_experiment_is_named_and_the_others_run(tmp_path, capfd):
    texts = {"first": "import sys; print(sys.argv)", "second": "raise SystemExit('out of luck')"}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    scripts = [tmp_path / f"{name}.py" for name in ("second", "first")]
    everything = importlib.import_module("all")
    failed, busy = everything.run(scripts, tmp_path / "out", ["--quick"], {}, at_once=2)
    assert failed == ["second"]
    assert busy > 0
    printed = capfd.readouterr().out
    assert re.search(r"second: .*, exit status 1\nout of luck\nfirst: \d+ s, .*, ok\n", printed)
    assert set(everything.EXPERIMENTS) == {
        file.stem
        for file in (BENCHMARKS / "papers").glob("*.py")
        if "common.options(" in file.read_text("utf-8") and "__main__" in file.read_text("utf-8")
    }
