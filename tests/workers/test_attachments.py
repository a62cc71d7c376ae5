"""Attachments of mails: documents of their own, each with its own result, its own failure, its own life."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from extraction_assets.workers.orders import Order
from extraction_assets.workers.prepare import scan
from extraction_core.states import Select
from tests.mails import a_mail, a_message
from tests.parsing.documents import pdf
from tests.workplace import ON_ONE_DATABASE

if TYPE_CHECKING:
    from tests.workplace import Workplace

pytestmark = ON_ONE_DATABASE
BODY = "Model: R1\nPrice USD: 1\n"
OFFER = pdf(["Model: R770", "Price USD: 1000"])
LOCKED = b"%PDF-1.7 cut"
MAIL, FIRST, SECOND = "dell/mail.eml", "dell/mail.eml/attachment-1-offer.pdf", "dell/mail.eml/attachment-2-bad.pdf"


def present(workplace: Workplace) -> set[str]:
    return {row["document_key"] for row in workplace.books.documents if row["removed_ms"] is None}


def test_an_attachment_is_extracted_as_a_document_of_its_own(workplace: Workplace) -> None:
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER})}))
    assert workplace.books.statuses() == {"completed": 2}
    assert json.loads(workplace.books.output(MAIL).read_bytes())["model"] == "R1"
    assert json.loads(workplace.books.output(FIRST).read_bytes()) == {"model": "R770", "price_usd": 1000}
    workplace.books.assert_settled()


def test_an_attachment_that_cannot_be_read_fails_alone(workplace: Workplace) -> None:
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER, "bad.pdf": LOCKED})}))
    assert workplace.books.statuses() == {"completed": 2, "failed": 1}
    assert workplace.books.result(SECOND)["reason"] == "corrupt"


def test_a_mail_in_a_mail_is_opened_too(workplace: Workplace) -> None:
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"": a_message(BODY, {"offer.pdf": OFFER})})}))
    inner = "dell/mail.eml/attachment-1-unnamed.eml"
    assert present(workplace) == {MAIL, inner, f"{inner}/attachment-1-offer.pdf"}
    assert workplace.books.statuses() == {"completed": 3}


def test_attachments_are_neither_lost_nor_asked_again_while_their_mail_stays_as_it_is(workplace: Workplace) -> None:
    collection = workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER})})
    workplace.run(collection)
    tools = workplace.tools()
    assert scan(tools, collection).registration.removed == 0
    tools.close()
    workplace.run(collection)
    assert present(workplace) == {MAIL, FIRST}
    assert len(workplace.calls()) == 2


def test_only_the_attachment_that_changed_is_asked_again(workplace: Workplace) -> None:
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER, "b.txt": b"Model: R2"})}))
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER, "b.txt": b"Model: R3"})}))
    asked = [row["document_key"] for row in workplace.books.results]
    assert asked.count(FIRST) == 1
    assert asked.count("dell/mail.eml/attachment-2-b.txt") == 2


def test_an_attachment_goes_with_its_mail_or_when_its_mail_has_lost_it(workplace: Workplace) -> None:
    other = {"dell/r1.md": BODY}
    workplace.run(workplace.collection({**other, MAIL: a_mail(BODY, {"": a_message(BODY, {"offer.pdf": OFFER})})}))
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER})}))
    assert present(workplace) == {"dell/r1.md", MAIL, FIRST}
    (workplace.source / MAIL).unlink()
    workplace.run(workplace.collection({}))
    assert present(workplace) == {"dell/r1.md"}


def test_attachments_follow_their_mail_into_another_set(workplace: Workplace) -> None:
    workplace.run(workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER})}))
    everything = workplace.collection({}, partition_by={"hash": 1})
    tools = workplace.tools()
    scan(tools, everything)
    tools.close()
    assert len({row["set_id"] for row in workplace.books.documents}) == 1


def test_globs_choose_among_attachments_too(workplace: Workplace) -> None:
    attached = {"logo.png": b"\x89PNG\r\n\x1a\n", "offer.pdf": OFFER}
    workplace.run(workplace.collection({MAIL: a_mail(BODY, attached)}, exclude=["**/attachment-*.png"]))
    assert present(workplace) == {MAIL, "dell/mail.eml/attachment-2-offer.pdf"}


def test_an_attachment_equal_to_a_file_is_parsed_once(workplace: Workplace) -> None:
    workplace.run(workplace.collection({"dell/offer.pdf": OFFER, MAIL: a_mail(BODY, {"offer.pdf": OFFER})}))
    assert workplace.books.statuses() == {"completed": 3}
    assert len(workplace.books.parse_runs) == 2


def test_asking_for_all_asks_for_attachments_too(workplace: Workplace) -> None:
    collection = workplace.collection({MAIL: a_mail(BODY, {"offer.pdf": OFFER})})
    workplace.run(collection)
    workplace.run(collection, Order(select=Select.ALL))
    assert workplace.books.statuses() == {"completed": 4}


def test_in_a_folder_that_is_one_document_attachments_are_files_of_it(workplace: Workplace) -> None:
    files = {"r770/mail.eml": a_mail("See the offer.", {"offer.pdf": OFFER})}
    workplace.run(workplace.collection(files, unit="directory", partition_by={"directory": 0}))
    assert workplace.books.statuses() == {"completed": 1}
    (call,) = workplace.calls()
    assert "# File: mail.eml/attachment-1-offer.pdf\n\nModel: R770" in call["user_text"]
