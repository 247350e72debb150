"""The five searches in a noisy world, with scripted roles and each strategy's usual settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from benchmarks.truth.worlds import START, SURFACE, AnswerWorld, TaskWorld, World
from burnish.core.evaluations import Objective
from burnish.core.surfaces import FileSurface, Surface, TextSurface
from burnish.delegation.training.epochs import Epochs, TextGrad, TextGradRequest
from burnish.delegation.training.setup import EpochSettings
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup, Strategy
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
    SurfaceRemark,
)
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    PhaseLimits,
)
from burnish.strategies.edits import editors
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.strategy import Edits
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import Reflection, ReflectRequest
from burnish.strategies.reflective.search import Reflective
from burnish.testing import ExpectedText, ScriptedRole, ScriptedTarget

_TRIALS = 3
_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True)
class Search:
    """A strategy with the world that suits it."""

    world: type[AnswerWorld] | type[TaskWorld]
    strategy: Callable[[World], Strategy]
    repeats: int
    """Runs of every case, also in the last measurement, as a run from a file has it."""
    budget: Budget

    def setup(self, world: World) -> Setup:
        """The run in this world."""
        surface: Surface = TextSurface(id=SURFACE)
        metrics, weights = (ExpectedText(),), {ExpectedText.name: 1.0}
        if self.world is TaskWorld:
            surface, metrics, weights = FileSurface(id=SURFACE, path=SURFACE), (), {}
        return Setup(
            target=ScriptedTarget(
                respond=world.respond, surfaces=(surface,), values={SURFACE: START}
            ),
            metrics=metrics,
            objective=Objective(weights=weights),
            dataset=world.dataset(),
            strategy=self.strategy(world),
            seed=world.number,
            budget=self.budget,
            concurrency=64,
            test_repeats=self.repeats,
            confirm=True,
        )


def _role(
    name: str,
    answer: Callable[[_Request, int], _Answer],
    request: type[_Request],
    gives: type[_Answer],
) -> ScriptedRole[_Request, _Answer]:
    return ScriptedRole(name=name, respond=answer, request_type=request, answer_type=gives)


def _coordinate(world: World) -> Strategy:
    def diagnose(request: CritiqueRequest, draw: int) -> Gradient:
        del request, draw
        return Gradient(
            failing_pattern="some answers are wrong",
            root_cause_hypothesis="the text lacks something",
            suggested_change_direction="another line",
            confidence=1.0,
            citations=[],
        )

    def edit(request: EditRequest, draw: int) -> Edit:
        return Edit(
            edit_type="insert",
            rationale="one more line",
            new_text=world.proposal(request.current_text, draw),
            diff_summary="one line",
        )

    return Coordinate(
        settings=CoordinateSettings(
            texts=(SURFACE,),
            repeats=2,
            max_cycles=1,
            textual_phase=PhaseLimits(max_trials=_TRIALS, patience=_TRIALS),
        ),
        critic=_role("critic", diagnose, CritiqueRequest, Gradient),
        applier=_role("applier", edit, EditRequest, Edit),
    )


def _reflective(world: World) -> Strategy:
    def reflect(request: ReflectRequest, draw: int) -> Reflection:
        text = world.proposal(request.current_text, request.records, draw)
        return Reflection(diagnosis="another line", new_text=text)

    return Reflective(
        settings=ReflectiveSettings(repeats=2),
        reflector=_role("reflector", reflect, ReflectRequest, Reflection),
    )


def _backprop(world: World) -> Strategy:
    def blame(request: BackwardRequest, draw: int) -> BackwardAnswer:
        del request, draw
        return BackwardAnswer(gradients=[SurfaceRemark(surface=SURFACE, gradient="one more line")])

    def merge(request: MergeRequest, draw: int) -> MergeAnswer:
        del request, draw
        return MergeAnswer()

    def patch(request: PatchRequest, draw: int) -> PatchAnswer:
        text = world.proposal(str(request.surface.value), draw)
        return PatchAnswer(value=text, reason="one more line")

    return Backprop(
        settings=BackpropSettings(repeats=2, max_rounds=_TRIALS, cases_per_round=2),
        backwarder=_role("backwarder", blame, BackwardRequest, BackwardAnswer),
        aggregator=_role("aggregator", merge, MergeRequest, MergeAnswer),
        patcher=_role("patcher", patch, PatchRequest, PatchAnswer),
    )


def _edits(world: World) -> Strategy:
    def edit(request: editors.EditRequest, draw: int) -> editors.Edit:
        text = world.proposal(request.texts[SURFACE], draw)
        files = [editors.WholeFile(path=SURFACE, content=text)]
        return editors.Edit(rationale="one more line", files=files)

    return Edits(
        settings=EditsSettings(repeats=5),
        editor=_role("editor", edit, editors.EditRequest, editors.Edit),
    )


def _epochs(world: World) -> Strategy:
    def propose(request: TextGradRequest, draw: int) -> TextGrad:
        return TextGrad(
            artifact_name=request.artifact_name,
            proposed_content=world.proposal(request.current_text, draw),
            rationale="one more line",
            expected_loss_reduction=0.5,
            confidence=0.5,
        )

    return Epochs(
        settings=EpochSettings(epochs=_TRIALS + 1, repeats=2),
        proposer=_role("textgrad", propose, TextGradRequest, TextGrad),
    )


def _search(
    strategy: Callable[[World], Strategy],
    *,
    repeats: int,
    world: Any = AnswerWorld,
    budget: Budget | None = None,
) -> Search:
    return Search(world=world, strategy=strategy, repeats=repeats, budget=budget or Budget())


SEARCHES: Mapping[str, Search] = {
    "coordinate": _search(_coordinate, repeats=2),
    "reflective": _search(_reflective, repeats=2, budget=Budget(max_metric_calls=180)),
    "backprop": _search(_backprop, repeats=2),
    "edits": _search(_edits, repeats=5, world=TaskWorld, budget=Budget(max_trials=_TRIALS + 1)),
    "epochs": _search(_epochs, repeats=2),
}
"""By strategy; each proposes a few times, and has the claim measured over as many repeats."""
