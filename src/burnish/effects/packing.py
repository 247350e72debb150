"""How journal values lie in rows: JSON, compressed above 2 kB, elsewhere above 256 kB."""

import hashlib
import zlib
from pathlib import Path
from typing import Protocol

from burnish.core.errors import JournalTrouble
from burnish.system import write_atomic

COMPRESS_ABOVE = 2 * 1024
FILE_ABOVE = 256 * 1024

_PLAIN, _ZIPPED, _ELSEWHERE = b"j", b"z", b"f"


class Blobs(Protocol):
    """Where values lie that are too large for a row."""

    def keep(self, name: str, content: bytes) -> None:
        """Keep it; it is there no later than any row that is written after this."""
        ...

    def fetch(self, name: str) -> bytes:
        """What was kept; OSError where it is gone."""
        ...


class FolderBlobs:
    """One file a value."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def keep(self, name: str, content: bytes) -> None:
        """Write the file unless it is there; on disk when this returns."""
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            write_atomic(path, content)

    def fetch(self, name: str) -> bytes:
        """Read the file."""
        return (self.folder / name).read_bytes()


class Packing:
    """Packs bytes into what a row holds, and back; large values go to the blobs."""

    def __init__(self, blobs: Path | Blobs) -> None:
        self._blobs = FolderBlobs(blobs) if isinstance(blobs, Path) else blobs

    def pack(self, content: bytes) -> bytes:
        """What the row holds. A large value is kept no later than that row."""
        if len(content) <= COMPRESS_ABOVE:
            return _PLAIN + content
        zipped = zlib.compress(content, 1)
        if len(zipped) <= FILE_ABOVE:
            return _ZIPPED + zipped
        name = hashlib.sha256(content).hexdigest()
        self._blobs.keep(name, zipped)
        return _ELSEWHERE + name.encode()

    def unpack(self, packed: bytes) -> bytes:
        """What `pack` was given."""
        tag, rest = packed[:1], packed[1:]
        try:
            if tag == _PLAIN:
                return rest
            if tag == _ZIPPED:
                return zlib.decompress(rest)
            return zlib.decompress(self._blobs.fetch(rest.decode()))
        except (OSError, zlib.error, UnicodeDecodeError) as error:
            raise JournalTrouble(
                f"a value of the journal cannot be read: {error}",
                remedy=f"restore {self._blobs} from a backup, or start a new run",
            ) from error
