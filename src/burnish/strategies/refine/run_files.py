"""Reading the files of a finished delegation, one of ours or one of awp-agents."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.system import read_bytes


def read_json(path: Path) -> Json:
    """What a JSON file says; None where there is no file. Raises where it cannot be read."""
    if not path.exists():
        return None
    try:
        return cast("Json", json.loads(read_bytes(path)))
    except ValueError as error:
        raise FileTrouble(
            f"{path} is damaged: {error}", remedy="restore it, or refine another run"
        ) from error


def mapping(value: Json) -> Mapping[str, Json]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: Json) -> str:
    """The value where it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def number(value: Json) -> float | None:
    """The value where it is a number that counts; NaN and the infinities are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
