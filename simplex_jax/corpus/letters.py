"""Words of three or more letters of any script, including combining marks."""

import functools
import re
import unicodedata

PATTERN = r"(?u)\b[^\W\d_]{3,}\b"
"""The pattern that users see; it matches as `words` does in texts without marks."""

_JOINERS = "\u200c\u200d"  # within words of Persian, Hindi and others
_STYLES = "\ufe0e\ufe0f"  # marks, but of emoji, which a word may follow directly
_PLAIN = re.compile(PATTERN)


def words(text: str) -> list[str]:
    r"""Return the words of a text; a mark or a joiner after a letter counts as a letter.

    Python's `\w` excludes marks and would split words of many scripts.

    Example:
        >>> words("the rivers नदी and நதி, h2o")
        ['the', 'rivers', 'नदी', 'and', 'நதி']
    """
    may_have_marks, marked = _patterns()
    # The plain pattern finds the same words in texts without marks, twice as fast.
    return (marked if may_have_marks.search(text) else _PLAIN).findall(text)


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a possible mark and of a word."""
    # The planes that have marks; a fixed table would be outdated by the next version of Unicode.
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
    # Possessive quantifiers never backtrack: neither a letter nor a mark follows the last one.
    word = (
        rf"(?={letter}(?:{letter}|{extra}){{2}})(?<!\w)(?<![{marks}])"
        rf"{letter}++(?:{extra}++{letter}*+)*+(?!\w)"
    )
    return re.compile(f"[{basic}{_JOINERS}\U00010000-\U0010ffff]"), re.compile(word)
