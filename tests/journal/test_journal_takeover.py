"""A driver is killed; another process waits for its lease to end, and replays from the database."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from burnish.journal.database_store import DatabaseJournals
from burnish.journal.journal import JournalReader
from burnish.system.databases import DatabaseUrl
from tests.journal.database_child import CALLS, NAME, TRIALS
from tests.journal.databases import SERVERS, tables_on

pytestmark = pytest.mark.crash


def driven(address: str, prefix: str, counts: Path, deadly: int = 0) -> int:
    """Run the child; how it ended."""
    command = [sys.executable, "-m", "tests.journal.database_child", address, prefix]
    done = subprocess.run(
        [*command, str(counts), str(deadly)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.parametrize("server", list(SERVERS))
def test_killed_and_taken_over(server: str, tmp_path: Path) -> None:
    counts = tmp_path / "calls"
    with tables_on(server) as (address, prefix):
        for deadly in (9, 21):
            assert driven(address, prefix, counts, deadly) == -signal.SIGKILL
        assert driven(address, prefix, counts) == 0
        journals = DatabaseJournals(url=DatabaseUrl.parse(address), prefix=prefix)
        with JournalReader(journals.journal(NAME)) as reader:
            trials, billed = list(reader.trials()), reader.billed.calls
            states = Counter(row.state for row in reader.effects())
    paid = counts.read_text().splitlines()
    assert len(trials) == TRIALS
    assert states == {"done": TRIALS * CALLS}
    assert len(set(paid)) == TRIALS * CALLS, "the second process asked for something else"
    # What was in flight when the process died: noted, so billed, and paid for again.
    assert len(paid) <= billed <= TRIALS * CALLS + 2 * CALLS
    assert max(Counter(paid).values()) <= 3
    assert len(paid) - TRIALS * CALLS <= 2 * CALLS, "more than the calls in flight was paid twice"
