"""Reading the files of a finished delegation, one of ours or one of awp-agents."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn, cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.system import read_bytes

COMPLETION, MANIFEST = "run_completion.json", "run_manifest.json"


def read_json(path: Path) -> Json:
    """What a JSON file says; None where there is no file. Raises where it cannot be read."""
    if not path.exists():
        return None
    try:
        return _parsed(read_bytes(path))
    except ValueError as error:
        raise FileTrouble(
            f"{path} is damaged: {error}", remedy="restore it, or refine another run"
        ) from error


def json_rows(path: Path) -> Iterator[Mapping[str, Json]]:
    """The lines that are JSON objects; a torn one at the end of a killed run is left out."""
    if not path.is_file():
        return
    for line in read_bytes(path).splitlines():
        try:
            row = _parsed(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def mapping(value: Json) -> Mapping[str, Json]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: Json) -> list[Mapping[str, Json]]:
    """The objects of a list, where it is one."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def text(value: Json) -> str:
    """The value where it is a text, else an empty one; half characters cannot be written again."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def run_id_in(completion: Mapping[str, Json], run: Path) -> str:
    """What the run is called; its folder's name where it says nothing that could be one."""
    told = text(completion.get("run_id"))
    return told if told and Path(told).name == told else run.name


def number(value: Json) -> float | None:
    """The value where it is a number that counts; the infinities are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _parsed(content: bytes) -> Json:
    return cast("Json", json.loads(content, parse_constant=_refused))


def _refused(name: str) -> NoReturn:
    """NaN compares with nothing: a run that says it has said nothing that could be improved."""
    raise ValueError(f"{name} is no number")
