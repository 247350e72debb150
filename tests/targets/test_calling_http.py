"""HTTP agents on a real socket: bodies, replies, whose fault a failure is, and no secret kept."""

import asyncio
import json
import socket
from typing import Any

import pytest

from burnish.core.cases import Case, Turn
from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError
from burnish.journal.executors import is_infrastructure
from burnish.targets.callables import HttpTarget
from burnish.targets.callables.http import LONGEST_BODY
from burnish.testing import check_target
from burnish.testing.servers import HttpRequest
from tests.targets.calling_agents import (
    SCENARIO,
    TWO_TURNS,
    Answer,
    endpoint,
    outcome,
    receipt,
    said,
    user,
)

MESSAGES: Json = {"messages": "{{messages}}"}


def echo(asked: HttpRequest) -> Any:
    return {"answer": f"You said: {asked.json['input']}"}


async def test_the_contract() -> None:
    async with endpoint(echo) as here:
        target = HttpTarget(url=here.url, response_path="$.answer")
        await check_target(target, [Case.single('日本語 🙂 \n\t"quoted"'), TWO_TURNS])
        found = await outcome(target, "日本語 🙂")
    assert found.output == "You said: 日本語 🙂"
    assert here.asked[-1].method == "POST"
    assert here.asked[-1].headers["content-type"] == "application/json"


async def test_the_body_is_a_template() -> None:
    body: Json = {
        "q": "{{input}}",
        "text": "Asked: {{ input }} in {{session}}",
        "before": "{{history}}",
        "all": "{{messages}}",
        "fixed": [1, None, True],
    }
    async with endpoint("first", "second") as here:
        await outcome(HttpTarget(url=here.url, body=body), TWO_TURNS)
    one, two = said(here.asked)
    assert one["q"] == "My name is Ana."
    assert one["before"] == []
    assert one["fixed"] == [1, None, True]
    assert one["text"].startswith("Asked: My name is Ana. in ")
    assert one["text"].split()[-1] == two["text"].split()[-1]
    assert two["before"] == [
        {"role": "user", "content": "My name is Ana."},
        {"role": "assistant", "content": "first"},
    ]
    assert two["all"][-1] == {"role": "user", "content": "Who am I?"}


async def test_what_is_filled_in_is_never_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_TOWN", "Oslo")
    body: Json = {"a": "{{input}}", "b": "${HOME_TOWN}: {{input}}"}
    tricky = "${HOME_TOWN} {{session}} {{nothing}}"
    async with endpoint("ok") as here:
        await outcome(HttpTarget(url=here.url, body=body), tricky)
    assert said(here.asked) == [{"a": tricky, "b": f"Oslo: {tricky}"}]


@pytest.mark.parametrize(
    ("answer", "path", "reply", "data"),
    [
        ("plain text", "", "plain text", None),
        ((200, {"a": 1}), "", '{"a": 1}', {"a": 1}),
        ((200, {"a": {"b": ["x", "y"]}}), "$.a.b[1]", "y", None),
        ((200, {"a": {"b": 3}}), "a", '{"b": 3}', {"b": 3}),
        ((201, {"answer": "created"}), "answer", "created", None),
        ((200, ""), "", "", None),
        ((200, {"answer": "<think>hm</think>\n200"}), "answer", "200", None),
        ('<think>hm</think>\n{"a": 1}', "a", "1", 1),
    ],
)
async def test_the_reply_is_read_out_of_the_answer(
    answer: Answer, path: str, reply: str, data: object
) -> None:
    async with endpoint(answer) as here:
        found = await outcome(HttpTarget(url=here.url, response_path=path), "q")
    assert (found.output, found.data, found.failure) == (reply, data, None)


@pytest.mark.parametrize(
    ("answer", "path", "words"),
    [
        ((500, {"error": "the database is gone"}), "", 'HTTP 500: {"error": "the database'),
        ((400, "bad\n\n  request"), "", "HTTP 400: bad request"),
        ((404, ""), "", "HTTP 404"),
        ("<html>", "answer", "which is not JSON"),
        ((200, {"reply": "x"}), "answer", "with the keys reply; 'answer' is not among them"),
        ((200, {"answer": None}), "answer", "'answer' is null: there is no reply"),
        ("x" * (LONGEST_BODY + 1), "", f"more than {LONGEST_BODY} bytes"),
    ],
)
async def test_the_agents_own_failures(answer: Answer, path: str, words: str) -> None:
    async with endpoint(answer) as here:
        found = await receipt(HttpTarget(url=here.url, response_path=path), TWO_TURNS)
    assert found.value.failed
    assert found.value.failure is not None
    assert words in found.value.failure.message
    assert (len(here.asked), found.spend.calls) == (1, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_come_back_later_is_not_the_agents_fault(status: int) -> None:
    async with endpoint((status, "slow down")) as here:
        with pytest.raises(ConnectionError, match=f"HTTP {status}: slow down") as raised:
            await outcome(HttpTarget(url=here.url), "q")
    assert is_infrastructure(raised.value)


async def test_nobody_there_and_an_answer_cut_off_are_not_the_agents_fault() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        with pytest.raises(ConnectionError) as raised:
            await outcome(HttpTarget(url=url), "q")
    assert is_infrastructure(raised.value)
    async with endpoint("a whole sentence", cut=True) as here:
        with pytest.raises(ConnectionError):
            await outcome(HttpTarget(url=here.url), "q")


async def test_too_slow_is_the_agents_fault_unless_listed() -> None:
    async with endpoint("late", seconds=3600) as here:
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.05 s") as raised:
            await outcome(HttpTarget(url=here.url, timeout=0.05), "q")
    assert not is_infrastructure(raised.value)
    assert is_infrastructure(raised.value, ("TimeoutError",))


async def test_a_redirect_is_not_followed() -> None:
    async with endpoint("ours") as there, endpoint((307, ""), location=there.url) as here:
        with pytest.raises(ConfigError, match="redirects are not followed") as raised:
            await outcome(HttpTarget(url=here.url), "q")
    assert there.asked == []
    assert there.url in str(raised.value)


async def test_secrets_are_expanded_at_use_and_kept_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_PASS", "hunter2-hunter2")

    def tells(asked: HttpRequest) -> Any:
        return 401, f"the token {asked.headers['authorization'].split()[1]} is not known"

    async with endpoint(tells) as here:
        target = HttpTarget(url=here.url, headers={"Authorization": "Bearer ${SHOP_PASS}"})
        found = await outcome(target, "q")
    assert here.asked[0].headers["authorization"] == "Bearer hunter2-hunter2"
    assert found.failure is not None
    assert "is not known" in found.failure.message
    kept = canonical(dict(target.description.config)).decode()
    assert "hunter2" not in found.failure.message + kept
    assert "${SHOP_PASS}" in kept


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "nowhere"}, "'nowhere' is not a web address"),
        ({"url": "ftp://host/x"}, "is not a web address"),
        ({"url": "http://h:99999/"}, "is not a web address"),
        ({"body": {"q": "{{query}}"}}, "unknown placeholder {{query}}"),
        ({"body": {"q": "{{query}}"}}, "the body does not contain the input"),
        ({"headers": {"X-Api-Key": "abc"}}, "looks like a secret"),
        ({"headers": {"A": "${NOT_SET_AT_ALL}"}}, "NOT_SET_AT_ALL is not set"),
        ({"body": {"q": "{{input}} ${NOT_SET_AT_ALL}"}}, "NOT_SET_AT_ALL is not set"),
        ({"response_path": "a..b"}, "is not a path"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_sent(
    settings: dict[str, Any], words: str
) -> None:
    whole: dict[str, Any] = {"url": "http://127.0.0.1:1/", **settings}
    with pytest.raises(ConfigError) as raised:
        HttpTarget(**whole)
    assert words in str(raised.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        HttpTarget(url="x", body={}, response_path="..", headers={"token": "abcdefgh"})
    assert [problem.where for problem in raised.value.problems] == [
        "body", "headers.token", "response_path", "url",
    ]  # fmt: skip


def test_what_is_sent_tells_whether_it_can_remember() -> None:
    plain = HttpTarget(url="http://127.0.0.1:1/")
    assert (plain.remembers, HttpTarget(url=plain.url, body=MESSAGES).remembers) == (False, True)


async def test_two_conversations_at_once_never_mix() -> None:
    def last_two(asked: HttpRequest) -> Any:
        return " ".join(each["content"] for each in asked.json["messages"])

    cases = [Case(turns=(Turn(input=f"{n}a"), Turn(input=f"{n}b"))) for n in range(20)]
    async with endpoint(last_two) as here:
        target = HttpTarget(url=here.url, body=MESSAGES)
        found = await asyncio.gather(*(outcome(target, case) for case in cases))
    assert [each.output for each in found] == [f"{n}a {n}a {n}b" for n in range(20)]


async def test_a_scenario_over_http() -> None:
    async with endpoint(echo) as here:
        target = HttpTarget(url=here.url, response_path="answer", user=user("To Oslo."))
        found = await outcome(target, SCENARIO)
    assert found.asked == ("I need a flight.", "To Oslo.")
    assert [json.dumps(each["input"]) for each in said(here.asked)] == [
        '"I need a flight."', '"To Oslo."',
    ]  # fmt: skip
