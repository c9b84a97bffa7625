"""Places in the checkout that tests go to."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
BENCHMARKS = ROOT / "benchmarks"
TABLES = TESTS / "support" / "tables"
