"""Words of three or more letters of any script, with the marks that belong to letters."""

import functools
import re
import unicodedata

PATTERN = r"(?u)\b[^\W\d_]{3,}\b"
"""The words of `words` in texts without marks, in short; what users see as the pattern."""

_JOINERS = "\u200c\u200d"  # within words of Persian, Hindi and others
_STYLES = "\ufe0e\ufe0f"  # marks by category, but of emoji, which a word may follow at once
_PLAIN = re.compile(PATTERN)


def words(text: str) -> list[str]:
    r"""Return the words of a text; a mark or a joiner after a letter counts as a letter.

    Python's `\w` has no marks, and so would cut words of many scripts into pieces.

    Example:
        >>> words("the rivers नदी and நதி, h2o")
        ['the', 'rivers', 'नदी', 'and', 'நதி']
    """
    may_have_marks, marked = _patterns()
    # Twice as fast, and the same words, for most texts.
    return (marked if may_have_marks.search(text) else _PLAIN).findall(text)


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a mark, or what may be one, and of a word."""
    # The planes that have marks; a table of them would be out of date with the next Unicode.
    points = map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))
    ranges: list[list[str]] = []
    for mark in points:
        if unicodedata.category(mark) not in ("Mn", "Mc") or mark in _STYLES:
            continue
        if ranges and ord(ranges[-1][1]) == ord(mark) - 1:
            ranges[-1][1] = mark
        else:
            ranges.append([mark, mark])
    marks = "".join(f"{first}-{last}" for first, last in ranges)
    basic = "".join(f"{first}-{last}" for first, last in ranges if last <= "\uffff")
    letter, extra = r"[^\W\d_]", f"[{marks}{_JOINERS}]"
    # The quantifiers give nothing back: what follows the last one is neither letter nor mark.
    word = (
        rf"(?={letter}(?:{letter}|{extra}){{2}})(?<!\w)(?<![{marks}])"
        rf"{letter}++(?:{extra}++{letter}*+)*+(?!\w)"
    )
    return re.compile(f"[{basic}{_JOINERS}\U00010000-\U0010ffff]"), re.compile(word)
