"""Cases as rows, under the column names that their file had."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from burnish.core.cases import Attachment, Case, Turn
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.messages import Message
from burnish.core.outcomes import Outcome, ToolCall
from burnish.evaluation.datasets.case_files import NAMES, CaseFile
from burnish.evaluation.datasets.case_shapes import FILE_OPTIONS
from burnish.evaluation.datasets.case_writing import (
    asked,
    present,
    rubrics_written,
    tools_written,
)
from burnish.evaluation.datasets.complaints import mapped
from burnish.evaluation.datasets.row_names import KNOWN


def write_jsonl(file: CaseFile) -> str:
    """The file as lines of JSON."""
    rows = (row_written(case, mapped(file.extras.get(NAMES))) for case in file.cases)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def row_written(case: Case, names: Mapping[str, Json]) -> dict[str, Json]:
    """One case as a row, its parts under the names that its file has for them."""
    first = case.turns[0]
    turns: list[Json] = [_turn_written(turn) for turn in case.turns]
    alone = len(case.turns) == 1 and not first.extras
    row = {
        **present(name=case.name or None),
        **(_with_columns(first) if alone else {"turns": turns}),
        **present(
            labels=[*case.labels],
            history=[_said_written(said) for said in case.history],
            rubrics=rubrics_written(case.rubrics),
            scenario=asdict(case.scenario) if case.scenario else None,
            recorded=codec(Outcome).encode(case.recorded) if case.recorded else None,
            extras=dict(case.extras),
        ),
    }
    return {str(names.get(key, key)): value for key, value in row.items()}


def _with_columns(turn: Turn) -> dict[str, Json]:
    """A turn whose settings are columns of their own, unless a column of that name means more."""
    written = _turn_written(turn)
    written.pop("settings", None)
    columns = {key: value for key, value in turn.settings.items() if key not in KNOWN}
    rest = {key: value for key, value in turn.settings.items() if key in KNOWN}
    return {**written, **present(settings=rest), **columns}


def _turn_written(turn: Turn) -> dict[str, Json]:
    return {
        "input": turn.input,
        **({} if turn.expected is None else {"expected": turn.expected}),
        **present(context=[*turn.context]),
        **asked(
            expected_tools=tools_written(turn.expected_tools),
            expected_calls=None
            if turn.expected_calls is None
            else [_call_written(call) for call in turn.expected_calls],
        ),
        **present(
            files=[_file_written(file) for file in turn.attachments],
            metrics=[*turn.metrics],
            settings=dict(turn.settings),
            extras=dict(turn.extras),
        ),
    }


def _said_written(said: Message) -> dict[str, Json]:
    plain = mapped(codec(Message).encode(Message(role=said.role, content=said.content)))
    whole = mapped(codec(Message).encode(said))
    told = ("role", "content")
    return {key: value for key, value in whole.items() if key in told or value != plain[key]}


def _call_written(call: ToolCall) -> dict[str, Json]:
    return {
        "name": call.name,
        **present(arguments=dict(call.arguments)),
        **({} if call.result is None else {"result": call.result}),
        **present(error=call.error or None, id=call.id or None, passages=[*call.passages]),
    }


def _file_written(file: Attachment) -> dict[str, Json]:
    named = {key: file.options[key] for key in FILE_OPTIONS if file.options.get(key) is not None}
    rest = {key: value for key, value in file.options.items() if key not in named}
    return {
        "type": file.kind,
        **present(path=file.path or None, url=file.url or None),
        **present(data=file.data or None, name=file.name or None),
        **present(description=file.description or None, options=rest),
        **named,
    }
