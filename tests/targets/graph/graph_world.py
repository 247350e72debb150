"""Graphs in a folder and in Python, and models that answer by their instructions."""

from collections.abc import Callable, Sequence
from pathlib import Path

from burnish.core.cases import Case, Outcome
from burnish.core.surfaces import Candidate, Origin, Surface, Value
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatRequest
from burnish.targets.graph import Graph, GraphTarget, NodeInput, graph, load_graph
from burnish.testing.doubles import ScriptedBackend
from tests.targets.agent_world import Respond, scripted

SUPPORT = """\
# The support desk. This comment stays.
kind: graph
name: support
nodes:
  planner: {agent: agents/planner.yaml}
  retrieve: {python: "desk:retrieve"}
  compose:   # writes
    model: {provider: openai, name: m, temperature: 0.5, api_key: "${DESK_KEY}"}
    instructions: {file: prompts/compose.md}
    skills: [skills/citing/SKILL.md]
    input: "{question}\\n\\nPlan: {planner}"
  reviewer:
    model: {provider: openai, name: m}
    instructions: {inline: You are reviewer.}
  rewrite:
    model: {provider: openai, name: m}
    instructions: {inline: You are rewrite.}
  finalize:
    model: {provider: openai, name: m}
    instructions: {inline: You are finalize.}
edges:
  - planner -> retrieve
  - {from: planner, to: compose}
  - retrieve -> reviewer
  - compose -> reviewer
  - {from: reviewer, to: rewrite, when: {contains: REVISE}}
  - {from: reviewer, to: finalize}
  - {from: rewrite, to: planner}
global_instructions: {inline: Be kind.}
output: finalize
"""
PLANNER = """\
# The planner.
name: the planner
model: {provider: openai, name: m}
instructions: {file: ../prompts/plan.md}
tools:
  - {name: look, type: function, description: Look it up, file: ../desk.py, function: look}
"""
DESK = '''\
def retrieve(text: str) -> dict[str, str]:
    """Facts for a plan."""
    return {"fact": "tea is 3"}


def look(word: str) -> str:
    """Look a word up."""
    return word
'''


def write_support(folder: Path) -> Path:
    """The folder of the support desk, with everything it names."""
    files = {
        "graph.yaml": SUPPORT,
        "agents/planner.yaml": PLANNER,
        "prompts/plan.md": "---\nversion: 2\n---\nYou are planner.\n",
        "prompts/compose.md": "You are compose.\n",
        "skills/citing/SKILL.md": "---\nname: citing\ndescription: d\n---\nCite sources.\n",
        "desk.py": DESK,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "graph.yaml"


def speaker(request: ChatRequest) -> str:
    """Whom a request is meant for: `You are reviewer.` stands in its instructions."""
    told = " ".join(m.content for m in request.messages if m.role == "system")
    return told.partition("You are ")[2].partition(".")[0]


def heard(request: ChatRequest) -> str:
    """What was said last."""
    return request.messages[-1].content


def revising_once() -> Respond:
    """Every agent says its name; the reviewer wants one revision."""
    reviews = 0

    def respond(request: ChatRequest, draw: int) -> str:
        nonlocal reviews
        del draw
        name = speaker(request)
        if name != "reviewer":
            return f"{name} done"
        reviews += 1
        return "REVISE" if reviews == 1 else "fine"

    return respond


def saying(*names: str, entry: str = "", output: str = "", max_visits: int = 3) -> Graph:
    """A graph of functions that each say their name and what led to them."""
    made = graph("g", entry=entry, output=output, max_visits=max_visits)
    for name in names:
        made.node(name, echo(name))
    return made


def echo(name: str) -> Callable[[NodeInput], str]:
    """A function that says who it is."""

    def say(given: NodeInput) -> str:
        del given
        return name

    return say


def target_of(
    made: Graph | Path, respond: Respond = lambda _, __: "ok", surfaces: Sequence[Surface] = ()
) -> tuple[GraphTarget, ScriptedBackend]:
    """A graph, or that of a file, as a target."""
    models, backend = scripted(respond)
    found = load_graph(made) if isinstance(made, Path) else made
    return GraphTarget(found, models, surfaces=surfaces), backend


async def run(
    made: Graph | Path | GraphTarget,
    case: Case | str = "Why?",
    respond: Respond = lambda _, __: "ok",
) -> Outcome:
    """What a case gives under the baseline."""
    target = made if isinstance(made, GraphTarget) else target_of(made, respond)[0]
    asked = Case.single(case) if isinstance(case, str) else case
    receipt = await target.run(target.baseline, asked, draw=0, effects=DirectEffects())
    return receipt.value


def told(outcome: Outcome) -> list[tuple[str, tuple[str, ...]]]:
    """The steps of a run with the steps before each."""
    return [(step.id, step.predecessors) for step in outcome.trace.steps]


def changed(base: Candidate, values: dict[str, Value]) -> Candidate:
    """A candidate that differs in these surfaces."""
    return base.child(values, origin=Origin(kind="test"))
