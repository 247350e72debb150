"""Mutants of a file: bytes, tokens, lines and values in the wrong place, all from one seed."""

import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast
from zipfile import ZIP_DEFLATED, ZipFile

_TOKENS: tuple[bytes, ...] = (
    *(b"[" * 600, b"{" * 600, b"- " * 400, b"? " * 300, b'{"a":' * 300, b"[" * 90 + b"]" * 90),
    *(b"&a ", b"*a", b"<<: *a\n", b"&a [*a]", b"!!python/object:os.system ", b"!!set ", b"!!int x"),
    *(
        b"!!binary AA",
        b"!!timestamp 9",
        b"%YAML 9.9\n---\n",
        b"---\n",
        b"...\n",
        b"\t",
        b": ",
        b"|\n",
    ),
    *(
        b"9" * 5000,
        b"-1",
        b"0",
        b"1e999",
        b"-0.0",
        b"NaN",
        b"Infinity",
        b".inf",
        b".nan",
        b"0x" + b"f" * 900,
    ),
    *(
        b"1" * 400,
        b"2001-99-99",
        b"null",
        b"true",
        b"~",
        b"''",
        b'""',
        b"'",
        b'"',
        b"`",
        b"\\",
        b"\\ud800",
    ),
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xe2\x80\xa8",
        b"\x1b[2J",
        b"\r",
        b"\r\n",
        b"\n\n",
    ),
    *(b"${HOME}", b"${", b"{{input}}", b"../../../etc/passwd", b"/dev/zero", b"file:///etc/passwd"),
    *(
        b"(a+)+$",
        b"[",
        b"(?P<x",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]>&a;",
        b"<a>" * 400,
        b"]]>",
        b"%PDF-1.7",
    ),
    *(b",", b";", b"=", b"A" * 70000, b"\xf0\x9f\x98\x80", b"__proto__", b"x" * 300 + b": 1\n"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**30, 1e308, "", "x", "\0", "\ud800", "\u2028", "${HOME}"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, ["x"] * 50, "../../x", "a:b", "9" * 400),
    *("(a+)+$", "{", "1", "-1", "1e999", "nan"),
)


def mutants(seeds: Sequence[bytes], *, seed: str, count: int) -> Iterator[bytes]:
    """Mutants of the seeds; the same arguments give the same ones."""
    rng = random.Random(seed)
    for _ in range(count):
        content = rng.choice(seeds)
        if content.startswith(b"PK") and rng.random() < 0.7:
            yield _repacked(content, rng)
            continue
        yield _changed(content, rng, seeds)


def _changed(content: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(_CHANGES)(content, rng, seeds)
    return content[:200_000]


def _repacked(content: bytes, rng: random.Random) -> bytes:
    """An archive with mutants of some of its parts."""
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(content)) as old, ZipFile(buffer, "w", ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = rng.sample(names, k=rng.randint(1, min(2, len(names))))
        for name in names:
            body = old.read(name)
            if name in chosen and rng.random() < 0.1:
                continue
            new.writestr(name, _changed(body, rng, [body]) if name in chosen else body)
    return buffer.getvalue()


def _place(content: bytes, rng: random.Random) -> int:
    return rng.randrange(len(content) + 1)


def _flip(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(content or b"x")
    for _flipped in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start = _place(content, rng)
    return content[:start] + content[start + rng.choice((1, 5, 40, 10**9)) :]


def _repeat(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start = _place(content, rng)
    piece = content[start : start + rng.choice((1, 3, 20, 200))]
    return content[:start] + piece * rng.choice((2, 3, 300)) + content[start:]


def _insert(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    start = _place(content, rng)
    return content[:start] + rng.choice(_TOKENS) + content[start:]


def _line(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    """A line more, less, elsewhere, or with another end."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    line = lines.pop(at)
    head, colon, _rest = line.partition(b":")
    token = rng.choice(_TOKENS)
    replacements: tuple[list[bytes], ...] = (
        [],
        [line, line],
        [b"  " + line],
        [line.lstrip()],
        [head + colon + b" " + token],
    )
    lines[at:at] = rng.choice(replacements)
    if rng.random() < 0.2:
        rng.shuffle(lines)
    return b"\n".join(lines)


def _splice(content: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return content[: _place(content, rng)] + other[_place(other, rng) :]


def _recode(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(rng.choice(("utf-16", "utf-16-be", "latin-1", "utf-7")), "replace")


def _value(content: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    """Where it is JSON, another value in some place; a key that is gone, or new."""
    try:
        tree: Any = json.loads(content)
    except (ValueError, RecursionError):
        return _line(content, rng, ())
    places = list(_places(tree))
    if not places:
        return json.dumps(rng.choice(_VALUES)).encode()
    holder, key = rng.choice(places)
    action = rng.randrange(4)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        cast("dict[Any, Any]", holder)[str(rng.choice(_VALUES))] = holder[key]
    elif action == 2:
        other, name = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[name])) if name in _keys(other) else None
    else:
        holder[key] = rng.choice(_VALUES)
    return json.dumps(tree).encode()


def _keys(node: Any) -> Any:
    return cast("Any", node) if isinstance(node, dict) else range(len(node))


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(_keys(node)) if isinstance(node, dict | list) else ():
        yield node, key
        yield from _places(node[key])


_Change = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
_CHANGES: tuple[_Change, ...] = (
    *(
        _flip,
        _cut,
        _repeat,
        _insert,
        _insert,
        _line,
        _line,
        _value,
        _value,
        _value,
        _splice,
        _recode,
    ),
)
