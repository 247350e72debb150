"""Pages in the browser: how long a long run takes to open, and what following it costs the run."""

import asyncio
import json
import sqlite3
import tempfile
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from socket import create_connection
from urllib.request import Request, urlopen

from benchmarks.figures import Figure
from benchmarks.overhead import Nothing, make_cases, setup
from burnish.core.cases import Split
from burnish.core.content import canonical, stream
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, Verdict
from burnish.journal.journal import Journal
from burnish.journal.sqlite_store import JOURNAL_FILE
from burnish.pages.document import Place
from burnish.pages.library import Library, run_key
from burnish.pages.run_page import Adoption
from burnish.pages.run_status import LivePanel, rest_after
from burnish.pages.served import ServedPages
from burnish.pages.viewer import Viewer
from burnish.runs.directory import LOCK, RunRecord
from burnish.runs.events import BASELINE
from burnish.runs.setup import start
from burnish.system import FileLock

TRIALS = 2_000
CASES = 200
_EVERY = 50
"""Trials from one accepted candidate to the next."""
_FOLLOWED = 60.0
"""Seconds for which a page follows the run."""
_TRIAL_SECONDS = 0.25
"""From one trial to the next meanwhile."""


def figures() -> list[Figure]:
    """Opening the page of a long run, opening it again, and one page of its trials."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "long-run"
        asyncio.run(long_run(folder))
        first = min(_opened(folder)[0] for _ in range(3))
        again, trials = _opened(folder)[1:]
        share = min(_share(folder) for _ in range(3))
        followed = _followed(folder)
    named = f"({TRIALS:,} trials × {CASES} cases)"
    return [
        Figure(what=f"page of a run {named}", value=first, unit="CPU s", goal=1.0),
        Figure(what="the same, opened again", value=again, unit="CPU s", goal=0.5),
        Figure(what="one page of its trials", value=trials, unit="CPU s", goal=0.5),
        Figure(what="its page while it goes on", value=100 * share, unit="% of its time", goal=2.0),
        Figure(
            what=f"`burnish view` that follows it for {_FOLLOWED:.0f} s",
            value=100 * followed,
            unit="% of its time",
            goal=2.0,
        ),
    ]


class _ReadOnly:
    """Adopts nothing."""

    def state(self, run: RunRecord) -> Adoption:
        """Nothing is possible."""
        del run
        return Adoption()

    def adopt(self, run: RunRecord) -> str:
        """Change nothing."""
        return run.header.id

    def undo(self, run: RunRecord) -> str:
        """Change nothing."""
        return run.header.id


def _opened(folder: Path) -> tuple[float, float, float]:
    """Seconds of processor time for the page, for the same page again, and for a page of trials.

    Pages are made by one thread that hardly waits for anything, so this is what a quiet machine
    needs, and a busy one does not change it as much as it changes the time that passes.
    """
    library = Library(folders=lambda: [folder], cases=lambda _: None, adopter=_ReadOnly())
    pages, key = ServedPages(library=library, place=Place(alone=False)), run_key(folder)
    began = time.process_time()
    pages.run(key)
    opened = time.process_time()
    pages.run(key)
    again = time.process_time()
    pages.trials(key, {"page": ["7"]})
    return opened - began, again - opened, time.process_time() - again


def _share(folder: Path) -> float:
    """The share of a processor that the open page of a run takes while it records trials."""
    library = Library(folders=lambda: [folder], cases=lambda _: None, adopter=_ReadOnly())
    pages, key = ServedPages(library=library, place=Place(alone=False)), run_key(folder)
    pages.run(key)
    with closing(Journal(folder)) as journal:
        trials = journal.trials_recorded
        last = json.loads(journal.trial(trials - 1) or b"")
        journal.add_trial(trials, canonical({**last, "number": trials}))
        began = time.process_time()
        LivePanel.read(folder, None, status="running")
        panel = time.process_time()
        pages.run(key)
        page = time.process_time()
    made = (panel - began, page - panel)
    return sum(each / (each + rest_after(each)) for each in made)


def _followed(folder: Path) -> float:
    """The share of a processor that a viewer takes whose page follows a run for a while.

    The browser and the run are this thread, whose time is left out; the viewer is all others.
    """
    library = Library(folders=lambda: [folder], cases=lambda _: None, adopter=_ReadOnly())
    viewer, key = Viewer(library), run_key(folder)
    threading.Thread(target=viewer.serve, daemon=True).start()
    lock = FileLock.acquire(folder / LOCK, holding="the benchmark")
    cookie = viewer.session_cookie.partition(";")[0]

    def load() -> None:
        request = Request(f"{viewer.origin}/runs/{key}", headers={"Cookie": cookie})
        with urlopen(request) as answer:
            answer.read()

    load()
    with closing(Journal(folder)) as journal, create_connection(("127.0.0.1", viewer.port)) as live:
        head = (f"GET /runs/{key}/live HTTP/1.1", f"Host: {viewer.hosts[0]}", f"Cookie: {cookie}")
        live.sendall("\r\n".join((*head, "", "")).encode())
        live.settimeout(_TRIAL_SECONDS)
        last = json.loads(journal.trial(journal.trials_recorded - 1) or b"")
        began, used = time.monotonic(), time.process_time() - time.thread_time()
        while time.monotonic() - began < _FOLLOWED:
            number = journal.trials_recorded
            journal.add_trial(number, canonical({**last, "number": number}))
            with suppress(TimeoutError):
                if b"event: changed" in live.recv(65_536):
                    load()
        used = time.process_time() - time.thread_time() - used
        took = time.monotonic() - began
    viewer.close()
    lock.release()
    return used / took


class _Long(Nothing):
    """Has the report of a strategy that burnish brings."""

    name = "coordinate"


async def long_run(folder: Path, *, trials: int = TRIALS, cases: int = CASES) -> None:
    """A run with this many trials, and with the effects that they leave in its journal."""
    run = start(replace(setup(make_cases(cases)), strategy=_Long()), folder=folder)
    best = run.target.baseline
    measured = SplitResult.of(await run.evaluate(best, split=Split.TRAIN), run.objective)
    for number in range(trials):
        accepted = number % _EVERY == _EVERY - 1
        candidate = best if number == 0 else _changed(best, number)
        run.record(_trial(candidate, _varied(measured, number), number, accepted=accepted))
        best = candidate if accepted else best
    await run.close()
    _repeat_effects(folder / JOURNAL_FILE, trials)


def _changed(best: Candidate, number: int) -> Candidate:
    text = " ".join(f"rule {number} of {place}" for place in range(40))
    return best.child({"text": text}, origin=Origin(note=f"another rule, number {number}"))


def _varied(result: SplitResult, number: int) -> SplitResult:
    """The result as if other cases had failed: a few less with every accepted candidate."""
    failing = set(stream(number).sample([*result.scores], max(5, 100 - 2 * (number // _EVERY))))
    scores = {
        case: {metric: [0.0 if case in failing else 1.0] for metric in metrics}
        for case, metrics in result.scores.items()
    }
    loss = len(failing) / len(scores)
    measurement = replace(result.measurement, loss=loss, runs=(loss,), pass_rate=1 - loss)
    failed = tuple(case for case in scores if case in failing)
    return replace(result, measurement=measurement, scores=scores, failed_cases=failed)


def _trial(candidate: Candidate, result: SplitResult, number: int, *, accepted: bool) -> Trial:
    decision = Decision(
        gate="sigma",
        verdict=Verdict.ACCEPT if accepted else Verdict.REJECT,
        code="better" if accepted else "noise",
        reason="more cases pass" if accepted else "the difference is noise",
        numbers={"train_improvement": 0.01, "noise_bar": 0.02, "best_train_mean_before": 0.5},
    )
    start = number == 0
    said = Proposal(role="critic", request={"saw": "x" * 2_000}, answer={"said": "y" * 500})
    return Trial(
        candidate=candidate,
        phase=BASELINE if start else "text",
        touched=() if start else ("text",),
        proposals=() if start else (said,),
        train=result,
        decision=None if start else decision,
    )


def _repeat_effects(path: Path, trials: int) -> None:
    """The effects of the first trial, once for each of the others."""
    with closing(sqlite3.connect(path)) as db:
        names = [str(row[1]) for row in db.execute("PRAGMA table_info(effects)")]
        chosen = {"id": "NULL", "key": "randomblob(32)", "trial": "n.n"}
        columns = ", ".join(chosen.get(name, f"e.{name}") for name in names)
        db.execute(
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) "
            f"INSERT INTO effects SELECT {columns} FROM effects e, n WHERE e.trial = 0",
            (trials - 1,),
        )
        db.commit()
    Journal(path.parent).close()  # with totals that count these, too
