"""What a folder holds, by content: to see whether two deliverables are the same."""

import hashlib
from pathlib import Path


def digests(folder: Path) -> dict[str, str]:
    """A digest of every file, by its path."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = digest
    return found
