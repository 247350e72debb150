"""Keys in answers: gone from the files of a run, seen by metrics, and no false alarms."""

import base64
import hashlib
import random
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome, Split
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Trial
from burnish.runs.run import Run
from burnish.runs.setup import resume, start
from burnish.system import Redactor
from burnish.system.redaction import MARKER
from tests.runs.small import driven, small

_NAMELESS = Redactor(secrets=())


def _letters(
    count: int, of: str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
) -> str:
    return "".join(random.Random(count).choices(of, k=count))


def _keys() -> Iterator[tuple[str, str]]:
    """Keys of every kind, put together here so that no scanner takes this file for a leak."""
    upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    words = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    yield "aws", "AKIA" + _letters(16, upper)
    yield "google", "AIza" + _letters(35)
    yield "azure", "AccountKey=" + _letters(86) + "=="
    yield "azure secret", "abc8Q~" + _letters(34)
    yield "github", "ghp_" + _letters(36)
    yield "github pat", "github_pat_" + _letters(22) + "_" + _letters(59)
    yield "gitlab", "glpat-" + _letters(20)
    yield "slack", "xoxb-" + _letters(12, "0123456789") + "-" + _letters(24)
    yield "stripe", "sk_live_" + _letters(24)
    yield "openai", "sk-proj-" + _letters(40)
    yield "anthropic", "sk-ant-api03-" + _letters(80)
    yield "hugging face", "hf_" + _letters(34, words)
    yield "npm", "npm_" + _letters(36)
    yield "pypi", "pypi-AgE" + _letters(80)
    yield "jwt", "eyJ" + _letters(20) + ".eyJ" + _letters(40) + "." + _letters(43)
    body = "\n".join(_letters(64) for _ in range(4))
    kind = "RSA PRIVATE " + "KEY-----"
    yield "private key", f"-----BEGIN {kind}\n{body}\n-----END {kind}"
    yield "cut private key", f"-----BEGIN {kind}\n{body}"
    service = body.replace("\n", "\\n")
    yield (
        "service account",
        f'{{"private_key": "-----BEGIN {kind}\\n{service}\\n-----END {kind}\\n"}}',
    )


@pytest.mark.parametrize("key", [key for _, key in _keys()], ids=[name for name, _ in _keys()])
def test_keys_are_removed_in_prose_json_and_lists(key: str) -> None:
    secret = key.removeprefix("AccountKey=")[-30:]
    for text in (f"The key is {key}.", f"a={key}\nb", f"({key})", f"x\\n{key} y"):
        assert MARKER in _NAMELESS.text(text)
        assert secret not in _NAMELESS.text(text)
    document = {"answer": [f"use {key}"]}
    assert secret not in str(_NAMELESS.json(document))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("key", [key for _, key in _keys()], ids=[name for name, _ in _keys()])
def test_what_the_case_says_stays(key: str) -> None:
    answer = f"The key is {key}."
    assert _NAMELESS.text(answer, spared=f"Which key? {key}") == answer


@pytest.mark.parametrize(
    "text",
    [
        hashlib.sha256(b"x").hexdigest(),
        hashlib.sha1(b"x").hexdigest(),
        str(uuid.UUID(int=2**100)),
        base64.b64encode(random.Random(1).randbytes(300_000)).decode(),
        base64.urlsafe_b64encode(random.Random(2).randbytes(300_000)).decode(),
        "Put your key between -----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY-----?"[:45],
        "ghp_ is the prefix; AKIA too; eyJ starts a token; sk_live_ is Stripe's",
        "See https://example.org/AKIA and npm_config_registry, hf_hub_download, xoxb",
    ],
)
def test_no_false_alarms(text: str) -> None:
    assert _NAMELESS.text(text) == text


@pytest.mark.parametrize(
    "piece", ["a", "eyJ", "eyJaaaaaaaaaaaa.", "AKIA", "api-key=abc,", "1Q~", " xoxb"]
)
def test_long_answers_take_little_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    began = time.process_time()
    _NAMELESS.text(text)
    assert time.process_time() - began < 8


_KEY = "AKIA" + _letters(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


class _EndsWithKey:
    """A metric that wants a key at the end."""

    name = "expected_text"
    fingerprint = "1"
    seen: list[str]

    def __init__(self) -> None:
        self.seen = []

    def estimate(self, case: Case) -> Spend:
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Any) -> list[Score]:
        self.seen.append(outcome.output)
        return [Score(metric=self.name, value=float(outcome.output.endswith(_KEY)))]


def _leaky(candidate: Candidate, case: Case, draw: int) -> str:
    return f"{case.id} says {_KEY}"


async def _measure(run: Run) -> None:
    train = await run.evaluate(run.target.baseline, split=Split.TRAIN)
    result = SplitResult.of(train, run.objective)
    run.record(Trial(candidate=run.target.baseline, phase="baseline", train=result))
    _SEEN.append([(each.outcome.output, each.scores[0].value) for each in train.results])


_SEEN: list[list[tuple[str, float | None]]] = []


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_metrics_see_the_answer_and_no_file_has_the_key(tmp_path: Path) -> None:
    _SEEN.clear()
    metric = _EndsWithKey()
    setup = small(steps=_measure, agent=_leaky, metrics=(metric,))
    await driven(setup, tmp_path / "run")
    assert all(text.endswith(_KEY) for text in metric.seen)
    assert metric.seen
    assert {value for _, value in _SEEN[0]} == {1.0}
    assert all(text.endswith(MARKER) for text, _ in _SEEN[0])
    assert _KEY.encode() not in _files(tmp_path / "run")
    # A replay uses the scores of the whole answer, and gives the same story.
    await driven(setup, tmp_path / "run")
    assert _SEEN[0] == _SEEN[1]


async def test_an_answer_that_was_never_scored_is_made_again(tmp_path: Path) -> None:
    _SEEN.clear()
    calls: list[str] = []

    def agent(candidate: Candidate, case: Case, draw: int) -> str:
        calls.append(case.id)
        return _leaky(candidate, case, draw)

    folder = tmp_path / "run"
    setup = small(steps=_measure, agent=agent, metrics=(_EndsWithKey(),))
    run = start(setup, folder=folder)
    await run.evaluate(run.target.baseline, split=Split.TRAIN)
    await run.close()
    # As after a crash in between: the runs are stored, and their scores are not.
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        db.execute("DELETE FROM effects WHERE kind = 'score'")
    (folder / "journal.count").unlink()
    before = len(calls)
    run = resume(setup, folder)
    await _measure(run)
    await run.close()
    assert len(calls) == 2 * before
    assert {value for _, value in _SEEN[0]} == {1.0}
    assert _KEY.encode() not in _files(folder)


async def test_the_switch_keeps_shapes_but_not_own_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")

    def agent(candidate: Candidate, case: Case, draw: int) -> str:
        return f"correct-horse-battery {_KEY}"

    _SEEN.clear()
    metric = _EndsWithKey()
    await driven(
        small(steps=_measure, agent=agent, metrics=(metric,), redact="own-secrets"),
        tmp_path / "run",
    )
    assert {text for text, _ in _SEEN[0]} == {f"{MARKER} {_KEY}"}
    assert set(metric.seen) == {f"{MARKER} {_KEY}"}


async def test_metrics_never_see_the_users_own_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")

    def agent(candidate: Candidate, case: Case, draw: int) -> str:
        return f"correct-horse-battery {_KEY}"

    metric = _EndsWithKey()
    await driven(small(steps=_measure, agent=agent, metrics=(metric,)), tmp_path / "run")
    assert set(metric.seen) == {f"{MARKER} {_KEY}"}
