"""Topics of single cells for the tools that come next: AnnData files, and BED files of regions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from simplex_jax._src.evaluate.matching import as_topics
from simplex_jax._src.extras import needed

# The format of AnnData files, of anndata 0.8 and later, which itself would bring pandas and zarr.
_DICTIONARIES = ("layers", "obsm", "obsp", "uns", "varm", "varp")


@contextmanager
def anndata_file(
    path: Path, obs: Mapping[str, Any], var: Mapping[str, Any], **parts: Any
) -> Iterator[Any]:
    """Write an AnnData file, and yield it open, an `h5py.File`, to add a large matrix `X`.

    Args:
        path: The file, which must not exist.
        obs: The table of the rows: texts or numbers by column, the first of which names the rows.
        var: The table of the columns of the matrix.
        parts: Dense arrays: `X`, and `obsm` and `varm`, each a mapping.

    Raises:
        ImportError: h5py is not installed.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as place:
        ...     path = pathlib.Path(place, "cells.h5ad")
        ...     tables = {"cell": ["a", "b"]}, {"region": ["chr1:1-9"]}
        ...     with anndata_file(path, *tables, obsm={"X_topics": np.eye(2)}) as file:
        ...         print(file["obsm/X_topics"].shape)
        (2, 2)
    """
    with needed("an AnnData file", "h5ad"):
        import h5py

    def put(group: Any, name: str, values: Any) -> None:
        array, encoding = np.asarray(values), "array"
        if array.dtype.kind in "UO":
            texts = [_storable(text) for text in array.ravel().tolist()]
            array = np.array(texts, h5py.string_dtype()).reshape(array.shape)
            encoding = "string-array"
        encoded(group.create_dataset(name, data=array), encoding, "0.2.0")

    with h5py.File(path, "x") as file:
        encoded(file, "anndata", "0.1.0")
        for axis, table in (("obs", obs), ("var", var)):
            group = encoded(file.create_group(axis), "dataframe", "0.2.0")
            names = list(table)
            columns = np.array(names[1:], h5py.string_dtype() if names[1:] else float)
            group.attrs.update({"_index": names[0], "column-order": columns})
            for name, values in table.items():
                put(group, name, values)
        for name in _DICTIONARIES:
            group = encoded(file.create_group(name), "dict", "0.1.0")
            for entry, values in parts.get(name, {}).items():
                put(group, entry, values)
        if "X" in parts:
            put(file, "X", parts["X"])
        yield file


def _storable(text: object) -> str:
    """Return a text that HDF5 can store: UTF-8 without NUL, as names may not be."""
    return str(text).encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def encoded(member: Any, encoding: str, version: str) -> Any:
    """Return a group or array of an AnnData file, marked as what it is."""
    member.attrs.update({"encoding-type": encoding, "encoding-version": version})
    return member


def topic_scores(topics: ArrayLike) -> np.ndarray:
    """Return how typical each region is of each topic, 0 to 1 in a topic, float64 [K, V].

    The score of cisTopic, `smooth_topics` of pycisTopic, is large for probable regions that are
    less probable in other topics: p_kv (log p_kv - mean over topics j of log p_jv), shifted and
    scaled to the range of 0 to 1. With a single topic it is the probability, scaled.

    Source: Bravo González-Blas et al. (2019), cisTopic, Nature Methods 16.

    Example:
        >>> topic_scores([[0.5, 0.4, 0.1], [0.5, 0.1, 0.4]]).round(2).tolist()
        [[0.2, 1.0, 0.0], [0.2, 0.0, 1.0]]
    """
    table = as_topics("topics", topics).astype(np.float64)
    if len(table) > 1:
        logs = np.log(table + 1e-100)
        table = table * (logs - logs.mean(axis=0))
    low, width = table.min(axis=1, keepdims=True), np.ptp(table, axis=1, keepdims=True)
    return (table - low) / np.where(width > 0, width, 1)


def above_otsu(scores: np.ndarray) -> np.ndarray:
    """Return the places of the scores of a topic, [V], 0 to 1, that are above Otsu's threshold.

    The threshold divides a histogram of 100 bins in two groups with the largest variance between
    them; as in pycisTopic, it is the centre of the last bin of the lower group. Of equal scores
    none is above it.

    Source: Otsu (1979), A threshold selection method from gray-level histograms.

    Example:
        >>> above_otsu(np.array([0, 0.1, 1.0, 0.1, 0.9])).tolist()
        [2, 4]
    """
    if not np.ptp(scores):
        return np.zeros(0, int)
    counts, edges = np.histogram(scores, 100)
    centres = (edges[:-1] + edges[1:]) / 2
    number, total = np.cumsum(counts), np.cumsum(counts * centres)
    # No group is empty, since the first bin and the last have a score.
    below, above = number[:-1].astype(float), (number[-1] - number[:-1]).astype(float)
    apart = total[:-1] / below - (total[-1] - total[:-1]) / above
    return np.flatnonzero(scores > centres[np.argmax(below * above * apart**2)])


def regions_of(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return chromosome, start and end of regions by their names, such as `chr1:100-600`.

    There may be `-` or `_` in place of either sign. The numbers stay as they are: those of BED,
    half-open and from 0, in the names that peak callers and pycisTopic give.

    Raises:
        ValueError: A name is not that of a region.

    Example:
        >>> regions_of(["chr1:100-600", "GL000194.1-5-9"])
        [('chr1', 100, 600), ('GL000194.1', 5, 9)]
    """
    found = []
    for name in names:
        match = re.fullmatch(r"(.+?)[:_-](\d+)[_-](\d+)", name)
        if match is None:
            raise ValueError(f"{name!r} is not a region such as chr1:100-600")
        found.append((match[1], int(match[2]), int(match[3])))
    return found


def write_bed(path: Path, regions: Sequence[tuple[str, int, int]]) -> None:
    """Write regions as BED: chromosome, start and end, sorted, with tabs between them."""
    lines = [f"{name}\t{start}\t{end}\n" for name, start, end in sorted(regions)]
    path.write_text("".join(lines), "utf-8")
