"""Back-propagation as a plug-in: how it is built, its plan, its lines, its report."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from burnish.core.cases import Split
from burnish.core.comparisons import amount, tied
from burnish.core.formatting import (
    Diff,
    Drawing,
    Facts,
    Heading,
    Listing,
    Section,
    Space,
    Table,
    Text,
    cell,
    counted,
    duration,
    money,
    number,
    padded,
    shorten,
    spending,
)
from burnish.core.money import total
from burnish.core.surfaces import AGENT_SURFACES, Structured, Surface, diff
from burnish.core.trials import Trial, TrialRow
from burnish.metrics.turns import FailureClass
from burnish.models.chat import ModelClient
from burnish.runs import progress
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.events import TrialRecorded
from burnish.runs.first_round import FirstRound
from burnish.runs.plugins import (
    STEPS,
    Ability,
    Building,
    RoleNeed,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.report_sections import score_table
from burnish.runs.setup import ProposerOffer, Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.backprop.packets import BackpropSettings, Severity
from burnish.strategies.backprop.prompts import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    aggregator,
    backwarder,
    patcher,
)
from burnish.strategies.backprop.rounds import PHASE, BackpropDetails
from burnish.strategies.backprop.strategy import (
    ROLES,
    Backprop,
    BackpropProposer,
    role_models,
    unknown_names,
    whole_names,
)

_GATES = {
    "min_gain": "a higher score on holdout, by {gain:g} or more; a tie is not a gain",
    "sigma": "a gain on train of {sigma:g} × its noise, and a holdout that is not worse",
    "strict": "a score on holdout that is higher by {sigma:g} × its noise",
}


def _plan_lines(setup: Setup, strategy: Backprop) -> Iterator[str]:
    """The lines of `--dry-run`."""
    yield from _what(setup, strategy)
    names, values = strategy.targets(setup.target), setup.target.baseline.values
    yield f"surfaces  {len(setup.target.surfaces)}, {len(names)} may be patched"
    for surface in setup.target.surfaces:
        mark = "*" if surface.id in names else " "
        words = progress.surface_words(surface, values[surface.id])
        yield f"  {mark} {surface.kind:<7} {surface.id}: {words}"
    yield from progress.case_lines(setup, strategy.settings.repeats)
    yield from _decision(strategy.settings)
    yield progress.luck_line(strategy.settings.by_luck(setup.dataset))
    yield f"limits    {', '.join([*_search_limits(setup, strategy), *progress.time_limits(setup)])}"
    yield from _costs(setup, strategy)
    yield from progress.notes(setup)
    yield progress.NOTHING_PAID


def _what(setup: Setup, strategy: Backprop) -> Iterator[str]:
    target = setup.target
    if isinstance(target, Structured):
        structure = target.structure
        nodes, edges = counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")
        yield f"graph     {nodes}, {edges}, from {structure.entry}"
    else:
        kind = target.description.kind
        yield f"agent     {kind}: a graph of one node, unless its runs leave steps"
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        yield f"  {role.name:<11} {progress.role_label(role)}".rstrip()
    yield f"score     the mean of {', '.join(setup.objective.weights)}"


def _decision(settings: BackpropSettings) -> Iterator[str]:
    gate = _GATES[settings.gate].format(gain=settings.min_score_gain, sigma=settings.accept_sigma)
    yield f"accepts   {gate}"
    guards = settings.guards
    if guards.protected:
        yield f"          no protected case gets worse: {', '.join(guards.protected)}"
    if guards.no_new_failures:
        yield "          no case that passed may fail"
    for metric, floor in guards.floors.items():
        yield f"          {metric} stays at {floor:g} or more"


def _search_limits(setup: Setup, strategy: Backprop) -> list[str]:
    """What ends a search."""
    settings = strategy.settings
    own = [f"max_rounds {settings.max_rounds}"]
    if settings.max_rounds_without_acceptance:
        own.append(f"max_rounds_without_acceptance {settings.max_rounds_without_acceptance}")
    if settings.target_score is not None:
        own.append(f"target_score {settings.target_score:g}")
    return [*own, *progress.budget_limits(setup.budget)]


def search_cost(setup: Setup, strategy: Backprop) -> str:
    """What the runs of a round cost; how many texts it asks for depends on what fails."""
    often = strategy.settings.repeats
    runs = [progress.sweeps(setup, split, often) for split in (Split.TRAIN, Split.HOLDOUT)]
    return f"a round of the search about {spending(total(runs), tokens=False)} and its patches"


def first_round(setup: Setup, strategy: Backprop) -> FirstRound:
    """The baseline, a look at train, and a candidate.

    How many runs fail is not known, so the walk back of one is expected; a round that blames
    nothing asks nobody.
    """
    settings = strategy.settings
    splits = (Split.TRAIN, *settings.deciding)
    patching = progress.asking([strategy.patcher]).times(settings.candidates_per_round)
    return progress.first_round(
        setup,
        baseline=progress.sweeps(setup, Split.HOLDOUT, settings.repeats),
        candidate=progress.all_sweeps(setup, splits, settings.repeats),
        usual=progress.asking([strategy.backwarder]) + patching,
    )


def _costs(setup: Setup, strategy: Backprop) -> Iterator[str]:
    settings = strategy.settings
    train = progress.sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = progress.sweeps(setup, Split.HOLDOUT, settings.repeats)
    each = holdout + (train if settings.gate == "sigma" else holdout.times(0))
    patches = len(strategy.targets(setup.target)) * settings.candidates_per_round
    yield f"baseline  about {spending(holdout)}"
    yield f"a round   about {spending(train)} on train, or nothing if it is already measured"
    backward = progress.asking([strategy.backwarder])
    yield f"          + {spending(backward)} per failing case and step, for the backwarder"
    merging = progress.asking([strategy.aggregator]).times(len(strategy.targets(setup.target)))
    yield f"          + up to {spending(merging)} for the aggregator"
    patching = progress.asking([strategy.patcher]).times(patches)
    yield f"          + up to {spending(patching)} for the patcher"
    many = f", {settings.candidates_per_round} times" if settings.candidates_per_round > 1 else ""
    yield f"          + {spending(each)} to decide{many}"
    if settings.patches_alone and len(strategy.targets(setup.target)) > 1:
        yield "          + up to as much for each patch, if they are rejected and tried alone"
    yield from progress.reserved(setup)
    yield "          one call for each agent of the graph and turn; cycles and tools take more, and"
    yield "          how many cases fail is not known in advance"
    yield first_round(setup, strategy).line()


class BackpropLines(ProgressLines):
    """Rounds by what was patched, in scores."""

    def held(self, trial: TrialRecorded) -> str:
        return f"score on hold {number(None if trial.holdout is None else 1 - trial.holdout)}"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        place = "" if trial.index in (None, 1) else f".{trial.index}"
        label = f"[r{trial.cycle}{place}]"
        # A line takes 76 columns beside its note, and without the score on train less than 60.
        room = min(36, max(20, width - 76))
        name = f"{label:<6} {padded(_touched_words(trial.touched), room)}"
        if not trial.measured:
            return progress.shorten_after(
                f"{name} {progress.outcome(trial)}  ", trial.reason, width
            )
        parts = [
            (0, name),
            (3, f"train {number(trial.train_score)} "),
            (0, f"{_held(trial):<26}"),
            (0, f"{progress.outcome(trial):<9}"),
            (1, f"{money(trial.usd):>7}"),
            (2, duration(trial.seconds)),
        ]
        return progress.fitted(parts, width)


def _touched_words(surfaces: Sequence[str]) -> str:
    """`planner#instruction +1`: the first surface, without the way to its node."""
    if not surfaces:
        return "—"
    node, mark, part = surfaces[0].partition("#")
    first = f"{node.rpartition('/')[2]}{mark}{part}" if mark else surfaces[0]
    return f"{first} +{len(surfaces) - 1}" if len(surfaces) > 1 else first


def _held(trial: TrialRecorded) -> str:
    """`hold 0.350→0.810 (▲0.460)`; before is the incumbent."""
    if trial.holdout is None:
        return "hold ——"
    if trial.part_of_holdout:
        return f"hold —— after {counted(trial.holdout_cases or 0, 'case')}"
    now, numbers = 1 - trial.holdout, trial.numbers
    losses = (numbers.get("best_holdout_mean_before"), numbers.get("primary_before"))
    scores = (numbers.get("best_score_before"), *(None if x is None else 1 - x for x in losses))
    before = next((score for score in scores if score is not None), None)
    if before is None:
        return f"hold {number(now)}"
    gain = now - before
    sign = "=" if tied(gain) else f"{'▲' if gain > 0 else '▼'}{amount(abs(gain))}"
    return f"hold {number(before)}→{number(now)} ({sign})"


_ENDS = {
    "baseline_missing": "the baseline could not be measured",
    "no_losses": "no train case fails any more",
    "train_missing": "no train case failed, but some are missing",
    "nothing_to_blame": "no failure could be traced to a surface that may be patched",
    "max_rounds": "the limit on rounds is reached",
    "max_rounds_without_acceptance": "too many rounds in a row without an accept",
    "target_score": "the score on holdout is good enough",
}
_LISTED = 20


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from sections.headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield Heading("Metrics on holdout")
    yield sections.metric_table(run, "holdout")
    yield from sections.changes_made(run)
    yield from _patches_made(run)
    yield from _rounds_made(run)
    yield from _gradients(run)
    yield from _failure_classes(run)
    yield from crashes(run)
    yield from _case_changes(run)
    yield from _lost_answers(run)
    yield from sections.adoption(run)
    yield Heading("Method")
    points = (*_method(run), *sections.luck_points(run), *sections.provenance(run))
    yield Listing((*points, *sections.CAVEATS))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from sections.status_rows(run, reason)
    yield "holdout score", " → ".join(number(_score(row)) for row in (run.baseline, run.best))
    rounds = max((row.trial.cycle for row in run.rows), default=0)
    candidates = counted(run.trials, "candidate")
    yield "rounds", f"{rounds}, with {candidates}, {run.accepted} accepted"
    yield from sections.alarm_rows(run)
    yield from sections.cost_rows(run, over="rounds")


def _patches_made(run: RunRecord) -> Iterator[Section]:
    """Every patch with its reason; where several were accepted, each with its own diff."""
    yield Heading("Patches and why")
    rounds = [(row, BackpropDetails.of(row.trial).patches) for row in _rounds(run)]
    if not any(patches for _, patches in rounds):
        yield Text.of("No patch was made.")
        return
    candidates = {row.trial.candidate.id: row.trial.candidate for row in run.rows}
    items: list[str] = []
    for row, patches in rounds:
        mark = "accepted" if row.trial.accepted else "rejected"
        for surface, patch in patches.items():
            reason = cell(patch.reason or "—", 400)
            items.append(f"round {_label(run, row)}, `{surface}`, {mark}: {reason}")
        parents = row.trial.candidate.parents
        parent = next((candidates[name] for name in parents if name in candidates), None)
        if row.trial.accepted and run.accepted > 1 and parent is not None:
            changes = diff(parent, row.trial.candidate)
            yield Listing(tuple(items))
            yield Diff(tuple(line for change in changes for line in change.lines()))
            items = []
    yield Listing(tuple(items)) if items else Space()


def _rounds_made(run: RunRecord) -> Iterator[Section]:
    held = _score(run.baseline)
    rows = [("start", "—", "—", number(held), "—", "the start")]
    for row in _rounds(run):
        # What a race left of holdout cannot be compared with all of it.
        whole = BackpropDetails.of(row.trial).whole_holdout is not False
        now = _score(row) if whole else None
        gain = None if now is None or held is None else now - held
        mark = "✓ " if row.trial.accepted else ""
        rows.append(
            (
                _label(run, row),
                cell(_touched_words([*row.trial.touched]), 50),
                number(BackpropDetails.of(row.trial).train_score),
                number(now),
                "—" if gain is None else f"{gain:+z.3f}",
                f"{mark}{cell(sections.why(row.trial), 160)}",
            )
        )
        held = now if row.trial.accepted else held
    yield Heading("Rounds")
    yield Table(("round", "patched", "train", "holdout", "gain", "decision"), tuple(rows))
    yield Text.of(
        "Scores, higher is better. Train is the incumbent's score before the patch, which was",
        "written for its failures. The gain is over the incumbent at that moment.",
    )


def _gradients(run: RunRecord) -> Iterator[Section]:
    yield Heading("Where the gradients landed")
    details = [BackpropDetails.of(row.trial) for row in _rounds(run)]
    gradients = [each for detail in details for each in detail.gradients or ()]
    if not gradients:
        yield Text.of("No surface received a gradient.")
        return
    levels = [severity.value for severity in Severity]
    counts = Counter(each.surface for each in gradients)
    rows: list[tuple[str, ...]] = []
    for surface, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        own = [each for each in gradients if each.surface == surface]
        severities = Counter(each.severity for each in own)
        cells = (str(severities.get(level, 0) or "·") for level in levels)
        cases = len({each.case for each in own})
        rows.append((f"`{cell(surface, 80)}`", str(count), *cells, str(cases)))
    yield Table(("surface", "gradients", *levels, "cases"), tuple(rows))
    yield Text.of("Over all rounds. Cases are those of train whose runs were walked back.")


def _blame(run: RunRecord) -> Iterator[Drawing]:
    """How many gradients each surface received, by severity."""
    details = (BackpropDetails.of(row.trial) for row in _rounds(run))
    counts = Counter(
        (each.surface, each.severity) for detail in details for each in detail.gradients or ()
    )
    surfaces = tuple(sorted({surface for surface, _ in counts}))
    if surfaces:
        yield Drawing(
            title="Where the gradients landed",
            labels=surfaces,
            series={
                level.value: tuple(float(counts[each, level.value]) for each in surfaces)
                for level in Severity
                if any(counts[each, level.value] for each in surfaces)
            },
            unit="gradients",
            kind="bars",
            label="surface",
            of_surfaces=True,
            note="Over all rounds. P0 is worst.",
        )


def _failure_classes(run: RunRecord) -> Iterator[Section]:
    """The kinds of failure on train, in the first round and in the last one that had any."""
    yield Heading("What kind of failure")
    details = [(row, BackpropDetails.of(row.trial).failure_classes) for row in _rounds(run)]
    rounds = [(row, classes) for row, classes in details if classes]
    if not rounds:
        yield Text.of("No case of train failed.")
        return
    sides = [rounds[0], rounds[-1]] if len(rounds) > 1 else [rounds[0]]
    heads = [f"round {_label(run, row)}" for row, _ in sides]
    rows: list[tuple[str, ...]] = []
    for kind in FailureClass:
        counts = [sum(each == kind.value for each in classes.values()) for _, classes in sides]
        if any(counts):
            last = [case for case, each in sides[-1][1].items() if each == kind.value]
            rows.append((kind.value, *map(str, counts), cell(_some(last), 200) or "—"))
    yield Table(("failure", *heads, f"cases in {heads[-1]}"), tuple(rows))
    yield Text.of(
        "By the earliest visible cause in a run of train: a path through the nodes that the case",
        "does not expect, a tool or its arguments, then form and content of the answer.",
    )


def crashes(run: RunRecord) -> Iterator[Section]:
    """What the agent raised on train, each error once with the cases it came up in."""
    cases: dict[str, list[str]] = {}
    for row in _rounds(run):
        for case, error in (BackpropDetails.of(row.trial).train_failed or {}).items():
            cases.setdefault(error, []).append(case)
    if not cases:
        return
    items = [
        f"{cell(error, 300)}: {cell(_some([*dict.fromkeys(names)]), 200)}"
        for error, names in list(cases.items())[:_LISTED]
    ]
    if len(cases) > _LISTED:
        items.append(f"{len(cases) - _LISTED} other errors")
    yield Heading("Where the agent itself failed")
    yield Listing(tuple(items))


def _case_changes(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for row in _rounds(run):
        if changes := BackpropDetails.of(row.trial).changes:
            columns = (changes.new_pass, changes.new_fail, changes.up, changes.down)
            rows.append((_label(run, row), *map(_names, columns)))
    yield Heading("Case by case")
    yield Table(("round", "new pass", "new fail", "up", "down"), tuple(rows))
    yield Text.of(
        "Holdout cases, compared with the incumbent at that moment; a case that is missing on",
        "either side is in no column.",
    )


def _lost_answers(run: RunRecord) -> Iterator[Section]:
    lost = [
        (row, each) for row in _rounds(run) for each in BackpropDetails.of(row.trial).lost or ()
    ]
    if not lost:
        return
    items: list[str] = []
    for row, each in lost[:_LISTED]:
        where, reason = cell(each.where, 80), cell(each.why, 200)
        items.append(f"round {_label(run, row)}, {each.role}, {where}: {reason}")
    if len(lost) > _LISTED:
        items.append(f"{len(lost) - _LISTED} more")
    yield Heading("Requests without a usable answer")
    yield Text.of(
        f"{counted(len(lost), 'request')} to a role had no usable answer; the rest was used."
    )
    yield Listing(tuple(items))


def _method(run: RunRecord) -> Iterator[str]:
    yield sections.started_with(run)
    cases = sections.case_numbers(run)
    yield f"cases: {cases}; losses come from train, holdout decided, and no role ever saw it"
    yield (
        "each failed metric is a loss at the step where its run ended; it is walked back step\n"
        "by step, the gradients of a surface are merged, and one patch per surface is tried"
    )
    if any(BackpropDetails.of(row.trial).alone for row in _rounds(run)):
        yield (
            "where no candidate of a round was accepted, its patches were tried alone, those of\n"
            "the surface with most failing cases first; each was stopped where it could not win"
        )
    yield (
        "the score is the weighted mean of the metrics, higher is better; holdout was used once\n"
        "for each candidate, and each use makes it a little less independent"
    )


def _rounds(run: RunRecord) -> list[TrialRow]:
    return [row for row in run.rows if row.trial.phase == PHASE]


def _label(run: RunRecord, row: TrialRow) -> str:
    """`2`, or `2.1` and `2.2` where a round tried several candidates."""
    same = [each.number for each in _rounds(run) if each.trial.cycle == row.trial.cycle]
    place = "" if len(same) == 1 else f".{same.index(row.number) + 1}"
    return f"{row.trial.cycle}{place}"


def _score(row: TrialRow | None) -> float | None:
    result = result_of(row, "holdout")
    return None if result is None else result.measurement.score


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(shorten(name, 30) for name in names[:6])
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{len(names)}: {cell(shown, 240)}{more}" if names else "—"


_PROPOSER = "back-propagation"
"""Its name as a proposer."""
_LEAST_BLAMED = 2
"""The fewest texts between which a walk back can tell. One alone gets the blame anyway, which
reflection finds with one request instead of three."""


class BackpropPlugin(StrategyPlugin):
    """Back-propagation for the command line, run.json and report.md."""

    name: ClassVar[str] = Backprop.name
    Settings: ClassVar[type[StrategySettings]] = BackpropSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = ROLES
    needs: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    requires: ClassVar[tuple[Ability, ...]] = (STEPS,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = _ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"patcher": ("reason",)}
    offers_fork: ClassVar[bool] = False

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        settings = whole_names(building.spec.strategy.settings, parts)
        built = _built(building, parts, settings)
        if built is None:
            return None
        strategy, client = built
        return StrategyParts(strategy=strategy, client=client)

    def proposers(self, building: Building, parts: TargetParts) -> Iterable[ProposerOffer]:
        if len(parts.texts()) < _LEAST_BLAMED:
            return
        if all(building.named(need) is None for need in ROLES) and parts.own_model is None:
            why = f"{parts.no_model}: name one with proposer: or --proposer PROVIDER:NAME"
            yield ProposerOffer(name=_PROPOSER, left_out=why)
            return
        settings = whole_names(BackpropSettings(), parts)
        built = _built(building, parts, settings)
        if built is None:
            return
        strategy, client = built
        yield ProposerOffer(
            name=_PROPOSER,
            surfaces=tuple(strategy.targets(parts.target)),
            begin=partial(BackpropProposer, strategy=strategy),
            fingerprint=strategy.fingerprint,
            roles=tuple(strategy.roles),
            client=client,
        )

    def plan(self, setup: Setup) -> Iterable[str]:
        return _plan_lines(setup, _strategy(setup))

    def first_round(self, setup: Setup) -> FirstRound:
        return first_round(setup, _strategy(setup))

    def search_cost(self, setup: Setup) -> str:
        return search_cost(setup, _strategy(setup))

    def limits(self, setup: Setup) -> list[str]:
        return _search_limits(setup, _strategy(setup))

    def repeats(self, setup: Setup) -> int:
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        return BackpropLines(self.ends)

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        del quiet
        table = score_table(run)
        return () if table is None else (table,)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return _blame(run)

    def turn(self, trial: Trial) -> str:
        return "round" if trial.phase == PHASE else "cycle"


def _strategy(setup: Setup) -> Backprop:
    assert isinstance(setup.strategy, Backprop)
    return setup.strategy


def _built(
    building: Building, parts: TargetParts, settings: BackpropSettings
) -> tuple[Backprop, ModelClient] | None:
    """The strategy and the model that writes; None, with problems, if it cannot be built."""
    for problem in unknown_names(settings, parts.target, parts.metrics, parts.dataset):
        path = ("strategy", "settings", *problem.at)
        building.problems.add(path, problem.message, problem.remedy)
    clients = {
        name: None if ref is None else building.asked(name, ref)
        for name, ref in role_models(building, parts).items()
    }
    walking, merging, patching = (clients[name] for name in (BACKWARDER, AGGREGATOR, PATCHER))
    if walking is None or merging is None or patching is None:
        return None
    strategy = Backprop(
        backwarder=backwarder(*walking),
        aggregator=aggregator(*merging),
        patcher=patcher(*patching),
        settings=settings,
    )
    return strategy, patching[0]
