"""The line between a ledger and its PostgreSQL server: a proxy on loopback that can be cut, and that can lose a reply.

A loss of the reply to a COMMIT is the worst that a network does to a transaction: the server has done it, and the
client cannot know.
"""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from extraction_core.failpoints import Failpoint

CHUNK = 1 << 16


class Line:
    """Connections through the proxy.

    Args:
        listener: where the proxy listens.
        target: the server's address, whose database and user are those of :attr:`url`.

    Attributes:
        refused: attempts to connect that were turned away.
        lost: commits whose reply was lost.
    """

    def __init__(self, listener: socket.socket, target: sa.URL) -> None:
        self._listener, self._target = listener, target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._deaf: set[socket.socket] = set()
        self._to_refuse, self._to_lose = 0, False
        self._speaking, self._silenced = threading.Event(), threading.Semaphore(0)
        self._speaking.set()
        self.refused = self.lost = 0

    @property
    def url(self) -> str:
        """The address of the database by way of the line."""
        host, port = self._listener.getsockname()
        return self._target.set(host=host, port=port).render_as_string(hide_password=False)

    def cut(self, refusals: int = 0) -> None:
        """Break all connections and turn away the next attempts, so many."""
        with self._lock:
            self._to_refuse = max(self._to_refuse, refusals)
            for end in self._open:
                _hang_up(end)

    def lose_the_next_commit(self) -> None:
        """Let the next COMMIT reach the server, and break all connections instead of handing back its reply."""
        self._to_lose = True

    def fall_silent(self) -> None:
        """Accept attempts to connect from now on, and never answer them."""
        self._speaking.clear()

    def wait_for_silenced(self, count: int, longest_s: float) -> bool:
        """Wait until so many attempts to connect were left without an answer."""
        return all(self._silenced.acquire(timeout=longest_s) for _ in range(count))

    def speak_again(self) -> None:
        """Answer again, those that still wait too."""
        self._speaking.set()

    def serve(self) -> None:
        """Connect whoever calls, until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._to_refuse:
                self._to_refuse -= 1
                self.refused += 1
                client.close()
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with self._lock:
            self._open.add(client)
        if not self._speaking.is_set():
            self._silenced.release()
        self._speaking.wait()
        server = socket.create_connection((self._target.host, self._target.port))
        with self._lock:
            self._open.add(server)
        back = threading.Thread(target=self._carry, args=(server, client), daemon=True)
        back.start()
        self._carry(client, server)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        """Hand on what comes from one end to the other, until one of them hangs up."""
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if self._to_lose and b"COMMIT\0" in data:
                    self._to_lose = False
                    self.lost += 1
                    self._deaf.add(source)
                    sink.sendall(data)
                    sink.shutdown(socket.SHUT_WR)  # the server does what it was sent, and then ends the connection
                    return
                if sink not in self._deaf:
                    sink.sendall(data)
        _hang_up(source)
        _hang_up(sink)


class CutAtEach:
    """Failpoints at which the line is cut, each at its first pass, and stays down for longer than one try.

    Args:
        line: the line.
        names: the failpoints.

    Attributes:
        left: those that were not passed yet.
    """

    def __init__(self, line: Line, names: frozenset[Failpoint]) -> None:
        self.line, self.left = line, set(names)

    def __call__(self, name: Failpoint) -> None:
        """Do it, if it is the first pass."""
        if name in self.left:
            self.left.discard(name)
            self.happen()

    def happen(self) -> None:
        """Cut the line."""
        self.line.cut(refusals=2)


class LoseEach(CutAtEach):
    """Failpoints before commits whose replies are lost, each at its first pass."""

    def happen(self) -> None:
        """Lose the reply to the commit that follows."""
        self.line.lose_the_next_commit()


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def a_line_to(target: sa.URL) -> Iterator[Line]:
    """Open a line to a server and close it."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        line = Line(listener, target)
        thread = threading.Thread(target=line.serve, daemon=True)
        thread.start()
        yield line
        line.speak_again()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        line.cut()
