"""Coordinate descent from a description: what is tuned, and who diagnoses and edits texts."""

from collections.abc import Iterator
from importlib.util import find_spec

from burnish.core.cases import Case
from burnish.runs.parts import Building, RoleNeed, StrategyParts, TargetParts
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.coordinate.tpe import WARM_UP, warm_up
from burnish.strategies.coordinate.wording import applier, critic

CRITIC = RoleNeed(
    name="critic",
    help="Who diagnoses texts: provider:name.",
    instead=("applier", "proposer", "reflector"),
)
APPLIER = RoleNeed(
    name="applier", help="Who edits them.", instead=("critic", "proposer", "reflector")
)


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The search over a target; None, with what is wrong kept, where it cannot be."""
    numbers, texts = parts.numbers(), parts.texts()
    demonstrations = parts.demonstrations() if parts.cases_demonstrate else ()
    settings: CoordinateSettings = building.spec.strategy.settings
    notes: list[str] = []
    refs = (building.named(CRITIC), building.named(APPLIER))
    if texts and None in refs and parts.own_model is None and (numbers or demonstrations):
        # Numbers and demonstrations need nobody who writes.
        notes.append(_left_out(parts))
        texts = ()
    critic_parts = applier_parts = None
    if texts:
        diagnosing, editing = (building.writer(need, parts) for need in (CRITIC, APPLIER))
        critic_parts = None if diagnosing is None else building.asked("critic", diagnosing)
        applier_parts = None if editing is None else building.asked("applier", editing)
        if critic_parts is None or applier_parts is None:
            return None
    chosen = settings.model_copy(
        update={
            "numbers": numbers,
            "texts": texts,
            "demonstrations": demonstrations[0] if demonstrations else "",
        }
    )
    _check(building, parts, chosen)
    notes += _notes(parts, chosen)
    if not parts.dataset.holdout:
        chosen = chosen.model_copy(update={"holdout_policy": "skip"})
    return StrategyParts(
        strategy=Coordinate(
            settings=chosen,
            critic=None if critic_parts is None else critic(*critic_parts),
            applier=None if applier_parts is None else applier(*applier_parts),
        ),
        client=None if applier_parts is None else applier_parts[0],
        notes=tuple(notes),
    )


def _left_out(parts: TargetParts) -> str:
    return (
        f"the textual phase is left out: {parts.no_model}. Name a critic in the file, or with "
        "--critic PROVIDER:NAME or BURNISH_CRITIC"
    )


def _check(building: Building, parts: TargetParts, settings: CoordinateSettings) -> None:
    problems = building.problems
    if (settings.numbers or settings.demonstrations) and find_spec("optuna") is None:
        message = "searching over numbers and demonstrations needs optuna"
        problems.add("target", message, "pip install 'burnish[numeric]'")
    if (
        settings.demonstrations
        and parts.dataset.train
        and not any(map(_showable, parts.dataset.train))
    ):
        at = parts.places.get(settings.demonstrations, ("target",))
        message = "no case of train can be shown: it takes one turn, and no files"
        problems.add(at, message, "add such cases, or remove the axis")
    noisy = [name for name in settings.numbers if name in parts.noisy]
    if settings.repeats == 1 and noisy:
        message = (
            f"{' and '.join(noisy)} makes answers vary, and one repeat cannot tell by how much"
        )
        problems.add("strategy.settings.repeats", message, "set it to 2 or more")


def _showable(case: Case) -> bool:
    return len(case.turns) == 1 and not case.turns[0].attachments


def _notes(parts: TargetParts, settings: CoordinateSettings) -> Iterator[str]:
    if not parts.cases_demonstrate and parts.demonstrations():
        yield f"left as they are by this strategy: {', '.join(parts.demonstrations())}"
    if parts.steady:  # What follows is about noise, and about few points that noise blurs.
        return
    if settings.repeats == 1 and not any(name in parts.noisy for name in settings.numbers):
        yield (
            "repeats is 1: a candidate shows no noise of its own, so the bar is "
            f"{settings.accept_sigma:g} × the incumbent's, which is 0 as well; take 2 or more "
            "unless the agent always answers alike"
        )
    limits = settings.numeric_phase
    if settings.numbers and limits.max_trials < WARM_UP:
        start = warm_up(min(limits.patience, limits.max_trials))
        yield (
            f"numeric_phase.max_trials is {limits.max_trials}, below the usual warm-up of "
            f"{WARM_UP} points: the model is asked after {start}, and has little to go by"
        )
