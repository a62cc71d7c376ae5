"""Data sheets in `server/lenovo`."""

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

WORDING = {
    "processor_sockets": "Sockets",
    "management_controller": "Systems management",
    "max_memory_gb": "Memory, maximum (GB)",
}

MANAGEMENT = NetworkPorts("Management", 1, 1, "RJ45")

SERVERS = (
    Server(
        "server/lenovo/thinksystem/sr630.pdf",
        Layout.TABLE,
        WORDING,
        Overview("Lenovo", "ThinkSystem SR630 V4", "Rack", 1, "XClarity Controller 3", date(2025, 4, 8), 3, None),
        Compute("Intel Xeon 6700E", 2, 144, "DDR5-6400", 32, 8192, 3, 3),
        Chassis(2, 1300, 440, 788, Decimal("20.2")),
        (DriveBays("Front", 12, "2.5-inch", "NVMe"), DriveBays("Internal, boot", 2, "M.2 2280", "NVMe")),
        (NetworkPorts("Ethernet, OCP", 4, 10, "SFP+"), MANAGEMENT),
    ),
    Server(
        "server/lenovo/thinksystem/sr650.pdf",
        Layout.LINES,
        WORDING,
        Overview(
            "Lenovo",
            "ThinkSystem SR650 V4",
            "Rack",
            2,
            "XClarity Controller 3",
            date(2025, 4, 8),
            3,
            Decimal("13105.00"),
        ),
        Compute("Intel Xeon 6700P", 2, 86, "DDR5-6400", 32, 8192, 10, 4),
        Chassis(2, 2000, 445, 787, Decimal("33.9")),
        (DriveBays("Front", 16, "2.5-inch", "SAS"), DriveBays("Rear", 4, "2.5-inch", "NVMe")),
        (NetworkPorts("Ethernet, OCP", 2, 100, "QSFP56"), MANAGEMENT),
    ),
    Server(
        "server/lenovo/thinksystem/sr665.docx",
        Layout.LINES,
        WORDING,
        Overview(
            "Lenovo",
            "ThinkSystem SR665 V3",
            "Rack",
            2,
            "XClarity Controller 2",
            date(2023, 3, 7),
            3,
            Decimal("15860.75"),
        ),
        Compute("AMD EPYC 9005", 2, 160, "DDR5-6000", 24, 6144, 10, 8),
        Chassis(2, 2600, 445, 766, Decimal("38.8")),
        (DriveBays("Front", 20, "3.5-inch", "SATA"),),
        (NetworkPorts("Ethernet, OCP", 4, 25, "SFP28"), MANAGEMENT),
    ),
    Server(
        "server/lenovo/thinksystem/st650.xlsx",
        Layout.TABLE,
        WORDING,
        Overview(
            "Lenovo",
            "ThinkSystem ST650 V3",
            "Tower",
            4,
            "XClarity Controller 2",
            date(2023, 3, 7),
            1,
            Decimal("6980.00"),
        ),
        Compute("Intel Xeon Scalable, 5th generation", 2, 64, "DDR5-5600", 16, 2048, 9, 3),
        Chassis(2, 1100, 176, 749, Decimal("42.6")),
        (DriveBays("Front", 32, "2.5-inch", "SAS"),),
        (NetworkPorts("Ethernet, onboard", 2, 1, "RJ45"), NetworkPorts("Ethernet, OCP", 2, 10, "SFP+"), MANAGEMENT),
    ),
    Server(
        "server/lenovo/thinkedge/se350.pdf",
        Layout.SECTIONS,
        WORDING,
        Overview("Lenovo", "ThinkEdge SE350 V2", "Edge", 1, "XClarity Controller 2", date(2023, 8, 22), 5, None),
        Compute("Intel Xeon D 2700", 1, 20, "DDR4-3200", 4, 256, 1, None),
        Chassis(1, 500, 209, 384, Decimal("3.8"), redundant_power=False),
        (DriveBays("Internal", 4, "2.5-inch", "NVMe"),),
        (NetworkPorts("Ethernet, SFP", 4, 10, "SFP+"), NetworkPorts("Ethernet, copper", 2, 1, "RJ45")),
    ),
    Server(
        "server/lenovo/thinkedge/se450.html",
        Layout.SECTIONS,
        WORDING,
        Overview(
            "Lenovo", "ThinkEdge SE450", "Edge", 2, "XClarity Controller", date(2022, 5, 17), 5, Decimal("10430.00")
        ),
        Compute("Intel Xeon Scalable, 3rd generation", 1, 36, "DDR4-3200", 10, 1024, 4, 2),
        Chassis(2, 1100, 445, 360, Decimal("15.1")),
        (DriveBays("Internal", 6, "2.5-inch", "SATA"),),
        (NetworkPorts("Ethernet, OCP", 2, 25, "SFP28"), MANAGEMENT),
    ),
)
