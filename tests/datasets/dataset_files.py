"""Files of cases for the tests of datasets: written and read."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from burnish.core.cases import Case
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


def again(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases after they were written and read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.jsonl"
        write_cases(path, cases)
        return read_cases(path).cases


def check_evalset(tmp_path: Path, whole: Json, name: str = "some.evalset.json") -> CaseFile:
    """The EvalSet, after checking that an export holds all of it."""
    file = read_cases(put(tmp_path, name, json.dumps(whole)))
    assert again(file.cases) == file.cases
    return file


def said(text: str, role: str = "user") -> dict[str, Json]:
    """A message in Python's files."""
    return {"role": role, "parts": [{"text": text}]}
