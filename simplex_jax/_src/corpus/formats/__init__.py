"""Input formats: one file each, with a record `FORMAT` that is listed in `registry`."""

from simplex_jax._src.corpus.formats.format import Format, Kind, Source
from simplex_jax._src.corpus.formats.registry import FORMATS, described, formats_of, having

__all__ = ["FORMATS", "Format", "Kind", "Source", "described", "formats_of", "having"]
