"""Pages say what the kept results say; one command runs all experiments of the papers."""

import importlib
import itertools
import re
import subprocess
import sys

import kept
import pages
import pytest
from scipy import stats
from support.paths import BENCHMARKS, ROOT

PAGES = {page.stem: page.read_text("utf-8") for page in pages.pages()}


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "papers"))


def claims():
    return importlib.import_module("claims")


@pytest.mark.parametrize("page", PAGES.values(), ids=list(PAGES))
def test_the_page_has_the_tables_of_the_kept_results(page):
    assert pages.filled(page) == page, "run python benchmarks/pages.py"
    first = re.search(r"<!-- (?:table [\w.]+|claims) -->\n.*?(\d\.\d)", page, re.DOTALL)
    wrong = page[: first.start(1)] + "9.9" + page[first.end(1) :]
    assert pages.filled(wrong) != wrong
    assert pages.filled(wrong) == page


def test_every_result_of_the_papers_is_shown():
    shown = {name for page in PAGES.values() for name in re.findall(r"<!-- table ([\w.]+)", page)}
    results = {file.stem for file in (kept.RESULTS / "papers").iterdir()}
    assert results <= {name.partition(".")[0] for name in shown}


def test_exact_kernels_have_no_bias_and_others_do():
    """Of the kept results: rate 1e-3 over all statistics, targets and step sizes."""
    rows = kept.read(kept.RESULTS / "papers" / "bias.json")["rows"]
    exact = [row["worst"] for row in rows if row["exact"]]
    bound = stats.norm.isf(1e-3 / 2 / (6 * len(exact)))  # of six statistics at most
    assert max(exact) < bound
    told = {row["kernel"] for row in rows if not row["exact"] and row["worst"] > bound}
    assert told == {row["kernel"] for row in rows if not row["exact"]}


def test_an_experiment_runs_as_a_script():
    """It finds its modules without the paths of the tests."""
    script = BENCHMARKS / "papers" / "mld_theorem4.py"
    subprocess.run([sys.executable, script, "--help"], check=True, capture_output=True, cwd=ROOT)


def anchors(page):
    titles = re.findall(r"^##+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_claims_have_a_verdict_and_a_section_of_the_appendix():
    rows = claims().claims()
    assert {row["verdict"] for row in rows} == set(claims().VERDICTS)
    links = re.findall(r"\(experiments\.md#([\w-]+)\)", PAGES["papers"])
    assert len(links) >= len(rows)
    assert set(links) <= anchors(PAGES["experiments"])


def test_the_text_has_the_slopes_of_theorem_4():
    kept_slopes = kept.read(kept.RESULTS / "papers" / "mld_theorem4.json")["settings"]["slopes"]
    for data, told in (("all", "with all data"), ("batches of 10", "with batches")):
        slope = kept_slopes[f"{data}, theorem's"]
        assert re.search(rf"T\^\({slope:.2f}\)\s{told}", PAGES["experiments"])


def test_a_row_is_the_only_one():
    name = "sggmc_circle"
    assert claims().row(name, method="GMC")["kinetic energy"] == pytest.approx(1, abs=0.01)
    for where in ({"method": "no such"}, {}):
        with pytest.raises(ValueError, match="values to unpack"):
            claims().row(name, **where)


def test_errata_name_modules_and_tests_that_are_there():
    _, _, after = PAGES["papers"].partition("## Errata")
    table, _, _ = after.partition("\n## ")
    rows = [line.split(" | ") for line in table.splitlines() if "`" in line and line[0] == "|"]
    assert len(rows) >= 15
    for *_, module, test in rows:
        for path in re.findall(r"`([\w./]+)`", module):
            where = (
                ROOT / path if "/" in path else ROOT / "simplex_jax" / f"{path.split('.')[0]}.py"
            )
            assert where.is_file(), path
        for path in re.findall(r"`([\w./]+)`", test):
            assert (ROOT / "tests" / path).is_file(), path


def test_the_page_of_the_papers_is_short():
    text = re.sub(r"\]\([^)]*\)|<!--.*?-->", "", PAGES["papers"])
    assert len(re.findall(r"\S*[^\W\d_]\S*", text)) < 1000


def test_other_tables_say_that_their_run_was_not_kept():
    """In the paragraph before them, or before another such table that it is about as well."""
    marked = r"<!-- table [\w.]+ -->.*?<!-- end -->"
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
