"""A proxy before a server, which loses connections when a test wants it to."""

import re
import selectors
import socket
import threading
from contextlib import suppress
from typing import Literal

Loss = Literal["", "request", "answer"]


class Proxy:
    """Passes bytes on. With `loses` set, the next COMMIT is lost with its connection.

    `request`: the server never hears of it. `answer`: it is committed, and the client never hears.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.loses: Loss = ""
        self.lost = 0
        self.away = False
        """While this is set, whoever connects is turned away at once."""
        self.turned_away = threading.Semaphore(0)
        """Released whenever that happens."""
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections and end those that are there."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End every connection, in the middle of whatever it carries."""
        for pair in [*self._pairs]:
            for side in pair:
                _end(side)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connected()
                if server is None:
                    client.close()
                    self.turned_away.release()
                    continue
                pair = (client, server)
                self._pairs.append(pair)
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _connected(self) -> socket.socket | None:
        """A connection to the server, unless one of them is away."""
        with suppress(OSError):
            return None if self.away else socket.create_connection(self._server)
        return None

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while all(self._passed(key) for key, _ in ready.select()):
                pass
        self._pairs.remove((client, server))
        for side in (client, server):
            _end(side)
            side.close()

    def _passed(self, key: selectors.SelectorKey) -> bool:
        source, target = key.fileobj, key.data
        assert isinstance(source, socket.socket)
        content = source.recv(1 << 16)
        if not content or self._loses(content, target):
            return False
        target.sendall(content)
        return True

    def _loses(self, content: bytes, server: socket.socket) -> bool:
        loss = self.loses
        if not loss or not re.search(rb"COMMIT(?!T)", content):
            return False
        self.loses, self.lost = "", self.lost + 1
        if loss == "answer":
            server.sendall(content)
            server.recv(1 << 16)
        return True


def _end(side: socket.socket) -> None:
    """Wake whoever passes bytes on, who closes it: a closed one would wake nobody."""
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
