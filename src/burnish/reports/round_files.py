"""The files of seed 001 in a run's folder, written as the run goes on and once more at its end.

They say what the journal says, so that a resumed run, one from the command line and one that is
only reported on write the same. Nothing here can change or end the run.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.errors import BurnishError, FileTrouble
from burnish.core.money import NOTHING, Spend
from burnish.core.trials import TrialRow
from burnish.reports.optimize_result import OptimizeResult, RoundRecord, as_json, log_line
from burnish.reports.optimize_result_costs import REFLECTIVE, Costs
from burnish.reports.optimize_result_reading import Known, metric_call_limit, result_of, snapshot
from burnish.reports.optimize_result_rounds import Spent, round_of
from burnish.runs.directory import look_into
from burnish.runs.events import Event, Tick
from burnish.runs.header import Header
from burnish.runs.standing import BASELINE
from burnish.system import Redactor, read_text, write_atomic
from burnish.system.file_trouble import file_trouble

RESULT, SUMMARY, LOG = "result.json", "summary.txt", "run.log"
SNAPSHOT, ROUNDS = "config.snapshot.json", "rounds"
BASELINE_PROMPTS, BEST_PROMPTS = "baseline_prompts", "best_prompts"


class RoundFiles:
    """Listens to a run and writes what is known so far."""

    def __init__(
        self, folder: Path, *, baseline: Mapping[str, str], redactor: Redactor | None = None
    ) -> None:
        known = redactor or Redactor.from_environment()
        self._folder = folder
        self._baseline = {name: known.without_known(text) for name, text in baseline.items()}
        self._rounds: list[TrialRow] = []
        """The trials of the round under way."""
        self._limit: int | None = None

    def event(self, event: Event) -> None:
        """Write what an event brings. What cannot be written now is written at the end."""
        try:
            if event.kind in {"run_started", "run_resumed"}:
                self._limit = metric_call_limit([event])
                write_beginning(self._folder, self._baseline)
            elif event.kind == "trial_recorded" and event.data.get("phase") != BASELINE:
                self._write_round(event)
        except BurnishError:
            return

    def tick(self, tick: Tick) -> None:
        """Cases are too many for files."""

    def finish(
        self, *, update_source: bool = False, source_updated: bool = False, trouble: str = ""
    ) -> OptimizeResult:
        """Write everything, once nobody drives the run any more."""
        return write_result_files(
            self._folder,
            baseline=self._baseline,
            update_source=update_source,
            source_updated=source_updated,
            trouble=trouble,
        )

    def _write_round(self, event: Event) -> None:
        number = event.data.get("trial")
        assert isinstance(number, int)
        with look_into(self._folder) as journal:
            body = journal.trial(number)
            if body is None:
                return
            row = codec(TrialRow).decode(json.loads(body))
            self._rounds = [*self._of_its_round(row), row]
            costs = Costs.of(journal.costs(since=self._rounds[0].number), self._rounds)
        used = codec(Spend).decode(event.data["spent"]).metric_calls
        reflection = costs.by_row.get(number, NOTHING)
        told = round_of(row, Spent(reflection=reflection, metric_calls=used, limit=self._limit))
        write_round(self._folder, told)

    def _of_its_round(self, row: TrialRow) -> list[TrialRow]:
        """The trials before it that were proposed together with it."""
        return [
            each
            for each in self._rounds
            if each.trial.cycle == row.trial.cycle
            and each.trial.phase == row.trial.phase == REFLECTIVE
            and each.number < row.number
        ]


def write_beginning(folder: Path, baseline: Mapping[str, str]) -> None:
    """The config and the prompts as they are at the start."""
    config = snapshot(Header.read(folder))
    if config:
        _write(folder / SNAPSHOT, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    write_prompts(folder / BASELINE_PROMPTS, baseline)


def write_round(folder: Path, told: RoundRecord) -> None:
    """`rounds/round_007.json`."""
    _write(folder / ROUNDS / f"round_{told.round:03d}.json", as_json(told))


def write_prompts(folder: Path, prompts: Mapping[str, str]) -> None:
    """One file a field, without known secrets."""
    redactor = Redactor.from_environment()
    for name, text in prompts.items():
        _write(folder / f"{name}.md", redactor.without_known(text))


def write_result_files(
    folder: Path,
    *,
    baseline: Mapping[str, str] | None = None,
    update_source: bool = False,
    source_updated: bool = False,
    trouble: str = "",
) -> OptimizeResult:
    """All files of a run that nobody drives, however it ended; older ones are brought up to date.

    A run that somebody drives has no result yet, and is refused.
    """
    first = baseline or kept_prompts(folder)
    known = Known.read(folder, first)
    if known.run.driven:
        raise FileTrouble(
            f"{folder} has no result yet: a process is at work there",
            remedy="Wait until it ends, or look at its rounds.",
        )
    earlier = source_updated or _was_updated(folder)
    result = result_of(known, source_updated=earlier, trouble=trouble)
    write_beginning(folder, first or result.baseline_prompts)
    write_files(folder, result, update_source=update_source)
    return result


def write_files(folder: Path, result: OptimizeResult, *, update_source: bool) -> None:
    """The files that a result alone tells: of any algorithm."""
    for told in result.rounds:
        write_round(folder, told)
    if result.status == "SUCCEEDED":
        write_prompts(folder / BEST_PROMPTS, result.best_prompts)
        told = result.format_summary(output_dir=folder, update_source=update_source)
        _write(folder / SUMMARY, told)
    _write(folder / LOG, log_line(result))
    _write(folder / RESULT, as_json(result))


def kept_prompts(folder: Path) -> dict[str, str]:
    """What the fields said at the start, as far as it was written down."""
    return {path.stem: read_text(path) for path in sorted((folder / BASELINE_PROMPTS).glob("*.md"))}


def _was_updated(folder: Path) -> bool:
    """Whether an earlier writing of the result says that the source was updated."""
    path = folder / RESULT
    try:
        return path.exists() and OptimizeResult.from_file(path).source_updated
    except FileTrouble:
        return False


def _write(path: Path, content: str) -> None:
    """Write a file unless it says so already."""
    payload = content.encode(errors="replace")
    if path.exists() and path.read_bytes() == payload:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_trouble("make", path.parent, error) from error
    write_atomic(path, payload)
