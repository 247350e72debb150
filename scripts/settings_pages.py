"""The pages of settings: every field of a run with its doors, and the keys of each kind of file."""

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any

from file_pages import dialects, page_name, usual
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from source_reading import row

from burnish.projects.description import Doors, role_fields
from burnish.runs.plugins import STRATEGIES, TARGETS, StrategyPlugin, strategy_plugin, target_plugin
from burnish.runs.spec import BudgetSpec
from burnish.system.settings import SettingField, Settings, plain_type, setting_fields

_FIELDS = ("", "| setting | flag | variable | HTTP | default | |", "|---|---|---|---|---|---|")
_OURS = "burnish."


# -- every field of a run --------------------------------------------------------------------


def settings() -> str:
    """Every field of the description of a run, and where it may be set."""
    parts = [
        "# Settings",
        "",
        "A run is described by one set of fields, whatever it was started with; `run.json` in its",
        "folder keeps them. `--set` reaches each by its path (`--set budget.max_usd=2`), settings",
        "of the strategy by their name alone (`--set max_cycles=2`). Those with a flag can be set",
        "by it, most of them by a variable too, and those marked under HTTP by a client of the",
        "service: `client` freely, `limit` up to the operator's value, `ceiling` up to that or the",
        "default, `dataset` as the name of an upload, `model` and `code` if the operator allows",
        "the name. A flag comes before the file, the file before the variable, the variable before",
        "the default.",
        "",
        "## Every run",
        *_rows(_shared(Doors.of_any_run())),
    ]
    for name in _installed(TARGETS):
        plugin = target_plugin(name)
        fields = [
            each for each in setting_fields(plugin.Spec, ("target",)) if each.path[1] != "kind"
        ]
        if fields:
            parts += ["", f"## Target: {name}", "", _doc(plugin.Spec), *_rows(fields)]
    for name in _installed(STRATEGIES):
        plugin = strategy_plugin(name)
        fields = [*_own(plugin)]
        parts += ["", f"## Strategy: {name}", "", _doc(plugin.Settings), *_rows(fields)]
    return "\n".join(parts)


def _installed(group: str) -> list[str]:
    """What burnish itself brings, by name."""
    return sorted(each.name for each in entry_points(group=group) if each.value.startswith(_OURS))


def _shared(doors: Doors) -> Iterator[SettingField]:
    """What every run has, whatever it is about; where it was read is no setting."""
    for field in setting_fields(doors.model):
        if field.path[0] not in ("source", "target") and field.path[:2] != ("strategy", "settings"):
            yield field


def _own(plugin: StrategyPlugin) -> Iterator[SettingField]:
    yield from setting_fields(plugin.Settings, ("strategy", "settings"))
    yield from role_fields(plugin)


def _rows(fields: Iterator[SettingField] | Sequence[SettingField]) -> list[str]:
    rows = [*_FIELDS]
    for field in fields:
        if not field.door.file:
            continue
        flags = " ".join(f"`{each}`" for each in field.flags) if field.name else ""
        variable = f"`{field.variable}`" if field.name and field.door.environment else ""
        is_open = field.door.http.value if field.http_name else ""
        path = f"`{'.'.join(field.path)}`"
        default = "—" if field.path[0] == "roles" else _default(field.info)
        rows.append(row(path, flags, variable, is_open, default, field.help))
    return rows


# -- the kinds of files ----------------------------------------------------------------------


def project_file() -> str:
    """What all kinds of files share, and where the keys of each kind are."""
    parts = [
        "# The project file",
        "",
        "YAML or JSON. Unknown keys are refused, with the nearest known key named. Every key sets",
        "a field of the run; [Settings](settings.md) has them all, with their flags. Beside its",
        "own keys a file may have a block named after a strategy, with the settings of that",
        "strategy, and a key named after each role (`critic: openai:gpt-4o`).",
        "",
        "| kind | what it is |",
        "|---|---|",
        *(
            row(f"[`{each.kind}`]({page_name(each.kind)})", f"{_doc(type(each))} {usual(each)}")
            for each in dialects()
        ),
        "",
        "## budget",
        "",
        _doc(BudgetSpec),
        "",
        "| key | value | default | |",
        "|---|---|---|---|",
    ]
    for field in setting_fields(BudgetSpec):
        kind = _kind(field.info)
        parts.append(row(f"`{field.path[0]}`", kind, _default(field.info), field.help))
    return "\n".join(parts)


# -- words for types and values --------------------------------------------------------------


def _doc(kind: type[Any]) -> str:
    """The first paragraph of what a class says of itself."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _kind(info: FieldInfo) -> str:
    """What stands there, and between which bounds."""
    inner = plain_type(info.annotation)
    words = _type_words(inner, str(info.annotation))
    bounds = _bounds(info.metadata) or _bounds_inside(info.annotation)
    return f"{words} {bounds}".strip()


def _type_words(inner: object, written: str) -> str:
    if inspect.isclass(inner) and issubclass(inner, Settings):
        return "a block"
    origin = getattr(inner, "__origin__", None)
    if origin is dict:
        return "a block"
    if origin in (list, tuple):
        return "a list"
    if "Literal[" in written:
        values = re.findall(r"'([^']*)'", written)
        return " or ".join(f"`{value}`" for value in values)
    names = {"bool": "true or false", "int": "whole number", "float": "number", "str": "text"}
    found = [words for name, words in names.items() if re.search(rf"\b{name}\b", written)]
    return " or ".join(found) or "a block"


def _bounds(metadata: Sequence[Any]) -> str:
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    bounds = [
        f"{sign} {getattr(constraint, name):g}"
        for part in metadata
        for constraint in (part, *getattr(part, "metadata", ()))
        for name, sign in signs
        if getattr(constraint, name, None) is not None
    ]
    return ", ".join(dict.fromkeys(bounds))


def _bounds_inside(annotation: Any) -> str:
    """The bounds of the number in an optional one."""
    parts = (getattr(part, "__metadata__", ()) for part in getattr(annotation, "__args__", ()))
    return next((bounds for part in parts if (bounds := _bounds(part))), "")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=False)
    empty = info.default_factory is not None or value is None or value in ((), "")
    if empty or isinstance(value, BaseModel):
        return "—"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
