"""`python -m sandbox --port N`: serve until SIGTERM or SIGINT."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from sandbox.clock import MAX_SECONDS
from sandbox.server import running


def main(arguments: list[str] | None = None) -> int:
    """Run the server; prints its address as the one line on stdout, and returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        asyncio.run(_serve(options))
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
        help="append every finished request to this file, one JSON object a line, and go on with what it tells",
    )
    parser.add_argument(
        "--batch-seconds",
        type=_seconds,
        default=0,
        help="how long a message batch takes by the sandbox's clock (default: %(default)s, ended at the first look)",
    )
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= MAX_SECONDS:
        message = f"must be from 0 to {MAX_SECONDS:.0f}"
        raise argparse.ArgumentTypeError(message)
    return seconds


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(options.port, options.host, options.log, options.batch_seconds) as server:
        sys.stdout.write(f"sandbox listening on {server.url}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
