"""Every pair of strategy and file kind in docs/choose.md, as something that can be run.

The worlds are those of the tests that the page names; only what those tests write inside of
themselves is repeated here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.core.cases import Usage
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.testing import PluginProject
from burnish.testing.delegation_world import FAULT, RULE, Response, RoleTurn
from burnish.testing.doubles import ScriptedBackend
from tests.cli.test_cli_optimize_prompts import ReflectingEcho
from tests.delegation.delegation_world import suite_world
from tests.delegation.refine import refining_world
from tests.delegation.training.suite_places import Place
from tests.projects import optimizer_world
from tests.projects.artifacts import task_world
from tests.projects.graph import graph_world
from tests.projects.prompts import prompt_world

Act = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A world with a plan and a whole run."""

    plan: Act
    """`--dry-run`."""
    run: Act
    later: Mapping[str, Act] = field(default_factory=dict[str, Act])
    """What can be done when the run is over, by name; nothing after a delegation."""
    project: PluginProject | None = None
    """The file and its models; a delegation has no such file."""


def _optimizing(file: Path, models: Callable[[], Models], **flags: Any) -> Pair:
    """`burnish optimize FILE -o run`, planned and done with models of their own.

    Then `--resume run`, `--fork run -o fork` and `--print-baseline -o baseline`.
    """

    def act(way: RunOpening, *, dry_run: bool = False, **more: Any) -> Act:
        request = OptimizeRequest(
            file=file, flags=flags | more, way=way, dry_run=dry_run, progress="lines"
        )
        return lambda: optimize_project(request, models=models())

    new = RunOpening(output_dir=Path("run"))
    return Pair(
        project=PluginProject(file=file, flags=flags, models=models),
        plan=act(new, dry_run=True),
        run=act(new),
        later={
            "resume": act(RunOpening(resume="run")),
            "fork": act(RunOpening(fork="run", output_dir=Path("fork"))),
            "baseline": act(RunOpening(output_dir=Path("baseline")), print_baseline=True),
        },
    )


# -- agent files -----------------------------------------------------------------------------


def agent_coordinate(folder: Path) -> Pair:
    """Wins of all phases end up in one agent."""
    file = optimizer_world.write_world(
        folder, lambda data: optimizer_world.optimizer(data).update(sealed_cases_file="sealed.yaml")
    )
    return _agent(file, optimizer_world.echo)


def agent_reflective(folder: Path) -> Pair:
    """The instructions of an agent file, rewritten by a reflector."""

    def only_texts(data: dict[str, Any]) -> None:
        block = optimizer_world.optimizer(data)
        block["axes"] = {"textual": [{"path": "instructions.inline", "max_chars": 400}]}
        block["budget"] = {"global": {"max_trials": 2}}
        block["repeats"] = 1
        block["reflective"] = {"minibatch": 6}

    file = optimizer_world.write_world(folder, only_texts)
    return _agent(
        file,
        lambda: ReflectingEcho(respond=lambda _, __: ""),
        strategy="reflective",
        reflector="openai:m",
    )


def agent_auto(folder: Path) -> Pair:
    """The instructions, the temperature and demonstrations, each by its own proposer."""

    def few_trials(data: dict[str, Any]) -> None:
        block = optimizer_world.optimizer(data)
        block["budget"] = {"global": {"max_trials": 8}}
        block["repeats"] = 1
        block["auto"] = {"minibatch": 6, "unpaid_tries": 2}

    file = optimizer_world.write_world(folder, few_trials)
    return _agent(
        file, lambda: ReflectingEcho(respond=lambda _, __: ""), strategy="auto", proposer="openai:m"
    )


class CountingEcho(optimizer_world.EchoBackend):
    """The agent of the optimizer's tests, which also counts words as tokens."""

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        reply = await super().complete(ref, request, draw=draw)
        words = sum(len(message.content.split()) for message in request.messages)
        return replace(reply, usage=Usage(requests=1, input_tokens=words, output_tokens=2))


def agent_frugal(folder: Path) -> Pair:
    """The same agent, made cheaper."""

    def saved(data: dict[str, Any]) -> None:
        block = optimizer_world.optimizer(data)
        block["budget"] = {"global": {"max_trials": 4}}
        block["repeats"] = 1

    file = optimizer_world.write_world(folder, saved)
    backend = CountingEcho(respond=lambda _, __: "")
    return _agent(file, lambda: backend, strategy="frugal")


def _agent(file: Path, backend: Callable[[], optimizer_world.EchoBackend], **flags: Any) -> Pair:
    return _optimizing(file, lambda: optimizer_world.echo_models(backend()), **flags)


def agent_backprop(folder: Path) -> Pair:
    """An agent with a tool: a graph of one node."""
    graph_world.write_world(folder)
    tool = 'def unit(thing: str) -> str:\n    """Look up the unit."""\n    return "kg"\n'
    (folder / "shop_tools.py").write_text(tool, encoding="utf-8")
    file = folder / "agent.yaml"
    file.write_text(json.dumps(_SHOP), encoding="utf-8")
    return _graph(file, lambda: ScriptedBackend(respond=_with_a_tool))


_SHOP: Mapping[str, Any] = {
    "name": "shop",
    "model": {"provider": "openai", "name": "m"},
    "instructions": {"inline": graph_world.PLAN},
    "tools": [
        {
            "name": "unit",
            "type": "function",
            "description": "Look up the unit.",
            "file": "shop_tools.py",
            "function": "unit",
        }
    ],
    "evaluations": {
        "metrics": [{"type": "standard", "metric": "equality"}],
        "optimizer": {
            "strategy": "backprop",
            "loss": {"equality": 1.0},
            "train_cases_file": "cases/train.json",
            "holdout_cases_file": "cases/holdout.json",
            "min_holdout_cases": 3,
            "axes": {
                "textual": [{"path": "instructions"}, {"path": "tools[name=unit].description"}]
            },
            "backprop": {"targets": ["instructions"], "max_rounds": 2},
        },
    },
}


def _with_a_tool(request: ChatRequest, draw: int) -> str:
    """The agent by itself: with the rule it gives the whole answer."""
    if request.schema:
        return graph_world.respond(request, draw)
    question = "".join(m.content for m in request.messages if m.role == "user")
    system = "".join(m.content for m in request.messages if m.role == "system")
    answer = question.strip().rstrip("?").replace(" ", "")
    return f"{answer} kg" if graph_world.RULE in system else answer


# -- prompts of any agent --------------------------------------------------------------------


def _over_prompts(file: Path, backend: Callable[[], ScriptedBackend], **flags: Any) -> Pair:
    """With a scripted model behind every role."""
    return _optimizing(file, lambda: prompt_world.models(backend()), **flags)


def optimizer_json(folder: Path) -> Pair:
    """`optimizer.json` with flags, as AgentOptimizer has it."""
    file = prompt_world.write_world(folder)
    return _over_prompts(
        file,
        lambda: prompt_world.reflector(_WORSE, prompt_world.BETTER),
        **prompt_world.flags(folder),
    )


_WORSE = "You are a careless assistant for letters.\n"
_METRICS = [{"type": "standard", "metric": "equality"}]


def _prompts(folder: Path, strategy: str, **more: Any) -> Path:
    """`kind: prompts` over the agent that answers numbers."""
    prompt_world.write_world(folder)
    data = {
        "kind": "prompts",
        "target": {"python": "numbers_agent:call_agent"},
        "prompts": {"system": "prompts/system.md"},
        "train": "train.evalset.json",
        "holdout": "val.evalset.json",
        "metrics": _METRICS,
        "strategy": strategy,
        **more,
    }
    file = folder / "prompts.yaml"
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def prompts_reflective(folder: Path) -> Pair:
    """The same search from a project file."""
    file = _prompts(folder, "reflective", reflector="openai:m", budget={"max_trials": 2})
    return _over_prompts(file, prompt_world.reflector)


def prompts_auto(folder: Path) -> Pair:
    """One proposer: the texts are all that prompts offer."""
    file = _prompts(folder, "auto", reflector="openai:m", budget={"max_trials": 2})
    return _over_prompts(file, prompt_world.reflector)


def prompts_coordinate(folder: Path) -> Pair:
    """Coordinate descent over prompt files."""
    file = _prompts(
        folder,
        "coordinate",
        critic="openai:m",
        repeats=1,
        coordinate={"max_cycles": 1, "max_trials": 2, "patience": 1},
    )
    return _over_prompts(file, prompt_world.reflector)


def prompts_backprop(folder: Path) -> Pair:
    """Back-propagation through an agent of one step."""
    better = f"{prompt_world.PROMPT.strip()} Answer {prompt_world.RULE}."
    replies: Mapping[str, Any] = {
        "backwarder": {"gradients": [{"surface": "system", "gradient": "be plain"}]},
        "aggregator": {"gradients": [{"gradient": "be plain", "sources": [1, 2]}]},
        "patcher": {"value": better, "reason": "nobody told it how"},
    }
    file = _prompts(folder, "backprop", proposer="openai:m", backprop={"max_rounds": 1})
    return _over_prompts(
        file,
        lambda: ScriptedBackend(
            respond=lambda request, _: json.dumps(replies[request.schema_name])
        ),
    )


# -- graphs ----------------------------------------------------------------------------------


def _graph(file: Path, backend: Callable[[], ScriptedBackend | None] = lambda: None) -> Pair:
    return _optimizing(file, lambda: graph_world.models(backend()))


def graph_backprop(folder: Path) -> Pair:
    """The planner is found to be at fault, and mended."""
    file = graph_world.write_world(folder, graph_world.file(sealed="cases/sealed.json"))
    return _graph(file)


def _graph_other(folder: Path, strategy: str) -> Pair:
    change = graph_world.optimizer(strategy=strategy, targets=["planner#instruction"], repeats=1)
    limit = graph_world.file(budget={"max_trials": 2})
    return _graph(graph_world.write_world(folder, change, limit))


# -- files of a task -------------------------------------------------------------------------


def _task(file: Path, *texts: str, **flags: Any) -> Pair:
    return _optimizing(file, lambda: task_world.scripted(task_world.adding(*texts)), **flags)


def task_edits(folder: Path) -> Pair:
    """Only what is better is kept, and everything is logged."""
    return _task(task_world.write_task(folder), "one\ntwo\n", "one\ntwo\ntwo\n", "boom\n")


def task_coordinate(folder: Path) -> Pair:
    """Numbers of a file are tuned."""
    axis = {"file": "c.yaml", "path": "cache.size", "low": 1, "high": 32, "integer": True}
    goal = {"direction": "minimize", "worst": 400, "best": 0}
    file = task_world.write_task(
        folder,
        task_world.put("artifacts", include=["c.yaml"]),
        task_world.top(axes=[axis], objective=goal, constraints=[], policy={}, budget={}),
    )
    (folder / "score.py").write_text(_SIZE_SCORER, encoding="utf-8")
    (folder / "c.yaml").write_text("# sizes\ncache:\n  size: 4  # now\n", encoding="utf-8")
    return _task(file, "one\n", strategy="coordinate", max_cycles=1, numeric_max_trials=4)


_SIZE_SCORER = """
import json, re
size = int(re.search(r"size: (\\d+)", open("c.yaml").read())[1])
print(json.dumps({"score": (size - 20) ** 2}))
"""


# -- policy texts, and one delegation --------------------------------------------------------


def _suite(
    folder: Path, roles: Mapping[str, Any] | None, *tasks: str, holdout: tuple[str, ...] = ()
) -> Callable[..., Pair]:
    world = suite_world(others=roles) if roles else suite_world()
    place = Place(folder=folder, world=world)
    place.write(*tasks, holdout=holdout)
    place.spoil()

    def pair(**flags: Any) -> Pair:
        usual: dict[str, Any] = {"epochs": 2, "with_textgrad": True, "repeats": 1}
        return _optimizing(place.suite, world.models, **usual | flags)

    return pair


def suite_epochs(folder: Path) -> Pair:
    """The fault is found and mended for a task that nobody saw."""
    return _suite(folder, None, "heat", "rain", holdout=("frost",))(epochs=3, repeats=1)


def suite_reflective(folder: Path) -> Pair:
    """Reflection trains the texts too."""

    def rewrite(turn: RoleTurn) -> Response:
        return {"diagnosis": "units are left out", "new_text": _without_fault(turn)}

    make = _suite(folder, {"reflector": rewrite}, "heat", "rain", holdout=("snow", "wind"))
    return make(strategy="reflective", epochs=None, with_textgrad=None, max_trials=1)


def suite_auto(folder: Path) -> Pair:
    """The same, by a search that asks whoever can propose."""

    def rewrite(turn: RoleTurn) -> Response:
        return {"diagnosis": "units are left out", "new_text": _without_fault(turn)}

    make = _suite(folder, {"reflector": rewrite}, "heat", "rain", holdout=("snow", "wind"))
    return make(strategy="auto", epochs=None, with_textgrad=None, max_trials=1)


def suite_coordinate(folder: Path) -> Pair:
    """Coordinate descent trains the texts too."""

    def diagnose(turn: RoleTurn) -> Response:
        del turn
        return {
            "failing_pattern": "no units",
            "root_cause_hypothesis": "the text asks for it",
            "suggested_change_direction": "ask for units",
            "confidence": 0.9,
            "citations": [],
        }

    def edit(turn: RoleTurn) -> Response:
        text = _without_fault(turn)
        return {"edit_type": "replace", "rationale": "", "new_text": text, "diff_summary": ""}

    make = _suite(folder, {"critic": diagnose, "applier": edit}, "heat", "rain")
    return make(strategy="coordinate", epochs=None, with_textgrad=None, max_trials=1)


def _without_fault(turn: RoleTurn) -> str:
    text = turn.fields["current_text"]
    return text.replace(FAULT, RULE) + "\n"


def delegation(folder: Path) -> Pair:
    """One delegation by itself: what a refinement starts from."""
    place = refining_world.Place(folder=folder)
    return Pair(
        plan=lambda: place.delegate(output_dir=Path("seed"), dry_run=True, quiet=False),
        run=lambda: place.delegate(output_dir=Path("seed"), quiet=False),
    )


def delegation_refine(folder: Path) -> Pair:
    """Three flaws in three iterations."""
    place = refining_world.Place(folder=folder)
    place.make_seed()
    flags = {"iterations": 5}
    return Pair(
        plan=lambda: place.refine(flags=flags, dry_run=True, quiet=False),
        run=lambda: place.refine(flags=flags, quiet=False),
    )


PAIRS: Mapping[str, Callable[[Path], Pair]] = {
    "agent-auto": agent_auto,
    "agent-coordinate": agent_coordinate,
    "agent-reflective": agent_reflective,
    "agent-backprop": agent_backprop,
    "agent-frugal": agent_frugal,
    "optimizer-json": optimizer_json,
    "prompts-reflective": prompts_reflective,
    "prompts-auto": prompts_auto,
    "prompts-coordinate": prompts_coordinate,
    "prompts-backprop": prompts_backprop,
    "graph-backprop": graph_backprop,
    "graph-auto": lambda folder: _graph_other(folder, "auto"),
    "graph-reflective": lambda folder: _graph_other(folder, "reflective"),
    "graph-coordinate": lambda folder: _graph_other(folder, "coordinate"),
    "graph-frugal": lambda folder: _graph_other(folder, "frugal"),
    "task-edits": task_edits,
    "task-coordinate": task_coordinate,
    "suite-epochs": suite_epochs,
    "suite-reflective": suite_reflective,
    "suite-auto": suite_auto,
    "suite-coordinate": suite_coordinate,
    "delegation": delegation,
    "delegation-refine": delegation_refine,
}
"""By the name of their goldens."""
