"""The plan, the lines and the report of back-propagation."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from burnish.core.cases import Split
from burnish.core.comparisons import amount, tied
from burnish.core.formatting import (
    Diff,
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
from burnish.core.structures import Structured
from burnish.core.surfaces import diff
from burnish.core.trials import Trial, TrialRow
from burnish.metrics.turns import FailureClass
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.events import TrialRecorded
from burnish.runs.progress import (
    NOTHING_PAID,
    ProgressLines,
    asking,
    budget_limits,
    case_lines,
    fitted,
    notes,
    outcome,
    reserved,
    role_label,
    shorten_after,
    surface_words,
    sweeps,
    time_limits,
)
from burnish.runs.report_sections import (
    CAVEATS,
    adoption,
    case_numbers,
    changes_made,
    cost_rows,
    headline,
    metric_table,
    provenance,
    silence_rows,
    started_with,
    status_rows,
    why,
)
from burnish.runs.setup import Setup
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.rounds import PHASE, BackpropDetails, PatchNote
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop

_GATES = {
    "min_gain": "a score on holdout that rises, by {gain:g} or more; a tie is no gain",
    "sigma": "a gain on train of {sigma:g} × its noise, and a holdout that is not worse",
    "strict": "a score on holdout that is better by {sigma:g} × its noise",
}
_NOTE, _WIDEST_NOTE = 24, 36
_REST = 76
"""What a whole line takes beside its note."""


def plan_lines(setup: Setup, strategy: Backprop) -> Iterator[str]:
    """The lines of `--dry-run`."""
    yield from _what(setup, strategy)
    yield from _surfaces(setup, strategy)
    yield from case_lines(setup, strategy.settings.repeats)
    yield from _decision(strategy.settings)
    yield f"limits    {', '.join([*search_limits(setup, strategy), *time_limits(setup)])}"
    yield from _costs(setup, strategy)
    yield from notes(setup)
    yield NOTHING_PAID


def _what(setup: Setup, strategy: Backprop) -> Iterator[str]:
    target = setup.target
    if isinstance(target, Structured):
        structure = target.structure
        nodes, edges = counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")
        yield f"graph     {nodes}, {edges}, from {structure.entry}"
    else:
        yield f"agent     {target.description.kind}: a graph of one, unless its runs leave steps"
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        yield f"  {role.name:<11} {role_label(role)}".rstrip()
    yield f"score     the mean of {', '.join(setup.objective.weights)}"


def _surfaces(setup: Setup, strategy: Backprop) -> Iterator[str]:
    names, values = strategy.targets(setup.target), setup.target.baseline.values
    yield f"surfaces  {len(setup.target.surfaces)}, {len(names)} may be patched"
    for surface in setup.target.surfaces:
        mark = "*" if surface.id in names else " "
        words = surface_words(surface, values[surface.id])
        yield f"  {mark} {surface.kind:<7} {surface.id}: {words}"


def _decision(settings: BackpropSettings) -> Iterator[str]:
    gate = _GATES[settings.gate].format(gain=settings.min_score_gain, sigma=settings.accept_sigma)
    yield f"accepts   {gate}"
    guards = settings.guards
    if guards.protected:
        yield f"          no protected case gets worse: {', '.join(guards.protected)}"
    if guards.no_new_failures:
        yield "          no case that passed fails"
    for metric, floor in guards.floors.items():
        yield f"          {metric} stays at {floor:g} or more"


def search_limits(setup: Setup, strategy: Backprop) -> list[str]:
    """What ends a search."""
    settings = strategy.settings
    own = [f"max_rounds {settings.max_rounds}"]
    if settings.max_rounds_without_acceptance:
        own.append(f"max_rounds_without_acceptance {settings.max_rounds_without_acceptance}")
    if settings.target_score is not None:
        own.append(f"target_score {settings.target_score:g}")
    return [*own, *budget_limits(setup.budget)]


def _costs(setup: Setup, strategy: Backprop) -> Iterator[str]:
    settings = strategy.settings
    train = sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = sweeps(setup, Split.HOLDOUT, settings.repeats)
    each = holdout + (train if settings.gate == "sigma" else holdout.times(0))
    patches = len(strategy.targets(setup.target)) * settings.candidates_per_round
    yield f"baseline  about {spending(holdout)}"
    yield f"a round   about {spending(train)} on train, nothing where that is known already"
    backward = asking([strategy.backwarder])
    yield f"          + {spending(backward)} per failing case and step, for the backwarder"
    merging = asking([strategy.aggregator]).times(len(strategy.targets(setup.target)))
    yield f"          + up to {spending(merging)} for the aggregator"
    yield f"          + up to {spending(asking([strategy.patcher]).times(patches))} for the patcher"
    many = f", {settings.candidates_per_round} times" if settings.candidates_per_round > 1 else ""
    yield f"          + {spending(each)} to decide{many}"
    yield from reserved(setup)
    yield "          one call for each agent of the graph and turn; cycles and tools take more, and"
    yield "          how many cases fail is not known before"


class BackpropLines(ProgressLines):
    """Rounds by what was patched, in scores."""

    def held(self, trial: TrialRecorded) -> str:
        """What the start has on holdout, as a score."""
        return f"score on hold {number(None if trial.holdout is None else 1 - trial.holdout)}"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One candidate of a round in one line."""
        place = "" if trial.index in (None, 1) else f".{trial.index}"
        label = f"[r{trial.cycle}{place}]"
        room = min(_WIDEST_NOTE, max(_NOTE, width - _REST))
        name = f"{label:<6} {padded(_touched_words(trial.touched), room)}"
        if not trial.measured:
            return shorten_after(f"{name} {outcome(trial)}  ", trial.reason, width)
        parts = [
            (0, name),
            (2, f"train {number(trial.train_score)} "),
            (0, f"{_held(trial):<26}"),
            (0, f"{outcome(trial):<9}"),
            (3, f"{money(trial.usd):>7}"),
            (4, duration(trial.seconds)),
        ]
        return fitted(parts, width)


def _touched_words(surfaces: Sequence[str]) -> str:
    """`planner#instruction +1`: the first surface, without the way to its node."""
    names = [_short(name) for name in surfaces]
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "—"


def _short(surface: str) -> str:
    """A surface without the names of graphs before its node."""
    node, mark, part = surface.partition("#")
    return f"{node.rpartition('/')[2]}{mark}{part}" if mark else surface


def _held(trial: TrialRecorded) -> str:
    """`hold 0.350→0.810 (▲0.460)`; before is the incumbent."""
    if trial.holdout is None:
        return "hold ——"
    now, before = 1 - trial.holdout, _before(trial.numbers)
    if before is None:
        return f"hold {number(now)}"
    gain = now - before
    sign = "=" if tied(gain) else f"{'▲' if gain > 0 else '▼'}{amount(abs(gain))}"
    return f"hold {number(before)}→{number(now)} ({sign})"


def _before(numbers: Mapping[str, float]) -> float | None:
    """The incumbent's score on holdout as the gate saw it."""
    if (score := numbers.get("best_score_before")) is not None:
        return score
    losses = (numbers.get("best_holdout_mean_before"), numbers.get("primary_before"))
    return next((1 - loss for loss in losses if loss is not None), None)


# -- Report.md of back-propagation ----------------------------------------------------------------


ENDS = {
    "baseline_missing": "the baseline could not be measured",
    "no_losses": "nothing fails on train any more",
    "train_missing": "nothing failed on train, but some of it is missing",
    "nothing_to_blame": "nothing that may be patched is to blame for what fails",
    "max_rounds": "it had all its rounds",
    "max_rounds_without_acceptance": "too many rounds in a row without an accept",
    "target_score": "the score on holdout is good enough",
}
"""Why a search ended."""
_LISTED = 20
"""Lost answers that are listed."""
_NAMED = 5
"""Cases that are named with a kind of failure."""
_NAMED_CHANGES = 6
"""Cases that are named in a cell about changes."""


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield Heading("Metrics on holdout")
    yield metric_table(run, "holdout")
    yield from changes_made(run)
    yield from _patches_made(run)
    yield from _rounds_made(run)
    yield from _gradients(run)
    yield from _failure_classes(run)
    yield from crashes(run)
    yield from _case_changes(run)
    yield from _lost_answers(run)
    yield from adoption(run)
    yield Heading("Method")
    yield Listing((*_method(run), *provenance(run), *CAVEATS))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from status_rows(run, reason)
    yield "holdout score", " → ".join(number(_score(row)) for row in (run.baseline, run.best))
    rounds = max((row.trial.cycle for row in run.rows), default=0)
    candidates = counted(run.trials, "candidate")
    yield "rounds", f"{rounds}, with {candidates}, {run.accepted} accepted"
    yield from silence_rows(run)
    yield from cost_rows(run, over="rounds")


def _patches_made(run: RunRecord) -> Iterator[Section]:
    """Every patch with its reason; where several were accepted, each with its own diff."""
    yield Heading("Patches and why")
    if not any(_patches(row.trial) for row in _rounds(run)):
        yield Text.of("No patch was made.")
        return
    candidates = {row.trial.candidate.id: row.trial.candidate for row in run.rows}
    items: list[str] = []
    for row in _rounds(run):
        mark = "accepted" if row.trial.accepted else "turned down"
        for surface, patch in _patches(row.trial).items():
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
    """Train, holdout, the gain and the decision of every candidate."""
    held = _score(run.baseline)
    rows = [("start", "—", "—", number(held), "—", "the start")]
    for row in _rounds(run):
        now = _score(row)
        gain = None if now is None or held is None else now - held
        mark = "✓ " if row.trial.accepted else ""
        rows.append(
            (
                _label(run, row),
                cell(_touched_words([*row.trial.touched]), 50),
                number(BackpropDetails.of(row.trial).train_score),
                number(now),
                "—" if gain is None else f"{gain:+z.3f}",
                f"{mark}{cell(why(row.trial), 160)}",
            )
        )
        held = now if row.trial.accepted else held
    yield Heading("Rounds")
    yield Table(("round", "patched", "train", "holdout", "gain", "decision"), tuple(rows))
    yield Text.of(
        "Scores, high is good. Train is the incumbent's, before the patch: its failures are what",
        "the patch was written for. The gain is over the incumbent of that moment.",
    )


def _gradients(run: RunRecord) -> Iterator[Section]:
    """How much was said of each surface, how bad it was, and by how many cases."""
    yield Heading("Where the gradients landed")
    details = [BackpropDetails.of(row.trial) for row in _rounds(run)]
    gradients = [each for detail in details for each in detail.gradients or ()]
    if not gradients:
        yield Text.of("Nothing was said of any surface.")
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


def _failure_classes(run: RunRecord) -> Iterator[Section]:
    """The kinds of failure on train, in the first round and in the last one that had any."""
    yield Heading("What kind of failure")
    rounds = [(row, classes) for row in _rounds(run) if (classes := _classes(row))]
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
        "By the earliest cause that can be seen in a run of train: another way through the",
        "nodes than the case says, a tool or its arguments, then form and content of the answer.",
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
    """What became of single cases of holdout, round by round; by name only."""
    rows: list[tuple[str, ...]] = []
    for row in _rounds(run):
        if changes := BackpropDetails.of(row.trial).changes:
            columns = (changes.new_pass, changes.new_fail, changes.up, changes.down)
            rows.append((_label(run, row), *map(_names, columns)))
    yield Heading("Case by case")
    yield Table(("round", "new pass", "new fail", "up", "down"), tuple(rows))
    yield Text.of(
        "Cases of holdout, against the incumbent of that moment; one that is missing on a side is",
        "in no column.",
    )


def _lost_answers(run: RunRecord) -> Iterator[Section]:
    """What was asked of a role in vain: it costs that packet, not the run."""
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
    yield Heading("Lost on the way")
    yield Text.of(f"{counted(len(lost), 'question')} to a role brought nothing; the rest was used.")
    yield Listing(tuple(items))


def _method(run: RunRecord) -> Iterator[str]:
    cases = case_numbers(run)
    yield started_with(run)
    yield f"cases: {cases}; losses come from train, holdout decided, and no role ever saw it"
    yield (
        "each failed metric is a loss at the step where its run ended; it is walked back step\n"
        "by step, what is said of a surface is merged, and one patch a surface is tried"
    )
    yield (
        "the score is the weighted mean of the metrics, high is good; holdout was looked at\n"
        "once for each candidate, and each look wears it a little"
    )


def _rounds(run: RunRecord) -> list[TrialRow]:
    """The rows that rounds made."""
    return [row for row in run.rows if row.trial.phase == PHASE]


def _label(run: RunRecord, row: TrialRow) -> str:
    """`2`, or `2.1` and `2.2` where a round tried several candidates."""
    same = [each.number for each in _rounds(run) if each.trial.cycle == row.trial.cycle]
    place = "" if len(same) == 1 else f".{same.index(row.number) + 1}"
    return f"{row.trial.cycle}{place}"


def _score(row: TrialRow | None) -> float | None:
    result = result_of(row, "holdout")
    return None if result is None else result.measurement.score


def _patches(trial: Trial) -> Mapping[str, PatchNote]:
    return BackpropDetails.of(trial).patches


def _classes(row: TrialRow) -> Mapping[str, str]:
    return BackpropDetails.of(row.trial).failure_classes or {}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(shorten(name, 30) for name in names[:_NAMED_CHANGES])
    more = f" and {len(names) - _NAMED_CHANGES} more" if len(names) > _NAMED_CHANGES else ""
    return f"{len(names)}: {cell(shown, 240)}{more}" if names else "—"
