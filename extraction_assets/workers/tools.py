"""What every worker is handed: the ledger, the stores, the recorder, the parser. The composition of one process."""

from __future__ import annotations

from dataclasses import dataclass

from extraction_core.failpoints import Failpoints, no_failpoints
from extraction_core.parsing import ParseProvider
from extraction_core.settings import Timing
from resources.environment import Environment
from resources.ledger import Ledger
from resources.output import OutputStore, ParsedStore
from resources.parsing import build_parse_provider
from resources.recorder import ResultRecorder


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The resources of one process. Close them when done."""

    environment: Environment
    ledger: Ledger
    outputs: OutputStore
    parsed: ParsedStore
    recorder: ResultRecorder
    failpoints: Failpoints

    @property
    def timing(self) -> Timing:
        """The times that hold the queue together."""
        return self.environment.timing

    def parse_provider(self, name: str) -> ParseProvider:
        """Build a parse provider; it may own child processes and must be closed by the one who uses it."""
        return build_parse_provider(name, home=self.environment.home)

    def close(self) -> None:
        """Close the ledger's connections."""
        self.ledger.close()


def build_tools(environment: Environment, failpoints: Failpoints = no_failpoints) -> Tools:
    """Open the ledger (migrating it if needed) and the stores."""
    environment.home.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(environment.ledger_url, failpoints)
    outputs = OutputStore(environment.outputs, failpoints)
    return Tools(
        environment=environment,
        ledger=ledger,
        outputs=outputs,
        parsed=ParsedStore(environment.parsed, failpoints),
        recorder=ResultRecorder(ledger, outputs, failpoints),
        failpoints=failpoints,
    )
