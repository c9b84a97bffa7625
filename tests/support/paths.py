"""Paths in the checkout that tests use."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
BENCHMARKS = ROOT / "benchmarks"
TABLES = TESTS / "support" / "tables"
