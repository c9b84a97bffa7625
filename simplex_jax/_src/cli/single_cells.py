"""The command that writes topics of single cells for the tools that come next."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from simplex_jax._src.cli import console, counts, options
from simplex_jax._src.cli.commands import load
from simplex_jax._src.cli.console import one_line_errors
from simplex_jax._src.evaluate.single_cells import (
    above_otsu,
    anndata_file,
    regions_of,
    topic_scores,
    write_bed,
)
from simplex_jax._src.models.records import Model
from simplex_jax._src.models.topics.proportions import joined
from simplex_jax._src.report.display import counted
from simplex_jax._src.runtime import directory as directories
from simplex_jax._src.runtime import output

CELLS, CELL_TOPIC, REGION_TOPIC = "cells.h5ad", "cell_topic.h5ad", "region_topic.h5ad"
SETS = "region_sets"


def write_matrices(
    place: Path,
    fitted: Any,
    cells: Sequence[str],
    proportions: np.ndarray,
    errors: np.ndarray,
) -> None:
    """Write the AnnData files of topics, given the proportions of D cells, [D, K], and errors."""
    numbers = range(1, fitted.num_topics + 1)
    topics = {
        "topic": [f"Topic{number}" for number in numbers],
        "title": list(fitted.titles),
        "prevalence": fitted.prevalence,
        "prevalence_sd": fitted.prevalence_sd,
        "assignments": fitted.prevalence * fitted.corpus["tokens"],
        "coherence": fitted.coherence,
    }
    obs = {"cell": list(cells), "topics_error": errors}
    var = {"region": list(fitted.vocabulary)}
    loadings = {"topics": fitted.topics.T, "topics_sd": fitted.topics_sd.T}
    with anndata_file(place / CELLS, obs, var, obsm={"X_topics": proportions}, varm=loadings):
        pass
    with anndata_file(place / CELL_TOPIC, obs, topics, X=proportions):
        pass
    with anndata_file(place / REGION_TOPIC, var, topics, X=fitted.topics.T):
        pass


def write_region_sets(
    place: Path, topics: np.ndarray, regions: list[tuple[str, int, int]], top: int
) -> np.ndarray:
    """Write BED files of the regions of each topic; return how many Otsu's threshold leaves."""
    scores = topic_scores(topics)
    chosen = {
        "Topics_otsu": [above_otsu(row) for row in scores],
        f"Topics_top_{top}": list(np.argsort(-scores, axis=1, kind="stable")[:, :top]),
    }
    for name, sets in chosen.items():
        folder = place / name
        folder.mkdir(parents=True)
        for number, indices in enumerate(sets, 1):
            write_bed(folder / f"Topic{number}.bed", [regions[index] for index in indices])
    return np.array([len(indices) for indices in chosen["Topics_otsu"]])


def export_command(kind: Model) -> click.Command:
    """Return the command that writes what tools for single cells read."""

    @click.command("export")
    @click.argument("input", required=False, type=options.PATH)
    @options.model_option
    @click.option(
        "--out", type=options.PATH, help="Folder to write, a new one.  [default: DIR-export]"
    )
    @click.option(
        "--top-regions",
        default=3000,
        show_default=True,
        type=click.IntRange(1),
        help="Regions of each topic in the sets of equal size.",
    )
    @options.compose(*counts.FILE_OPTIONS.values())
    @options.common_options
    @one_line_errors
    def export(
        input: Path | None,
        model: Path,
        out: Path | None,
        top_regions: int,
        quiet: bool,
        **reading: Any,
    ) -> None:
        """Write topics of single cells as AnnData and BED, for Scanpy, pycisTopic and SCENIC+.

        cells.h5ad has the topics of cells in obsm["X_topics"], and the probabilities of regions in
        varm["topics"] with their deviations in varm["topics_sd"]. cell_topic.h5ad, cells by topics,
        and region_topic.h5ad, regions by topics, are pycisTopic's matrices. Topic1 is topic 0 of
        the run.

        region_sets/ has BED files of each topic, such as Topics_otsu/Topic1.bed. As by pycisTopic's
        binarize_topics, the score of a region is its probability times the log of how much larger
        that is than in other topics; Topics_otsu has the regions above Otsu's threshold, and
        Topics_top_3000 the --top-regions first. There are none if the words are not regions, such
        as chr1:100-600.

        Give INPUT for other cells, or if the run wrote no proportions of its own (--stream).
        """
        say, tell = (console.speaker(quiet, results=results) for results in (False, True))
        place = out or model.absolute().with_name(f"{model.absolute().name}-export")
        if place.exists():
            raise FileExistsError(f"{place} exists: choose another --out")
        directories.check(place, kind.name, ())
        fitted, own = load(kind, model)
        cells, shares, errors = fitted.names, fitted.proportions, fitted.proportions_error
        if input is not None:
            other = counts.read_other(fitted, input, reading, own)
            say(other.coverage)
            parts = fitted.shards(other.data.counts, seed=fitted.settings.seed)
            shape = len(other.names), fitted.num_topics
            cells, (shares, errors) = other.names, joined(parts, shape, console.Stages(quiet))
        if not len(shares):
            raise ValueError(
                "the run did not write the proportions of its cells: give the cells as INPUT"
            )
        try:
            regions, problem = regions_of(fitted.vocabulary), ""
        except ValueError as error:
            regions, problem = [], str(error)
        with output.publishing(place) as folder:
            write_matrices(folder, fitted, cells, shares, errors)
            if regions:
                found = write_region_sets(folder / SETS, fitted.topics, regions, top_regions)
        if regions:
            tell(
                f"{counted(fitted.num_topics, 'topic')} with {found.min():,} to {found.max():,} "
                "regions above Otsu's threshold"
            )
        else:
            tell(f"no BED files: {problem}")
        tell(f"written to {options.shown(place)}")

    return export
