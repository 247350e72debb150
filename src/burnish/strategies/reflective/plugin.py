"""Reflective search as a plug-in: how it is built, its plan, its lines, its report and files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from burnish.core.content import short_id
from burnish.core.formatting import Section
from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import (
    Building,
    ResultFiles,
    RoleNeed,
    StrategyParts,
    TargetParts,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.proposers import ProposerOffer
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.minibatches import MinibatchPlugin, minibatch_line
from burnish.strategies.reflective.attempts import (
    ReflectiveDetails,
    ReflectiveSettings,
    budget_floor,
)
from burnish.strategies.reflective.reflection import ROLE, ReflectionProposer, reflector
from burnish.strategies.reflective.report import (
    ENDS,
    ReflectiveLines,
    plan_lines,
    report,
    search_cost,
)
from burnish.strategies.reflective.search import Reflective
from burnish.strategies.settings import budget_with_an_end

_REFLECTOR = RoleNeed(
    name=ROLE,
    help="The model that rewrites texts: provider:name.",
    instead=("proposer", "critic"),
    panel="Prompts of any agent",
)


class ReflectivePlugin(MinibatchPlugin):
    """Reflective search for the command line, run.json and report.md."""

    name: ClassVar[str] = Reflective.name
    Settings: ClassVar[type[StrategySettings]] = ReflectiveSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (_REFLECTOR,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"reflector": ("diagnosis",)}
    offers_fork: ClassVar[bool] = False

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        spec = building.spec
        settings: ReflectiveSettings = spec.strategy.settings.model_copy(
            update={"fields": parts.texts()}
        )
        budget, notes = budget_with_an_end(spec.budget.budget())
        if not spec.output.baseline_only:
            _check_budget(building, budget, parts, settings)
        ref = building.writer(_REFLECTOR, parts)
        client = None if ref is None else building.asked(ROLE, ref)
        if client is None:
            return None
        return StrategyParts(
            strategy=Reflective(reflector=reflector(*client), settings=settings),
            budget=budget,
            client=client[0],
            notes=(*notes, *_notes(parts, settings)),
        )

    def proposers(self, building: Building, parts: TargetParts) -> Iterable[ProposerOffer]:
        texts, name = parts.texts(), "reflection"
        if not texts:
            return
        if building.named(_REFLECTOR) is None and parts.own_model is None:
            why = f"{parts.no_model}: name one with {ROLE}: or --{ROLE} PROVIDER:NAME"
            yield ProposerOffer(name=name, surfaces=texts, left_out=why)
            return
        ref = building.writer(_REFLECTOR, parts)
        client = None if ref is None else building.asked(ROLE, ref)
        if client is None:
            return
        role = reflector(*client)
        yield ProposerOffer(
            name=name,
            surfaces=texts,
            begin=partial(ReflectionProposer, reflector=role, fields=texts),
            fingerprint=short_id([name, 1, list(texts)]),
            roles=(role,),
            client=client[0],
        )

    def plan(self, setup: Setup) -> Iterable[str]:
        assert isinstance(setup.strategy, Reflective)
        return plan_lines(setup, setup.strategy)

    def search_cost(self, setup: Setup) -> str:
        assert isinstance(setup.strategy, Reflective)
        return search_cost(setup, setup.strategy)

    def progress(self) -> ProgressLines:
        return ReflectiveLines(self.ends)

    def result_files(self, run: Run) -> ResultFiles | None:
        """The files of AgentOptimizer, when prompts are optimised."""
        if run.target.description.kind != "prompts":
            return None
        from burnish.strategies.reflective.result_files import RoundFiles

        texts = {name: str(text) for name, text in run.target.baseline.values.items()}
        redactor = run.directory.redactor
        return RoundFiles(run.directory.folder, baseline=texts, redactor=redactor)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def trial_lines(self, row: TrialRow) -> Iterable[str]:
        details = ReflectiveDetails.of(row.trial)
        if details.minibatch:
            before, after = details.parent_score, details.candidate_score
            yield minibatch_line(details.minibatch, before, after, beside="parent")


def _check_budget(
    building: Building, budget: Budget, parts: TargetParts, settings: ReflectiveSettings
) -> None:
    limit = budget.max_metric_calls
    confirm = building.spec.execution.confirm
    floor = budget_floor(parts.dataset, settings, test_repeats=settings.repeats, confirm=confirm)
    if limit is not None and limit < floor:
        last = ", including both again at the end" if confirm else ""
        last = ", including the sealed test" if parts.dataset.test else last
        building.problems.add(
            "budget.max_metric_calls",
            f"{limit} runs of cases cannot finish one round: measuring the baseline and one "
            f"candidate takes {floor}{last}",
            f"allow {floor} or more, use fewer cases, or a smaller minibatch",
        )


def _notes(parts: TargetParts, settings: ReflectiveSettings) -> Iterator[str]:
    others = [*parts.numbers(), *parts.demonstrations()]
    if others:
        yield f"reflection only rewrites texts; left unchanged: {', '.join(others)}"
    if settings.merge and len(settings.fields) < 2:
        yield "merging has no effect: it needs two prompts, and there is only one"
