"""Reading results: which lines are new, whether a read was complete, what is odd about them.

Nothing tells a stream that was cut at a line end from a complete one but the provider's own count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extraction_core.batches import ResultLine, read_result_line
from extraction_core.fingerprints import sha256_hex

MOST_REMARKS = 10


@dataclass(kw_only=True)
class Reading:
    """What the reads of one batch have shown so far.

    Attributes:
        seen: custom id -> digest of the line that was used: the first one.
        remarks: oddities for people, the first few.
    """

    expected: int
    out_of_patience: bool
    seen: dict[str, str] = field(default_factory=dict[str, str])
    lines: int = 0
    complete: int = 0
    remarks: list[str] = field(default_factory=list[str])

    def remark(self, text: str) -> None:
        """Note an oddity, once."""
        if text not in self.remarks and len(self.remarks) < MOST_REMARKS:
            self.remarks.append(text)

    def ended(self, lines: int) -> None:
        """A read came to an end. It is complete if it has all lines.

        A provider that leaves lines out for good cannot be told from a stream that is cut at the same place each time,
        except by patience: after some passes, two reads of one length count as complete as well.
        """
        self.complete += lines >= self.expected or (self.out_of_patience and lines == self.lines)
        self.lines = lines


def fresh_lines(part: Sequence[bytes], reading: Reading) -> Iterator[ResultLine]:
    """Yield the lines that were not seen before; the first one of an id counts, and another answer is remarked on."""
    for raw in part:
        line = read_result_line(raw)
        if line is None:
            reading.remark("a line of the results could not be read")
            continue
        digest = sha256_hex(raw)
        if line.custom_id not in reading.seen:
            reading.seen[line.custom_id] = digest
            yield line
        elif reading.seen[line.custom_id] != digest:
            reading.remark(f"two different results for {line.custom_id}; the first one counts")


def kept_body(message: Mapping[str, Any] | None) -> str:
    """The kept form of an answer: ASCII, so that NUL and lone surrogates survive as escapes in every database."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":"))
