"""Input formats: one file each, with a record `FORMAT` that is listed in `registry`."""

from simplex_jax._src.corpus.formats.registry import FORMATS, described, formats_of, having
from simplex_jax._src.corpus.reading import Format, Kind, Source
