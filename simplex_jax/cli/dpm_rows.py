"""New rows for a fitted mixture: read, and put to the values that it knows."""

from pathlib import Path
from typing import Any, NamedTuple

from simplex_jax.base import PyTree
from simplex_jax.cli import documents, dpm_options
from simplex_jax.dpm.saved import Model
from simplex_jax.runtime.saved import RunError


class Mapped(NamedTuple):
    """Rows with the values of a model.

    Attributes:
        rows: As the family of the model has them.
        names: Their names.
        said: How much of them the model knows, in words.
    """

    rows: PyTree
    names: tuple[str, ...]
    said: str


def read(model: Model, path: Path, reading: dict[str, Any]) -> Mapped:
    """Read rows as those of a model were read, with its values.

    Args:
        model: The model.
        path: The rows: of counts if the model is of counts, or a table of categories.
        reading: The options of `dpm_options.FILE_OPTIONS`.

    Raises:
        ValueError: The rows cannot be read, or do not go with the model.
    """
    job, variables = model.config.get("job"), model.variables
    if not isinstance(job, dict) or not isinstance(job.get("reading"), dict):
        raise RunError("config.json of the model does not say how its input was read")
    table = variables.kind == "categories"
    if dpm_options.holds_categories(path, reading["format"]) and not table:
        raise ValueError(
            f"{path}: this is a table of categories, and the model is of counts: give counts, or "
            "--format csv or tsv for a column of text"
        )
    if table:
        drop = {"drop_column": (), "id_column": reading["id_column"] or job["reading"]["id_column"]}
        known = variables.columns, variables.values
        found = dpm_options.read_table(path, reading | drop, known=known)
        fields = found.codes.size
        said = (
            f"{len(found.names):,} rows, {fields:,} fields: {found.unknown:,} with a value unknown "
            "to the model are taken for missing"
        )
        return Mapped(variables.rows(found.codes), found.names, said)
    stop_words = job["reading"].get("stop_words")
    counted = documents.read_as(variables.values[0], stop_words, path, reading)
    said = documents.described(counted)
    return Mapped(variables.rows(counted.corpus.counts), counted.corpus.names, said)
