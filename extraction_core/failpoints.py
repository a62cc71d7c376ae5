"""The named places where a crash would hurt, and the no-op that stands there in production.

A failpoint is a callable handed to the recorder, the workers and the stores. It is called with a name from
:class:`Failpoint` right before the step of that name. Nothing in the environment can arm one: only a caller that
passes another callable can.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Failpoint(StrEnum):
    """Every commit, provider call and file operation in the life of a document, a batch and a parse job, in order."""

    COMMIT_WORKER = "commit:worker"
    COMMIT_LAUNCH = "commit:launch"
    COMMIT_DOCUMENTS = "commit:documents"
    COMMIT_PARSE_ENQUEUE = "commit:parse_enqueue"
    COMMIT_PARSE_CLAIM = "commit:parse_claim"
    READ_SOURCE = "file:read_source"
    WRITE_PARSED = "file:write_parsed"
    COMMIT_PARSE = "commit:parse"
    COMMIT_RUN_OPEN = "commit:run_open"
    COMMIT_ENQUEUE = "commit:enqueue"
    COMMIT_SEAL = "commit:seal"
    COMMIT_RECLAIM = "commit:reclaim"
    COMMIT_CLAIM = "commit:claim"
    COMMIT_ATTEMPT_OPEN = "commit:attempt_open"
    CALL_PROVIDER = "call:provider"
    PROVIDER_ANSWERED = "call:answered"
    COMMIT_ATTEMPT_CLOSE = "commit:attempt_close"
    WRITE_OUTPUT = "file:write_output"
    SYNC_OUTPUT = "file:sync_output"
    BEGIN_COMPLETE = "begin:complete"
    REPLACE_OUTPUT = "file:replace_output"
    SYNC_FOLDER = "file:sync_folder"
    COMMIT_COMPLETE = "commit:complete"
    COMMIT_FAIL = "commit:fail"
    COMMIT_RELEASE = "commit:release"
    COMMIT_HEARTBEAT = "commit:heartbeat"
    COMMIT_FINALIZE = "commit:finalize"
    COMMIT_BATCH_RESERVE = "commit:batch_reserve"
    CREATE_BATCH = "call:batch_create"
    BATCH_ACCEPTED = "call:batch_accepted"
    COMMIT_BATCH_ACCEPTED = "commit:batch_accepted"
    COMMIT_BATCH_TAKE = "commit:batch_take"
    COMMIT_BATCH_LOOK = "commit:batch_look"
    COMMIT_BATCH_SETTLE = "commit:batch_settle"
    COMMIT_JOB_BEGIN = "commit:job_begin"
    CREATE_JOB = "call:job_create"
    JOB_ACCEPTED = "call:job_accepted"
    COMMIT_JOB_ACCEPTED = "commit:job_accepted"
    COMMIT_JOB_TAKE = "commit:job_take"
    COMMIT_JOB_LOOK = "commit:job_look"
    WRITE_JOB_RESULT = "file:write_job_result"
    COMMIT_JOB_FETCHED = "commit:job_fetched"
    COMMIT_JOB_END = "commit:job_end"


Failpoints = Callable[[Failpoint], None]


def no_failpoints(_name: Failpoint) -> None:
    """Do nothing: what production uses."""
