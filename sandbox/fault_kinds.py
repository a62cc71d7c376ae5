"""The kinds of faults: where each applies, and the options it takes.

Every fault is a JSON object `{"kind": ..., "times": 1, "skip": 0, "match": null, "path": ...}` plus the options of its
kind. `times` null means for ever; `match` is a regular expression. A path is `/v1/messages`,
`/v1/messages/count_tokens`, or a batch endpoint with its method, as `GET /v1/messages/batches/{id}/results`. What
`match` searches: the user text of a message or of a request of a batch; the body of a create, as it was sent; the id
of a batch and its custom ids, one a line, at every other batch endpoint. Reducto's endpoints are `POST /upload`
(searched: the document), `POST /parse_async` (the body), `GET /jobs`, `GET /job/{id}`, `POST /cancel/{id}` and
`GET /storage/results/{name}` (the job's id and its metadata).

**Any endpoint** (default path `/v1/messages`):

- `status`: answer `status`, with `headers`, `body` (JSON or text) and `content_type`. `when` is `before` (refused: not
  processed, not billed) or `after` (accepted, and answered with an error all the same).
- `raw`: answer `body` as it is, with `status` 200 and `content_type` text/html, without processing.
- `slow`: process, wait `seconds`, answer. `hold`: process, wait until `name` is released, answer.
- `drop`: close the connection; `when` is `before` (processing), `after` or `mid_body`, `how` is `fin` or `reset`.

**A message** (path `/v1/messages`: messages and requests of batches alike; path of the create: requests of batches
only): `max_tokens`, `refusal` (`empty`: without text), `thinking_first`, `fenced`, `trailing_text`, `prose_around`,
`nul`, `lone_surrogate`, `wrong_schema`, `empty`, and `reply`, which serves `message` as it is.

**A request of a batch** (path of the create), processed no further and not billed:

- `errored`: an error of the type `error` with `message`. `expired`, `canceled`: these results.
- `result`: serves the object `result` as it is, say `{"type": "postponed"}`; billed if it holds a succeeded message.

**A batch** (path of the create; `times` counts batches):

- `found_late`: its own endpoints answer 404 until it is `seconds` old, by the clock of the sandbox.
- `listed_late`: it is left out of lists until it is `seconds` old.

**A cancel**: `canceling_for_ever` leaves the batch in `canceling`, past its expiry too.

**A download of results**; one of each kind may apply to the same download. Where they count requests of the batch, the
first ones as they were sent are meant:

- `duplicate_lines`, `missing_ids`: the lines of `count` requests come twice, or not at all.
- `unknown_ids`: `count` lines more, with custom ids that were never sent.
- `broken_line`: the line after `lines` others has lost its middle.
- `pause`: after `lines` lines, wait until `name` is released.
- `cut`: end after `lines` lines; `how` is `line_end` (a proper end, nothing tells), `mid_line` (a proper end in the
  middle of the next line), `fin` or `reset` (the connection breaks; after a reset, lines not read yet may be lost).

**A parse job** (path `POST /parse_async`): `by_url`: its result is behind a link. `listed_late` as for a batch.

**A look at a parse job** (path `GET /job/{id}`), whatever it is in truth: `job_status` shows `status`, `job_failed`
shows `Failed` with an error of `name` and `message`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sandbox.body import Json

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"
BATCHES = "/v1/messages/batches"
CREATE = f"POST {BATCHES}"
LIST = f"GET {BATCHES}"
RETRIEVE = f"GET {BATCHES}/{{id}}"
CANCEL = f"POST {BATCHES}/{{id}}/cancel"
DELETE = f"DELETE {BATCHES}/{{id}}"
RESULTS = f"GET {BATCHES}/{{id}}/results"
UPLOAD = "POST /upload"
SUBMIT = "POST /parse_async"
JOB = "GET /job/{id}"
JOBS = "GET /jobs"
STOP = "POST /cancel/{id}"
STORED = "GET /storage/results/{name}"
PARSING = (UPLOAD, SUBMIT, JOB, JOBS, STOP, STORED)
ANYWHERE = (MESSAGES, COUNT_TOKENS, CREATE, LIST, RETRIEVE, CANCEL, DELETE, RESULTS, *PARSING)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is when left out, and what it may be; a number may not be negative."""

    default: Json = None
    types: tuple[type, ...] = ()
    choices: tuple[str, ...] = ()
    required: bool = False


Options = Mapping[str, Option]
SECONDS = {"seconds": Option(types=(int, float), required=True)}
NAME = {"name": Option(types=(str,), required=True)}
COUNT = {"count": Option(1, types=(int,))}
LINES = {"lines": Option(types=(int,), required=True)}

REQUEST: Mapping[str, Options] = {
    "status": {
        "status": Option(types=(int,), required=True),
        "headers": Option({}, types=(dict,)),
        "body": Option(),
        "content_type": Option(),
        "when": Option("before", choices=("before", "after")),
    },
    "raw": {"status": Option(200), "content_type": Option("text/html"), "body": Option(required=True)},
    "slow": SECONDS,
    "hold": NAME,
    "drop": {
        "when": Option("before", choices=("before", "after", "mid_body")),
        "how": Option("fin", choices=("fin", "reset")),
    },
}
SHAPES: Mapping[str, Options] = {
    "max_tokens": {},
    "refusal": {"empty": Option(default=True, types=(bool,))},
    "thinking_first": {},
    "fenced": {},
    "trailing_text": {},
    "prose_around": {},
    "nul": {},
    "lone_surrogate": {},
    "wrong_schema": {},
    "empty": {},
    "reply": {"message": Option(types=(dict,), required=True)},
}
ROWS: Mapping[str, Options] = {
    "errored": {"error": Option("api_error", types=(str,)), "message": Option("Internal server error", types=(str,))},
    "expired": {},
    "canceled": {},
    "result": {"result": Option(types=(dict,), required=True)},
}
LATE: Mapping[str, Options] = {"found_late": SECONDS, "listed_late": SECONDS}
CANCELING: Mapping[str, Options] = {"canceling_for_ever": {}}
BY_URL: Mapping[str, Options] = {"by_url": {}}
LOOKS: Mapping[str, Options] = {
    "job_status": {"status": Option(types=(str,), required=True)},
    "job_failed": {
        "name": Option("INTERNAL_ERROR", types=(str,)),
        "message": Option("Internal server error", types=(str,)),
    },
}
DOWNLOAD: Mapping[str, Options] = {
    "duplicate_lines": COUNT,
    "missing_ids": COUNT,
    "unknown_ids": COUNT,
    "broken_line": LINES,
    "pause": LINES | NAME,
    "cut": LINES | {"how": Option("line_end", choices=("line_end", "mid_line", "fin", "reset"))},
}
# Where the kinds of a group may apply; the first path is the one that is meant when none is given.
GROUPS: tuple[tuple[Mapping[str, Options], Collection[str]], ...] = (
    (REQUEST, ANYWHERE),
    (SHAPES, (MESSAGES, CREATE)),
    (ROWS, (CREATE,)),
    (LATE, (CREATE, SUBMIT)),
    (CANCELING, (CANCEL,)),
    (DOWNLOAD, (RESULTS,)),
    (BY_URL, (SUBMIT,)),
    (LOOKS, (JOB,)),
)
OPTIONS = {kind: options for group, _ in GROUPS for kind, options in group.items()}
PATHS = {kind: tuple(paths) for group, paths in GROUPS for kind in group}
