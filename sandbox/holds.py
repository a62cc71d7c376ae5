"""Answers that a test holds back and lets go by name."""

import asyncio
from collections import Counter


class Holds:
    """Answers kept back by name until a test releases them."""

    def __init__(self) -> None:
        """Start with nothing held."""
        self.held: Counter[str] = Counter()
        self._gates: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    async def wait(self, name: str) -> None:
        """Wait until `name` is released; ends early by cancellation when the client leaves."""
        gate = self._gates.setdefault(name, asyncio.Event())
        self.held[name] += 1
        await self._notify()
        try:
            await gate.wait()
        finally:
            self.held[name] -= 1

    def release(self, name: str) -> int:
        """Let all answers go that are held under `name` now; returns how many."""
        gate = self._gates.pop(name, None)
        if gate is None:
            return 0
        gate.set()
        return self.held[name]

    async def until(self, name: str, at_least: int, seconds: float) -> bool:
        """Wait until that many answers are held; False when the time is over."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.held[name] >= at_least)
        except TimeoutError:
            return False
        return True

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
