"""Whatever a file says is the same after it was read, written and read (hypothesis)."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import (
    Attachment,
    Case,
    ExpectedTool,
    Image,
    Message,
    Outcome,
    Rubric,
    Scenario,
    Step,
    ToolCall,
    ToolUse,
    Trace,
    Turn,
)
from burnish.core.content import Json
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.formats import convert, read_cases, write_cases
from tests.datasets.dataset_files import again

QUICK = settings(max_examples=15, deadline=None)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.one_of(texts, st.sampled_from(["id", "input", "answer", "settings", "turns", "topic"]))
numbers = st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=4,
)
mappings = st.dictionaries(keys, json_values, max_size=2)
calls = st.builds(
    ToolCall, name=texts, arguments=mappings, result=json_values, error=texts, id=texts,
    passages=st.lists(texts, max_size=1).map(tuple),
)  # fmt: skip
turns = st.builds(
    Turn,
    input=texts,
    expected=st.none() | texts,
    context=st.lists(texts, max_size=2).map(tuple),
    expected_tools=st.none()
    | st.lists(st.builds(ExpectedTool, name=texts, count=st.integers(1, 3)), max_size=2).map(tuple),
    expected_calls=st.none() | st.lists(calls, max_size=2).map(tuple),
    attachments=st.lists(
        st.builds(Attachment, kind=texts, path=texts, url=texts, data=texts, name=texts,
                  description=texts, options=mappings), max_size=1,
    ).map(tuple),
    metrics=st.lists(texts, max_size=2).map(tuple),
    settings=mappings,
    extras=mappings,
)  # fmt: skip
uses = st.lists(st.builds(ToolUse, id=texts, name=texts, arguments=mappings), max_size=1)
messages = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), content=texts),
    st.builds(Message, role=st.just("assistant"), content=texts, uses=uses.map(tuple)),
    st.builds(Message, role=st.just("tool"), content=texts, answers=texts, tool=texts),
)
rich_messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    content=texts,
    images=st.lists(st.builds(Image, media_type=texts, base64=texts), max_size=1).map(tuple),
    uses=uses.map(tuple),
    verbatim=json_values,
)
outcomes = st.builds(
    Outcome,
    replies=st.lists(texts, max_size=2).map(tuple),
    data=json_values,
    trace=st.builds(
        Trace,
        steps=st.lists(
            st.builds(Step, id=texts, node=texts, tools=st.lists(calls, max_size=1).map(tuple)),
            max_size=1,
        ).map(tuple),
    ),
    nano_usd=st.none() | st.integers(0, 9),
)
cases = st.builds(
    Case,
    name=texts,
    turns=st.lists(turns, min_size=1, max_size=2).map(tuple),
    labels=st.lists(texts, max_size=2).map(tuple),
    history=st.lists(messages | rich_messages, max_size=2).map(tuple),
    rubrics=st.lists(
        st.builds(Rubric, id=texts, text=texts, description=texts, kind=texts, metric=texts),
        max_size=1,
    ).map(tuple),
    scenario=st.none() | st.builds(Scenario, plan=texts, max_turns=st.none() | st.integers(1, 9)),
    recorded=st.none() | outcomes,
    extras=mappings,
)
files = st.lists(cases, min_size=1, max_size=3, unique_by=lambda case: case.name or case.id)


@QUICK
@given(files)
def test_jsonl_holds_any_case(held: list[Case]) -> None:
    assert again(CaseFile(cases=tuple(held), format="jsonl"), "x.jsonl").cases == tuple(held)


@QUICK
@given(files)
def test_csv_gives_back_what_conversion_left(held: list[Case]) -> None:
    named = [case for case in held if case.input]
    file, _ = convert(CaseFile(cases=tuple(named), format="jsonl"), "csv")
    assert again(file, "x.csv").cases == file.cases


plain_turns = st.builds(
    Turn, input=texts, expected=st.none() | texts, context=st.lists(texts, max_size=2).map(tuple),
    settings=mappings,
)  # fmt: skip
test_cases = st.builds(
    Case,
    name=texts,
    turns=st.lists(plain_turns, min_size=1, max_size=2).map(tuple),
    labels=st.lists(texts, max_size=2).map(tuple),
)


@QUICK
@given(test_cases)
def test_yaml_gives_back_every_text(case: Case) -> None:
    file, notes = convert(CaseFile(cases=(case,), format="jsonl"), "test_cases")
    assert notes == []
    assert again(file, "x.yaml").cases == file.cases


evalset_turns = st.builds(
    Turn,
    input=texts,
    expected=st.none() | texts,
    expected_calls=st.none()
    | st.lists(
        st.builds(ToolCall, name=texts, arguments=mappings, result=mappings), max_size=2
    ).map(tuple),
)
evalset_cases = st.builds(
    Case,
    name=texts.filter(bool),
    turns=st.lists(evalset_turns, min_size=1, max_size=2).map(tuple),
    history=st.lists(messages, max_size=2).map(tuple),
)


@QUICK
@given(evalset_cases, st.sampled_from(["evalset", "promptiter"]))
def test_evalsets_hold_every_conversation(case: Case, format: str) -> None:  # noqa: A002
    file, notes = convert(CaseFile(cases=(case,), format="jsonl"), format)
    assert notes == []
    assert file.cases == (case,)
    assert again(file, "x.evalset.json").cases == (case,)


def holding(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with these keys."""
    return st.fixed_dictionaries(parts)


def named(draw: st.DrawFn, **parts: st.SearchStrategy[Any]) -> dict[str, Json]:
    """Some of the parts, each under one of the spellings of its key, some of them null."""
    found: dict[str, Json] = {}
    for key, values in parts.items():
        required = key.endswith("_")
        if not required and not draw(st.booleans()):
            continue
        words = key.strip("_").split("_")
        camel = words[0] + "".join(word.title() for word in words[1:])
        spelled = draw(st.sampled_from(["_".join(words), camel, camel.upper()]))
        found[spelled] = draw(values if required else values | st.none())
    return found


@st.composite
def raw_messages(draw: st.DrawFn, style: str) -> dict[str, Json]:
    role = {"role": draw(st.sampled_from(["user", "model", "assistant", "tool"]))}
    if style == "Go" or (style == "both" and draw(st.booleans())):
        return {**role, "content": draw(texts)}
    part = st.one_of(
        holding(text=texts),
        holding(text=texts, thought=st.just(True)),
        holding(inlineData=mappings),
        holding(function_call=holding(name=st.just("f"), args=mappings)),
    )
    return {**role, "parts": draw(st.lists(part, min_size=1, max_size=3))}


@st.composite
def raw_turns(draw: st.DrawFn, style: str) -> dict[str, Json]:
    use = holding(id=texts, name=st.just("f"), args=mappings)
    response = holding(id=texts, name=st.just("f"), response=mappings)
    arguments = mappings | mappings.map(json.dumps)
    tool = holding(name=st.just("g"), arguments=arguments, result=json_values)
    middle = holding(
        toolUses=st.lists(use, max_size=2), tool_responses=st.lists(response, max_size=2)
    )
    return named(
        draw,
        user_content_=raw_messages(style),
        final_response=raw_messages(style),
        invocation_id=texts,
        intermediate_data=middle,
        creation_timestamp=numbers,
        metric_names=st.lists(texts, max_size=1),
        tools=st.lists(tool, max_size=2),
        tool_mock=json_values,
        context_messages=st.lists(raw_messages(style), max_size=1),
    )


@st.composite
def raw_cases(draw: st.DrawFn, style: str) -> dict[str, Json]:
    conversation = st.lists(raw_turns(style), min_size=1, max_size=2)
    about = named(
        draw,
        eval_id_=texts.filter(bool),
        session_input=holding(appName=texts, state=mappings),
        context_messages=st.lists(raw_messages(style), max_size=2),
        creation_timestamp=numbers,
        rubrics=st.lists(st.just({"id": "r", "content": {"text": "t"}}), max_size=1),
    )
    if draw(st.booleans()):
        return {**about, "evalMode": "trace", **named(
            draw, actual_conversation_=conversation, conversation=conversation
        )}  # fmt: skip
    return {**about, **named(draw, conversation_=conversation)}


@settings(max_examples=15, deadline=None)
@given(st.lists(raw_cases("both"), max_size=2, unique_by=lambda case: next(iter(case.values()))))
def test_an_evalset_is_written_as_it_was_read(raw: list[dict[str, Json]]) -> None:
    whole = {"eval_set_id": "x", "evalCases": raw}
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "a.evalset.json", Path(folder) / "b.evalset.json"
        first.write_text(json.dumps(whole))
        file = read_cases(first)
        write_cases(second, file)
        assert json.loads(second.read_text("utf-8")) == whole
        assert read_cases(second) == file


@settings(max_examples=15, deadline=None)
@given(raw_cases("Go"), texts)
def test_an_edit_changes_nothing_but_itself(raw: dict[str, Json], answer: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.evalset.json"
        path.write_text(json.dumps({"eval_set_id": "x", "evalCases": [raw]}))
        file = read_cases(path)
        (case,) = file.cases
        last = replace(case.turns[-1], expected=answer)
        edited = replace(case, turns=(*case.turns[:-1], last))
        write_cases(path, replace(file, cases=(edited,)))
        (found,) = read_cases(path).cases
    assert visible(found) == visible(edited)


def visible(case: Case) -> Case:
    """The case without what only its file knows."""
    turns = tuple(replace(turn, extras={}) for turn in case.turns)
    return replace(case, turns=turns, extras={})
