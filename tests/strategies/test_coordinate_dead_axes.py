"""Axes that reach nothing: found on what was measured, reported, left out, and never paid for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Dataset
from burnish.core.errors import Interrupted
from burnish.core.evaluations import Objective
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Surface, TextSurface
from burnish.journal.limits import Budget
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing import ExpectedText
from burnish.testing.doubles import ScriptedBackend, story
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.tuning_world import TuningWorld, applier, critic
from tests.targets.agent_world import uses

pytestmark = pytest.mark.slow

ARCHIVE = {
    "name": "archive",
    "type": "hierarchical_document",
    "description": "Search the notes",
    "source": "notes.md",
    "chunk_overlap": 0,
    "max_chunk_tokens": 100,
    "top_k": 2,
}
LEDGER = {
    "name": "ledger",
    "type": "function",
    "description": "Write into the ledger",
    "file": "ledger.py",
    "function": "ledger",
}
FUNCTION = """\
from pathlib import Path

def ledger(text: str) -> dict[str, object]:
    with Path(__file__).with_name("ledger.txt").open("a") as out:
        out.write(text + "\\n")
    return {"kept": text, "lines": [1, 2.5]}
"""
RUGS = """\
# Rugs
A rug is blue. One rug is blue.

# Yard
Long ago an old dog saw a blue rug that lay in the yard of a house on the hill.
"""
TOP_K, LEAST, WEIGHT, MODE, TEMPERATURE = (
    "tools[name=archive].top_k",
    "tools[name=archive].min_score",
    "tools[name=archive].semantic_weight",
    "tools[name=archive].search_mode",
    "model.temperature",
)
TEXTS = ("instructions", "tools[name=tidy].template")
AXES: dict[str, Surface] = {
    TOP_K: NumberSurface(id=TOP_K, low=1, high=6, integer=True),
    LEAST: NumberSurface(id=LEAST, low=0.0, high=1.0),
    WEIGHT: NumberSurface(id=WEIGHT, low=0.2, high=0.9),
    MODE: ChoiceSurface(id=MODE, choices=("keyword", "hybrid")),
    TEMPERATURE: NumberSurface(id=TEMPERATURE, low=0.0, high=1.0),
}


@pytest.fixture(autouse=True)
def _no_embedder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    """No embedding model on this machine, whatever was pulled."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


@dataclass
class Desk:
    """An agent that uses the tools it is told to, one after the other, and then answers."""

    folder: Path
    tools: Sequence[str] = ()
    query: str = "cat mat"
    patience: int = 10_000
    """Requests that are answered before everything breaks down."""
    backend: ScriptedBackend = field(init=False)

    def __post_init__(self) -> None:
        self.backend = ScriptedBackend(respond=self._say)

    def setup(self, *axes: Surface, trials: int = 2, **agent: Any) -> Setup:
        """A search over these axes."""
        texts = tuple(axis.id for axis in axes if isinstance(axis, TextSurface))
        limits = PhaseLimits(max_trials=trials, patience=trials)
        settings = CoordinateSettings(
            numbers=tuple(axis.id for axis in axes if axis.id not in texts),
            texts=texts,
            repeats=1,
            max_cycles=2,
            numeric_phase=limits,
            textual_phase=limits,
        )
        models = Models(backends={"openai": self.backend})
        target = AgentTarget(load_agent(self._file(agent)), models, surfaces=axes)
        cases = [Case.single(f"cat {n}", "yes", name=f"q{n}") for n in range(5)]
        return Setup(
            target=target,
            metrics=(ExpectedText(),),
            objective=Objective(weights={"expected_text": 1.0}),
            dataset=Dataset(train=tuple(cases[:3]), holdout=tuple(cases[3:])),
            strategy=Coordinate(
                settings=settings, critic=critic(TuningWorld()), applier=applier(TuningWorld())
            ),
            resources=(target,),
        )

    @property
    def written(self) -> int:
        """How often the user's function was called."""
        path = self.folder / "ledger.txt"
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0

    def _file(self, agent: dict[str, Any]) -> Path:
        notes = "\n\n".join(f"# Note {n}\nThe cat {n} sat on mat {n}." for n in range(8))
        (self.folder / "notes.md").write_text(f"{notes}\n\n{RUGS}", encoding="utf-8")
        (self.folder / "ledger.py").write_text(FUNCTION, encoding="utf-8")
        tidy: dict[str, Any] = {
            "name": "tidy",
            "type": "prompt",
            "description": "Tidy up",
            "parameters": {},
        }
        about: dict[str, Any] = {
            "name": "desk",
            "model": {"provider": "openai", "name": "m", "temperature": 0.5},
            "instructions": {"inline": "Answer."},
            "tools": [ARCHIVE, LEDGER, {**tidy, "template": "Be tidy."}],
            **agent,
        }
        path = self.folder / "agent.yaml"
        path.write_text(json.dumps(about), encoding="utf-8")
        return path

    def _say(self, request: ChatRequest, draw: int) -> str | ChatReply:
        del draw
        if len(self.backend.asked) > self.patience:
            raise Interrupted("the power failed")
        used = sum(message.role == "tool" for message in request.messages)
        if used == len(self.tools):
            return "no"
        name = self.tools[used]
        argument = {"text": "x"} if name == "ledger" else {"query": self.query}
        return uses(name, id=f"c{used}", **argument)


def dead(run: Driven) -> set[tuple[str, str]]:
    return {(event["phase"], event["axis"]) for event in run.events("dead_axis")}


def tuned(run: Driven) -> set[str]:
    """The axes that any point of a study had."""
    sources: list[Any] = [row.trial.details["proposal_source"] for row in run.of_phase("numeric")]
    return {name for source in sources for name in source["params"]}


def test_the_weight_of_meaning_is_dead_where_nothing_embeds(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ["archive_search"])
    run = driven(desk.setup(AXES[WEIGHT], AXES[TOP_K]), tmp_path / "run")
    assert dead(run) == {("numeric", WEIGHT)}
    assert tuned(run) == {TOP_K}
    assert all(row.trial.candidate.values[WEIGHT] == 0.5 for row in run.rows)


def test_a_tool_that_nobody_uses_has_no_living_number(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = driven(desk.setup(AXES[TOP_K]), tmp_path / "run")
    assert run.ends() == {(1, "numeric"): "dead_axes"}
    assert run.why == "dry_cycle"
    assert run.events("dead_axis") == [{"axis": TOP_K, "cycle": 1, "phase": "numeric", "runs": 3}]
    assert len(desk.backend.asked) == 3 + 2  # the baseline, and not a call more


def test_what_reaches_a_request_stays(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run = driven(desk.setup(AXES[TEMPERATURE], AXES[TOP_K]), tmp_path / "run")
    assert dead(run) == {("numeric", TOP_K)}
    assert tuned(run) == {TEMPERATURE}


def test_texts_that_nobody_reads_are_not_edited(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    texts = [TextSurface(id=name, max_chars=200) for name in TEXTS]
    run = driven(desk.setup(*texts), tmp_path / "run")
    assert dead(run) == {("textual", TEXTS[1])}
    targets = {str(row.trial.details["axis_target"]) for row in run.of_phase("textual")}
    assert targets == {"instructions"}


def test_a_living_choice_keeps_what_it_may_wake(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ["archive_search"], query='"blue rug"')
    keyword = {**ARCHIVE, "search_mode": "keyword"}
    axes = (AXES[WEIGHT], AXES[MODE])
    alone = driven(desk.setup(AXES[WEIGHT], tools=[keyword]), tmp_path / "alone")
    assert dead(alone) == {("numeric", WEIGHT)}
    beside = driven(desk.setup(*axes, tools=[keyword]), tmp_path / "beside")
    assert dead(beside) == set()
    assert tuned(beside) == {WEIGHT, MODE}


def test_an_axis_behind_another_is_not_dead(tmp_path: Path) -> None:
    """While min_score lets nothing through, top_k changes nothing; with its neighbour it does."""
    desk = Desk(tmp_path, ["archive_search"])
    nothing = {**ARCHIVE, "min_score": 1.0}
    alone = driven(desk.setup(AXES[TOP_K], tools=[nothing]), tmp_path / "alone")
    assert dead(alone) == {("numeric", TOP_K)}
    axes = (AXES[TOP_K], AXES[LEAST], AXES[WEIGHT])
    beside = driven(desk.setup(*axes, tools=[nothing]), tmp_path / "beside")
    assert dead(beside) == {("numeric", WEIGHT)}, "without an embedder it weighs nothing anywhere"
    assert tuned(beside) == {TOP_K, LEAST}


def test_a_probe_calls_no_function_of_the_user_and_sees_past_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ["ledger", "archive_search"])
    run = driven(desk.setup(AXES[WEIGHT], AXES[TOP_K]), tmp_path / "run")
    assert dead(run) == {("numeric", WEIGHT)}
    assert desk.written == sum(row.spend.metric_calls for row in run.rows)


def test_probes_cost_nothing_and_a_resume_believes_them(tmp_path: Path) -> None:
    whole_desk = Desk(tmp_path, ["archive_search"])
    axes = (AXES[WEIGHT], AXES[TOP_K], AXES[TEMPERATURE])
    whole = driven(whole_desk.setup(*axes, trials=4), tmp_path / "whole")
    assert len(whole_desk.backend.asked) == sum(row.spend.calls for row in whole.rows)
    desk = Desk(tmp_path, ["archive_search"])
    cut = desk.setup(*axes, trials=4)
    first = driven(replace(cut, budget=Budget(max_trials=2)), tmp_path / "cut")
    probes = [effect for effect in first.effects if effect.kind == "probe"]
    assert len(probes) == 3 + 2, "the dead one also with its neighbour at both ends"
    assert all(effect.spend.calls == 0 for effect in probes)
    again = driven(desk.setup(*axes, trials=4), tmp_path / "cut")
    assert story(again.folder / "trials.jsonl") == story(whole.folder / "trials.jsonl")
    assert len(desk.backend.asked) == len(whole_desk.backend.asked)
    assert [e for e in again.effects if e.kind == "probe"][:5] == probes
    assert dead(again) == dead(whole) == {("numeric", WEIGHT)}


def test_a_run_that_broke_down_in_a_trial_finds_the_same_axes_dead(tmp_path: Path) -> None:
    axes = (AXES[WEIGHT], AXES[TOP_K], AXES[TEMPERATURE])
    whole = driven(Desk(tmp_path, ["archive_search"]).setup(*axes), tmp_path / "whole")
    broken = Desk(tmp_path, ["archive_search"], patience=13)  # the baseline takes 10
    with pytest.raises(Interrupted):
        driven(broken.setup(*axes), tmp_path / "cut")
    again = driven(Desk(tmp_path, ["archive_search"]).setup(*axes), tmp_path / "cut")
    assert story(again.folder / "trials.jsonl") == story(whole.folder / "trials.jsonl")
    assert dead(again) == dead(whole) == {("numeric", WEIGHT)}
    assert len(again.events("dead_axis")) == len(whole.events("dead_axis"))
