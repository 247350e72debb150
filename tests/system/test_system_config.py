"""A configuration becomes a model, or every problem is shown in plain words."""

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from burnish.core.errors import ConfigError, Problem
from burnish.system import load_config, validate_config
from burnish.system.settings import Settings


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Phase(Strict):
    name: str
    rate: float = 0.5


class Command(Strict):
    kind: Literal["command"]
    argv: list[str] = []


class Service(Strict):
    kind: Literal["service"]
    port: int = Field(default=80, alias="listen-port")


class Budget(Strict):
    max_trials: int = Field(default=5, gt=0, le=100)
    usd: float | None = None


class Toy(Strict):
    name: str = Field(default="toy", min_length=2)
    budget: Budget = Budget()
    phases: list[Phase] = Field(default=[], max_length=3)
    by_name: dict[str, Phase | None] = {}
    level: Level = Level.LOW
    mode: Literal["fast", "thorough"] = "fast"
    verbose: bool = False
    target: Annotated[Command | Service, Field(discriminator="kind")] | None = None
    either: Command | Service | None = None
    seeds: int | list[int] = 0
    api_key: int | None = None

    @field_validator("name")
    @classmethod
    def _no_spaces(cls, name: str) -> str:
        if " " in name:
            raise ValueError("a name has no spaces")
        return name

    @model_validator(mode="after")
    def _fast_is_low(self) -> "Toy":
        if self.mode == "thorough" and self.level is Level.LOW:
            raise ValueError("mode 'thorough' needs level 'high'")
        return self


def problems(tmp_path: Path, text: str, model: type[BaseModel] = Toy) -> list[str]:
    path = tmp_path / "toy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, model)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_file_becomes_a_model(tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text("name: a1\nbudget: {max_trials: 7}\ntarget: {kind: service, listen-port: 1}\n")
    toy = load_config(path, Toy)
    assert toy.budget.max_trials == 7
    assert isinstance(toy.target, Service)
    assert toy.target.port == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "budget:\n  max_trials: abc",
            ":2 budget.max_trials: expected a whole number, found 'abc'",
        ),
        ("budget: {max_trials: 1.5}", ":1 budget.max_trials: expected a whole number, found 1.5"),
        ("budget: {usd: much}", ":1 budget.usd: expected a number, found 'much'"),
        ("budget: {max_trials: 0}", ":1 budget.max_trials: expected more than 0, found 0"),
        ("budget: {max_trials: 101}", ":1 budget.max_trials: expected at most 100, found 101"),
        ("budget: [1]", ":1 budget: expected a mapping, found a list"),
        ("budget:", ":1 budget: expected a mapping, found nothing"),
        ("verbose: perhaps", ":1 verbose: expected true or false, found 'perhaps'"),
        ("name: 5", ":1 name: expected text, found 5"),
        ("name: a", ":1 name: expected at least 2 characters, found 'a'"),
        ("name: a b", ":1 name: a name has no spaces"),
        ("phases: 3", ":1 phases: expected a list, found 3"),
        ("phases:\n- name: a\n- rate: 1", ":3 phases[1].name: required, but missing — add it"),
        ("by_name: 3", ":1 by_name: expected a mapping, found 3"),
        ("by_name: {a.b: {}}", ':1 by_name["a.b"].name: required, but missing — add it'),
        ("level: hihg", ":1 level: expected 'low' or 'high', found 'hihg' — did you mean 'high'?"),
        ("mode: slow", ":1 mode: expected 'fast' or 'thorough', found 'slow'"),
        ("mode: thorough", ": mode 'thorough' needs level 'high'"),
        ("seeds: abc", ":1 seeds: expected a whole number or a list, found 'abc'"),
        ("seeds: [1, b]", ":1 seeds[1]: expected a whole number, found 'b'"),
        ("target: {}", ":1 target.kind: required, but missing — add it"),
        (
            "target: {kind: servise}",
            ":1 target.kind: expected one of 'command', 'service', found 'servise'"
            " — did you mean 'service'?",
        ),
        (
            "target: {kind: service, listen-port: x}",
            ":1 target.listen-port: expected a whole number, found 'x'",
        ),
        (
            "either: {kind: service, listen-port: x}",
            ":1 either.listen-port: expected a whole number, found 'x'",
        ),
        ("either: 3", ":1 either: expected a mapping, found 3"),
        ("api_key: abc", ":1 api_key: expected a whole number, found '[redacted]'"),
    ],
)
def test_a_wrong_value_is_described_in_plain_words(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text) == [f"toy.yaml{problem}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "budget: {max_trails: 1}",
            "budget.max_trails: unknown key 'max_trails' — did you mean 'max_trials'?",
        ),
        (
            "budget: {colour: 1}",
            "budget.colour: unknown key 'colour' — known keys: max_trials, usd",
        ),
        ("phases: [{name: a, rte: 1}]", "phases[0].rte: unknown key 'rte' — did you mean 'rate'?"),
        (
            "by_name: {x: {name: a, nme: 1}}",
            "by_name.x.nme: unknown key 'nme' — did you mean 'name'?",
        ),
        (
            "target: {kind: service, listen_port: 1}",
            "target.listen_port: unknown key 'listen_port' — did you mean 'listen-port'?",
        ),
        (
            "target: {kind: command, colour: 1}",
            "target.colour: unknown key 'colour' — known keys: kind, argv",
        ),
        ("either: {kind: command, arg: 1}", "either.arg: unknown key 'arg' — did you mean 'argv'?"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert problems(tmp_path, text) == [f"toy.yaml:1 {problem}"]


def test_all_problems_are_shown_together_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(tmp_path, "verbose: 7x\nphases:\n  - name: 1\n    extra: 2\nname: a\n")
    assert [problem.split(":")[1].split(" ")[0] for problem in found] == ["1", "3", "4", "5"]


def test_of_many_problems_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    keys = "".join(f"colour_{n}: 1\n" for n in range(2_000))
    found = problems(tmp_path, f"name: abc\n{keys}")
    assert [each.split(" ")[0] for each in found[:10]] == [f"toy.yaml:{n}" for n in range(2, 12)]
    assert found[10:] == ["and 1,990 more problems"]
    entries = "".join(f"  e{n}: 7\n" for n in range(2_000))
    wrong = problems(tmp_path, f"name: abc\nby_name:\n{entries}")
    assert wrong[9:] == [
        "toy.yaml:12 by_name.e9: expected a mapping, found 7",
        "and 1,990 more problems",
    ]


def test_problems_that_are_not_named_are_counted_through_several_errors() -> None:
    def error(count: int) -> ConfigError:
        return ConfigError([Problem(message=f"wrong {n}") for n in range(count)])

    both = ConfigError([*error(15).problems, *error(30).problems])
    again = ConfigError([replace(each, where="a.yaml") for each in both.problems])
    assert len(again.problems) == 11
    assert again.problems[-1].message == "and 35 more problems"
    assert error(11).problems[-1].message == "and 1 more problem"
    assert len(error(10).problems) == 10


def test_a_block_of_settings_has_a_bound_of_keys() -> None:
    class Block(Settings):
        size: int = 1
        words: dict[str, int] = Field(default_factory=dict)

    words = {f"k{n}": n for n in range(5_000)}
    assert validate_config({"words": words}, Block, source="f").words == words
    with pytest.raises(ConfigError) as caught:
        validate_config(words, Block, source="f")
    (problem,) = caught.value.problems
    assert problem.message == "it has 5,000 keys; a block of settings has at most 1,000"


def test_a_very_long_key_is_shown_in_part() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_config({"k" * 1_000_000: 1}, Budget, source="f")
    assert len(str(caught.value)) < 500


def test_a_shape_that_fits_no_branch_names_all_of_them() -> None:
    class Either(BaseModel):
        value: int | list[int] | Phase

    with pytest.raises(ConfigError) as caught:
        validate_config({"value": "x"}, Either, source="--set")
    expected = "--set value: expected a whole number or a list or a mapping, found 'x'"
    assert str(caught.value) == expected


def test_a_branch_within_a_branch_is_found() -> None:
    class Inner(Strict):
        size: int | list[int]

    class Outer(Strict):
        part: Inner | list[Inner]

    with pytest.raises(ConfigError) as caught:
        validate_config({"part": [{"size": [1, "x"]}]}, Outer, source="flags")
    assert str(caught.value) == "flags part[0].size[1]: expected a whole number, found 'x'"


def test_a_wrong_default_is_blamed_on_its_key() -> None:
    class Odd(BaseModel):
        size: int = Field(default="x", validate_default=True)  # pyright: ignore[reportAssignmentType]

    with pytest.raises(ConfigError, match="flags size: expected a whole number"):
        validate_config({}, Odd, source="flags")


def test_long_values_are_shortened_and_structures_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_config({"verbose": "x" * 500, "name": {"a": "b"}}, Toy, source="flags")
    assert len(str(caught.value)) < 200
    assert "name: expected text, found a mapping" in str(caught.value)


def test_secrets_are_not_shown_even_in_the_chain_of_causes() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_config({"verbose": "sk-abcdefghijklmnopqrstuvwxyz"}, Toy, source="flags")
    assert "abcdefgh" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("text", ["", "# nothing here\n", "null\n"])
def test_an_empty_file_is_called_empty(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text, Budget) == [
        "toy.yaml: the file is empty — known keys: max_trials, usd"
    ]


@pytest.mark.parametrize(("text", "found"), [("- a\n", "a list"), ("hello\n", "text"), ("5", "5")])
def test_a_file_that_is_no_mapping_is_told_so(tmp_path: Path, text: str, found: str) -> None:
    assert problems(tmp_path, text, Budget) == [
        f"toy.yaml: expected keys with values at the top level, found {found}"
        " — known keys: max_trials, usd"
    ]


def test_a_model_of_a_list_may_be_a_list(tmp_path: Path) -> None:
    class Phases(RootModel[list[Phase]]):
        pass

    path = tmp_path / "phases.yaml"
    path.write_text("- name: a\n")
    assert load_config(path, Phases).root[0].name == "a"
    assert problems(tmp_path, "- nme: a\n", Phases) == [
        "toy.yaml:1 [0].name: required, but missing — add it",
        "toy.yaml:1 [0].nme: unknown key 'nme' — did you mean 'name'?",
    ]
