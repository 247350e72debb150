"""A run resumes under another Python: nothing that differs between versions reaches a key."""

import ast
from functools import cache
from pathlib import Path

import pytest

import burnish
from burnish.core.cases import Case, Dataset
from burnish.core.content import Json, codec, short_id, stream
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Description
from burnish.core.surfaces import Candidate

HOME = Path(burnish.__file__).parent
VERSIONS = {"sys.version", "sys.version_info", "sys.hexversion", "platform.python_version"}
SHOWN = {"runs/directory.py", "models/health.py", "cluster/dask_workers.py"}
"""Where the version of Python is written down for people, or compared with that of a worker."""
SENT = {"pickle": {"cluster/station.py"}}
"""What goes from one process to another of the same version, and into no key."""


@cache
def _sources() -> dict[str, str]:
    paths = sorted(HOME.rglob("*.py"))
    return {str(path.relative_to(HOME)): path.read_text("utf-8") for path in paths}


def _users(*names: str) -> set[str]:
    """The files that use one of these names, among those whose text has it at all."""
    words = {name.rpartition(".")[2].removesuffix("()") for name in names}
    likely = {path: text for path, text in _sources().items() if any(w in text for w in words)}
    return {path for path, text in likely.items() if _names_in(text).intersection(names)}


def _names_in(text: str) -> set[str]:
    """`hash()` if it is called, modules that are imported, attributes of modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                found.add(f"{name}()")
            case ast.Import(names=names):
                found.update(each.name for each in names)
            case ast.ImportFrom(module=str(module)):
                found.add(module)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                found.add(f"{owner}.{name}")
            case _:
                pass
    return found


@pytest.mark.parametrize("banned", ["hash()", "pickle", "marshal", "ast.dump"])
def test_no_file_uses_what_each_python_does_in_its_own_way(banned: str) -> None:
    assert _users(banned) == SENT.get(banned, set())


def test_the_version_of_python_is_only_shown() -> None:
    assert _users(*VERSIONS) == SHOWN


def test_keys_and_streams_are_the_same_under_every_python() -> None:
    """CI runs this under each supported version, and the numbers stay."""
    numbers: list[Json] = [0.1, 1e-9, 3, None, True]
    request: Json = {"text": "größer als 0.1", "numbers": numbers, "nested": {"b": 1}}
    call = Call(kind="run", request=request, codec=codec(str), estimate=NOTHING, draw=2)
    dataset = Dataset(train=(Case.single("a question", expected="an answer", name="q1"),))
    keys = {
        "call": call.key[:16],
        "content": short_id(request),
        "candidate": Candidate(values={"prompt": "Be brief.", "heat": 0.7}).id,
        "target": Description(kind="toy", config={"a": [1, 2.5]}).fingerprint,
        "data": dataset.fingerprint,
        "stream": round(stream(42, "minibatch", 3).random(), 12),
        "order": stream(42, "order").sample(range(100), 5),
    }
    assert keys == {
        "call": "fb31c37ad3587581",
        "content": "b513ee640d9a8d97",
        "candidate": "1584c21152c10903",
        "target": "97b0531736f1c355",
        "data": "9d272a1cb5a7fdc3",
        "stream": 0.504719403696,
        "order": [18, 74, 55, 58, 57],
    }
