"""Currencies by code and by sign, where a document names them beside an amount."""

import re

SIGNS = {"€": "EUR", "£": "GBP", "$": "USD", "¥": "JPY"}

_CODES = "EUR|USD|GBP|CHF|JPY|CNY|SEK|NOK|DKK|PLN|CZK|CAD|AUD|NZD|INR|BRL|SGD"
_CODE = re.compile(rf"\b(?:{_CODES})(?=\d|\b)")
_SIGN = re.compile(r"[€£$¥](?=\s?-?\d)|(?<=\d)\s?[€£$¥]")


def currency_of(text: str) -> str | None:
    """Return the first currency code of a text, or else the code of the first sign at an amount."""
    if code := _CODE.search(text):
        return code[0]
    sign = _SIGN.search(text)
    return SIGNS[sign[0].strip()] if sign else None


def without_codes(text: str) -> str:
    """Return a text with blanks for currency codes, so that `EUR5` is a number."""
    return _CODE.sub(" ", text)
