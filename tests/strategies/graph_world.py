"""The parcel desk as a graph, with a run over it; what its model says is in `burnish.testing`."""

from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.runs.setup import Setup
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    aggregator,
    backwarder,
    patcher,
)
from burnish.strategies.backprop.strategy import Backprop
from burnish.targets.graph import Graph, GraphTarget, all_surfaces, graph
from burnish.testing.doubles import ExpectedText, ScriptedBackend
from burnish.testing.graph_world import PARTS, letter, play, rule_line

NODES = tuple(PARTS)


def instruction(node: str, *, without: str = "", wrong: str = "") -> str:
    """The instruction of a node; one rule may be missing or wrong."""
    rules = [
        rule_line(part) if part != wrong else f"- {part}: leave it to the others."
        for part in PARTS[node]
        if part != without
    ]
    head = f"You are the {node} of the parcel desk.\nYour part: {', '.join(PARTS[node])}."
    return "\n".join([head, "Rules:", *rules])


_MODEL = "openai:desk"
DESK = "desk"
# fmt: off
_PLACES = (
    "Oslo", "Rome", "Lima", "Cairo", "Delhi", "Quito", "Accra", "Tunis", "Paris", "Tokyo",
    "Hanoi", "Seoul", "Dakar", "Minsk", "Sofia", "Praia", "Doha", "Riga", "Bern", "Kyiv",
    "Suva", "Apia", "Male", "Lome", "Nuuk", "Baku", "Bonn", "Cork", "Graz", "Lyon",
    "Metz", "Nice", "Pisa", "Turin", "Basel", "Ghent", "Malmo", "Turku", "Porto", "Varna",
)
# fmt: on


def planted(node: str) -> str:
    """The surface that contains the fault of this node."""
    return f"{DESK}/{node}#instruction"


def desk(faulty: str = "", *, wrong: bool = False) -> Graph:
    """The desk; the first rule of the faulty node is missing, or wrong."""
    team = graph(DESK, output="finalize", max_visits=2)
    for node in NODES:
        part = PARTS[node][0] if node == faulty else ""
        text = instruction(node, wrong=part) if wrong else instruction(node, without=part)
        # The desk writes once more, not for ever.
        visits = 1 if node == "rewrite" else None
        team.agent(node, model=_MODEL, instructions=text, max_visits=visits)
    team.edge("planner", ["retrieve", "compose"])
    team.edge("retrieve", "reviewer").edge("compose", "reviewer")
    team.edge("reviewer", "rewrite", when="REVISE").edge("reviewer", "finalize")
    return team.edge("rewrite", "planner")


def cases(first: int, count: int) -> tuple[Case, ...]:
    """Customers who ask what a parcel costs."""
    return tuple(
        Case.single(f"What does a parcel to {place} cost?", letter(place), name=place.lower())
        for place in _PLACES[first : first + count]
    )


def setup(
    faulty: str = "",
    *,
    wrong: bool = False,
    train: int = 20,
    holdout: int = 10,
    settings: BackpropSettings | None = None,
) -> Setup:
    """A run of `backprop` over the desk with the real roles and prompts."""

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        system, *_, question = (message.content for message in request.messages)
        return play(system, question)

    models = Models(backends={"openai": ScriptedBackend(respond=respond)})
    team, client = desk(faulty, wrong=wrong), models.client(ModelRef.parse(_MODEL))
    nowhere = Path("/nonexistent")
    texts = [s for s in all_surfaces(team) if s.id.endswith("#instruction")]
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=GraphTarget(team, models, surfaces=texts),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases(0, train), holdout=cases(train, holdout)),
        strategy=Backprop(
            backwarder=backwarder(client, in_force(BACKWARDER, nowhere)),
            aggregator=aggregator(client, in_force(AGGREGATOR, nowhere)),
            patcher=patcher(client, in_force(PATCHER, nowhere)),
            settings=settings or BackpropSettings(max_rounds=3),
        ),
    )
