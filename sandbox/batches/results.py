"""The results of a batch as they are downloaded: in another order than they were sent, and as the faults want them."""

import json
import random
from collections.abc import Mapping, Sequence

from aiohttp import web

from sandbox.batches.batch import Batch
from sandbox.batches.processing import result_line
from sandbox.delivery import cut
from sandbox.fault_kinds import DOWNLOAD, RESULTS
from sandbox.faults import Fault, FaultBook
from sandbox.holds import Holds

CONTENT_TYPE = "application/x-jsonl"
LINES_PER_WRITE = 100

Script = Mapping[str, Fault]


def read_script(faults: FaultBook, batch: Batch) -> Script:
    """Return the faults of one download by their kind."""
    taken = {kind: faults.take((RESULTS,), (kind,), batch.names) for kind in DOWNLOAD}
    return {kind: fault for kind, fault in taken.items() if fault is not None}


def lines_of(batch: Batch, script: Script) -> list[bytes]:
    """Return the lines of a download, shuffled in a way that is fixed by the batch's id."""
    count = {kind: fault.options.get("count", 0) for kind, fault in script.items()}
    sent = [result.line for result in batch.results]
    lines = [
        *sent[count.get("missing_ids", 0) :],
        *sent[: count.get("duplicate_lines", 0)],
        *(_renamed(sent[n % len(sent)], f"never-sent-{n}") for n in range(count.get("unknown_ids", 0))),
    ]
    order = list(range(len(lines)))
    random.Random(batch.id).shuffle(order)
    if order == sorted(order):
        order.reverse()
    shuffled = [lines[position] for position in order]
    if "broken_line" in script:
        position = script["broken_line"].options["lines"]
        shuffled[position : position + 1] = [_broken(line) for line in shuffled[position : position + 1]]
    return shuffled


def _renamed(line: bytes, custom_id: str) -> bytes:
    return result_line(custom_id, json.loads(line)["result"])


def _broken(line: bytes) -> bytes:
    return line[: len(line) // 3] + line[2 * len(line) // 3 :]


async def send_lines(request: web.Request, lines: Sequence[bytes], script: Script, holds: Holds) -> web.StreamResponse:
    """Stream the lines in chunks, up to a cut if there is one and with a pause if there is one."""
    response = web.StreamResponse(headers={"content-type": CONTENT_TYPE})
    await response.prepare(request)
    stop, how = _stop(lines, script)
    before, after = lines[:stop], lines[:0]
    if "pause" in script:
        pause_at = script["pause"].options["lines"]
        before, after = before[:pause_at], before[pause_at:]
    await _write(response, before)
    if "pause" in script:
        await holds.wait(script["pause"].options["name"])
    await _write(response, after)
    if how == "mid_line":
        await response.write(b"".join(line[: len(line) // 2] for line in lines[stop : stop + 1]))
    if how in {"fin", "reset"}:
        return cut(request, how)
    await response.write_eof()
    return response


def _stop(lines: Sequence[bytes], script: Script) -> tuple[int, str]:
    """Return how many whole lines are sent, and how the download ends."""
    if "cut" not in script:
        return len(lines), "line_end"
    options = script["cut"].options
    return min(options["lines"], len(lines)), options["how"]


async def _write(response: web.StreamResponse, lines: Sequence[bytes]) -> None:
    for start in range(0, len(lines), LINES_PER_WRITE):
        await response.write(b"".join(lines[start : start + LINES_PER_WRITE]))
