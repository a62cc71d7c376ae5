"""From a request's schema and text to the text of its answer."""

import json
from dataclasses import dataclass

from sandbox.answers.filling import fill
from sandbox.answers.matching import vocabulary
from sandbox.answers.plan import Node, compile_schema, find_schema_text
from sandbox.answers.reader import read_document
from sandbox.answers.writing import Value, to_json
from sandbox.body import JsonObject

NO_SCHEMA = "This is the sandbox: it answers by rules, and found no JSON Schema in the request to fill."


@dataclass(frozen=True, slots=True)
class Answer:
    """A value and the compiled schema it was made for; without a schema the value is a sentence that says so."""

    value: Value
    root: Node | None = None

    @property
    def text(self) -> str:
        """The text of the answer: JSON, or the sentence as it is."""
        return self.value if self.root is None and isinstance(self.value, str) else to_json(self.value)


def answer(schema: JsonObject | None, system_text: str, document_text: str) -> Answer:
    """Fill the schema of the request, or else the largest one in the system prompt, from the document's text."""
    schema_text = json.dumps(schema) if schema is not None else find_schema_text(system_text)
    if schema_text is None:
        return Answer(NO_SCHEMA)
    root = compile_schema(schema_text)
    return Answer(fill(root, read_document(document_text, vocabulary(root))), root)
