"""What keeps a document from being read, and how much of one is read at most."""

MOST_BYTES = 20_000_000
"""Of a file, here or at an address."""
MOST_UNPACKED = 100_000_000
"""Bytes that the parts of an Office file may unpack to; a zip can hold far more than it weighs."""
MOST_CHARACTERS = 10_000_000
"""Of the text of a file: more than any model reads."""


class Unreadable(Exception):
    """Says why a document cannot be read; whoever knows its name makes an error of it."""

    def __init__(self, cause: str, *, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


class Allowance:
    """What may still be taken of something that is bounded."""

    def __init__(self, most: int, *, cause: str, remedy: str) -> None:
        self._left = most
        self._refusal = Unreadable(cause, remedy=remedy)

    def take(self, number: int) -> None:
        """Take some, or refuse the document."""
        self._left -= number
        if self._left < 0:
            raise self._refusal


def allowed_text() -> Allowance:
    """How many characters a document may still give."""
    return Allowance(
        MOST_CHARACTERS,
        cause=f"it holds more than {MOST_CHARACTERS:,} characters",
        remedy="Give the part that matters: `pages`, or `sheet` and `range`, or a shorter file.",
    )


def allowed_unpacking() -> Allowance:
    """How many bytes the parts of an Office file may still unpack to."""
    return Allowance(
        MOST_UNPACKED,
        cause=f"it unpacks to more than {MOST_UNPACKED:,} bytes",
        remedy="Save the part that matters as a file of its own.",
    )


def require_size(size: int) -> None:
    """Refuse what is too big to be read whole."""
    if size > MOST_BYTES:
        raise Unreadable(
            f"it has {size:,} bytes, and {MOST_BYTES:,} is the most",
            remedy="Give the part that matters as a file of its own.",
        )
