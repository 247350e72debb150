"""A parcel desk of six agents with a loop, in which a rule can be missing at any node.

Every model call is answered by a script: the nodes follow the rules that their instructions state,
the roles of `backprop` read what they are shown. So it can be counted whether a loss finds its way
back to the instruction that caused it.
"""

from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.objectives import Objective
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.runs.setup import Setup
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.backprop.wording import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    aggregator,
    backwarder,
    patcher,
)
from burnish.targets.graph import Graph, GraphTarget, all_surfaces, graph
from burnish.testing.backends import ScriptedBackend
from burnish.testing.doubles import ExpectedText
from burnish.testing.graph_world_nodes import NODES, PARTS, instruction, letter
from burnish.testing.graph_world_reading import play

MODEL = "openai:desk"
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
    """The surface that a fault at this node stands in."""
    return f"{DESK}/{node}#instruction"


def desk(faulty: str = "", *, wrong: bool = False) -> Graph:
    """The desk; at the faulty node the rule for its first part is missing, or says nonsense."""
    made = graph(DESK, output="finalize", max_visits=2)
    for node in NODES:
        part = PARTS[node][0] if node == faulty else ""
        text = instruction(node, wrong=part) if wrong else instruction(node, without=part)
        # The desk writes once more, not for ever.
        visits = 1 if node == "rewrite" else None
        made.agent(node, model=MODEL, instructions=text, max_visits=visits)
    made.edge("planner", ["retrieve", "compose"])
    made.edge("retrieve", "reviewer").edge("compose", "reviewer")
    made.edge("reviewer", "rewrite", when="REVISE").edge("reviewer", "finalize")
    return made.edge("rewrite", "planner")


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
    """A run of `backprop` over the desk, by its real roles and prompts."""

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        told, *_, asked = (message.content for message in request.messages)
        return play(told, asked)

    models = Models(backends={"openai": ScriptedBackend(respond=respond)})
    made, ref = desk(faulty, wrong=wrong), ModelRef.parse(MODEL)
    nowhere = Path("/nonexistent")
    texts = [s for s in all_surfaces(made) if s.id.endswith("#instruction")]
    return Setup(
        target=GraphTarget(made, models, surfaces=texts),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases(0, train), holdout=cases(train, holdout)),
        strategy=Backprop(
            backwarder=backwarder(models.client(ref), in_force(BACKWARDER, nowhere)),
            aggregator=aggregator(models.client(ref), in_force(AGGREGATOR, nowhere)),
            patcher=patcher(models.client(ref), in_force(PATCHER, nowhere)),
            settings=settings or BackpropSettings(max_rounds=3),
        ),
    )
