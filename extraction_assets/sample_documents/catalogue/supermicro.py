"""Data sheets in `server/supermicro`."""

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

WORDING = {"depth_mm": "Chassis depth (mm)", "weight_kg": "Gross weight (kg)"}

IPMI = NetworkPorts("IPMI management", 1, 1, "RJ45")

SERVERS = (
    Server(
        "server/supermicro/hyper/sys-221h.pdf",
        Layout.TABLE,
        WORDING,
        Overview("Supermicro", "SYS-221H-TNR", "Rack", 2, "AST2600 BMC", date(2023, 1, 10), 3, Decimal("10250.00")),
        Compute("Intel Xeon Scalable, 5th generation", 2, 64, "DDR5-5600", 32, 8192, 8, 4),
        Chassis(2, 1600, 437, 760, Decimal("34.0")),
        (DriveBays("Front", 24, "2.5-inch", "NVMe"), DriveBays("Internal, boot", 2, "M.2 2280", "NVMe")),
        (NetworkPorts("Ethernet, AIOM", 2, 25, "SFP28"), IPMI),
    ),
    Server(
        "server/supermicro/hyper/sys-621h.pdf",
        Layout.LINES,
        WORDING,
        Overview("Supermicro", "SYS-621H-TN12R", "Rack", 2, "AST2600 BMC", date(2023, 1, 10), 3, None),
        Compute("Intel Xeon Scalable, 5th generation", 2, 60, "DDR5-5600", 32, 8192, 8, 4),
        Chassis(2, 1200, 437, 760, Decimal("36.5")),
        (DriveBays("Front", 12, "3.5-inch", "SAS"),),
        (NetworkPorts("Ethernet, AIOM", 4, 10, "RJ45"), IPMI),
    ),
    Server(
        "server/supermicro/hyper/as-1125h.md",
        Layout.SECTIONS,
        WORDING,
        Overview("Supermicro", "AS-1125HS-TNR", "Rack", 1, "AST2600 BMC", date(2022, 11, 10), 3, Decimal("11895.00")),
        Compute("AMD EPYC 9005", 2, 192, "DDR5-6000", 24, 9216, 4, None),
        Chassis(2, 2000, 437, 747, Decimal("25.4")),
        (DriveBays("Front", 12, "2.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, AIOM", 2, 100, "QSFP28"), IPMI),
    ),
    Server(
        "server/supermicro/bigtwin/sys-222bt.pdf",
        Layout.SECTIONS,
        WORDING,
        Overview("Supermicro", "SYS-222BT-HNC8R", "Multi-node", 2, "AST2600 BMC", date(2025, 1, 21), 3, None),
        Compute("Intel Xeon 6700E", 2, 144, "DDR5-6400", 16, 4096, 2, None),
        Chassis(2, 3000, 449, 774, Decimal("38.5")),
        (DriveBays("Front", 6, "2.5-inch", "NVMe"), DriveBays("Internal, boot", 2, "M.2 2280", "NVMe")),
        (NetworkPorts("Ethernet, AIOM", 2, 100, "QSFP28"), IPMI),
    ),
    Server(
        "server/supermicro/bigtwin/sys-221bt.pdf",
        Layout.TABLE,
        WORDING,
        Overview(
            "Supermicro", "SYS-221BT-DNTR", "Multi-node", 2, "AST2600 BMC", date(2023, 1, 10), 3, Decimal("18770.00")
        ),
        Compute("Intel Xeon Scalable, 4th generation", 2, 60, "DDR5-4800", 16, 4096, 4, 1),
        Chassis(2, 2600, 449, 774, Decimal("41.0")),
        (DriveBays("Front", 12, "3.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, AIOM", 2, 10, "RJ45"), IPMI),
    ),
)
