"""Programs of DSPy: their parts, copies with other values, their steps."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.small_searches import MIPRO, Task

from benchmarks import mipro
from burnish.core.errors import ConfigError
from burnish.core.surfaces import Demonstration
from burnish.models.references import ModelRef, key_for
from tests.frameworks.adapters import known, steps, values

dspy: Any = import_module("dspy")


class Echo(dspy.BaseLM):
    """Is kind if it is told to be."""

    def __init__(self) -> None:
        dspy.BaseLM.__init__(self, model="echo")

    def forward(self, prompt: Any = None, messages: Any = None, **settings: Any) -> Any:
        word = "kind" if "kind" in messages[0]["content"] else "rude"
        text = f"[[ ## answer ## ]]\n{word}\n\n[[ ## completed ## ]]"
        message = SimpleNamespace(content=text, tool_calls=None)
        choice = SimpleNamespace(message=message, finish_reason="stop")
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        return SimpleNamespace(choices=[choice], usage=usage, model="echo")


def test_demonstrations_of_a_predictor_are_a_part() -> None:
    program = dspy.Predict("question -> answer")
    demo = Demonstration(input="1+1", output="2")
    copy = known(program).with_values({"instructions": "Add.", "demos": (demo,)})
    assert copy.signature.instructions == "Add."
    assert dict(copy.demos[0].items()) == {"question": "1+1", "answer": "2"}
    assert program.demos == []
    assert values(known(copy))["demos"] == (demo,)


def test_a_program_runs_and_its_predictors_are_steps() -> None:
    program = dspy.Predict(dspy.Signature("question -> answer", "Be kind."))
    with dspy.context(lm=Echo()):
        (step,) = steps(program, "hello", "kind")
    assert step.output == {"answer": "kind"}
    # DSPy 3.0 counts only the tokens of its own client.
    assert step.usage.input_tokens == (0 if dspy.__version__.startswith("3.0.") else 3)
    assert step.surfaces == ("demos", "instructions")


def test_burnish_and_mipro_improve_the_same_program_with_as_many_calls() -> None:
    start = mipro.worth(mipro.program_of())
    other = mipro.by_mipro(1)
    found = mipro.by_burnish(1, other.calls)
    assert found.calls <= other.calls
    assert start < other.score
    assert start < found.score
    assert found.claim == "improved"
    assert "| 1 | " in mipro.report([(1, other, found)])


@pytest.mark.parametrize(("world", "seed"), [("tuning: rough", 5), ("tuning: two texts", 3)])
def test_mipro_searches_a_small_world_within_its_budget(world: str, seed: int) -> None:
    task = Task(system=MIPRO, world=world, seed=seed, budget=150, price=3.0)
    result = task.search()
    assert result.reflections >= 4
    assert 75 <= result.cost <= 150
    assert result.start < result.truth == result.returned
    assert task.search() == result


def test_mipro_returns_the_start_where_its_smallest_search_is_too_dear() -> None:
    task = Task(system=MIPRO, world="tuning: wide holdout", seed=1, budget=60, price=3.0)
    result = task.search()
    assert (result.cost, result.returned) == (0, result.start)


def test_several_input_fields_need_an_object() -> None:
    adapter: Any = known(dspy.Predict("text, question -> answer"))
    assert adapter.inputs('{"text": "a", "question": "b"}') == {"text": "a", "question": "b"}
    with pytest.raises(ConfigError, match="several input fields"):
        adapter.inputs("hello")


USUAL = "sk-usual-0123456789abcdef"
OWN = "sk-own-0123456789abcdef"
GATEWAY = "http://127.0.0.1:9/v1"


@pytest.fixture
def _usual_key(own_variables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", USUAL)


def _own(model: Any, program: Any = None) -> ModelRef | None:
    with dspy.context(lm=model):
        return known(program or dspy.Predict("question -> answer")).model


@pytest.mark.usefixtures("_usual_key")
def test_the_own_model_keeps_its_endpoint_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, own = dspy.LM("openai/m"), dspy.LM("openai/m", api_base=GATEWAY, api_key=OWN)
    assert _own(usual) == ModelRef(provider="openai", name="m")
    program = dspy.Predict("question -> answer")
    program.lm = own  # and not that of the settings
    for ref in (_own(own), _own(usual, program)):
        assert ref is not None
        assert (ref.label, ref.base_url, key_for(ref)) == ("openai:m", GATEWAY, OWN)
    monkeypatch.setenv("OPENAI_BASE_URL", GATEWAY)
    ref = _own(usual)
    assert ref is not None
    assert (ref.base_url, key_for(ref)) == (GATEWAY, USUAL)


@pytest.mark.usefixtures("_usual_key")
def test_a_deployment_of_azure_keeps_its_resource_and_version() -> None:
    place = {"api_base": "https://ours.openai.azure.com", "api_version": "2024-10-21"}
    ref = _own(dspy.LM("azure/ours", api_key=OWN, **place))
    assert ref is not None
    assert (ref.label, ref.base_url) == ("azure:ours", place["api_base"])
    assert (ref.api_version, key_for(ref)) == ("2024-10-21", OWN)


@pytest.mark.usefixtures("_usual_key")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("acme/m", {}),
        ("gpt-4o", {}),
        ("openai/m", {"custom_llm_provider": "acme"}),
        ("openai/m", {"api_base": "https://u:secret@models.example.org/v1"}),
        ("anthropic/m", {"api_base": GATEWAY, "api_key": OWN}),
    ],
)
def test_a_model_that_cannot_be_told_is_refused(name: str, settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"burnish cannot|has a user, a password") as refused:
        _own(dspy.LM(name, **settings))
    assert "secret" not in str(refused.value)


def test_a_model_of_a_class_of_its_own_is_not_known() -> None:
    echo: Any = Echo()
    echo.model = "openai/m"
    assert _own(echo) is None
