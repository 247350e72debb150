"""Files of cases for the tests of datasets: written, read, and read again."""

import json
import tempfile
from pathlib import Path

import pytest

from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.formats import read_cases, write_cases


def put(folder: Path, name: str, content: str | bytes) -> Path:
    """A file with this content."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problems(path: Path) -> list[str]:
    """Everything that is wrong with a file."""
    with pytest.raises(ConfigError) as caught:
        read_cases(path)
    return [str(problem) for problem in caught.value.problems]


def again(file: CaseFile, name: str) -> CaseFile:
    """The file after it was written and read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_cases(path, file)
        return read_cases(path)


def check_evalset(tmp_path: Path, whole: Json, name: str = "some.evalset.json") -> CaseFile:
    """The EvalSet, after checking that writing gives the very same JSON."""
    file = read_cases(put(tmp_path, name, json.dumps(whole)))
    copy = tmp_path / f"copy.{name}"
    write_cases(copy, file)
    assert json.loads(copy.read_text("utf-8")) == whole
    assert read_cases(copy) == file
    return file


def said(text: str, role: str = "user") -> dict[str, Json]:
    """A message in Python's files."""
    return {"role": role, "parts": [{"text": text}]}
