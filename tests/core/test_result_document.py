"""The bytes and the path of a result."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.result_document import canonical_json, output_path

digits = st.decimals(allow_nan=False, allow_infinity=False, places=7)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | digits | st.text(max_size=10),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=5), child, max_size=3),
    max_leaves=10,
)


def read(data: bytes) -> Any:
    return json.loads(data.decode("utf-8"), parse_float=Decimal)


@given(values)
def test_a_value_is_read_back_with_all_its_digits(value: object) -> None:
    assert repr(read(canonical_json(value))) == repr(value)


@given(values)
def test_the_same_value_has_the_same_bytes(value: object) -> None:
    assert canonical_json(value) == canonical_json(read(canonical_json(value)))


def test_keys_stay_in_the_order_of_the_answer_and_text_stays_readable() -> None:
    assert canonical_json({"b": "Café", "a": Decimal("1.10")}) == '{\n  "b": "Café",\n  "a": 1.10\n}\n'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity")])
def test_what_is_not_json_is_never_written(number: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_json({"a": number})


def test_a_lone_surrogate_is_never_written() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        canonical_json("\ud83d")


def test_documents_of_one_stem_do_not_share_an_output() -> None:
    keys = ["a/scan.pdf", "b/scan.pdf", "a/scan.docx", "scan.pdf", "scan"]
    assert len({output_path("c", key) for key in keys}) == len(keys)


def test_an_output_keeps_the_folders_and_the_extension_of_its_document() -> None:
    assert str(output_path("servers", "dell/r770.pdf")) == "servers/dell/r770.pdf/extraction.json"


@pytest.mark.parametrize("key", ["", ".", "/etc/hostname", "..", "../a", "a/../../b", "a\0b"])
def test_a_key_that_is_no_path_below_the_root_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="document key"):
        output_path("c", key)


@given(st.text(st.sampled_from("a./\\\n\0é"), max_size=12))
def test_no_key_leads_out_of_its_collection(key: str) -> None:
    try:
        path = output_path("c", key)
    except ValueError:
        return
    assert path.parts[0] == "c"
    assert ".." not in path.parts
    assert len(path.parts) >= 3
