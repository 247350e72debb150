"""The result of an optimisation, for a program or a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, cast

from burnish.core.cases import Dataset
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import number, shorten, spending, word_diff
from burnish.core.money import Spend
from burnish.core.statistics import Interval
from burnish.core.surfaces import Candidate, Value, diff
from burnish.core.trials import Trial
from burnish.projects.adopt import adopt, adopting, plan_adoption
from burnish.reports.cases import case_lines
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.claims import claim_words, verdict_title
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending
from burnish.runs.events import Claim
from burnish.system import read_text

_WIDTH = 78
_SHOWN = 20
"""Cases that a notebook shows."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What a search found: the best texts, how sure the gain is, and everything it tried."""

    folder: Path
    """The folder of the run; the same call with it continues the run, or returns this again."""
    ending: Ending
    dataset: Dataset = field(repr=False)
    only: str = ""
    """The name of the one text that was passed without a name."""

    @property
    def best(self) -> Any:
        """The best texts by name; the text itself where one was passed without a name."""
        values = dict(self.ending.best.values)
        return values[self.only] if self.only else values

    @property
    def claim(self) -> Claim | None:
        """What may be said of the best, with every number; None if nothing was measured."""
        return self.ending.claim

    @property
    def score(self) -> float | None:
        """The mean score of the best on the cases of `basis`."""
        return None if self.claim is None else self.claim.best_score

    @property
    def baseline(self) -> float | None:
        """The mean score of what the search began with, on the same cases."""
        return None if self.claim is None else self.claim.baseline_score

    @property
    def basis(self) -> str:
        """What the scores rest on: `sealed test`, `fresh draws` or `selected on holdout`."""
        return "" if self.claim is None else self.claim.basis

    @property
    def gain(self) -> Interval | None:
        """The gain with its interval over cases; None where these cases chose the best."""
        return None if self.claim is None else self.claim.gain

    @property
    def verdict(self) -> str:
        """The verdict in words, such as `Improved` or `Nothing better was found`."""
        return "Nothing was measured" if self.claim is None else verdict_title(self.claim)

    @property
    def improved(self) -> bool:
        """Whether cases or draws that chose nothing show a gain."""
        return self.claim is not None and self.claim.verdict == "improved"

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped by Ctrl-C or a signal, so that the same call can continue it."""
        return self.ending.interrupted

    @property
    def cost(self) -> Spend:
        """What was spent: calls, tokens, US dollars."""
        return self.ending.spent

    @property
    def report(self) -> str:
        """The report of the run, as Markdown."""
        path = self.folder / REPORT
        return read_text(path) if path.is_file() else ""

    @cached_property
    def record(self) -> RunRecord:
        """Everything that is on disk about the run."""
        return RunRecord.read(self.folder)

    def diff(self) -> str:
        """What differs between the start and the best, word by word."""
        return "\n".join(
            line
            for name, before, after in self._changes
            for line in word_diff(before.splitlines(), after.splitlines(), name)
        )

    @property
    def trials(self) -> list[dict[str, Json]]:
        """A row for each trial, for a table: what was tried, its scores, the decision and why."""
        rows: list[dict[str, Json]] = []
        for row in self.record.rows:
            trial = row.trial
            decision = trial.decision
            rows.append(
                {
                    "trial": row.number,
                    "phase": trial.phase,
                    "accepted": trial.accepted,
                    "train": _score(trial, "train"),
                    "holdout": _score(trial, "holdout"),
                    "reason": "; ".join(each.message for each in trial.problems)
                    if decision is None
                    else decision.reason,
                    "values": codec(dict[str, Value]).encode(dict(_values(trial))),
                    "calls": row.spend.calls,
                }
            )
        return rows

    @property
    def cases(self) -> list[dict[str, Json]]:
        """The cases of train and holdout with the answers and scores before and after."""
        from burnish.pages.run_details import Answers

        answers = Answers.read(self.record)
        rows: list[dict[str, Json]] = []
        for line in case_lines(self.record, self.dataset):
            detail = answers.detail(line, self.dataset)
            asked, expected = detail.turns[-1] if detail.turns else ("", None)
            rows.append(
                {
                    "case": line.case,
                    "split": line.split,
                    "input": asked,
                    "expected": expected,
                    "before": "\n".join(detail.before[0].replies) if detail.before else None,
                    "after": "\n".join(detail.after[0].replies) if detail.after else None,
                    "score before": line.before,
                    "score after": line.after,
                }
            )
        return rows

    def adopt(self) -> list[Path]:
        """Write the best into your files: where the texts stand in your code, or beside it.

        Returns the files that were changed; `burnish adopt RUN --undo` takes it back.
        """
        record = RunRecord.read(self.folder)
        with adopting(record):
            plan = plan_adoption(record)
            if plan.nothing:
                raise ConfigError([Problem(message=f"nothing was adopted: {plan.nothing}")])
            adopt(plan)
        return [each.path for each in plan.files]

    @property
    def _changes(self) -> Sequence[tuple[str, str, str]]:
        start = self.record.baseline
        before = Candidate(values={}) if start is None else start.trial.candidate
        changed = diff(before, self.ending.best) if start is not None else ()
        return [(each.surface, _text(each.before), _text(each.after)) for each in changed]

    def __str__(self) -> str:
        lines = [self.verdict if self.claim is None else claim_words(self.claim)]
        changes = self._changes
        if changes:
            name, before, after = changes[0]
            more = f"   (and {len(changes) - 1} more)" if len(changes) > 1 else ""
            lines += [f"- {_line(name, before)}", f"+ {_line(name, after)}{more}"]
        lines.append(f"spent {spending(self.cost)}")
        lines.append(self.next_step)
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def next_step(self) -> str:
        """What to do with it, in a line."""
        if self.interrupted:
            return f"stopped: the same call with folder={str(self.folder)!r} continues"
        if self._changes:
            return f"result.adopt() writes it into your files; the run is in {self.folder}"
        return (
            f"{self.ending.reason.detail or self.ending.reason.code}; the run is in {self.folder}"
        )

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        from burnish.pages.run_result import word_pieces

        words = self.verdict if self.claim is None else claim_words(self.claim)
        parts = [_STYLE, f"<p><b>{escape(self.verdict)}</b></p><p>{escape(words)}</p>"]
        for name, before, after in self._changes:
            pieces = "".join(
                _MARKS[piece.mark].format(escape(piece.text))
                for piece in word_pieces(before, after)
            )
            parts.append(f"<p><code>{escape(name)}</code></p><pre>{pieces}</pre>")
        changed = [row for row in self.cases if row["score before"] != row["score after"]]
        if changed:
            parts.append(_table(changed[:_SHOWN], len(changed)))
        parts.append(f"<p>spent {escape(spending(self.cost))} · {escape(self.next_step)}</p>")
        return f'<div class="burnish-result">{"".join(parts)}</div>'


_STYLE = """<style>
.burnish-result pre { white-space: pre-wrap; padding: .6em; border: 1px solid #8884; }
.burnish-result ins { background: #2da44e44; text-decoration: none; color: inherit; }
.burnish-result del { background: #cf222e44; color: inherit; }
.burnish-result td, .burnish-result th { text-align: left; vertical-align: top; }
</style>"""
"""Colours with transparency, so that they can be read in light and in dark notebooks."""
_MARKS: Mapping[str, str] = {"same": "{}", "added": "<ins>{}</ins>", "removed": "<del>{}</del>"}


def _table(rows: Sequence[Mapping[str, Json]], count: int) -> str:
    heads = ("input", "expected", "before", "after", "score")
    lines: list[str] = []
    for row in rows:
        cells = [shorten(str(row[name] or ""), 120) for name in heads[:-1]]
        scores = (cast("float | None", row[f"score {side}"]) for side in ("before", "after"))
        cells.append(" → ".join(map(number, scores)))
        lines.append("".join(f"<td>{escape(each)}</td>" for each in cells))
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>and {count - len(rows)} more</p>" if count > len(rows) else ""
    title = f"<p>{count} case{'' if count == 1 else 's'} with another score</p>"
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _values(trial: Trial) -> Mapping[str, Value]:
    return trial.candidate.values


def _score(trial: Trial, split: str) -> float | None:
    result = trial.train if split == "train" else trial.holdout
    return None if result is None else result.measurement.score


def _text(value: Value | None) -> str:
    if isinstance(value, tuple):
        return "\n".join(f"{each.input} → {each.output}" for each in value)
    return "" if value is None else str(value)


def _line(name: str, text: str) -> str:
    return shorten(f"{name}: {' '.join(text.split())}", _WIDTH)
