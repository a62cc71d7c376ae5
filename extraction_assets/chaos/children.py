"""What runs in the processes that die: one pass over a document set, or one tick of sweeper and poller."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from multiprocessing.connection import Connection

from extraction_assets.chaos.doom import Doom
from extraction_assets.chaos.place import NAME, Place
from extraction_assets.chaos.plan import Fate
from extraction_assets.sensor_targets import sensor_target
from extraction_assets.workers.orders import Order
from extraction_assets.workers.set_run import SetRun
from extraction_assets.workers.tools import build_tools
from extraction_core.settings import CallerUse
from extraction_core.states import Select
from resources.ledger import Ledger
from sensors.batch_poller import request_collecting
from sensors.batch_watch import look_after_batches
from sensors.door import HeldBack, Launch
from sensors.sweep import Sweep, SweepLimits

LIMITS = SweepLimits(lease_s=3.0, start_grace_s=3.0)
"""A launch that was lost is asked for again soon; the graces of production are minutes."""
PRELOADED = [
    "extraction_assets.chaos.children",
    "resources.extraction.realtime",
    "resources.extraction.batches",
    "dagster._core.storage.sqlite_storage",  # what Dagster loads as late as an instance is opened
    "dagster._core.storage.runs.sqlite",
    "dagster._core.storage.event_log.sqlite",
    "dagster._daemon.daemon",
    "dagster._core.instance.factory",
    "upath",
    "alembic.command",
]


def work(place: Place, fate: Fate, partition_key: str, dagster_run_id: str | None) -> None:
    """Do one pass over a document set, as the run that a sensor asked for does."""
    _begin(place)
    doom = Doom(fate, place)
    use = CallerUse.ALWAYS if fate.apart else CallerUse.NEVER
    tools = build_tools(replace(place.environment, caller_process=use), doom)
    collection = place.collection()
    doom.engine = tools.ledger.engine
    document_set = tools.ledger.documents.find_set(NAME, partition_key)
    if document_set is None:
        raise LookupError(partition_key)
    order = Order(select=Select.DUE, dagster_run_id=dagster_run_id)
    SetRun(tools, collection, document_set, order, lambda _line: None).run()
    tools.close()
    place.lives.ends()


def tick(place: Place, fate: Fate, launches: Connection) -> None:
    """Let poller and sweeper tick once; send the partition keys of the runs that they ask for."""
    _begin(place)
    target = sensor_target(place.collection())
    ledger = Ledger(place.ledger_url, Doom(fate, place))
    with place.dagster() as instance:
        answers: list[Launch | HeldBack] = []
        if place.mode == "batch":
            look_after_batches(ledger, NAME, settle_s=place.environment.timing.batch_settle_s)
            answers += request_collecting(ledger, instance, target)
        answers += Sweep(ledger, instance, target, LIMITS).run().launches
    launches.send([one.due.document_set.partition_key for one in answers if isinstance(one, Launch)])
    ledger.close()


def _begin(place: Place) -> None:
    """Let what this process says go to the trial's log, and what Ctrl-C asks be the trial's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    place.enter()
