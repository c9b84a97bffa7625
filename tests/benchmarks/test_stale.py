"""A kept result knows the code that made it, and it is said when that code has changed."""

import sys
import textwrap

import kept
import pytest
import sources
import stale

FILES = {
    "benchmarks/script.py": """
        import helper
        from simplex_jax import lazy
        from simplex_jax._src import kernels
        helper.go(kernels.fast, [lazy, "tool.py"])
        """,
    "benchmarks/helper.py": """
        import importlib
        import json
        module = importlib.import_module("deep")
        """,
    "benchmarks/deep.py": "X = 1  # one",
    "benchmarks/tool.py": "Y = 1",
    "benchmarks/aside.py": "import script",
    "simplex_jax/__init__.py": """
        import typing
        if typing.TYPE_CHECKING:
            from simplex_jax._src.home import lazy
        """,
    "simplex_jax/_src/__init__.py": "",
    "simplex_jax/_src/home.py": """
        from simplex_jax._src.report import page
        def lazy(words=option("More", default=3)):
            '''Text.'''
            if words:
                raise ValueError("no words")
            return 1
        """,
    "simplex_jax/_src/report/page.py": "P = 1",
    "simplex_jax/_src/unused.py": "Z = 1",
    "simplex_jax/_src/kernels/__init__.py": "from simplex_jax._src.kernels import fast, native",
    "simplex_jax/_src/kernels/fast.py": "F = 1",
    "simplex_jax/_src/kernels/native/__init__.py": "N = 1",
    "simplex_jax/_src/kernels/native/code.cc": "int f() { return 1; }",
    "simplex_jax/_src/kernels/native/part.inl": "int g() { return 1; }",
}
HOME = FILES["simplex_jax/_src/home.py"]


@pytest.fixture
def roots(tmp_path):
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return (tmp_path, tmp_path / "benchmarks")


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(textwrap.dedent(text), encoding="utf-8")


def digest(roots):
    sources._tree.cache_clear()
    sources._content.cache_clear()
    return sources.digest(roots[1] / "script.py", roots)


def test_a_script_depends_on_what_it_imports_and_runs(roots):
    found = sources.dependencies(roots[1] / "script.py", roots)
    assert {str(path.relative_to(roots[0])) for path in found} == {*FILES} - {
        *("benchmarks/aside.py", "simplex_jax/_src/unused.py", "simplex_jax/_src/report/page.py"),
        *("simplex_jax/__init__.py", "simplex_jax/_src/__init__.py"),  # define nothing that is used
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("benchmarks/deep.py", '"""A text."""\nX = (1)'),
        (
            "simplex_jax/_src/home.py",
            "from simplex_jax._src.report import page\n"
            "def lazy(words=option('Fewer', default=3, help='What?')):\n    '''Another.'''\n"
            "    if words:\n        raise TypeError(f'{words} words')\n    return 1  # why",
        ),
        ("simplex_jax/_src/report/page.py", "P = 2"),
        ("simplex_jax/_src/unused.py", "Z = 2"),
        ("benchmarks/aside.py", "import script, deep"),
        ("simplex_jax/_src/kernels/native/code.cc", "int f() {  // why\n  return 1; }"),
    ],
)
def test_texts_and_other_modules_do_not_change_the_digest(roots, name, text):
    before = digest(roots)
    write(roots[0], name, text)
    assert digest(roots) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("benchmarks/script.py", "import helper"),
        ("benchmarks/deep.py", "X = 2"),
        ("benchmarks/tool.py", "Y = 2"),
        ("simplex_jax/_src/home.py", HOME.replace("return 1", "return 2")),
        ("simplex_jax/_src/home.py", HOME.replace("if words", "if not words")),
        ("simplex_jax/_src/home.py", HOME.replace("default=3", "default=4")),
        ("simplex_jax/_src/kernels/fast.py", "F = '1'"),
        ("simplex_jax/_src/kernels/native/code.cc", "int f() { return 2; }"),
        ("simplex_jax/_src/kernels/native/part.inl", "int g() { return 2; }"),
    ],
)
def test_code_far_down_changes_the_digest(roots, name, text):
    before = digest(roots)
    write(roots[0], name, text)
    assert digest(roots) != before


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("COMMAND = ['python', '-m', 'simplex_jax']", True),
        ("print('-m', 'simplex_jax', 'lda')", True),
        ("COMMAND = 'simplex-jax lda'.split()", True),
        ("CODE = 'from simplex_jax import lda'", True),
        ("TOOLS = ['simplex_jax', 'another']", False),
        ("PLACE = 'simplex_jax._src.kernels'", False),
    ],
)
def test_a_script_that_runs_the_command_line_depends_on_the_whole_package(roots, text, runs):
    write(roots[0], "benchmarks/script.py", text)
    before = digest(roots)
    write(roots[0], "simplex_jax/_src/unused.py", "Z = 2")
    assert (digest(roots) != before) == runs


def test_results_are_stale_unknown_or_of_the_code_of_today(tmp_path, roots, monkeypatch):
    about = {"script": "benchmarks/script.py", "digest": digest(roots), "commit": "abc"}
    about["command"] = "python script.py"
    results = {
        "today": about,
        "before": about | {"digest": "0"},
        "gone": about | {"script": "benchmarks/no.py"},
        "old": {"command": "python script.py"},
    }
    for name, told in results.items():
        monkeypatch.setattr(kept, "about", lambda told=told: told)
        kept.write(tmp_path / f"{name}.json", [{"a": 1}], device="cpu")
    files = {name: tmp_path / f"{name}.json" for name in results}
    assert stale.listing(list(files.values()), roots) == {
        "stale": {
            files["before"]: "before.json, commit abc: python script.py",
            files["gone"]: "gone.json, commit abc: python script.py",
        },
        "unknown": {files["old"]: "old.json, commit None: python script.py"},
        stale.ELSEWHERE: {},
    }


@pytest.mark.parametrize("here", [False, True])
def test_results_of_a_gpu_are_due_where_there_is_such_a_one(tmp_path, roots, monkeypatch, here):
    about = {"script": "benchmarks/script.py", "commit": "abc", "command": "python script.py"}
    results = {
        "today": about | {"digest": digest(roots)},
        "before": about | {"digest": "0"},
        "old": {"command": "python script.py"},
    }
    for name, told in results.items():
        monkeypatch.setattr(kept, "about", lambda told=told: told)
        kept.write(tmp_path / f"{name}.json", [{"a": 1}], device="NVIDIA H200")
    files = [tmp_path / f"{name}.json" for name in results]
    found = stale.listing(files, roots, "NVIDIA H200" if here else "cpu")
    due = found["stale"] | found["unknown"] if here else found[stale.ELSEWHERE]
    assert list(due) == files[1:]
    assert sum(map(len, found.values())) == 2
    monkeypatch.setattr(stale, "listing", lambda files, here: found)
    monkeypatch.setattr(sys, "argv", ["stale.py"])
    with pytest.raises(SystemExit) as ended:
        stale.main()
    assert ended.value.code == here


def test_a_result_has_its_code_unless_that_changed_during_the_run(tmp_path, monkeypatch, capsys):
    script = sources.ROOT / "benchmarks" / "draws.py"
    monkeypatch.setattr(sys, "argv", [str(script)])
    about = kept.about()
    assert about["script"] == "benchmarks/draws.py"
    assert about["digest"] == sources.digest(script)
    monkeypatch.setattr(kept, "_BEGUN", 0.0)
    assert kept.about()["digest"] is None
    assert "without its digest" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "elsewhere.py")])
    assert kept.about()["script"] is None
