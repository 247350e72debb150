"""Training by epochs from a description: who proposes, and what is said before it starts."""

from collections.abc import Iterator

from burnish.runs.parts import Building, RoleNeed, StrategyParts, TargetParts
from burnish.strategies.epochs.proposing import ROLE, textgrad
from burnish.strategies.epochs.settings import EpochSettings
from burnish.strategies.epochs.strategy import Epochs

PROPOSER = RoleNeed(
    name="proposer",
    help="Who proposes texts: provider:name.",
    panel="Suites of tasks to delegate",
    prompt=ROLE,
)


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The training; None, with what is wrong kept, where it cannot be."""
    settings: EpochSettings = building.spec.strategy.settings
    if not settings.with_textgrad:
        note = "nothing is proposed: the suite is only measured; --with-textgrad trains"
        return StrategyParts(strategy=Epochs(settings=settings), notes=(note,))
    ref = building.writer(PROPOSER, parts)
    asked = None if ref is None else building.asked(ROLE, ref, role=PROPOSER.name)
    if asked is None:
        return None
    return StrategyParts(
        strategy=Epochs(settings=settings, proposer=textgrad(*asked)),
        client=asked[0],
        notes=tuple(_few(settings)),
    )


def _few(settings: EpochSettings) -> Iterator[str]:
    if settings.epochs < 2:
        yield "one epoch only measures: an update takes --epochs 2 or more"
    if settings.repeats < 2:
        yield "one repeat shows no noise: any gain counts; --repeats 2 or more show it"
