"""A driver of a journal in a database, in a process of its own that may kill itself.

    python -m tests.journal.database_child ADDRESS PREFIX COUNTS DEADLY

Ten trials of six calls each. The call number DEADLY of this process is its last: it is noted in
COUNTS, a file outside of the journal, and then the process is killed as `kill -9` would.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from burnish.core.content import canonical, codec
from burnish.core.errors import RunLocked
from burnish.core.money import Spend
from burnish.core.protocols import Call, Effects, Receipt
from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import Journal
from burnish.journal.once import JournaledEffects
from burnish.system import Redactor
from burnish.system.databases import DatabaseUrl

TRIALS, CALLS, LEASE = 10, 6, 0.5
NAME = "app/run"


def paying(
    counts: Path, deadly: int
) -> Callable[[str], Callable[[Effects], Awaitable[Receipt[str]]]]:
    """Performs that leave a line for each call they make."""
    paid = 0

    def make(what: str) -> Callable[[Effects], Awaitable[Receipt[str]]]:
        async def perform(effects: Effects) -> Receipt[str]:
            nonlocal paid
            del effects
            with counts.open("a") as file:
                file.write(f"{what}\n")
            paid += 1
            if paid == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return Receipt(value=f"answer to {what}", spend=Spend(calls=1))

        return perform

    return make


def taken(journals: DatabaseJournals) -> Journal:
    """The journal, as soon as the lease of whoever was killed has ended."""
    ends = time.monotonic() + 120
    while True:
        try:
            return Journal(journals.journal(NAME))
        except RunLocked:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


async def drive(journal: Journal, counts: Path, deadly: int) -> None:
    """A strategy as simple as can be: what a trial asks for depends on the one before."""
    effects, pay = JournaledEffects(journal, redactor=Redactor(secrets=())), paying(counts, deadly)
    seen = ""
    for trial in range(TRIALS):
        scope = effects.scope(trial=trial)
        asked = [f"{trial}.{number} after {len(seen)}" for number in range(CALLS)]
        answers = await asyncio.gather(
            *(
                scope.once(Call(kind="test", request=what, codec=codec(str)), pay(what))
                for what in asked
            )
        )
        seen += "".join(answers)
        if not effects.replays(trial):
            journal.add_trial(trial, canonical([*answers]))


def main() -> None:
    """Drive to the end, or to death."""
    address, prefix, counts, deadly = sys.argv[1:]
    url = DatabaseUrl.parse(address)
    journal = taken(DatabaseJournals(url=url, prefix=prefix, lease_seconds=LEASE))
    asyncio.run(drive(journal, Path(counts), int(deadly)))
    journal.close()


if __name__ == "__main__":
    main()
