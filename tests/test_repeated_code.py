"""No ten lines of the same shape stand twice outside the tests.

The shape of a line is its tokens with names, numbers and texts made equal. Imports, signatures,
blank lines, comments and docstrings do not count: they declare, and have no logic.
"""

import ast
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "scripts", "benchmarks")
LENGTH = 10
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""The text around the braces of an f-string is a token of its own from Python 3.12 on."""


def test_no_ten_lines_of_one_shape_stand_twice() -> None:
    assert repeated(python_files()) == []


def test_renamed_copies_are_noticed(tmp_path: Path) -> None:
    lines = [
        "def total(rows, limit=3):",
        "    value = [row for row in rows if row.size > limit]",
        "    if not value:",
        '        raise ValueError(f"none of {len(rows)} rows")',
        "    first, *others = value",
        "    for row in others:",
        "        first = first + row.size * limit",
        "    with open(first.name) as file:",
        "        text = file.read().strip()",
        "    return text, first, value[0] if text else None",
        "print(total([], limit=1), sep='')",
    ]
    copy = [line.replace("value", "large").replace("row", "cell") for line in lines]
    (tmp_path / "a.py").write_text("\n".join(lines))
    (tmp_path / "b.py").write_text("import os\n\n" + "\n".join(copy))
    places = repeated([tmp_path / "a.py", tmp_path / "b.py"])
    assert places == [f"{tmp_path / 'a.py'}:2 and {tmp_path / 'b.py'}:4, 10 lines"]


def python_files() -> list[Path]:
    return sorted(
        file
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        if "starter" not in file.parts
    )


def repeated(files: list[Path]) -> list[str]:
    """Each pair of places with ten or more lines of one shape, the longest run of each once."""
    shapes = {file: list(code_shapes(file)) for file in files}
    windows: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for file, lines in shapes.items():
        for start in range(len(lines) - LENGTH + 1):
            window = tuple(shape for _, shape in lines[start : start + LENGTH])
            if worth_comparing(window):
                windows[window].append((file, start))
    pairs_of_places = {
        (places[0], place)
        for places in windows.values()
        for place in places[1:]
        if place[0] != places[0][0] or place[1] >= places[0][1] + LENGTH
    }
    pairs: list[str] = []
    for (a, i), (b, j) in sorted(pairs_of_places):
        if ((a, i - 1), (b, j - 1)) in pairs_of_places:
            continue
        length = LENGTH
        while ((a, i + length - LENGTH + 1), (b, j + length - LENGTH + 1)) in pairs_of_places:
            length += 1
        pairs.append(f"{a}:{shapes[a][i][0]} and {b}:{shapes[b][j][0]}, {length} lines")
    return pairs


def worth_comparing(window: tuple[str, ...]) -> bool:
    """Whether lines are logic: not a table of entries, of fields, or of closing brackets."""
    return len(set(window)) > LENGTH // 2 and sum(len(shape.split()) > 3 for shape in window) > 4


def code_shapes(file: Path) -> Iterator[tuple[int, str]]:
    """The line number and the shape of every line of code."""
    source = file.read_text()
    skipped = uncounted(ast.parse(source))
    lines: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start[0] not in skipped and token.string.strip():
            lines[token.start[0]].append(token_shape(token))
    for number in sorted(lines):
        if shape := " ".join(part for part in lines[number] if part):
            yield number, shape


def uncounted(tree: ast.Module) -> set[int]:
    """The lines of imports, docstrings and signatures."""
    numbers: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers |= set(range(node.lineno, node.body[0].lineno))
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
            continue
        if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Constant):
            numbers |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return numbers


def token_shape(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.COMMENT:
        return ""
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "name"
    if token.type == tokenize.NUMBER:
        return "0"
    if token.type in STRINGS:
        return "text"
    return token.string
