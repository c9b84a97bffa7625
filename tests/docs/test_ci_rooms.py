"""`.ci/rooms` leads from every module of the package to tests that are there."""

import re
import runpy
from collections import Counter

import pytest
from support.paths import ROOT

ROOMS = runpy.run_path(str(ROOT / ".ci" / "rooms"))


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("simplex_jax/_src/estimators.py", {"tests/test_estimators.py"}),
        ("tests/test_batches.py", {"tests/test_batches.py"}),
        ("simplex_jax/_src/base.py", {"tests/samplers"}),
        ("simplex_jax/_src/native/library.py", {"tests/draws", "tests/models/topics"}),
        ("simplex_jax/_src/draws/native/gamma.inl", {"tests/draws"}),
        ("simplex_jax/_src/models/lda/commands.py", {"tests/models/lda"}),
        ("simplex_jax/_src/models/pipeline.py", {"tests/models"}),
        ("tests/support/tiny_hdp.py", {"tests/models/hdp/test_hdp_kernel.py"}),
        ("tests/support/unigrams/fitting.py", {"tests/models/test_toy_model.py"}),
        ("tests/support/test_reference_laws.py", {"tests/support/test_reference_laws.py"}),
        ("docs/design.md", {"tests/docs"}),
        ("CHANGELOG.md", set()),
    ],
)
def test_a_change_leads_to_its_tests(path, tests):
    result = ROOMS["tests_of"](path)
    assert result >= tests
    assert bool(result) == bool(tests)


def test_every_module_has_tests():
    modules = [path.relative_to(ROOT) for path in (ROOT / "simplex_jax").rglob("*.py")]
    tests = {str(path): ROOMS["tests_of"](str(path)) for path in modules}
    without = {path for path, result in tests.items() if not result}
    assert without == {f"simplex_jax/_src/{name}.py" for name in ("__init__", "border", "version")}
    assert all((ROOT / test).exists() for result in tests.values() for test in result)


def test_every_test_is_in_a_room_of_the_night():
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8")
    rooms = re.findall(r'[^\s,"]+', text.partition("room: [")[2].partition("]")[0])
    files = {*(ROOT / "tests").rglob("test_*.py")}
    for room in rooms:
        found = {*(ROOT / "tests").glob(room)}
        assert found, room
        files -= {file for file in files if found & {file, *file.parents}}
    assert not files


def test_no_two_files_of_tests_have_one_name():
    # pytest imports them by their names alone, and stops at the second.
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert names.most_common(1)[0][1] == 1
