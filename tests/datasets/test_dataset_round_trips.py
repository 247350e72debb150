"""Whatever a case is made of is the same after it was written and read (hypothesis)."""

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
    assert again(held) == tuple(held)
