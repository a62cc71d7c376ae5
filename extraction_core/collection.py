"""A collection as its YAML describes it, checked strictly; and the value the rest of the code works with.

:class:`CollectionFile` is the shape of ``attributes`` in ``defs/<collection>/defs.yaml``. It is pure: whether the
files it names exist is looked up where files are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from extraction_core.batches import MOST_BYTES, MOST_REQUESTS
from extraction_core.documents import Unit
from extraction_core.fingerprints import question_digest
from extraction_core.output_schema import Schema, SchemaValidator, provider_schema
from extraction_core.partitions import PartitionBy, PartitionRule
from extraction_core.prompting import Question
from extraction_core.quality import QualityByFlaw

DEFAULT_MODEL = "claude-haiku-5-5"
MB = 1_000_000
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,39}")


class DirectoryPartition(BaseModel):
    """One set per folder, counted from the source."""

    model_config = ConfigDict(extra="forbid", strict=True)

    directory: int = Field(ge=0, le=20, description="Depth in folders; 0 puts all documents into one set.")


class HashPartition(BaseModel):
    """A fixed number of sets, documents spread by a hash of their key."""

    model_config = ConfigDict(extra="forbid", strict=True)

    hash: int = Field(ge=1, le=10_000, description="Number of buckets.")


class DirectoryUnit(BaseModel):
    """One document per folder of a depth, with everything below it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    directory: int = Field(ge=1, le=20, description="Depth in folders, counted from the source.")


class CollectionFile(BaseModel):
    """The attributes of a document collection."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    source: str = Field(
        min_length=1, description="Folder of the documents: a path, relative to defs.yaml, or an fsspec URL."
    )
    include: list[str] = Field(default=["**/*"], min_length=1, description="Globs of which one must match.")
    exclude: list[str] = Field(default=[], description="Globs of which none may match.")
    unit: Literal["file", "directory"] | DirectoryUnit = Field(
        default="file",
        description="What one document is: file, directory (all files that a folder holds), or {directory: DEPTH}.",
    )
    on_failed_file: Literal["fail", "leave_out"] = Field(
        default="fail",
        description="What a file that cannot be read does to the document of its directory: fail it, or be left out.",
    )
    partition_by: DirectoryPartition | HashPartition | Literal["document"] = Field(
        default=DirectoryPartition(directory=1),
        description="How documents are grouped into sets: {directory: DEPTH}, {hash: BUCKETS} or document.",
    )
    parse: Literal["local", "reducto", "document_block"] = Field(
        default="local",
        description=(
            "How documents become Markdown: local, or by jobs of reducto; or document_block: PDFs and pictures are "
            "shown to the model as they are. The last two need unit: file."
        ),
    )
    scans: Literal["fail", "ocr", "document_block", "reducto"] = Field(
        default="fail",
        description=(
            "What becomes of a document that is a scan or has scanned pages, where parse is local and unit is file: "
            "fail if it has no text at all, or another way for it alone: ocr, document_block or reducto."
        ),
    )
    quality: Literal["warn", "fail"] | QualityByFlaw = Field(
        default="warn",
        description="What becomes of a document whose text came out badly: warn, fail, or one of them per flaw.",
    )
    schema_: str = Field(
        default="schema.json", alias="schema", description="JSON Schema 2020-12 file beside defs.yaml."
    )
    instructions: str = Field(default="instructions.md", description="Markdown file beside defs.yaml.")
    model: str = Field(default=DEFAULT_MODEL, min_length=1, description="Claude model id.")
    mode: Literal["realtime", "batch"] = Field(
        default="realtime",
        description="realtime: one call per document; batch: Message Batches, at half the price, within a day.",
    )
    max_batch_requests: int = Field(
        default=MOST_REQUESTS, ge=1, le=MOST_REQUESTS, description="Most requests in one message batch."
    )
    max_batch_mb: int = Field(default=MOST_BYTES // MB, ge=1, le=MOST_BYTES // MB, description="Most MB in one batch.")
    max_output_tokens: int = Field(default=4096, ge=1, le=128_000, description="Limit of one answer.")
    max_attempts: int = Field(default=3, ge=1, le=20, description="Calls per document and question that count.")
    concurrency: int = Field(default=32, ge=1, le=1000, description="Calls in flight in one run.")
    max_cost_usd: str | None = Field(default=None, description="Most that one extraction run may spend, as a string.")
    fail_above: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of failed documents above which a set is red."
    )
    owners: list[str] = Field(default=[], description="Owners shown in the UI: e-mail addresses or team:NAME.")

    @field_validator("max_cost_usd")
    @classmethod
    def _exact_money(cls, value: str | None) -> str | None:
        if value is not None and (not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value) or Decimal(value) == 0):
            msg = 'a positive amount in US dollars as a string, such as "5.00"'
            raise ValueError(msg)
        return value

    @field_validator("parse")
    @classmethod
    def _one_file(cls, value: str, info: ValidationInfo) -> str:
        if value != "local" and info.data.get("unit") != "file":
            msg = f"{value} takes documents of one file; use unit: file, or parse: local"
            raise ValueError(msg)
        return value

    @field_validator("scans")
    @classmethod
    def _another_way_than_local(cls, value: str, info: ValidationInfo) -> str:
        if value != "fail" and (info.data.get("parse"), info.data.get("unit")) != ("local", "file"):
            msg = f"{value} is another way than parse: local, for documents of unit: file"
            raise ValueError(msg)
        return value

    @field_validator("fail_above", mode="before")
    @classmethod
    def _whole_numbers_too(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @property
    def parses_by_jobs(self) -> bool:
        """Whether a parse service may be at work on documents."""
        return "reducto" in (self.parse, self.scans)

    def unit_rule(self) -> Unit:
        """Return the rule that tells which files are one document."""
        match self.unit:
            case DirectoryUnit(directory=depth):
                return Unit(is_folder=True, depth=depth)
            case unit:
                return Unit(is_folder=unit == "directory")

    def partition_rule(self) -> PartitionBy:
        """Return the rule that groups documents into sets."""
        match self.partition_by:
            case DirectoryPartition(directory=depth):
                return PartitionBy(rule=PartitionRule.DIRECTORY, number=depth)
            case HashPartition(hash=buckets):
                return PartitionBy(rule=PartitionRule.HASH, number=buckets)
            case _:
                return PartitionBy(rule=PartitionRule.DOCUMENT)


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A collection, loaded: settings, absolute source, schema and instructions."""

    name: str
    settings: CollectionFile
    source: str
    schema: Schema
    instructions: str
    defs_file: str

    @cached_property
    def validator(self) -> SchemaValidator:
        """The validator of the complete schema."""
        return SchemaValidator(self.schema)

    @cached_property
    def question(self) -> Question:
        """What is asked of every document."""
        return Question(
            model=self.settings.model,
            instructions=self.instructions,
            schema=self.schema,
            enforced_schema=provider_schema(self.schema).schema,
            max_output_tokens=self.settings.max_output_tokens,
        )

    @property
    def max_cost_usd(self) -> Decimal | None:
        """The most that one extraction run may spend."""
        return Decimal(self.settings.max_cost_usd) if self.settings.max_cost_usd else None

    def question_digest(self, parser: str) -> str:
        """Return the part of the input fingerprint that all documents share.

        Args:
            parser: name and version of the parse provider.
        """
        return question_digest(
            schema=self.schema,
            instructions=self.instructions,
            model=self.settings.model,
            max_output_tokens=self.settings.max_output_tokens,
            parser=parser,
        )
