"""The table of numpyro kernels in docs/benchmarks.md is that of the kept run."""

import kept
import numpyro_ess
from support import pages


def test_the_page_has_the_table_of_the_kept_run():
    rows = kept.read(kept.RESULTS / "numpyro_ess.json")["rows"]
    assert numpyro_ess.table(rows) in pages.text("benchmarks.md")
