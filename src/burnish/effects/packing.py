"""How journal values lie on disk: JSON, compressed above 2 kB, in a file above 256 kB."""

import hashlib
import zlib
from pathlib import Path

from burnish.core.errors import JournalTrouble
from burnish.system import write_atomic

COMPRESS_ABOVE = 2 * 1024
FILE_ABOVE = 256 * 1024

_PLAIN, _ZIPPED, _IN_FILE = b"j", b"z", b"f"


class Packing:
    """Packs bytes into what a row holds, and back; large values go to `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pack(self, content: bytes) -> bytes:
        """What the row holds. A value for a file is on disk before this returns."""
        if len(content) <= COMPRESS_ABOVE:
            return _PLAIN + content
        zipped = zlib.compress(content, 1)
        if len(zipped) <= FILE_ABOVE:
            return _ZIPPED + zipped
        name = hashlib.sha256(content).hexdigest()
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            write_atomic(path, zipped)
        return _IN_FILE + name.encode()

    def unpack(self, packed: bytes) -> bytes:
        """What `pack` was given."""
        tag, rest = packed[:1], packed[1:]
        try:
            if tag == _PLAIN:
                return rest
            if tag == _ZIPPED:
                return zlib.decompress(rest)
            return zlib.decompress((self.folder / rest.decode()).read_bytes())
        except (OSError, zlib.error, UnicodeDecodeError) as error:
            raise JournalTrouble(
                f"a value of the journal cannot be read: {error}",
                remedy=f"restore {self.folder} from a backup, or start a new run",
            ) from error
