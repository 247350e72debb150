"""What an adoption changes: the values of a trial that differ from where its run started."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from burnish.core.candidates import Change, diff
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value, value_key
from burnish.core.trials import TrialRow
from burnish.core.words import shorten
from burnish.runs.record import RunRecord
from burnish.runs.standing import BASELINE
from burnish.system.redaction import MARKER
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.surface_paths import DEMONSTRATIONS, is_instructions, value_at

_SHOWN = 60


def chosen_trial(run: RunRecord, number: int | None) -> TrialRow | None:
    """The trial to adopt: an accepted one by its number, or the best; None before any trial."""
    if number is None:
        return run.best
    row = next((row for row in run.rows if row.number == number), None)
    if row is not None and (row.trial.accepted or row.trial.phase == BASELINE):
        return row
    accepted = ", ".join(str(row.number) for row in run.rows if row.trial.accepted) or "none"
    message = f"trial {number} was not accepted" if row else f"there is no trial {number}"
    raise ConfigError([Problem(where="--trial", message=message, remedy=f"accepted: {accepted}")])


def changes_of(run: RunRecord, row: TrialRow) -> tuple[Change, ...]:
    """What the trial's candidate has that the run's start had not."""
    start = run.baseline
    return () if start is None else diff(start.trial.candidate, row.trial.candidate)


def turned_round(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The same changes from the end to the start."""
    return tuple(Change(surface=c.surface, before=c.after, after=c.before) for c in changes)


def to_put(changes: Sequence[Change], value_now: Callable[[str], Value]) -> Mapping[str, Value]:
    """The values that are not there yet; refused where a field has a third value by now."""
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    for change in changes:
        if change.before is None or change.after is None:
            continue
        try:
            now = value_now(change.surface)
        except ConfigError as error:
            problems += error.problems
            continue
        if same_value(now, change.after):
            continue
        problems += _third_value(change, now) or _lost_secret(change, now)
        values[change.surface] = change.after
    if problems:
        raise ConfigError(problems)
    return values


def value_now(agent: LoadedAgent, surface: str) -> Value:
    """What the agent has there now."""
    if is_instructions(surface):
        return agent.instructions.text
    if surface == DEMONSTRATIONS:
        return demonstrations_of(agent.block)
    return cast("Value", value_at(agent.block, surface))


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are the same; texts may differ in how their lines end."""
    return value_key(_level(one)) == value_key(_level(other))


def _level(value: Value) -> Value:
    return value.replace("\r\n", "\n") if isinstance(value, str) else value


def _third_value(change: Change, now: Value) -> list[Problem]:
    if change.before is None or same_value(now, change.before) or MARKER in str(change.before):
        return []
    message = f"it is {_short(now)} now, and was {_short(change.before)} in the run"
    remedy = f"put it back, or change it to {_short(change.after)} yourself"
    return [Problem(where=change.surface, message=message, remedy=remedy)]


def _lost_secret(change: Change, now: Value) -> list[Problem]:
    """A run keeps no secrets: where one stood in a text, the text cannot be put back whole."""
    if MARKER not in str(change.after) or MARKER in str(now):
        return []
    message = f"the run kept this text with {MARKER} where something looked like a secret"
    remedy = "take the new text from the run's folder and edit the file yourself"
    return [Problem(where=change.surface, message=message, remedy=remedy)]


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(cast('tuple[object, ...]', value))} demonstrations"
    return shorten(repr(value), _SHOWN)
