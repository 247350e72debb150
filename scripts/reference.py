"""Writes docs/reference/ from the code: what the pages say is what the code says.

`make docs` runs it. `pages()` gives the pages without writing them, for the test that checks
whether they are current.
"""

import ast
import enum
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer
from pydantic import BaseModel
from typer.testing import CliRunner

import burnish
import burnish.testing
from burnish.cli.main import app
from burnish.core import errors, protocols
from burnish.core.money import Spend
from burnish.core.stopping import FINISHED, Standing, StopReason
from burnish.effects.budget import Budget
from burnish.projects.limits import Settings
from burnish.projects.settings import (
    DEFAULT_CONCURRENCY,
    DEFAULT_SEED,
    BudgetSettings,
    ProjectFile,
)
from burnish.runs import stoppers, strategy
from burnish.testing.toy_project import ClimbSettings, ToyFile, WorldSettings
from burnish.testing.toy_strategy import Climb
from burnish.testing.toy_world import World

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "docs" / "reference"
WIDTH = 80
MADE = "<!-- Made by scripts/reference.py from the code: run `make docs`, do not edit. -->"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def pages() -> dict[str, str]:
    """Every page by its file name."""
    made = {
        "cli.md": cli(),
        "python.md": python(),
        "project-file.md": project_file(),
        "errors.md": error_tree(),
        "stop-reasons.md": stop_reasons(),
    }
    return {name: f"{MADE}\n\n{body.rstrip()}\n" for name, body in made.items()}


# -- the command line ----------------------------------------------------------------------


def cli() -> str:
    """The help text of every command."""
    parts = ["# The command line", "", "What `--help` says, at a width of 80."]
    for path in _commands(typer.main.get_command(app), ()):
        name = " ".join(("burnish", *path))
        parts += ["", f"## {name}", "", "```text", _help(path), "```"]
    return "\n".join(parts)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*path, name))


def _help(path: Sequence[str]) -> str:
    wide = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    before = dict(os.environ)
    os.environ.update(wide)
    try:
        shown = CliRunner().invoke(app, [*path, "--help"], prog_name="burnish")
    finally:
        os.environ.clear()
        os.environ.update(before)
    lines = _COLOURS.sub("", shown.output).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


# -- Python --------------------------------------------------------------------------------

_EXTENSIONS = (
    *(getattr(protocols, name) for name in ("Target", "Metric", "Role", "Executor")),
    strategy.Strategy,
    protocols.Description,
)


def python() -> str:
    """The public names, the protocols to implement, and the doubles."""
    parts = [
        "# Python",
        "",
        "Every name that `burnish` offers, then the protocols that extensions implement, then",
        "`burnish.testing`. Data classes are frozen and take their fields by keyword only.",
    ]
    for name in burnish.__all__:
        parts += _described(name, getattr(burnish, name))
    parts += ["", "# Protocols", "", "What a target, a metric, a role, a strategy must have."]
    for kind in _EXTENSIONS:
        parts += _described(kind.__name__, kind)
    parts += ["", "# burnish.testing", "", "Doubles and contract tests."]
    for name in burnish.testing.__all__:
        parts += _described(name, getattr(burnish.testing, name))
    return "\n".join(parts)


def _described(name: str, thing: Any) -> list[str]:
    parts = ["", f"## {name}", "", f"`{thing.__module__}.{name}`", ""]
    node = _node(thing.__module__, name)
    if isinstance(node, ast.ClassDef):
        return parts + _class(node, thing)
    return [*parts, "```text", _signature(node), "```", "", _doc(node)]


def _class(node: ast.ClassDef, kind: type[Any]) -> list[str]:
    parts = [_doc(node)]
    if issubclass(kind, enum.Enum):
        return [*parts, "", "Values: " + ", ".join(f"`{member.value}`" for member in kind) + "."]
    fields = list(_fields(kind))
    if fields:
        parts += ["", "| field | type | default | |", "|---|---|---|---|"]
        parts += [_row(f"`{n}`", f"`{t}`", f"`{d}`" if d else "—", doc) for n, t, d, doc in fields]
    below = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
    shown = [m for m in below if not m.name.startswith("_")]
    listed = [f"- `{_member(method)}`: {_one_line(_doc(method))}" for method in shown]
    return [*parts, "", *listed] if listed else parts


def _member(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = {ast.unparse(found) for found in method.decorator_list}
    if decorators & {"property", "cached_property"}:
        return f"{method.name} -> {_shown(method.returns)}"
    return _signature(method).removesuffix(":").removesuffix(": ...")


def _signature(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    asynchronous = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {_shown(node.returns)}" if node.returns else ""
    whole = f"{asynchronous}{node.name}({ast.unparse(node.args)}){returns}"
    return re.sub(r"\((self|cls)(, /)?(, |(?=\)))", "(", whole, count=1)


def _fields(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and docstring of each annotated field, inherited ones first."""
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "burnish":
            yield from _own_fields(base)


def _own_fields(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    body = _node(kind.__module__, kind.__name__).body
    for place, statement in enumerate(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name, written = statement.target.id, _shown(statement.annotation)
        if name.startswith("_") or written.startswith("ClassVar"):
            continue
        default = "" if statement.value is None else _default(statement.value)
        yield name, written, default, _string_after(body, place)


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    factory = re.fullmatch(r"(?:field|Field)\(default_factory=(.*)\)", text)
    if factory is None:
        return text
    if factory[1].startswith("lambda: "):
        return factory[1].removeprefix("lambda: ")
    return f"{factory[1].split('[')[0]}()"


def _string_after(body: Sequence[ast.stmt], place: int) -> str:
    after = body[place + 1] if place + 1 < len(body) else None
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return _one_line(str(after.value.value))
    return ""


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def _node(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return next(n for n in _tree(module).body if isinstance(n, kinds) and n.name == name)


def _doc(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ast.get_docstring(node) or ""


def _shown(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return "" if annotation is None else ast.unparse(annotation)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells).rstrip() + " |"


# -- the project file ----------------------------------------------------------------------


def project_file() -> str:
    """The keys of a project file."""
    parts = [
        "# The project file",
        "",
        "YAML or JSON. Unknown keys are refused, with the nearest known key named. A limit on",
        "the command line comes before the file, the file before the environment",
        "(`BURNISH_MAX_TRIALS` and so on), the environment before the default.",
        "",
        "## Every project file",
        "",
        _doc(_node(ProjectFile.__module__, "ProjectFile")),
        *_keys(ProjectFile),
        "",
        f"Where nobody says otherwise, `seed` is {DEFAULT_SEED} and `concurrency`, the cases run",
        f"at once, is {DEFAULT_CONCURRENCY}.",
        "",
        "## budget",
        "",
        _doc(_node(BudgetSettings.__module__, "BudgetSettings")),
        *_keys(BudgetSettings, {code: when for code, when, _ in _REASONS}),
        "",
        "## kind: toy",
        "",
        "The scripted world of `make demo`: every call is a function of its key, so it costs",
        "nothing and needs no network. It adds two blocks.",
    ]
    blocks = (("world", WorldSettings, World), ("strategy", ClimbSettings, Climb))
    for name, model, behind in blocks:
        assert name in ToyFile.model_fields
        doc = _doc(_node(model.__module__, model.__name__))
        parts += ["", f"### {name}", "", doc, *_keys(model, _field_docs(behind))]
    return "\n".join(parts)


def _keys(model: type[Settings], known: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The keys of a block; what it does not say of a field itself is `known` from elsewhere."""
    rows = ["", "| key | value | default | |", "|---|---|---|---|"]
    for name, written, _, doc in _fields(model):
        info = model.model_fields[name]
        kind = _kind(info.annotation, written)
        bounds = _bounds(info.metadata) or _bounds_inside(info.annotation)
        shown = "required" if info.is_required() else _value(info.get_default())
        if info.default_factory is not None:
            shown = "—"
        words = " ".join(part for part in (kind, bounds) if part)
        rows.append(_row(f"`{name}`", words, shown, doc or known.get(name, "")))
    return rows


def _field_docs(kind: type[Any]) -> dict[str, str]:
    return {name: doc for name, _, _, doc in _fields(kind)}


def _kind(annotation: Any, written: str) -> str:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "a block, see below"
    names = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}
    if written.startswith("tuple"):
        return "list of texts"
    if written.startswith("Literal"):
        return written.removeprefix("Literal[").removesuffix("]").replace("'", "`")
    plain = str(annotation)
    return next((words for name, words in names.items() if re.search(rf"\b{name}\b", plain)), plain)


def _bounds(metadata: Sequence[Any]) -> str:
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    found = [
        f"{sign} {getattr(constraint, name):g}"
        for part in metadata
        for constraint in (part, *getattr(part, "metadata", ()))
        for name, sign in signs
        if getattr(constraint, name, None) is not None
    ]
    return ", ".join(dict.fromkeys(found))


def _bounds_inside(annotation: Any) -> str:
    """The bounds of the number in an optional one."""
    parts = (getattr(part, "__metadata__", ()) for part in getattr(annotation, "__args__", ()))
    return next((bounds for part in parts if (bounds := _bounds(part))), "")


def _value(value: object) -> str:
    return "—" if value is None or value == () else f"`{value}`"


# -- errors --------------------------------------------------------------------------------


def error_tree() -> str:
    """The error tree, and what each error means for a program."""
    tree = (inspect.getdoc(errors) or "").split("\n\n", 1)[1]
    parts = [
        "# Errors",
        "",
        "Every error that burnish raises on purpose. Each says what was wrong and, in `remedy`,",
        "what to do next. At the command line it is one message and an exit code.",
        "",
        "```text",
        tree,
        "```",
        "",
        "| error | exit code | |",
        "|---|---|---|",
    ]
    for node in _tree(errors.__name__).body:
        kind = getattr(errors, node.name) if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and kind is not None and issubclass(kind, Exception):
            code: int = getattr(kind, "exit_code", 1)
            parts.append(_row(f"`{node.name}`", str(code), _one_line(_doc(node))))
    return "\n".join(parts)


# -- stop reasons --------------------------------------------------------------------------


def _spends(budget: Budget, spent: Spend) -> Callable[[], StopReason | None]:
    return lambda: budget.spend_limit(spent)


def _stands(budget: Budget, standing: Standing) -> Callable[[], StopReason | None]:
    return lambda: next(iter(stoppers.pure_stoppers(budget)))(standing)


_NANO = 10**9
_REASONS: tuple[tuple[str, str, Callable[[], StopReason | None]], ...] = (
    ("finished", "The strategy had nothing left to try. No limit was met.", lambda: FINISHED),
    (
        "max_trials",
        "Trials, the baseline not counted.",
        _stands(Budget(max_trials=60), Standing(trials=60)),
    ),
    (
        "max_proposals",
        "Answers of proposing roles.",
        _stands(Budget(max_proposals=20), Standing(proposals=20)),
    ),
    (
        "max_tracked_candidates",
        "Candidates accepted, the baseline counted.",
        _stands(Budget(max_tracked_candidates=5), Standing(tracked_candidates=5)),
    ),
    (
        "patience",
        "Trials in a row without an accept.",
        _stands(Budget(patience=8), Standing(since_accept=8)),
    ),
    (
        "score_threshold",
        "The incumbent's score on the split that decides is good enough.",
        _stands(Budget(score_threshold=0.9), Standing(best_score=0.92)),
    ),
    (
        "required_metrics",
        "The incumbent passes these metrics on every case.",
        _stands(Budget(required_metrics=("exact",)), Standing(best_passing={"exact": True})),
    ),
    (
        "max_metric_calls",
        "Cases run.",
        _spends(Budget(max_metric_calls=500), Spend(metric_calls=500)),
    ),
    (
        "max_calls",
        "Paid calls of any kind: agent, judge, proposer.",
        _spends(Budget(max_calls=800), Spend(calls=800)),
    ),
    ("max_tokens", "Tokens in both directions.", _spends(Budget(max_tokens=9), Spend(tokens_in=9))),
    ("max_usd", "US dollars.", _spends(Budget(max_usd=2), Spend(nano_usd=2 * _NANO))),
    (
        "price_unknown",
        "USD are limited, and a call came back without a price.",
        _spends(Budget(max_usd=2), Spend(calls=3, unpriced=3)),
    ),
    (
        "max_minutes",
        "Minutes of active time, all sessions together.",
        stoppers.out_of_time(10, lambda: 660).look,
    ),
    (
        "stop_file",
        "Somebody made the file `optimize.stop` in the run's folder.",
        lambda: StopReason(code="stop_file", detail="…/optimize.stop exists"),
    ),
    (
        "signal",
        "Ctrl-C or SIGTERM. The only one that ends with exit code 2.",
        lambda: StopReason(code="signal", detail="asked to stop by a signal"),
    ),
)


def stop_reasons() -> str:
    """Every reason code, with the sentence that comes with it."""
    known = {code for code, _, _ in _REASONS}
    written = set(_codes_in_source())
    if written != known:
        raise SystemExit(f"stop reasons to describe, or to forget: {sorted(written ^ known)}")
    parts = [
        "# Stop reasons",
        "",
        "Why a run ended: a stable code for programs, a sentence for people. Limits are looked at",
        "before a trial is begun; a trial under way is finished.",
        "",
        "| code | when | an example of the sentence |",
        "|---|---|---|",
    ]
    for code, when, show in _REASONS:
        reason = show()
        if reason is None or reason.code != code:
            raise SystemExit(f"the example of '{code}' does not give that reason")
        parts.append(_row(f"`{code}`", when, reason.detail))
    asked = stoppers.asked_by("nightly window", lambda: True).look()
    assert asked is not None
    label = "*your label*"
    parts.append(_row(label, "A callable of `Setup.stop_callbacks` gave True.", asked.detail))
    return "\n".join(parts)


def _codes_in_source() -> Iterator[str]:
    """The codes that the code writes down: in stop reasons, limits and counters."""
    yield FINISHED.code
    limits = {name for name in Budget.__dataclass_fields__ if name.startswith("max_")}
    yield from limits
    for path in sorted((ROOT / "src" / "burnish").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            first: list[ast.expr] = []
            if node.func.id == "StopReason":
                first = [word.value for word in node.keywords if word.arg == "code"]
            elif node.func.id == "at_most":
                first = node.args[:1]
            yield from (str(v.value) for v in first if isinstance(v, ast.Constant))


def main() -> None:
    """Write the pages that differ."""
    HOME.mkdir(parents=True, exist_ok=True)
    made = pages()
    for name, text in made.items():
        path = HOME / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    for extra in sorted({path.name for path in HOME.glob("*.md")} - set(made)):
        sys.exit(f"{HOME / extra} is not made by this script: remove it")


if __name__ == "__main__":
    main()
