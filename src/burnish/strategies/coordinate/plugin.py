"""Coordinate descent as a plug-in: how it is built, its plan, its lines, report and proposers."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import ClassVar

from rich.cells import cell_len

from burnish.core.content import short_id
from burnish.core.formatting import Drawing, Section, Text, padded, visible
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import AGENT_SURFACES, Candidate, Origin, Surface, value_key
from burnish.runs.directory import RunRecord
from burnish.runs.events import Event, PhaseStarted, TrialRecorded, read_all
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, StrategyPlugin, TargetParts
from burnish.runs.progress import (
    INDENT,
    ProgressLines,
    note_words,
    shorten_after,
    spent_words,
    trial_label,
    wrapped,
)
from burnish.runs.run import Run
from burnish.runs.setup import Proposed, ProposerEvidence, ProposerOffer, Setup, Tried
from burnish.runs.spec import StrategySettings
from burnish.strategies.coordinate.demonstrations import (
    DemonstrationPhase,
    NumericPhase,
    PointPhase,
)
from burnish.strategies.coordinate.numeric import WARM_UP, Point, warm_up
from burnish.strategies.coordinate.phases import DeadAxis, Headroom, headroom_lines
from burnish.strategies.coordinate.report import ENDS, gains_by_phase, report
from burnish.strategies.coordinate.search import (
    Coordinate,
    first_round,
    plan_lines,
    search_cost,
    search_limits,
)
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    Incumbent,
    Memory,
    applier,
    critic,
)
from burnish.system.extras import install_command

# -- Proposers -------------------------------------------------------------------------------------


_NUMBERS, _DEMONSTRATIONS = "numbers", "demonstrations"


class _PointProposer:
    """Asks a study for the next point; the study is a fresh one when others change the incumbent.

    A study compares points by what they gained over the incumbent on a minibatch, added to what
    the study's own points gained before.
    """

    def __init__(self, run: Run, phase: type[PointPhase], settings: CoordinateSettings) -> None:
        self._run = run
        self._kind = phase
        self._settings = settings
        self._studies = 0
        self._phase: PointPhase | None = None
        """None while there is nothing to search from this incumbent."""
        self._over = ""
        """Why there is nothing to search."""
        self._leader = ""
        """The incumbent of the study."""
        self._gained = 0.0
        self._last: tuple[Point, Candidate] | None = None

    @property
    def need(self) -> Spend:
        """Nothing: a study asks nobody."""
        return NOTHING

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """The next point, or why the study is over."""
        self._last = None
        if self._leader != evidence.parent.id:
            await self._begin(evidence)
        incumbent = self._incumbent(evidence)
        over = self._over or (self._phase.nothing_left(incumbent) if self._phase else "")
        if over or self._phase is None:
            return Proposed(nothing_left=over)
        point, attempt = await self._phase.next(incumbent)
        self._phase.trials += 1
        parent = evidence.parent
        origin = Origin(by="coordinate", kind=self._phase.name, note=attempt.note)
        candidate = parent.child(attempt.values, origin=origin)
        self._last = point, candidate
        changed = [
            name
            for name, value in attempt.values.items()
            if value_key(value) != value_key(parent.values[name])
        ]
        return Proposed(
            candidate=candidate,
            touched=tuple(changed or attempt.values),
            source=attempt.details.proposal_source,
        )

    def learn(self, tried: Tried) -> None:
        """Add the point to the study."""
        if self._last is None or self._phase is None:
            return
        point, candidate = self._last
        gain = tried.gain
        loss = 1.0 if tried.problems else None if gain is None else -(self._gained + gain)
        self._phase.observe(point, loss)
        if tried.accepted and gain is not None:
            self._gained += gain
            self._leader = candidate.id

    async def _begin(self, evidence: ProposerEvidence) -> None:
        self._studies += 1
        self._gained = 0.0
        self._leader = evidence.parent.id
        phase = self._new_phase(self._studies)
        self._over = await phase.open_study(self._incumbent(evidence))
        self._phase = None if self._over else phase

    def _incumbent(self, evidence: ProposerEvidence) -> Incumbent:
        return Incumbent(
            candidate=evidence.parent, train=evidence.train, holdout=None, loss=-self._gained
        )

    def _new_phase(self, study: int) -> PointPhase:
        return self._kind(
            run=self._run,
            settings=self._settings,
            cycle=study,
            limits=self._settings.numeric_phase,
            memory=Memory(),
        )


def point_proposers(parts: TargetParts) -> Iterator[ProposerOffer]:
    """Proposers of numbers and choices, and of demonstrations, where a target has them."""
    demos = parts.demonstrations()[:1] if parts.cases_demonstrate else ()
    if numbers := parts.numbers():
        settings = CoordinateSettings(numbers=numbers)
        yield _offer(_NUMBERS, NumericPhase, numbers, settings)
    if demos:
        settings = CoordinateSettings(demonstrations=demos[0])
        yield _offer(_DEMONSTRATIONS, DemonstrationPhase, demos, settings)


def _offer(
    name: str, phase: type[PointPhase], surfaces: tuple[str, ...], settings: CoordinateSettings
) -> ProposerOffer:
    if find_spec("optuna") is None:
        return ProposerOffer(
            name=name,
            surfaces=surfaces,
            left_out=f"searching points needs optuna: {install_command('numeric')}",
        )
    return ProposerOffer(
        name=name,
        surfaces=surfaces,
        begin=partial(_PointProposer, phase=phase, settings=settings),
        fingerprint=short_id([name, 1, settings.model_dump()]),
    )


# -- The plug-in -----------------------------------------------------------------------------------


_TITLES = {"numeric": "numeric phase", "textual": "textual phase"}
"""Other phases are called by their name."""
_CRITIC = RoleNeed(
    name="critic",
    help="The model that diagnoses texts: provider:name.",
    instead=("applier", "proposer", "reflector"),
)
_APPLIER = RoleNeed(
    name="applier", help="The model that edits texts.", instead=("critic", "proposer", "reflector")
)


class CoordinatePlugin(StrategyPlugin):
    """Coordinate descent for the command line, run.json and report.md."""

    name: ClassVar[str] = Coordinate.name
    Settings: ClassVar[type[StrategySettings]] = CoordinateSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (_CRITIC, _APPLIER)
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {
        "critic": ("failing_pattern", "root_cause_hypothesis", "suggested_change_direction"),
        "applier": ("rationale", "diff_summary"),
    }
    needs: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        numbers, texts = parts.numbers(), parts.texts()
        demonstrations = parts.demonstrations() if parts.cases_demonstrate else ()
        notes: list[str] = []
        refs = (building.named(_CRITIC), building.named(_APPLIER))
        if texts and None in refs and parts.own_model is None and (numbers or demonstrations):
            # Numbers and demonstrations do not need a model that writes.
            notes.append(
                f"the textual phase is left out: {parts.no_model}. Name a critic in the file, or "
                "with --critic PROVIDER:NAME or BURNISH_CRITIC"
            )
            texts = ()
        critic_parts = applier_parts = None
        if texts:
            diagnosing, editing = (building.writer(need, parts) for need in (_CRITIC, _APPLIER))
            critic_parts = None if diagnosing is None else building.asked("critic", diagnosing)
            applier_parts = None if editing is None else building.asked("applier", editing)
            if critic_parts is None or applier_parts is None:
                return None
        axes = {
            "numbers": numbers,
            "texts": texts,
            "demonstrations": demonstrations[0] if demonstrations else "",
        }
        settings: CoordinateSettings = building.spec.strategy.settings.model_copy(update=axes)
        _check(building, parts, settings)
        notes += _notes(parts, settings)
        if not parts.dataset.holdout:
            settings = settings.model_copy(update={"holdout_policy": "skip"})
        return StrategyParts(
            strategy=Coordinate(
                settings=settings,
                critic=None if critic_parts is None else critic(*critic_parts),
                applier=None if applier_parts is None else applier(*applier_parts),
            ),
            client=None if applier_parts is None else applier_parts[0],
            notes=tuple(notes),
        )

    def proposers(self, building: Building, parts: TargetParts) -> Iterable[ProposerOffer]:
        del building
        return point_proposers(parts)

    def plan(self, setup: Setup) -> Iterable[str]:
        return plan_lines(setup, _strategy(setup))

    def first_round(self, setup: Setup) -> FirstRound:
        return first_round(setup, _strategy(setup))

    def search_cost(self, setup: Setup) -> str:
        return search_cost(setup, _strategy(setup))

    def limits(self, setup: Setup) -> list[str]:
        return search_limits(setup, _strategy(setup))

    def repeats(self, setup: Setup) -> int:
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        return _CoordinateLines(self.ends)

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        """Loss and metrics; and the headroom, if the run has not printed it."""
        table = super().baseline(run, quiet=quiet)
        if not table or not quiet:
            return table
        checks = read_all(run.events, Headroom)
        return (*table, *(Text(tuple(headroom_lines(check))) for check in checks))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return gains_by_phase(run)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))


class _CoordinateLines(ProgressLines):
    """Phases with their studies, the headroom check, axes that reach nothing."""

    def __init__(self, ends: Mapping[str, str]) -> None:
        super().__init__(ends)
        self._changed_prompt = False
        """Whether the prompt has changed since the last numeric phase began."""

    def lines(self, event: Event, width: int) -> list[str]:
        if headroom := event.read(Headroom):
            # Below the label that a line begins with.
            below = " " * (len(INDENT) + 9)
            return [
                line
                for words in headroom_lines(headroom)
                for line in textwrap.wrap(
                    f"{INDENT}{words}", max(40, width), subsequent_indent=below
                )
            ]
        if axis := event.read(DeadAxis):
            return wrapped(f"! {visible(axis.words)}", width)
        lines = super().lines(event, width)
        if (trial := event.read(TrialRecorded)) and trial.phase == "numeric":
            # A point may have many axes, and the column has room for one or two.
            cut = note_words(trial, width).rstrip().endswith("…")
            lines += wrapped(f"{INDENT}{visible(trial.note)}", width) if cut else []
        if (phase := event.read(PhaseStarted)) and phase.phase == "numeric":
            self._changed_prompt = False
        if (trial := event.read(TrialRecorded)) and trial.accepted and trial.phase != "numeric":
            self._changed_prompt = True
        return lines

    def phase_title(self, phase: PhaseStarted) -> str:
        """`cycle 2 · numeric phase (fresh TPE study #2, vs changed prompt)`."""
        title = f"cycle {phase.cycle} · {_TITLES.get(phase.phase, phase.phase)}"
        if phase.phase != "numeric":
            return title
        again = ", vs changed prompt" if self._changed_prompt and phase.cycle != 1 else ""
        return f"{title} (fresh TPE study #{phase.cycle}{again})"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        # Skipped by the strategy itself; else it was rejected by a check.
        skipped = not trial.measured and trial.code in ("crit", "seen")
        return _skipped(trial, width) if skipped else super().trial(trial, width)


def _strategy(setup: Setup) -> Coordinate:
    assert isinstance(setup.strategy, Coordinate)
    return setup.strategy


def _skipped(trial: TrialRecorded, width: int) -> str:
    """A trial that ended before it was measured, with the reason in place of its numbers."""
    name = f"{trial_label(trial)} {note_words(trial, width)}"
    code, reason = trial.code, f"({trial.reason})"
    spent = spent_words(trial)
    # The widths of the numbers that a line of a measured trial has room for.
    rooms = ((50, spent), (43, spent), (22, spent), (22, spent[:1]), (22, ()), (11, ()))
    for room, tail in rooms:
        line = " ".join((name, padded(reason, room), f"{f'{code} ✗':<8}", *tail)).rstrip()
        if cell_len(line) <= width:
            return line
    return shorten_after(f"{name} {code} ✗  ", reason, width)


def _check(building: Building, parts: TargetParts, settings: CoordinateSettings) -> None:
    problems = building.problems
    if (settings.numbers or settings.demonstrations) and find_spec("optuna") is None:
        message = "searching over numbers and demonstrations needs optuna"
        problems.add("target", message, install_command("numeric"))
    train = parts.dataset.train
    showable = [c for c in train if len(c.turns) == 1 and not c.turns[0].attachments]
    if settings.demonstrations and train and not showable:
        at = parts.places.get(settings.demonstrations, ("target",))
        message = "no case of train can be a demonstration: it must have one turn and no files"
        problems.add(at, message, "add such cases, or remove the axis")
    noisy = [name for name in settings.numbers if name in parts.noisy]
    if settings.repeats == 1 and noisy:
        message = (
            f"{' and '.join(noisy)} makes answers vary, and one repeat cannot show by how much"
        )
        problems.add("strategy.settings.repeats", message, "set it to 2 or more")


def _notes(parts: TargetParts, settings: CoordinateSettings) -> Iterator[str]:
    if not parts.cases_demonstrate and parts.demonstrations():
        yield f"left unchanged by this strategy: {', '.join(parts.demonstrations())}"
    if parts.steady:  # What follows is about noise.
        return
    if settings.repeats == 1 and not any(name in parts.noisy for name in settings.numbers):
        yield (
            "repeats is 1: a candidate then shows no noise, so the bar is "
            f"{settings.accept_sigma:g} × the incumbent's noise, which is 0 as well; use 2 or "
            "more unless the agent always gives the same answer"
        )
    limits = settings.numeric_phase
    if settings.numbers and limits.max_trials < WARM_UP:
        start = warm_up(min(limits.patience, limits.max_trials))
        yield (
            f"numeric_phase.max_trials is {limits.max_trials}, below the usual warm-up of "
            f"{WARM_UP} points: the model is used after {start}, and has little data"
        )
