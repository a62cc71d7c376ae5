"""`python -m sandbox --port N`: serve until SIGTERM or SIGINT."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from sandbox.server import running


def main(arguments: list[str] | None = None) -> int:
    """Run the server; prints its address as the one line on stdout, and returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        asyncio.run(_serve(options.port, options.host, options.log))
    except OSError as error:
        sys.stderr.write(f"sandbox: cannot serve on {options.host}:{options.port}: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sandbox",
        description="Anthropic-compatible local server that answers by rules. Control and bill: /_sandbox/.",
    )
    parser.add_argument("--port", type=int, required=True, help="port to listen on; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--log",
        type=Path,
        help="append every finished request to this file, one JSON object a line; numbering and bill go on from it",
    )
    return parser


async def _serve(port: int, host: str, log_file: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(port, host, log_file) as server:
        sys.stdout.write(f"sandbox listening on {server.url}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
