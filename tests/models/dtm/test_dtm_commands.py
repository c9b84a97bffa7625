"""The commands of topics in slices: where the columns of documents come from."""

import pytest
from click.testing import CliRunner

from simplex_jax._src.cli import main
from simplex_jax._src.corpus import from_counts
from simplex_jax._src.models.dtm import commands


def invoke(*arguments):
    return CliRunner().invoke(main, ["dtm", *map(str, arguments)])


def test_metadata_has_an_encoding_and_a_column_of_names_of_its_own(tmp_path):
    corpus = from_counts([[1, 0], [0, 1]], names=["über", "a"])
    metadata = tmp_path / "about.csv"
    metadata.write_text("speech,name,side\na,Ann,links\nüber,Bob,rechts\n", "latin-1")
    reading = {
        "time": None,
        "by": "side",
        "metadata": metadata,
        "metadata_id_column": "speech",
        "encoding": "latin-1",
        "encoding_errors": "strict",
    }
    found = commands._columns(tmp_path / "texts.csv", corpus, reading)
    assert found == {"groups": ["rechts", "links"]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--by", "side", "--metadata-id-column", "speech"], "--metadata-id-column requires"),
        (["--slices", 1, "--metadata", "about.csv"], "--metadata is "),
    ],
)
def test_options_of_metadata_that_would_have_no_effect_are_refused(tmp_path, given, told):
    (tmp_path / "texts.csv").write_text("id,text,side\na,war,links\n")
    result = invoke(tmp_path / "texts.csv", *given)
    assert result.exit_code == 2
    assert told in result.stderr
