"""One invented machine, and the data sheet that describes it.

The field names are the properties of the collection's JSON Schema; the labels on a sheet are a vendor's own wording.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum, auto
from typing import Any

from extraction_assets.sample_documents.document import Document, Grid, Pairs, Value

NOTE = "Sample data sheet, figures invented."

LABELS = {
    "vendor": "Vendor",
    "model_name": "Model",
    "form_factor": "Form factor",
    "height_u": "Height (U)",
    "management_controller": "Management controller",
    "release_date": "Release date",
    "warranty_years": "Warranty (years)",
    "list_price_usd": "List price (USD)",
    "processor_family": "Processor family",
    "processor_sockets": "Processor sockets",
    "cores_per_processor": "Cores per processor (maximum)",
    "memory_type": "Memory type",
    "memory_slots": "Memory slots",
    "max_memory_gb": "Maximum memory (GB)",
    "pcie_slots": "PCIe slots",
    "max_gpus": "Maximum GPUs",
    "power_supply_count": "Power supplies",
    "power_supply_watts": "Power supply output (W)",
    "redundant_power": "Redundant power",
    "width_mm": "Width (mm)",
    "depth_mm": "Depth (mm)",
    "weight_kg": "Weight (kg)",
}
"""Property -> label, where a vendor has no wording of its own."""


class Layout(Enum):
    """How a data sheet shows its labels and values."""

    TABLE = auto()
    LINES = auto()
    SECTIONS = auto()


@dataclass(frozen=True)
class Overview:
    """What a buyer reads first. `None`: the sheet does not say."""

    vendor: str
    model_name: str
    form_factor: str
    height_u: int
    management_controller: str
    release_date: date
    warranty_years: int
    list_price_usd: Decimal | None


@dataclass(frozen=True)
class Compute:
    """Processors, memory and expansion. `None`: the sheet does not say."""

    processor_family: str
    processor_sockets: int
    cores_per_processor: int
    memory_type: str
    memory_slots: int
    max_memory_gb: int
    pcie_slots: int
    max_gpus: int | None


@dataclass(frozen=True)
class Chassis:
    """Power and measures."""

    power_supply_count: int
    power_supply_watts: int
    redundant_power: bool = field(default=True, kw_only=True)
    width_mm: int
    depth_mm: int
    weight_kg: Decimal


@dataclass(frozen=True)
class DriveBays:
    """A row of the drive table."""

    location: str
    bay_count: int
    drive_format: str
    interface: str


@dataclass(frozen=True)
class NetworkPorts:
    """A row of the port table."""

    port_type: str
    port_count: int
    speed_gbps: int
    connector: str


@dataclass(frozen=True)
class Server:
    """One data sheet: where it lies below the collection's source, how it looks and what it says."""

    key: str
    layout: Layout
    wording: Mapping[str, str]
    overview: Overview
    compute: Compute
    chassis: Chassis
    drive_bays: tuple[DriveBays, ...]
    network_ports: tuple[NetworkPorts, ...]


def answer(server: Server) -> dict[str, Any]:
    """Return what a correct extraction of the sheet holds: JSON types, `Decimal` where a number has decimals."""
    facts = asdict(server.overview) | asdict(server.compute) | asdict(server.chassis)
    return facts | {
        "release_date": server.overview.release_date.isoformat(),
        "drive_bays": [asdict(bays) for bays in server.drive_bays],
        "network_ports": [asdict(ports) for ports in server.network_ports],
    }


def data_sheet(server: Server) -> Document:
    """Return the document that describes `server`."""
    parts = {"Overview": server.overview, "Processor and memory": server.compute, "Power and measures": server.chassis}
    sections = {heading: _rows(asdict(part), server.wording) for heading, part in parts.items()}
    if server.layout is Layout.SECTIONS:
        facts = [Pairs(rows, heading) for heading, rows in sections.items()]
    else:
        rows = [row for section in sections.values() for row in section]
        facts = [Pairs(rows, "Specification", "table" if server.layout is Layout.TABLE else "lines")]
    title = f"{server.overview.vendor} {server.overview.model_name}"
    return Document(title, NOTE, [*facts, _drive_table(server.drive_bays), _port_table(server.network_ports)])


def _rows(facts: Mapping[str, Value | None], wording: Mapping[str, str]) -> list[tuple[str, Value]]:
    """Leave out what is not known, as a vendor does; say yes and no in words."""
    labels = {**LABELS, **wording}
    return [
        (labels[name], ("Yes" if value else "No") if isinstance(value, bool) else value)
        for name, value in facts.items()
        if value is not None
    ]


def _drive_table(bays: Sequence[DriveBays]) -> Grid:
    rows = [(b.location, b.bay_count, b.drive_format, b.interface) for b in bays]
    return Grid(("Location", "Bays", "Drive format", "Interface"), rows, "Drive bays")


def _port_table(ports: Sequence[NetworkPorts]) -> Grid:
    rows = [(p.port_type, p.port_count, p.speed_gbps, p.connector) for p in ports]
    return Grid(("Port type", "Ports", "Speed (Gb/s)", "Connector"), rows, "Network ports")
