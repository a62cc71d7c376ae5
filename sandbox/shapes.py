"""Faults that change the shape of a processed answer: each takes the draft of a good answer and bends it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sandbox.answers.answer import Answer
from sandbox.answers.plan import Node
from sandbox.answers.writing import Number, Value, to_json
from sandbox.body import JsonObject
from sandbox.faults import Fault

REFUSAL = "I can't help with that."
EXPLANATION = "The request was declined by a safety classifier."


@dataclass(slots=True)
class Draft:
    """An answer that was not sent yet; `text` is written from `answer` and then goes its own way."""

    answer: Answer
    text: str = field(init=False)
    thinking: str = ""
    stop_reason: str = "end_turn"
    stop_details: JsonObject | None = None

    def __post_init__(self) -> None:
        """Write the answer."""
        self.text = self.answer.text


def _cut_at_half(draft: Draft, _: Fault) -> None:
    draft.text = draft.text[: len(draft.text) // 2]
    draft.stop_reason = "max_tokens"


def _refuse(draft: Draft, fault: Fault) -> None:
    draft.text = "" if fault.options["empty"] else REFUSAL
    draft.stop_reason = "refusal"
    draft.stop_details = {"type": "refusal", "category": "general_harms", "explanation": EXPLANATION}


def _think_first(draft: Draft, _: Fault) -> None:
    draft.thinking = 'The document has labels. {"draft": true} is not the answer yet.'


def _fence(draft: Draft, _: Fault) -> None:
    draft.text = f"```json\n{draft.text}\n```"


def _add_trailing_text(draft: Draft, _: Fault) -> None:
    draft.text += '\n\nNote: fields that the document does not state, like {"example": 1}, were left out.'


def _surround(draft: Draft, _: Fault) -> None:
    draft.text = f"Here is the extracted data:\n\n{draft.text}\n\nLet me know if anything is missing."


def _empty(draft: Draft, _: Fault) -> None:
    draft.text = ""


def _add_nul(draft: Draft, _: Fault) -> None:
    _append_to_a_string(draft, "\0")


def _add_lone_surrogate(draft: Draft, _: Fault) -> None:
    _append_to_a_string(draft, "\ud83d")


def _append_to_a_string(draft: Draft, suffix: str) -> None:
    """Append to the first free string of the answer, in its JSON as an escape; an answer without one gets one."""
    changed, found = _with_suffix(draft.answer.value, draft.answer.root, suffix)
    if not found:
        fields = changed if isinstance(changed, dict) else {}
        changed = {**fields, next(iter(fields), "text"): suffix}
    draft.text = to_json(changed)


def _with_suffix(value: Value, node: Node | None, suffix: str) -> tuple[Value, bool]:
    """Return the value with its first string changed that has no format and no enum, and whether there was one."""
    if isinstance(value, str):
        free = node is None or not (node.format or node.enum)
        return (value + suffix, True) if free else (value, False)
    if isinstance(value, dict):
        nodes = {child.name: child for child in node.properties} if node else {}
        for name, child in value.items():
            changed, found = _with_suffix(child, nodes.get(name), suffix)
            if found:
                return {**value, name: changed}, True
    if isinstance(value, list):
        for position, child in enumerate(value):
            changed, found = _with_suffix(child, node.items if node else None, suffix)
            if found:
                return [*value[:position], changed, *value[position + 1 :]], True
    return value, False


def _break_schema(draft: Draft, _: Fault) -> None:
    """Give the first required property, or else the first one, a value of a type that the schema does not allow."""
    root, value = draft.answer.root, draft.answer.value
    if root is None or not root.properties or not isinstance(value, dict):
        draft.text = to_json([Number("0")])
        return
    victim = root.properties[0]
    wrong: Value = {"wrong": [Number("0")]} if "array" in victim.types else [Number("0")]
    draft.text = to_json({**value, victim.name: wrong})


SHAPES: Mapping[str, Callable[[Draft, Fault], None]] = {
    "max_tokens": _cut_at_half,
    "refusal": _refuse,
    "thinking_first": _think_first,
    "fenced": _fence,
    "trailing_text": _add_trailing_text,
    "prose_around": _surround,
    "empty": _empty,
    "nul": _add_nul,
    "lone_surrogate": _add_lone_surrogate,
    "wrong_schema": _break_schema,
}
