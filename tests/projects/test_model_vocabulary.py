"""One vocabulary for models: every place of every file kind takes the same block, prices too."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from burnish.core.cases import Usage
from burnish.core.errors import ConfigError
from burnish.delegation.workflow_spec import WorkflowSpec
from burnish.metrics.eval_metrics import EvalConfig
from burnish.metrics.judges import JudgeModel
from burnish.models.chat import Prices
from burnish.models.factory import ModelBlock
from burnish.models.providers import Price
from burnish.models.references import ModelRef, ModelSettings
from burnish.projects.adopt_files import write_together
from burnish.projects.agent.dialect import file_changes
from burnish.projects.optimizer_config import OptimizerConfig
from burnish.runs.spec import RunSpec
from burnish.targets.agent.blocks import AgentBlock, AgentModel
from burnish.targets.agent.files import load_agent
from burnish.targets.graph.files import GraphBlock

Named = ModelBlock | JudgeModel
PRICE = Price(input_per_million=0.15, output_per_million=0.6)
PRICES = {"input_per_million": 0.15, "output_per_million": 0.6}
ADDRESS = "http://127.0.0.1:9/v1"
FULL = {
    "provider": "openai",
    "name": "ours",
    "base_url": ADDRESS,
    "api_key": "${TEAM_KEY}",
    "temperature": 0.7,
    "max_tokens": 200,
    "top_p": 0.9,
    "seed": 7,
    "stop": ["END"],
    "timeout": 30,
    "prices": PRICES,
}
REFERENCE = ModelRef(
    provider="openai",
    name="ours",
    base_url=ADDRESS,
    api_key="${TEAM_KEY}",
    settings=ModelSettings(
        temperature=0.7, max_tokens=200, top_p=0.9, seed=7, stop=("END",), timeout=30
    ),
    price=PRICE,
)
KINDS: Mapping[str, tuple[type[BaseModel], set[str]]] = {
    "agent": (
        AgentBlock,
        {"model", "embedding_provider", "user_simulator", "evaluations.model", "metrics.model"},
    ),
    "description": (RunSpec, {"roles", "metrics.judge", "metrics.user_simulator"}),
    "optimizer.json": (
        OptimizerConfig,
        {"algorithm.reflection_lm", "llm_judge.judge_model", "llm_judge.judge_models"},
    ),
    "test_config.json": (EvalConfig, {"llm_judge.judge_model"}),
    "nodes": (GraphBlock, {"nodes.model", "nodes.embedding_provider"}),
    "workflow": (WorkflowSpec, {"models.manager", "models.worker", "models.critic"}),
}


def models_of(kind: Any, path: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every place of a file that names a model, by its path, with the type that stands there."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if issubclass(kind, Named):
            yield path, kind
        elif kind not in above:
            for name, info in kind.model_fields.items():
                yield from models_of(info.annotation, f"{path}.{name}", (*above, kind))
        return
    for part in get_args(kind):
        yield from models_of(part, path, above)


PLACES = {
    f"{kind}{path}": found for kind, (file, _) in KINDS.items() for path, found in models_of(file)
}


def read(kind: Any, value: Any) -> ModelRef:
    block: Any = TypeAdapter(kind).validate_python(value)
    return block.reference()


@pytest.mark.parametrize("kind", KINDS)
def test_the_places_of_a_kind_are_those_that_are_tested(kind: str) -> None:
    file, ends = KINDS[kind]
    paths = [path for path, _ in models_of(file)]
    assert not [end for end in ends if not any(path.endswith(f".{end}") for path in paths)], paths


@pytest.mark.parametrize("place", PLACES)
def test_every_place_takes_the_whole_block(place: str) -> None:
    assert read(PLACES[place], FULL) == REFERENCE
    renamed = {"endpoint" if key == "base_url" else key: value for key, value in FULL.items()}
    assert read(PLACES[place], renamed) == REFERENCE


@pytest.mark.parametrize("place", PLACES)
def test_every_place_takes_the_short_form(place: str) -> None:
    usual = read(PLACES[place], {"provider": "openai", "name": "m:1"})
    assert usual.label == "openai:m:1"
    assert read(PLACES[place], "openai:m:1") == usual
    assert read(PLACES[place], {"ref": "openai:m:1"}) == usual
    azure = read(PLACES[place], {"ref": "azure_openai:d", "base_url": "https://a.example"})
    assert azure.label == "azure:d"
    with pytest.raises((ValidationError, ConfigError), match="did you mean 'openai:m'"):
        read(PLACES[place], "opnai:m")


@pytest.mark.parametrize("place", PLACES)
def test_a_price_of_ones_own_holds_in_every_place(place: str) -> None:
    usage = Usage(requests=1, input_tokens=1_000_000, output_tokens=1_000_000)
    priced = {"provider": "openai", "name": "ours", "base_url": ADDRESS, "prices": PRICES}
    prices = Prices(overrides={"openai:ours": Price(input_per_million=9, output_per_million=9)})
    ref = read(PLACES[place], priced)
    assert prices.known(ref)
    assert prices.nano_usd(ref, usage) == 750_000_000
    assert prices.warnings == []
    assert not Prices().known(read(PLACES[place], {**priced, "prices": None}))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("wrong", [{"input_per_million": -1}, {"input_per_million": 1e12}, {}])
def test_a_price_that_cannot_be_is_refused(place: str, wrong: dict[str, float]) -> None:
    value = {"provider": "openai", "name": "m", "prices": {"output_per_million": 1, **wrong}}
    with pytest.raises(ValidationError, match="input_per_million"):
        read(PLACES[place], value)


def test_a_block_in_the_spelling_of_agent_optimizer_is_the_same() -> None:
    own = {
        "provider_name": "openai",
        "model_name": "ours",
        "base_url": ADDRESS,
        "api_key": "${TEAM_KEY}",
        "timeout": 30,
        "prices": PRICES,
        "generation_config": {
            "temperature": 0.7,
            "max_tokens": 200,
            "top_p": 0.9,
            "seed": 7,
            "stop": ["END"],
        },
    }
    assert read(JudgeModel, own) == REFERENCE
    camel = {"providerName": "openai", "modelName": "ours", "baseURL": ADDRESS}
    assert read(JudgeModel, camel).base_url == ADDRESS
    with pytest.raises(ValidationError, match="two names for the same setting"):
        read(JudgeModel, {"name": "a", "model_name": "b"})


def test_the_short_form_makes_room_when_a_setting_is_adopted(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "name: clerk\nmodel: openai:m  # ours\ninstructions: {inline: Answer.}\n", encoding="utf-8"
    )
    agent = load_agent(path)
    assert agent.block.model == AgentModel(provider="openai", name="m")
    write_together(file_changes(agent, {"model.temperature": 0.9}))
    model = load_agent(path).block.model
    assert (model.provider, model.name, model.temperature) == ("openai", "m", 0.9)
