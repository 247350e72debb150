"""What a command writes, kept within a bound: the head, the tail, and how much was between."""

import codecs


class Capture:
    """Takes in any amount of bytes and keeps at most `cap` of them."""

    def __init__(self, cap: int) -> None:
        self.total = 0
        self._cap = max(2, cap)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, part: bytes) -> None:
        """Take in what was written next."""
        self.total += len(part)
        room = self._cap - self._cap // 2 - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        # Cut now and then only: cutting each time would copy the tail for every part.
        if len(self._tail) > 4 * self._cap:
            del self._tail[: -(self._cap // 2)]

    @property
    def left_out(self) -> int:
        """How many bytes are not kept."""
        return max(0, self.total - self._cap)

    def text(self) -> str:
        """What is kept, as UTF-8 with a mark in the place of the rest."""
        if not self.left_out:
            return bytes(self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[-(self._cap // 2) :])
        # A character that the cut went through is left out, not turned into a false one.
        begin = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        mark = f"\n[… {self.left_out:,} bytes left out …]\n"
        return head + mark + tail[begin:].decode(errors="replace")
