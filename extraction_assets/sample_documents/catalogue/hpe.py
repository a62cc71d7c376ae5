"""Data sheets in `server/hpe`."""

from datetime import date
from decimal import Decimal

from extraction_assets.sample_documents.catalogue.server import (
    Chassis,
    Compute,
    DriveBays,
    Layout,
    NetworkPorts,
    Overview,
    Server,
)

WORDING = {"vendor": "Manufacturer", "memory_slots": "DIMM slots", "weight_kg": "Net weight (kg)"}

ILO = NetworkPorts("iLO management", 1, 1, "RJ45")

SERVERS = (
    Server(
        "server/hpe/proliant/dl360.pdf",
        Layout.TABLE,
        WORDING,
        Overview("HPE", "ProLiant DL360 Gen12", "Rack", 1, "iLO 7", date(2025, 2, 12), 3, Decimal("11620.00")),
        Compute("Intel Xeon 6700P", 2, 80, "DDR5-6400", 32, 8192, 3, None),
        Chassis(2, 1000, 435, 759, Decimal("20.5")),
        (DriveBays("Front", 10, "2.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, OCP", 2, 25, "SFP28"), ILO),
    ),
    Server(
        "server/hpe/proliant/dl380.pdf",
        Layout.TABLE,
        WORDING,
        Overview("HPE", "ProLiant DL380 Gen12", "Rack", 2, "iLO 7", date(2025, 2, 12), 3, Decimal("13990.00")),
        Compute("Intel Xeon 6700P", 2, 86, "DDR5-6400", 32, 8192, 8, 3),
        Chassis(2, 1600, 448, 751, Decimal("27.3")),
        (DriveBays("Front", 24, "2.5-inch", "NVMe"), DriveBays("Rear", 2, "2.5-inch", "SAS")),
        (NetworkPorts("Ethernet, OCP", 4, 25, "SFP28"), ILO),
    ),
    Server(
        "server/hpe/proliant/dl380.xlsx",
        Layout.TABLE,
        WORDING,
        Overview("HPE", "ProLiant DL380 Gen12 LFF", "Rack", 2, "iLO 7", date(2025, 6, 3), 3, Decimal("12745.00")),
        Compute("Intel Xeon 6500P", 2, 32, "DDR5-6400", 32, 4096, 6, 1),
        Chassis(2, 1000, 448, 751, Decimal("31.2")),
        (DriveBays("Front", 12, "3.5-inch", "SAS"), DriveBays("Middle", 4, "3.5-inch", "SAS")),
        (NetworkPorts("Ethernet, onboard", 4, 1, "RJ45"), ILO),
    ),
    Server(
        "server/hpe/proliant/dl345.docx",
        Layout.SECTIONS,
        WORDING,
        Overview("HPE", "ProLiant DL345 Gen11", "Rack", 2, "iLO 6", date(2023, 1, 10), 3, Decimal("8460.00")),
        Compute("AMD EPYC 9004", 1, 128, "DDR5-4800", 12, 3072, 8, 2),
        Chassis(2, 800, 448, 736, Decimal("24.6")),
        (DriveBays("Front", 16, "2.5-inch", "SAS"), DriveBays("Rear", 2, "2.5-inch", "NVMe")),
        (NetworkPorts("Ethernet, OCP", 2, 10, "RJ45"), ILO),
    ),
    Server(
        "server/hpe/proliant/ml350.html",
        Layout.LINES,
        WORDING,
        Overview("HPE", "ProLiant ML350 Gen11", "Tower", 4, "iLO 6", date(2023, 1, 10), 3, Decimal("7315.25")),
        Compute("Intel Xeon Scalable, 5th generation", 2, 60, "DDR5-5600", 32, 8192, 8, 4),
        Chassis(4, 1000, 174, 649, Decimal("38.1")),
        (DriveBays("Front", 8, "2.5-inch", "SATA"), DriveBays("Front, lower", 4, "3.5-inch", "SAS")),
        (NetworkPorts("Ethernet, onboard", 2, 1, "RJ45"), ILO),
    ),
    Server(
        "server/hpe/synergy/sy480.pdf",
        Layout.SECTIONS,
        WORDING,
        Overview("HPE", "Synergy 480 Gen12", "Blade", 6, "iLO 7", date(2025, 9, 16), 3, None),
        Compute("Intel Xeon 6700P", 2, 64, "DDR5-6400", 32, 4096, 2, None),
        Chassis(6, 2650, 215, 615, Decimal("9.9")),
        (DriveBays("Front", 2, "2.5-inch", "NVMe"),),
        (NetworkPorts("Fabric mezzanine", 2, 50, "Backplane"), ILO),
    ),
    Server(
        "server/hpe/synergy/sy660.md",
        Layout.TABLE,
        WORDING,
        Overview("HPE", "Synergy 660 Gen10 Plus", "Blade", 6, "iLO 5", date(2021, 11, 30), 3, None),
        Compute("Intel Xeon Scalable, 3rd generation", 4, 28, "DDR4-3200", 48, 6144, 4, 1),
        Chassis(6, 2650, 430, 615, Decimal("16.4")),
        (DriveBays("Front", 4, "2.5-inch", "SAS"),),
        (NetworkPorts("Fabric mezzanine", 4, 25, "Backplane"), ILO),
    ),
)
