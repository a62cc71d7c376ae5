"""Build the message that answers a prompt: a pure function of the prompt, but for its id and the cached tokens."""

import secrets

from sandbox.answers.answer import answer
from sandbox.body import JsonObject
from sandbox.faults import Fault
from sandbox.prompt import Prompt
from sandbox.shapes import SHAPES, Draft
from sandbox.usage import BYTES_PER_TOKEN, PromptCache, count_tokens, usage_body


def build_message(
    prompt: Prompt, cache: PromptCache, fault: Fault | None, service_tier: str = "standard"
) -> JsonObject:
    """Return the whole message body, bent by the fault if it is one of the message's shape."""
    if fault is not None and fault.kind == "reply":
        return fault.options["message"]
    draft = Draft(answer(prompt.schema, prompt.system_text, prompt.user_text))
    if fault is not None and fault.kind in SHAPES:
        SHAPES[fault.kind](draft, fault)
    thinking_tokens = count_tokens(draft.thinking)
    _cut(draft, prompt.max_tokens - thinking_tokens)
    output_tokens = thinking_tokens + count_tokens(draft.text)
    return {
        "id": f"msg_01{secrets.token_hex(11)}",
        "type": "message",
        "role": "assistant",
        "model": prompt.model.id,
        "content": _content(draft),
        "stop_reason": draft.stop_reason,
        "stop_sequence": None,
        "stop_details": draft.stop_details,
        "container": None,
        "usage": usage_body(cache.charge(prompt.model, prompt.blocks), output_tokens, thinking_tokens, service_tier),
    }


def _cut(draft: Draft, max_tokens: int) -> None:
    """End the text where the tokens end, between two characters."""
    if count_tokens(draft.text) > max_tokens:
        kept = draft.text.encode()[: max(max_tokens, 0) * BYTES_PER_TOKEN]
        draft.text = kept.decode(errors="ignore")
        draft.stop_reason = "max_tokens"


def _content(draft: Draft) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    if draft.thinking:
        blocks.append({"type": "thinking", "thinking": draft.thinking, "signature": "c2FuZGJveA=="})
    if draft.text:
        blocks.append({"type": "text", "text": draft.text})
    return blocks
