"""The Messages endpoints: shapes, headers, checks and their exact errors."""

import json
from typing import Any

import anthropic
import pytest

from tests.sandbox.conftest import MODEL, TOTAL_SCHEMA, Http, asking_for, body_for


def test_a_message_has_the_shape_of_the_api(http: Http) -> None:
    reply = http.message(body_for("Total: 1,299.00 USD", output_config=asking_for(TOTAL_SCHEMA)))
    message = reply.json
    assert reply.status == 200
    assert reply.headers["request-id"].startswith("req_011")
    assert reply.headers["x-sandbox"] == "rules-not-a-model"
    assert message.pop("id").startswith("msg_01")
    usage = message.pop("usage")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": '{"total": 1299.00}'}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    assert (usage["service_tier"], usage["output_tokens"]) == ("standard", 5)


def test_the_sdk_reads_the_message_and_its_request_id(claude: anthropic.Anthropic, http: Http) -> None:
    message = claude.messages.create(**body_for("Total: 7", output_config=asking_for(TOTAL_SCHEMA)))
    [entry] = http.requests()
    assert json.loads(message.content[0].text) == {"total": 7}
    assert message._request_id == entry["request_id"]


def test_the_same_request_gets_the_same_text(http: Http) -> None:
    body = body_for("Total: 7\nName: x", output_config=asking_for(TOTAL_SCHEMA))
    assert http.message(body).json["content"] == http.message(body).json["content"]


def test_the_largest_schema_of_the_system_prompt_is_filled_when_none_is_asked_for(http: Http) -> None:
    small = {"properties": {"a": {}}}
    system = f'Answer {{"like": "this"}}.\n{json.dumps(small)}\n# Schema\n{json.dumps(TOTAL_SCHEMA, indent=1)}'
    as_text = http.message(body_for("Total: 12", system=system)).json
    as_blocks = http.message(body_for("Total: 12", system=[{"type": "text", "text": system}])).json
    assert as_text["content"] == as_blocks["content"] == [{"type": "text", "text": '{"total": 12}'}]


def test_without_a_schema_the_answer_says_so(http: Http) -> None:
    [block] = http.message(body_for("Total: 12")).json["content"]
    assert "found no JSON Schema" in block["text"]


def test_a_text_document_block_is_read(http: Http) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Total: 3"}
    messages = [{"role": "user", "content": [{"type": "document", "source": source}]}]
    reply = http.message(body_for("", messages=messages, output_config=asking_for(TOTAL_SCHEMA)))
    assert reply.json["content"][0]["text"] == '{"total": 3}'


def test_count_tokens_equals_the_input_of_the_message(claude: anthropic.Anthropic) -> None:
    asked = body_for("Total: 7 " * 50, output_config=asking_for(TOTAL_SCHEMA))
    message = claude.messages.create(**asked)
    del asked["max_tokens"]
    assert claude.messages.count_tokens(**asked).input_tokens == message.usage.input_tokens


def test_tokens_grow_with_the_text(http: Http) -> None:
    short, long = (http.message(body_for("word " * n)).json["usage"]["input_tokens"] for n in (8, 80))
    assert long - short == 72 * 5 / 4


def test_the_answer_ends_where_the_tokens_end(http: Http) -> None:
    message = http.message(body_for("Total: 1234567", max_tokens=3, output_config=asking_for(TOTAL_SCHEMA))).json
    assert message["content"] == [{"type": "text", "text": '{"total": 12'}]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("max_tokens", 3)


@pytest.mark.parametrize("header", [{"x_api_key": "k"}, {"authorization": "Bearer k", "x_api_key": ""}])
def test_a_key_is_accepted_in_both_headers(http: Http, header: dict[str, str]) -> None:
    assert http.message(body_for("hello"), **header).status == 200


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ({"x_api_key": ""}, 401, ("authentication_error", "x-api-key header is required")),
        ({"x_api_key": "invalid"}, 401, ("authentication_error", "API key is invalid.")),
        (
            {"anthropic_version": "1999"},
            400,
            ("invalid_request_error", 'anthropic-version: "1999" is not a valid version'),
        ),
    ],
)
def test_headers_are_checked(http: Http, headers: dict[str, str], status: int, error: tuple[str, str]) -> None:
    reply = http.message(body_for("hello"), **headers)
    assert (reply.status, reply.error) == (status, error)
    assert reply.json["request_id"] == reply.headers["request-id"]


def test_a_version_is_required(http: Http) -> None:
    reply = http.call("POST", "/v1/messages", body_for("hello"), {"x-api-key": "k"})
    assert (reply.status, reply.error[1]) == (400, "anthropic-version: header is required")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"messages": None}, "messages: Field required"),
        ({"max_tokens": 0}, "max_tokens: must be greater than or equal to 1"),
        ({"temperature": 0}, "temperature: Extra inputs are not permitted"),
        ({"top_p": 1}, "top_p: Extra inputs are not permitted"),
        ({"top_k": 1}, "top_k: Extra inputs are not permitted"),
        ({"stream": True}, "stream: not supported by the sandbox"),
        ({"messages": []}, "messages: at least one message is required"),
        (
            {"max_tokens": 200_000},
            f"max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for {MODEL}",
        ),
        (
            {"messages": [{"role": "assistant", "content": "{"}]},
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ),
    ],
)
def test_a_body_that_breaks_a_rule_is_refused_with_the_api_s_words(
    http: Http, changes: dict[str, Any], message: str
) -> None:
    reply = http.message(body_for("hello", **changes))
    assert (reply.status, reply.error) == (400, ("invalid_request_error", message))


def test_an_old_version_still_takes_a_temperature(http: Http) -> None:
    assert http.message(body_for("hello", temperature=0), anthropic_version="2023-06-01").status == 200


def test_an_unknown_model_is_not_found(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="model: claude-nope") as caught:
        claude.messages.create(**body_for("hello", model="claude-nope"))
    assert caught.value.type == "not_found_error"


@pytest.mark.parametrize(
    ("raw", "words"),
    [(b"{", "The request body is not valid JSON: "), (b'{"a": NaN}', "not valid JSON"), (b"[]", "expected an object")],
)
def test_a_body_that_is_not_json_is_refused(http: Http, raw: bytes, words: str) -> None:
    reply = http.message(raw)
    assert reply.status == 400
    assert words in reply.error[1]


def test_half_a_surrogate_pair_is_not_json(http: Http) -> None:
    raw = json.dumps(body_for("\\ud83d is fine, \U0001f600 too, \ud83d not")).encode()
    reply = http.message(raw)
    assert reply.status == 400
    column = raw.decode().rindex("\\ud83d") + len("\\ud83d")
    assert reply.error[1].endswith(f"no low surrogate in string: line 1 column {column}")


def test_a_body_over_32_mb_is_too_large(http: Http) -> None:
    reply = http.message(b" " * (32 * 1024 * 1024 + 1))
    assert (reply.status, reply.error[0]) == (413, "request_too_large")


def test_a_prompt_over_the_context_window_is_refused(http: Http) -> None:
    reply = http.message(body_for("x" * 800_000, model="claude-haiku-4-5"))
    assert (reply.status, reply.error[1]) == (400, "prompt is too long: 200004 tokens > 200000 maximum")


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


NULLABLE = {"type": ["string", "null"]}
RECURSIVE = _object({"child": {"$ref": "#/$defs/n"}}, **{"$defs": {"n": _object({"next": {"$ref": "#/$defs/n"}})}})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (_object({"a": {"type": "integer", "minimum": 1}}), "For 'integer' type, property 'minimum' is not supported"),
        (
            _object({"a": {"type": "string", "maxLength": 1}}),
            "For 'string' type, property 'maxLength' is not supported",
        ),
        (
            {"type": "object", "properties": {}},
            "For 'object' type, 'additionalProperties' must be explicitly set to false",
        ),
        (_object({"a": {"type": "array", "minItems": 2}}), "'minItems' values other than 0 or 1 are not supported"),
        (RECURSIVE, "Recursive schemas are not supported"),
        (
            _object({f"f{n}": NULLABLE for n in range(17)}, required=[f"f{n}" for n in range(17)]),
            "Schemas contains too many parameters with union types (17 parameters with type arrays or anyOf)",
        ),
        (_object({f"f{n}": {} for n in range(25)}), "Schemas contains too many optional parameters (25), which"),
    ],
)
def test_structured_outputs_refuse_what_the_api_refuses(http: Http, schema: dict[str, Any], message: str) -> None:
    reply = http.message(body_for("hello", output_config=asking_for(schema)))
    assert reply.status == 400
    assert message in reply.error[1]


def test_structured_outputs_take_a_schema_at_the_limits(http: Http) -> None:
    properties = {f"u{n}": NULLABLE for n in range(16)} | {f"o{n}": {"type": "string"} for n in range(24)}
    schema = _object(properties, required=[f"u{n}" for n in range(16)])
    assert http.message(body_for("hello", output_config=asking_for(schema))).status == 200
