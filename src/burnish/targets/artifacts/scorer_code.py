"""What the text of runners and scorers shows: files that are missing, artifacts that they run."""

import ast
import importlib.util
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from burnish.system.workspaces.paths import path_problem
from burnish.targets.artifacts.task import Scoring

_SCRIPTS = frozenset((".py", ".sh", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".php", ".lua"))
_COMPILED = frozenset((".c", ".cc", ".cpp", ".rs", ".go", ".java", ".kt", ".swift", ".jl", ".r"))
CODE = _SCRIPTS | _COMPILED
"""The types of files whose content runs."""
_STARTS_CODE = re.compile(
    r"\b(subprocess|Popen|os\.system|exec\w*|eval|runpy|importlib|__import__|spawn\w*|require)\b"
)
_INTERPRETER = re.compile(r"^(python[\d.]*|pypy[\d.]*|(ba|z)?sh|node|deno|bun|ruby|perl|php|lua)$")
_MODULE = re.compile(r"^[A-Za-z_][\w.]*$")


def missing_script(command: str, folder: Path) -> str:
    """The script or program of the task that a command starts, if it is not there; else empty.

    Only the first of several joined commands is read: an earlier one may make what a later needs.
    """
    first = re.split(r"&&|\|\||[;|\n]", command)[0]
    program, *others = _words(first) or [""]
    scripts = [word for word in others if PurePosixPath(word).suffix in _SCRIPTS]
    started = [program] if "/" in program else []
    if _INTERPRETER.match(program) and not {"-c", "-e"} & {*others}:
        started += scripts[:1]
    for word in started:
        is_local = not path_problem(word.removeprefix("./")) and not set("$*?{}=<>`") & set(word)
        if is_local and not (folder / word).exists():
            return word
    return ""


def function_problem(reference: str, folder: Path) -> str:
    """Why a scorer `module:function` cannot be called; empty if nothing speaks against it."""
    module, _, name = reference.partition(":")
    path = _module_path(module, folder)
    if path is None:
        top = module.split(".")[0]
        local = (folder / top).is_dir() or (folder / f"{top}.py").is_file()
        if local or importlib.util.find_spec(top) is None:
            return f"there is no module '{module}' in the folder of the task file"
        return ""
    try:
        tree = ast.parse((folder / path).read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        return f"{path} is not valid Python: {error}"
    names = set(_bound_names(tree))
    return "" if {name, "*"} & names else f"{path} has no function '{name}'"


def artifacts_run_by(scoring: Scoring, folder: Path, artifacts: Collection[str]) -> list[str]:
    """The artifacts whose code a scorer imports or starts in its own process, or may start.

    Nobody can tell for sure without running it: if a command starts no script of the task (such
    as `make score`), every artifact with code counts.
    """
    code = [path for path in artifacts if PurePosixPath(path).suffix in CODE]
    if scoring.kind == "metrics" or not code:
        return []
    starts = list(_started(scoring, folder))
    if not starts:
        return code
    reading = _Reading(folder=folder, artifacts=code)
    return sorted({*reading.reached(starts)} & {*code})


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """Follows imports from the scorer's own files."""

    folder: Path
    artifacts: Sequence[str]

    def reached(self, starts: Sequence[str]) -> set[str]:
        """The files of the task that these import or start, and themselves."""
        reached: set[str] = set()
        todo = list(starts)
        while todo:
            path = todo.pop()
            if path in reached:
                continue
            reached.add(path)
            if path not in self.artifacts:
                todo += self._next(path)
        return reached

    def _next(self, path: str) -> Iterator[str]:
        text = (self.folder / path).read_text(encoding="utf-8", errors="replace")
        if path.endswith(".py"):
            for module in _imported(text):
                for place in (self.folder, (self.folder / path).parent):
                    if (found := _module_path(module, place)) is not None:
                        yield (place / found).relative_to(self.folder).as_posix()
        if _STARTS_CODE.search(text) or not path.endswith(".py"):
            for artifact in self.artifacts:
                name = PurePosixPath(artifact)
                if re.search(rf"{re.escape(name.name)}|[\"']{re.escape(name.stem)}[\"']", text):
                    yield artifact


def import_folders(scoring: Scoring, folder: Path) -> set[str]:
    """The folders of the task, from its own, in which a scorer looks for modules of Python."""
    if scoring.kind == "metrics":
        return set()
    starts = set(_started(scoring, folder))
    folders = {PurePosixPath(path).parent.as_posix() for path in starts if path.endswith(".py")}
    is_module = scoring.kind == "python" or "-m" in _words(scoring.command)
    return folders | {"."} if is_module or not starts else folders


def _started(scoring: Scoring, folder: Path) -> Iterator[str]:
    """The files of the task that the scorer starts with."""
    if scoring.kind == "python":
        path = _module_path(scoring.function.partition(":")[0], folder)
        if path is not None:
            yield path
        return
    for word in _words(scoring.command):
        plain = word.removeprefix("./").rstrip("/")
        if (folder / plain).is_dir() and plain not in ("", "."):
            inside = (path for path in (folder / plain).rglob("*.py") if path.is_file())
            yield from (path.relative_to(folder).as_posix() for path in inside)
        elif plain and (folder / plain).is_file() and PurePosixPath(plain).suffix in _SCRIPTS:
            yield plain
        elif (found := _module_path(plain, folder)) is not None:
            yield found


def _module_path(module: str, folder: Path) -> str | None:
    if not _MODULE.match(module):
        return None
    stem = module.replace(".", "/")
    paths = (f"{stem}.py", f"{stem}/__init__.py")
    return next((path for path in paths if (folder / path).is_file()), None)


def _imported(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case _:
                pass


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote without an end, which may be right for the shell
        return []
