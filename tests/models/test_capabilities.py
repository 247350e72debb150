"""`burnish models check`: what endpoints with several personalities can be relied on for."""

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.journal.outages import RetryPolicy
from burnish.models.capabilities import (
    Capabilities,
    examine_model,
    expected_forms,
    remember,
    remembered,
)
from burnish.models.errors import ModelRefused, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.testing import ScriptedBackend
from burnish.testing.servers import (
    Answer,
    HttpRequest,
    Malformed,
    ModelReply,
    ScriptedServer,
    Status,
)
from tests.cli.console import finish, forked
from tests.cli.served_echo import hosted

pytestmark = pytest.mark.slow
DOG = '{"animal": "dog", "letters": 3}'
ADD = ModelReply(uses=(("add", {"a": 4417, "b": 2256}),))


def able(asked: HttpRequest) -> Answer:
    """A model that does everything that it is asked."""
    if asked.json.get("tools"):
        return ADD
    return DOG if "barks" in str(asked.json["messages"]) else "yes"


def prose(asked: HttpRequest) -> Answer:
    """One that writes JSON only where the prompt shows the schema."""
    told = str(asked.json["messages"])
    return "A dog barks." if "barks" in told and "JSON schema" not in told else able(asked)


def hopeless(asked: HttpRequest) -> Answer:
    """One that never writes JSON, knows no tools and counts nothing."""
    if asked.json.get("tools"):
        return Status(400, message="tools are not supported by this model")
    return ModelReply(text="woof", input_tokens=0, output_tokens=0)


async def examined(
    answers: Callable[[HttpRequest], Answer], refuses: Collection[str] = ()
) -> Capabilities:
    models = Models(retries=RetryPolicy(attempts=1))
    async with ScriptedServer(answers=answers, refuses=refuses) as server:
        try:
            client = models.client(ModelRef.parse("openai:m", base_url=server.base_url))
            return await examine_model(client)
        finally:
            await models.close()


@pytest.mark.parametrize(
    ("answers", "refuses", "form"),
    [
        (able, (), "json_schema"),
        (able, ("json_schema",), "json_object"),
        (able, ("json_schema", "json_object"), "prompt"),
        (prose, (), "json_object"),
        (prose, ("json_object",), "prompt"),
    ],
)
async def test_the_form_that_will_be_used(
    answers: Callable[[HttpRequest], Answer], refuses: tuple[str, ...], form: str
) -> None:
    found = await examined(answers, refuses)
    assert (found.form, found.tools, found.counts_tokens) == (form, True, True)


async def test_a_model_that_can_only_talk() -> None:
    found = await examined(hopeless)
    assert (found.answer, found.form, found.tools, found.counts_tokens) == (
        "woof",
        None,
        False,
        False,
    )
    assert "no whole JSON object" in found.form_trouble
    assert "tools are not supported" in found.tools_trouble


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Status(401, message="no"), ModelRefused),
        (Status(404, message="no such model"), ModelRefused),
        (Malformed(), ModelUnavailable),
    ],
)
async def test_without_a_plain_answer_nothing_else_is_asked(
    answer: Answer, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await examined(lambda _: answer)


def test_what_was_found_is_remembered_once_for_each_model(tmp_path: Path) -> None:
    first = Capabilities(model="openai:m", address="http://x/v1", at="2026-01-01", answer="yes")
    remember(first, tmp_path / "home")
    again = Capabilities(model="openai:m", address="http://x/v1", at="2026-01-02", answer="yes")
    remember(again, tmp_path / "home")
    assert remembered(tmp_path / "home") == [again]
    (tmp_path / "home" / "models.json").write_text("{", encoding="utf-8")
    assert remembered(tmp_path / "home") == []


def test_a_plan_shows_what_is_remembered_or_that_it_will_be_found(tmp_path: Path) -> None:
    ref = ModelRef.parse("openai:m", base_url="http://127.0.0.1:9/v1")
    client = Models().client(ref)
    assert expected_forms([client], tmp_path)["openai:m"].startswith(
        "the first request finds their form"
    )
    elsewhere = Capabilities(model="openai:m", address="", at="2026-01-01", answer="yes")
    remember(elsewhere, tmp_path)
    assert expected_forms([client], tmp_path)["openai:m"].startswith(
        "the first request finds their form"
    )
    checked = replace(elsewhere, address=ref.base_url, at="2026-01-02T03:04:05", form="json_object")
    remember(checked, tmp_path)
    words = (
        "json_object when it was checked on 2026-01-02: JSON mode, with the schema in the prompt"
    )
    assert expected_forms([client, None], tmp_path) == {"openai:m": words}
    scripted = Models(backends={"openai": ScriptedBackend(respond=lambda request, draw: "yes")})
    assert expected_forms([scripted.client(ref)], tmp_path) == {}


def test_the_command_prints_it_and_the_doctor_repeats_it(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with hosted(ScriptedServer(answers=able, refuses=["json_schema"])) as url:
        flags = ("models", "check", "openai:m", "--base-url", url)
        said = finish(forked(*flags, cwd=tmp_path, BURNISH_HOME=home))
    assert (said.code, said.err) == (0, "")
    assert "✓ structured    json_object: JSON mode, with the schema in the prompt" in said.out
    assert "✓ tools" in said.out
    assert "✓ tokens" in said.out
    told = finish(forked("doctor", "--json", cwd=tmp_path, BURNISH_HOME=home))
    (finding,) = [each for each in told.json["findings"] if each["name"] == "openai:m"]
    summary = "structured answers: json_object; tools work; tokens are counted"
    assert finding["told"].startswith(f"{url}: {summary}")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_fails_with_a_cause_and_a_remedy(tmp_path: Path, as_json: bool) -> None:
    with hosted(ScriptedServer(answers=[Status(401, message="no")])) as url:
        flags = ["models", "check", "openai:m", "--base-url", url, *(["--json"] if as_json else [])]
        environ = {"BURNISH_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "a-key-0123456789"}
        said = finish(forked(*flags, cwd=tmp_path, **environ))
    assert said.code == 1
    if as_json:
        assert "refused the key (HTTP 401)" in json.loads(said.out)["error"]
    else:
        assert "✗ plain answer" in said.out
        assert "refused the key (HTTP 401)" in said.out
        assert "→ check the key in OPENAI_API_KEY" in said.out
