"""Message batches, the pure part: ids that fit and are read back, states, and every shape that a line can have."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extraction_core.batches import (
    AT_PROVIDER,
    BATCH_MOVES,
    ERROR_CAUSES,
    UNSETTLED,
    BatchSeen,
    BatchState,
    Outcome,
    custom_id,
    new_nonce,
    nonce_of,
    read_result_line,
)
from extraction_core.causes import POLICIES, Cause, Remedy

PROVIDERS_PATTERN = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
LARGEST_ID = 2**63 - 1
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def line(result: Any, name: Any = "id") -> bytes:
    """Return a line of results."""
    return json.dumps({"custom_id": name, "result": result}).encode()


def read(result: Any) -> tuple[Outcome, Cause | None, str]:
    """Read a line with a result; returns outcome, cause and detail."""
    found = read_result_line(line(result))
    assert found is not None
    assert found.custom_id == "id"
    return found.outcome, found.cause, found.detail


# Identifiers


@given(st.integers(1, LARGEST_ID))
def test_a_custom_id_fits_the_provider_and_names_its_reservation(result_id: int) -> None:
    nonce = new_nonce()
    name = custom_id(nonce, result_id)
    assert PROVIDERS_PATTERN.match(name)
    assert nonce_of(line({"type": "canceled"}, name)) == nonce


def test_nonces_do_not_repeat() -> None:
    assert len({new_nonce() for _ in range(1000)}) == 1000


def test_custom_ids_of_different_rows_differ() -> None:
    assert custom_id("0" * 16, 12) != custom_id("0" * 16, 1) != custom_id("1" * 16, 1)


@pytest.mark.parametrize(
    "name",
    ["", "decoy-1", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdef-0", "0123456789abcdef-01",
     "0123456789ABCDEF-1", "0123456789abcde-1", "x0123456789abcdef-1", "0123456789abcdef-1 ", "0123456789abcdef-1\n",
     "0123456789abcdef-" + "1" * 20, "0123456789abcdef-\u0661", 7, None, ["0123456789abcdef-1"]],
)  # fmt: skip
def test_an_id_that_we_did_not_make_has_no_nonce(name: Any) -> None:
    assert nonce_of(line({"type": "canceled"}, name)) is None


def test_a_line_that_cannot_be_read_has_no_nonce() -> None:
    assert nonce_of(b'{"custom_id": "0123456789abcdef-1"') is None


# States


def test_every_state_has_its_moves_and_only_settled_ones_have_none() -> None:
    assert set(BATCH_MOVES) == set(BatchState)
    assert {state for state, after in BATCH_MOVES.items() if not after} == set(BatchState) - UNSETTLED
    assert all(state not in after for state, after in BATCH_MOVES.items())


def test_every_unsettled_state_can_end_and_be_lost_and_only_a_reservation_can_come_to_nothing() -> None:
    assert all(BatchState.LOST in BATCH_MOVES[state] for state in UNSETTLED)
    assert all(BatchState.ENDED in BATCH_MOVES[state] for state in AT_PROVIDER)
    assert [state for state, after in BATCH_MOVES.items() if BatchState.VOID in after] == [BatchState.RESERVED]
    assert [state for state, after in BATCH_MOVES.items() if BatchState.COLLECTED in after] == [BatchState.ENDED]


def test_no_move_leads_back() -> None:
    def after(state: BatchState) -> set[BatchState]:
        return {one for following in BATCH_MOVES[state] for one in {following, *after(following)}}

    assert all(state not in after(state) for state in BatchState)
    assert after(BatchState.RESERVED) == set(BatchState) - {BatchState.RESERVED}


def test_a_look_counts_all_requests() -> None:
    counts = {"processing": 1, "succeeded": 2, "errored": 3, "canceled": 4, "expired": 5}
    seen = BatchSeen(provider_id="b", state=BatchState.ENDED, counts=counts, created_at=None, expires_at=None)
    assert seen.request_count == 15


# Lines


def test_a_succeeded_request_brings_its_message_as_it_came() -> None:
    message = {"type": "message", "content": [{"type": "text", "text": "\u2028 \ud800 \0"}], "x": None}
    found = read_result_line(line({"type": "succeeded", "message": message}))
    assert found is not None
    assert (found.outcome, found.message, found.cause) == (Outcome.SUCCEEDED, message, None)


@pytest.mark.parametrize("message", [None, "text", [], {}, 1, True])
def test_a_success_without_a_message_is_for_a_person(message: Any) -> None:
    expected = (Outcome.UNKNOWN, Cause.UNKNOWN_RESULT, "a result without its message")
    assert read({"type": "succeeded", "message": message}) == expected
    assert read({"type": "succeeded"}) == expected


@pytest.mark.parametrize("kind", ERROR_CAUSES)
def test_an_error_is_told_by_the_inner_type(kind: str) -> None:
    inner = {"type": kind, "message": "the  words"}
    expected = (Outcome.ERRORED, ERROR_CAUSES[kind], f"{kind}: the words")
    assert read({"type": "errored", "error": {"type": "error", "error": inner, "request_id": None}}) == expected
    assert read({"type": "errored", "error": inner}) == expected  # some servers leave the outer one out


@pytest.mark.parametrize(
    ("kind", "passing"),
    [("api_error", True), ("overloaded_error", True), ("rate_limit_error", True), ("timeout_error", True),
     ("invalid_request_error", False), ("request_too_large", False), ("not_found_error", False)],
)  # fmt: skip
def test_an_error_that_may_pass_is_asked_again_and_one_of_the_request_is_not(kind: str, *, passing: bool) -> None:
    outcome, cause, _ = read({"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": ""}}})
    assert outcome is Outcome.ERRORED
    assert cause is not None
    assert (POLICIES[cause].remedy in {Remedy.RETRY, Remedy.WAIT}) is passing


def test_a_model_that_is_not_found_is_a_fault_of_the_collection() -> None:
    inner = {"type": "not_found_error", "message": "model: claude-does-not-exist-9"}
    assert read({"type": "errored", "error": {"type": "error", "error": inner}})[1] is Cause.MODEL_NOT_FOUND


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        ({"type": "error", "error": {"type": "new_error", "message": "new"}}, "new_error: new"),
        ({"type": "error", "error": {"type": "new_error", "message": None}}, "new_error: no message"),
        ({"type": "error", "error": {"type": ["x"], "message": {"a": 1}}}, "list: dict"),
        ({"type": "error", "error": None}, "error: no message"),
        ({"type": "error", "error": "text"}, "error: no message"),
        (None, "NoneType: no message"),
        ("text", "NoneType: no message"),
        ([], "NoneType: no message"),
    ],
)
def test_an_error_of_any_other_shape_is_the_servers(error: Any, detail: str) -> None:
    assert read({"type": "errored", "error": error}) == (Outcome.ERRORED, Cause.SERVER_ERROR, detail)


def test_a_request_that_was_cancelled_has_no_cause() -> None:
    assert read({"type": "canceled"}) == (Outcome.CANCELED, None, "cancelled at the provider")


def test_a_request_that_expired_is_asked_again_and_does_not_count() -> None:
    outcome, cause, _ = read({"type": "expired"})
    assert (outcome, cause) == (Outcome.EXPIRED, Cause.BATCH_EXPIRED)
    assert (POLICIES[Cause.BATCH_EXPIRED].remedy, POLICIES[Cause.BATCH_EXPIRED].counted) == (Remedy.WAIT, False)


@pytest.mark.parametrize(
    ("result", "kind"),
    [({"type": "postponed"}, "'postponed'"), ({"type": "Succeeded"}, "'Succeeded'"), ({}, "'NoneType'"),
     ({"type": ["succeeded"]}, "'list'"), ({"type": {"a": 1}}, "'dict'"), (None, "'NoneType'"), ([], "'NoneType'"),
     ("succeeded", "'NoneType'")],
)  # fmt: skip
def test_a_result_of_an_unknown_type_is_for_a_person_and_names_it(result: Any, kind: str) -> None:
    expected = (Outcome.UNKNOWN, Cause.UNKNOWN_RESULT, f"a result of the unknown type {kind}")
    assert read(result) == expected
    assert POLICIES[Cause.UNKNOWN_RESULT].remedy is Remedy.FINAL


def test_the_words_of_the_provider_are_cut_to_a_line() -> None:
    wordy = {"type": "x" * 10_000, "message": "word\n" * 10_000}
    for result in ({"type": "errored", "error": wordy}, {"type": "y" * 10_000}):
        detail = read(result)[2]
        assert len(detail) < 600
        assert "\n" not in detail


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"null", b"[]", b"7", b'"id"', b"[1, 2]", b"{}", b'{"custom_id": 7}', b'{"custom_id": null, "result": {}}',
     b'{"result": {"type": "canceled"}}', b'{"custom_id": "id", "result": {"type": "canceled"}', b"\xff\xfe\xff", b"\0",
     b'{"custom_id": "id"} {"custom_id": "id"}', b'{"custom_id": "\xff"}', b"9" * 5000],
)  # fmt: skip
def test_what_is_not_an_object_with_a_custom_id_stands_for_no_request(raw: bytes) -> None:
    assert read_result_line(raw) is None


@pytest.mark.parametrize("depth", [*range(880, 1000, 7), 5_000, 200_000])
def test_a_line_of_any_depth_is_read_or_refused(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for result in (
        b'{"type": %s}' % deep,
        b'{"type": "errored", "error": {"error": {"type": %s, "message": %s}}}' % (deep, deep),
    ):
        found = read_result_line(b'{"custom_id": "id", "result": %s}' % result)
        assert found is None or found.outcome in {Outcome.UNKNOWN, Outcome.ERRORED}


@given(JSON)
def test_any_result_is_read(result: Any) -> None:
    found = read_result_line(line(result))
    assert found is not None
    assert (found.message is not None) is (found.outcome is Outcome.SUCCEEDED)
    assert (found.cause is None) is (found.outcome in {Outcome.SUCCEEDED, Outcome.CANCELED})


@given(st.sampled_from(["succeeded", "errored", "canceled", "expired", "new"]), st.dictionaries(
    st.sampled_from(["message", "error"]), JSON | st.dictionaries(st.sampled_from(["type", "error", "message"]), JSON)
))  # fmt: skip
def test_any_content_of_a_known_type_is_read(kind: str, content: dict[str, Any]) -> None:
    found = read_result_line(line({"type": kind, **content}))
    assert found is not None
    assert (found.message is not None) is (found.outcome is Outcome.SUCCEEDED)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    found = read_result_line(raw)
    assert found is None or isinstance(found.custom_id, str)
