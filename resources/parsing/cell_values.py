"""The stored value of a spreadsheet cell as a person would read it, without loss.

Numbers keep their digits: no ``.0`` that is not there, no exponent, leading zeros and per cent where the number format
shows them. Dates are ISO 8601. Thousands separators, scaling, colours and rounding of the format are left out: they
only hide digits. Number formats are those of ECMA-376 part 1, 18.8.30 and 18.8.31.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

_BUILT_IN_DATES = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
_BUILT_IN_PERCENT = {9: "0%", 10: "0.00%"}
_LITERALS = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\]|\[[^\]]*\]|_.|\*.'
)
_ELAPSED = re.compile(r"\[[hms]+\]", re.IGNORECASE)
_DATE_LETTERS = re.compile(r"[dmyhs]", re.IGNORECASE)
_QUOTES = re.compile(r'\\(.)|"([^"]*)"')
_MASK = re.compile(r"[(\- ]*0[0)(\- ]*0")
"""A number that is written like a word: a fixed count of digits, such as ``00000`` or ``000-00-0000``."""
_SCALED = re.compile(r"[0#],+(?![0#,])")
"""A comma behind the last digit divides what is shown by a thousand."""
_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - spreadsheet dates have no time zone
_EPOCH_1904 = datetime(1904, 1, 1)  # noqa: DTZ001
_LEAP_DAY_1900 = 60
"""29 February 1900, which was none: the days before it are one off (ECMA-376 part 1, 18.17.4.1)."""
_LAST_DAY = 2_958_465
"""31 December 9999."""
_SECONDS_A_DAY = 86_400


class NumberFormat:
    """What a number format code says about how a value is read."""

    def __init__(self, number_format_id: int, code: str | None) -> None:
        code = (code or _BUILT_IN_PERCENT.get(number_format_id, "")).split(";")[0]
        self._literals = [
            match["quoted"] or match["escaped"] or match["currency"] or "" for match in _LITERALS.finditer(code)
        ]
        bare = _LITERALS.sub("", code)
        plain = _QUOTES.sub(r"\1\2", code)
        self.is_elapsed_time = bool(_ELAPSED.search(code))
        is_general = bare.strip().lower() == "general"
        self.is_date = number_format_id in _BUILT_IN_DATES or (not is_general and bool(_DATE_LETTERS.search(bare)))
        self.is_percent = "%" in bare
        self.mask = plain if _MASK.fullmatch(plain) else ""
        self.is_scaled = bool(_SCALED.search(bare))

    @property
    def unit(self) -> str:
        """Words or a currency that the format puts beside the number, such as ``EUR``; none beside a scaled one."""
        return "" if self.is_scaled else "".join(self._literals).strip()


def number_text(stored: str, number_format: NumberFormat, *, from_1904: bool) -> str:
    """A stored number (decimal digits in the file) by its format; what is no number is returned as it is."""
    try:
        value = Decimal(stored)
    except InvalidOperation:
        return stored
    if not value.is_finite():
        return stored
    if number_format.is_elapsed_time or (number_format.is_date and 0 <= value <= _LAST_DAY):
        return _elapsed(value) if number_format.is_elapsed_time else _date(value, from_1904=from_1904)
    if number_format.is_percent:
        return f"{_plain(value * 100)}%"
    text = _plain(value)
    if number_format.mask and text.isdecimal():
        return _masked(text, number_format.mask)
    return f"{text} {number_format.unit}".strip()


def _masked(digits: str, mask: str) -> str:
    """Digits in the places of the zeros; what is more stands before the first one."""
    places = mask.count("0")
    digits = digits.zfill(places)
    head, rest = digits[: len(digits) - places], iter(digits[len(digits) - places :])
    filled = "".join(next(rest) if character == "0" else character for character in mask)
    first = mask.index("0")
    return (filled[:first] + head + filled[first:]).strip()


def _plain(value: Decimal) -> str:
    """Without exponent and without the noise of binary fractions (0.30000000000000004), which is beyond 15 digits."""
    if len(value.as_tuple().digits) > 15 and value != value.to_integral_value():  # noqa: PLR2004 - IEEE 754 doubles
        value = Decimal(f"{value:.15g}")
    text = f"{value:f}" if value else "0"  # not -0
    return text.rstrip("0").rstrip(".") if "." in text else text


def _date(value: Decimal, *, from_1904: bool) -> str:
    if not from_1904 and 1 <= value < _LEAP_DAY_1900:
        value += 1
    elif not from_1904 and int(value) == _LEAP_DAY_1900:
        return "1900-02-29"
    moment = (_EPOCH_1904 if from_1904 else _EPOCH) + timedelta(seconds=round(value * _SECONDS_A_DAY))
    if value < 1:
        return moment.time().isoformat()
    return moment.date().isoformat() if value == value.to_integral_value() else moment.isoformat(sep=" ")


def _elapsed(value: Decimal) -> str:
    minutes, seconds = divmod(round(value * _SECONDS_A_DAY), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
