"""Kept results are made again by their own commands."""

import json
import re

import kept
import pytest
import rerun
import sources

SCRIPT = """
import json, pathlib, sys
keep = pathlib.Path(sys.argv[sys.argv.index("--keep") + 1])
about = {"command": "python script.py"}
keep.write_text(json.dumps({"about": about, "arguments": sys.argv[1:-2], "rows": [{}, {}]}))
sys.exit("--fail" in sys.argv)
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "script.py").write_text(SCRIPT)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    return tmp_path


def result(tree, command, rows=2):
    file = tree / "result.json"
    content = {"about": {"command": command}, "seconds": 7.0, "rows": [{}] * rows}
    file.write_text(json.dumps(content))
    return file


def test_a_result_is_replaced_by_a_new_run_with_more_options(tree):
    file = result(tree, "python script.py --case 'a b'")
    assert rerun.seconds(file) == 7
    assert rerun.again(file, tree, "--seeds 5")
    assert kept.read(file)["arguments"] == ["--case", "a b", "--seeds", "5"]
    assert rerun.seconds(file) == float("inf")


@pytest.mark.parametrize(
    "command", ["python script.py --fail", "python gone.py", "python script.py; the same again"]
)
def test_a_result_stays_where_its_run_fails(tree, command):
    file = result(tree, command)
    before = file.read_text()
    assert not rerun.again(file, tree)
    assert file.read_text() == before


def test_a_result_of_several_runs_keeps_its_rows(tree, capsys):
    file = result(tree, "python script.py", rows=3)
    before = file.read_text()
    assert not rerun.again(file, tree)
    assert file.read_text() == before
    assert re.search(r"^result: 2 .* 3\b", capsys.readouterr().out, re.MULTILINE)


def test_results_are_chosen_by_name_and_staleness(tree, monkeypatch):
    monkeypatch.setattr(kept, "RESULTS", tree)
    file = result(tree, "python script.py")
    assert rerun.chosen(["result"], all_stale=False, most=None) == [file]
    assert rerun.chosen([], all_stale=True, most=8.0) == [file]
    for names, most in ([], 6.0), (["no"], None):
        with pytest.raises(SystemExit):
            rerun.chosen(names, all_stale=not names, most=most)


def test_most_kept_results_have_one_command():
    files = sorted(kept.RESULTS.rglob("*.json"))
    abouts = [about for file in files if (about := kept.read(file).get("about"))]
    commands = [rerun.command_of(about) for about in abouts]
    assert sum(command is None for command in commands) <= 6
    assert all((sources.ROOT / command[0]).is_file() for command in commands if command)
