"""The proof itself: books that were tampered with are found out, each kind by its own figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from extraction_assets.chaos.command import run_and_report
from extraction_assets.chaos.place import NAME, Place
from extraction_assets.chaos.proof import is_clean, violations
from extraction_assets.chaos.provider import FOREIGN, Provider
from extraction_assets.workers.orders import Order
from extraction_assets.workers.set_run import SetRun
from extraction_assets.workers.tools import build_tools
from extraction_core.failpoints import Failpoint
from resources.ledger import Ledger
from resources.ledger.tables import attempts, extraction_results, extraction_runs
from resources.ledger.trials import WITNESS, install_witness

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sandbox_server import SandboxServer

DOCUMENTS = 2
COPY_OF_AN_ATTEMPT = """
INSERT INTO attempts (token, result_id, run_id, document_id, input_fingerprint, edition, status, counted, model,
                      max_output_tokens, opened_ms, closed_ms, response, request_id, cost_usd)
SELECT 'later', result_id, run_id, document_id, input_fingerprint, edition, 'failed', counted, model,
       max_output_tokens, closed_ms + 1000, closed_ms + 2000, NULL, NULL, 0
FROM attempts WHERE attempt_id = 1
"""

WITNESSED = sa.table(WITNESS, sa.column("what"), sa.column("row_id"))
TABLES = (attempts, extraction_results, extraction_runs, WITNESSED)

IN_A_THOUSAND_YEARS_MS = 33_000_000_000_000
RECLAIMED = """
UPDATE extraction_results SET status = 'running', owner = 'somebody', finished_ms = NULL,
                              lease_expires_ms = {lease_expires_ms} WHERE result_id = 1;
UPDATE extraction_results SET status = 'queued', owner = NULL, lease_expires_ms = NULL, reclaims = reclaims + 1
WHERE result_id = 1
"""

TAMPERED: dict[str, str] = {
    "taken_early": RECLAIMED.format(lease_expires_ms=IN_A_THOUSAND_YEARS_MS),
    "terminal_twice": "UPDATE extraction_results SET status = 'completed' WHERE result_id = 1",
    "paid_again": COPY_OF_AN_ATTEMPT,
    "cost_difference_usd": "UPDATE attempts SET cost_usd = cost_usd * 2 WHERE attempt_id = 1",
    "unaccounted": "UPDATE attempts SET request_id = 'req_nobody', cost_usd = 0 WHERE attempt_id = 1",
    "open_attempts": "UPDATE attempts SET status = 'open', closed_ms = NULL WHERE attempt_id = 1",
    "open_runs": "UPDATE extraction_runs SET status = 'open' WHERE run_id = 1",
    "unbalanced": "UPDATE extraction_runs SET completed_count = completed_count - 1, failed_count = 1 WHERE run_id = 1",
}


@pytest.fixture
def place(bare_database_url: str, sandbox: SandboxServer, tmp_path: Path) -> Place:
    """A trial in which nobody died: two documents, both done."""
    found = Place(folder=tmp_path, ledger_url=bare_database_url, mode="realtime", provider_url=sandbox.url)
    found.enter()
    ledger = Ledger(bare_database_url)
    install_witness(ledger.engine)
    ledger.close()
    found.add_documents(0, DOCUMENTS)
    tools, collection = build_tools(found.environment), found.collection()
    for document_set in tools.ledger.documents.sets(NAME):
        SetRun(tools, collection, document_set, Order(), lambda _line: None).run()
    tools.close()
    return found


def test_each_figure_finds_what_it_is_for(place: Place) -> None:
    provider = Provider(place.provider_url)
    assert is_clean(violations(place, provider, DOCUMENTS))
    for figure, statement in TAMPERED.items():
        undone = _tampered(place, statement, lambda: violations(place, provider, DOCUMENTS))
        assert figure in _broken(undone), (figure, undone)
    assert _broken(violations(place, provider, DOCUMENTS + 1)) == {"documents_lost"}
    in_time = _tampered(place, RECLAIMED.format(lease_expires_ms=1), lambda: violations(place, provider, DOCUMENTS))
    assert "taken_early" not in _broken(in_time)


def test_files_that_are_gone_torn_or_left_behind_are_found(place: Place) -> None:
    provider, outputs = Provider(place.provider_url), place.environment.outputs
    first, second = sorted(outputs.rglob("extraction.json"))
    first.write_bytes(first.read_bytes()[:-9])
    assert violations(place, provider, DOCUMENTS)["torn_files"] == 2  # unlike its hash, and no JSON
    second.unlink()
    assert violations(place, provider, DOCUMENTS)["torn_files"] == 3
    foreign = second.parent / ".t-00000000-1-abc.tmp"  # of another machine: nobody may remove it yet
    foreign.touch()
    assert violations(place, provider, DOCUMENTS)["stray_temp_files"] == 1


@pytest.mark.parametrize("bare_database_url", ["sqlite"], indirect=True)
def test_a_batch_that_was_made_twice_is_found_although_its_ids_are_the_same_and_one_of_somebody_else_is_not_ours(
    place: Place,
) -> None:
    provider, model = Provider(place.provider_url), place.collection().settings.model
    provider.batches_take(0)
    provider.add_batch(model, [f"{FOREIGN}1", f"{FOREIGN}2"])
    assert is_clean(violations(place, provider, DOCUMENTS))
    for _ in range(2):
        provider.add_batch(model, ["ours-1"])
    assert violations(place, provider, DOCUMENTS)["unaccounted"] == 2  # nobody asked for it, not even once


@pytest.mark.parametrize("bare_database_url", ["sqlite"], indirect=True)
def test_whoever_slept_with_an_answer_in_hand_must_have_kept_it(place: Place) -> None:
    provider, lives = Provider(place.provider_url), place.lives
    begun_s = lives.freezes()
    lives.wakes(Failpoint.PROVIDER_ANSWERED, begun_s, int(begun_s * 1000) + 1)
    assert is_clean(violations(place, provider, DOCUMENTS))  # not at its end: it may have died
    lives.ends()
    assert violations(place, provider, DOCUMENTS)["unaccounted"] == 1
    later = "UPDATE attempts SET closed_ms = closed_ms + 3600000 WHERE attempt_id = 1"
    assert is_clean(_tampered(place, later, lambda: violations(place, provider, DOCUMENTS)))


@pytest.mark.parametrize("bare_database_url", ["sqlite"], indirect=True)
def test_the_command_exits_with_1_when_a_promise_is_broken(
    bare_database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _let_runs_close_with_wrong_sums(bare_database_url)
    code = run_and_report(kills=1, seed=5, ledger=bare_database_url, mode="realtime", documents=2, as_json=False)
    said = capsys.readouterr().out
    assert code == 1
    assert "<-- VIOLATION" in said
    assert "PROMISES BROKEN; again: extraction-assets chaos --kills 1 --seed 5" in said


def _let_runs_close_with_wrong_sums(url: str) -> None:
    """A ledger whose database spoils the sum of every run that closes."""
    ledger = Ledger(url)
    spoils = "UPDATE extraction_runs SET cost_usd = cost_usd + 1 WHERE run_id = NEW.run_id"
    trigger = f"CREATE TRIGGER spoil AFTER UPDATE OF closed_ms ON extraction_runs FOR EACH ROW BEGIN {spoils}; END"
    ledger.engine.write(lambda connection: connection.exec_driver_sql(trigger))
    ledger.close()


def _broken(found: dict[str, object]) -> set[str]:
    return {name for name, value in found.items() if not is_clean({name: value})}


def _tampered(place: Place, statements: str, look: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Look at books in which statements were run, and put them back as they were."""
    ledger = Ledger(place.ledger_url)
    kept = {table: _rows(ledger, table) for table in TABLES}
    try:
        for statement in statements.split(";"):
            ledger.engine.write(lambda connection, one=statement: connection.exec_driver_sql(one))
        return look()
    finally:
        ledger.engine.write(lambda connection: _put_back(connection, kept))
        ledger.close()


def _rows(ledger: Ledger, table: sa.TableClause) -> list[dict[str, object]]:
    return ledger.engine.read(lambda connection: [dict(row) for row in connection.execute(sa.select(table)).mappings()])


def _put_back(connection: sa.Connection, kept: dict[Any, list[dict[str, object]]]) -> None:
    for table in kept:
        connection.execute(sa.delete(table))
    for table in reversed(kept):
        if kept[table]:
            connection.execute(sa.insert(table), kept[table])
