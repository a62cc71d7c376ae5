"""A request body, checked and read: what the model would see, and the settings of the answer."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from sandbox.body import Json, JsonObject
from sandbox.errors import ApiError, refuse
from sandbox.file_blocks import read_file_block
from sandbox.models import MODELS, Model
from sandbox.schema_rules import check_schema
from sandbox.usage import TOKENS_PER_MESSAGE, Block, count_tokens

SAMPLING_REFUSED_SINCE = "2026-10-21"
SAMPLING = {"temperature", "top_p", "top_k"}
COUNTED = {
    "cache_control", "messages", "model", "output_config", "speed", "system", "thinking", "tool_choice", "tools",
}  # fmt: skip
CREATED = COUNTED | {
    "container", "diagnostics", "inference_geo", "max_tokens", "metadata", "service_tier", "stop_sequences", "stream",
}  # fmt: skip
NOT_BUILT = {"stream": False, "tools": [], "speed": "standard", "inference_geo": "global"}  # with the accepted value
ROLES = ("user", "assistant", "system")
MAX_BREAKPOINTS = 4
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."


@dataclass(frozen=True, slots=True)
class Prompt:
    """A valid request. `max_tokens` is 0 when only counting; `schema` is the one of `output_config`, if any."""

    model: Model
    max_tokens: int
    blocks: Sequence[Block]
    system_text: str
    user_text: str
    schema: JsonObject | None

    @property
    def file_sha256(self) -> str | None:
        """Hash of the file that the prompt shows, if it shows one."""
        return next((block.file_sha256 for block in self.blocks if block.file_sha256), None)

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(block.tokens for block in self.blocks)


def read_prompt(body: JsonObject, version: str, *, counting: bool = False) -> Prompt:
    """Check a body of /v1/messages, or of count_tokens when `counting`, and read it.

    Raises:
        ApiError: 400 for what breaks a rule, 404 for an unknown model.

    """
    _check_fields(body, version, counting=counting)
    model = MODELS.get(body["model"])
    if model is None:
        raise ApiError(HTTPStatus.NOT_FOUND, f"model: {body['model']}")
    schema = _output_schema(body)
    blocks = [
        *_schema_blocks(schema),
        *(
            block
            for position, message in enumerate(_messages(body, model))
            for block in _blocks(position, message, model)
        ),
    ]
    prompt = Prompt(
        model=model,
        max_tokens=0 if counting else _max_tokens(body["max_tokens"], model),
        blocks=_with_breakpoints(body, blocks),
        system_text="\n\n".join(block.content for block in blocks if block.role == "system"),
        user_text="\n\n".join(block.content for block in blocks if block.role == "user"),
        schema=schema,
    )
    if prompt.tokens > model.context:
        refuse(f"prompt is too long: {prompt.tokens} tokens > {model.context} maximum")
    return prompt


def _check_fields(body: JsonObject, version: str, *, counting: bool) -> None:
    required = ("model", "messages") if counting else ("model", "max_tokens", "messages")
    for name in required:
        if name not in body:
            refuse(f"{name}: Field required")
    if not isinstance(body["model"], str):
        refuse("model: Input should be a valid string")
    known = COUNTED if counting else CREATED
    if version < SAMPLING_REFUSED_SINCE:
        known = known | SAMPLING
    for name in body:
        if name not in known:
            refuse(f"{name}: Extra inputs are not permitted")
    for name, accepted in NOT_BUILT.items():
        if body.get(name, accepted) not in (accepted, None):
            refuse(f"{name}: not supported by the sandbox")


def _max_tokens(value: Json, model: Model) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        refuse("max_tokens: Input should be a valid integer")
    if value < 1:
        refuse("max_tokens: must be greater than or equal to 1")
    if value > model.max_output:
        refuse(
            f"max_tokens: {value} > {model.max_output}, which is the maximum allowed number of output tokens "
            f"for {model.id}"
        )
    return value


def _output_schema(body: JsonObject) -> JsonObject | None:
    config = body.get("output_config") or {}
    if not isinstance(config, dict):
        refuse("output_config: Input should be a valid dictionary")
    output_format = config.get("format")
    if output_format is None:
        return None
    if not isinstance(output_format, dict) or output_format.get("type") != "json_schema":
        refuse("output_config.format.type: Input should be 'json_schema'")
    if not isinstance(output_format.get("schema"), dict):
        refuse("output_config.format.schema: Input should be a valid dictionary")
    check_schema(output_format["schema"])
    return output_format["schema"]


def _messages(body: JsonObject, model: Model) -> list[JsonObject]:
    """Return the conversation with the system prompt as its first message."""
    messages = body["messages"]
    if not isinstance(messages, list):
        refuse("messages: Input should be a valid list")
    if not messages:
        refuse("messages: at least one message is required")
    for position, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            refuse(f"messages.{position}.role: Input should be 'user', 'assistant' or 'system'")
        if "content" not in message:
            refuse(f"messages.{position}.content: Field required")
    if messages[-1]["role"] == "assistant" and not model.legacy:
        refuse(NO_PREFILL)
    system = body.get("system")
    return [{"role": "system", "content": system}, *messages] if system else messages


def _blocks(position: int, message: JsonObject, model: Model) -> Iterator[Block]:
    """Read one message; a plain string is one text block."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not parts:
        refuse(f"messages.{position}: all messages must have non-empty content")
    for index, part in enumerate(parts):
        path = f"messages.{position}.content.{index}"
        file = read_file_block(part, path, model)
        text = file.text if file else _block_text(part, path)
        tokens = (file.tokens if file else count_tokens(text)) + (TOKENS_PER_MESSAGE if index == 0 else 0)
        yield Block(message["role"], text, tokens, _ttl(part.get("cache_control")), file.sha256 if file else None)


def _block_text(part: Json, path: str) -> str:
    """Return the text of a block; what would have to be fetched first is refused rather than taken as empty."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        if not part["text"]:
            refuse("messages: text content blocks must be non-empty")
        return part["text"]
    if kind == "document" and isinstance(source := part.get("source"), dict):
        for name in ("data", "content"):
            if source.get("type") in {"text", "content"} and isinstance(source.get(name), str):
                return source[name]
        refuse(f"{path}.source: only text and base64 sources are supported by the sandbox")
    if kind not in {"thinking", "redacted_thinking"}:
        refuse(f"{path}: only text, documents and images are supported by the sandbox")
    return part.get("thinking", "")


def _schema_blocks(schema: JsonObject | None) -> list[Block]:
    """Return the hidden part of the prompt that a structured output adds; first, so that it rules the cache prefix."""
    if schema is None:
        return []
    text = json.dumps(schema)
    return [Block("format", text, count_tokens(text))]


def _ttl(control: Json) -> str | None:
    if not control:
        return None
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        refuse("cache_control.type: Input should be 'ephemeral'")
    if control.get("ttl", "5m") not in {"5m", "1h"}:
        refuse("cache_control.ttl: Input should be '5m' or '1h'")
    return control.get("ttl", "5m")


def _with_breakpoints(body: JsonObject, blocks: list[Block]) -> list[Block]:
    """Add the automatic breakpoint of a top-level `cache_control` and check the rules of breakpoints."""
    automatic = _ttl(body.get("cache_control"))
    if automatic and blocks[-1].ttl is None:
        blocks = [*blocks[:-1], replace(blocks[-1], ttl=automatic)]
    ttls = [block.ttl for block in blocks if block.ttl]
    if len(ttls) > MAX_BREAKPOINTS:
        refuse(f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(ttls)}.")
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        refuse("cache_control: a ttl='1h' block must not come after a ttl='5m' block")
    return blocks
