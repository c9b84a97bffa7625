"""The run of all benchmarks on a GPU names scripts and options that exist."""

import re

import gpu
import pytest
import sources

WITH_SCRIPT = [part for part in gpu.PARTS if part.script.endswith(".py")]


def test_names_of_parts_and_results_are_distinct():
    kept = [part.keep for part in gpu.PARTS if part.keep]
    assert len({part.name for part in gpu.PARTS}) == len(gpu.PARTS)
    assert len(set(kept)) == len(kept)


@pytest.mark.parametrize("part", WITH_SCRIPT, ids=lambda part: part.name)
def test_parts_are_scripts_with_these_options(part):
    script = (gpu.BENCHMARKS / part.script).read_text()
    for name in re.findall(r"--([a-z-]+)", f"{part.arguments} {part.quick}"):
        assert re.search(rf'"(--)?{name}"', script), name


def test_tests_are_there():
    (part,) = (part for part in gpu.PARTS if part.script == "pytest")
    paths = re.findall(r"\S+\.py", part.arguments + part.quick)
    assert paths
    assert all((sources.ROOT / path).exists() for path in paths)


def test_a_part_that_takes_too_long_is_stopped_and_named(tmp_path):
    part = gpu.PARTS[0]._replace(script="simplex_jax", arguments="--help")
    done = gpu.measure(part._replace(quick="--help"), tmp_path, 0.01, quick=True)
    assert done["status"] == "stopped after 0 s"
    failed = gpu.measure(part._replace(quick="--no-such-option"), tmp_path, 60, quick=True)
    assert failed["status"] == 2
    assert "--no-such-option" in failed["last line"]
