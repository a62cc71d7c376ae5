"""Data sheets in `server/dell`."""

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

WORDING = {"height_u": "Height (rack units)", "release_date": "Available from"}

BOOT = DriveBays("Rear, boot", 2, "2.5-inch", "SATA")
MANAGEMENT = NetworkPorts("Management", 1, 1, "RJ45")

SERVERS = (
    Server(
        "server/dell/poweredge/r770.pdf",
        Layout.TABLE,
        WORDING,
        Overview("Dell", "PowerEdge R770", "Rack", 2, "iDRAC10", date(2025, 3, 18), 3, Decimal("14380.00")),
        Compute("Intel Xeon 6700P", 2, 86, "DDR5-6400", 32, 8192, 8, 2),
        Chassis(2, 1500, 482, 802, Decimal("28.7")),
        (DriveBays("Front", 24, "2.5-inch", "NVMe"), BOOT),
        (NetworkPorts("Ethernet, OCP", 4, 25, "SFP28"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge/r670.pdf",
        Layout.SECTIONS,
        WORDING,
        Overview("Dell", "PowerEdge R670", "Rack", 1, "iDRAC10", date(2025, 3, 18), 3, Decimal("12950.00")),
        Compute("Intel Xeon 6700E", 2, 144, "DDR5-6400", 32, 8192, 3, None),
        Chassis(2, 1100, 482, 816, Decimal("20.4")),
        (DriveBays("Front", 10, "2.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, OCP", 2, 100, "QSFP28"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge/r6715.docx",
        Layout.TABLE,
        WORDING,
        Overview("Dell", "PowerEdge R6715", "Rack", 1, "iDRAC10", date(2024, 11, 5), 3, Decimal("9875.50")),
        Compute("AMD EPYC 9005", 1, 160, "DDR5-6000", 24, 3072, 3, None),
        Chassis(2, 800, 482, 772, Decimal("18.9")),
        (DriveBays("Front", 8, "2.5-inch", "SAS"), BOOT),
        (NetworkPorts("Ethernet, onboard", 2, 1, "RJ45"), NetworkPorts("Ethernet, OCP", 2, 25, "SFP28"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge/r7725.xlsx",
        Layout.SECTIONS,
        WORDING,
        Overview("Dell", "PowerEdge R7725", "Rack", 2, "iDRAC10", date(2024, 11, 5), 3, Decimal("17240.00")),
        Compute("AMD EPYC 9005", 2, 192, "DDR5-6000", 24, 6144, 8, 3),
        Chassis(2, 1800, 482, 802, Decimal("29.6")),
        (DriveBays("Front", 12, "3.5-inch", "SAS"), DriveBays("Rear", 4, "2.5-inch", "NVMe")),
        (NetworkPorts("Ethernet, OCP", 4, 25, "SFP28"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge/t560.pdf",
        Layout.LINES,
        WORDING,
        Overview("Dell", "PowerEdge T560", "Tower", 5, "iDRAC9", date(2023, 5, 9), 1, None),
        Compute("Intel Xeon Scalable, 5th generation", 2, 32, "DDR5-5600", 16, 1024, 6, 2),
        Chassis(2, 1400, 200, 660, Decimal("44.2")),
        (DriveBays("Front", 12, "3.5-inch", "SAS"),),
        (NetworkPorts("Ethernet, onboard", 2, 1, "RJ45"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge-xe/xe9680.pdf",
        Layout.SECTIONS,
        WORDING,
        Overview("Dell", "PowerEdge XE9680", "Rack", 6, "iDRAC9", date(2023, 2, 14), 3, None),
        Compute("Intel Xeon Scalable, 5th generation", 2, 64, "DDR5-5600", 32, 4096, 10, 8),
        Chassis(6, 2800, 482, 1009, Decimal("107.0")),
        (DriveBays("Front", 8, "2.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, PCIe", 10, 200, "QSFP56"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge-xe/xe8640.html",
        Layout.TABLE,
        WORDING,
        Overview("Dell", "PowerEdge XE8640", "Rack", 4, "iDRAC9", date(2023, 6, 20), 3, Decimal("158400.00")),
        Compute("Intel Xeon Scalable, 4th generation", 2, 56, "DDR5-4800", 32, 4096, 4, 4),
        Chassis(4, 2800, 482, 904, Decimal("71.8")),
        (DriveBays("Front", 8, "2.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, OCP", 2, 100, "QSFP28"), MANAGEMENT),
    ),
    Server(
        "server/dell/poweredge-xe/xe7740.md",
        Layout.LINES,
        WORDING,
        Overview("Dell", "PowerEdge XE7740", "Rack", 4, "iDRAC10", date(2025, 8, 26), 3, Decimal("96150.00")),
        Compute("Intel Xeon 6700P", 2, 86, "DDR5-6400", 32, 4096, 12, 8),
        Chassis(8, 3200, 482, 890, Decimal("63.5")),
        (DriveBays("Front", 8, "E3.S", "NVMe"), BOOT),
        (NetworkPorts("Ethernet, OCP", 2, 25, "SFP28"), NetworkPorts("Ethernet, PCIe", 4, 400, "OSFP"), MANAGEMENT),
    ),
)
