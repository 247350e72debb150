"""Errors of a call in its own words: where the command line has a flag, a call has a keyword."""

import inspect
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from burnish.core.errors import BurnishError, PriceUnknown, ResumeRefused, WrongArgument
from burnish.core.formatting import listed, shorten
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header
from burnish.runs.setup import Setup

_MODEL = "openai:gpt-5-mini"
_ANOTHER = "call it again with another folder"
_FLAGS = (
    "cases|concurrency|expected|goal|holdout|input|judge|metrics?|reflector|repeats|seed|strategy"
    "|test|track|train"
)
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        # where either way is named, the keyword stands for both
        (r"(\w+): [\w:.-]+, or --\1 \w+", rf'\1="{_MODEL}"'),
        (r"judge_model in the metric, model under evaluations, or --judge", f'judge="{_MODEL}"'),
        (r'--(\w+) COLUMN, or (\1="COLUMN") in Python', r"\2"),
        (r"(user_simulator): (\w+:[\w.-]+)", r'\1="\2"'),
        # a call cannot fork a run, and need not: a new folder is a new run
        (r"start a new run that [\w ]+: --fork RUN --retry-missing", _ANOTHER),
        (r"[Ss]tart a new run, or fork this one with --fork", _ANOTHER),
        (r"fork it with --fork: the new run marks its test as spent", _ANOTHER),
        (r"start from the existing results with --fork \S+: [^;]*", _ANOTHER),
        (r"; --fork in place of --resume [^;]*", f", or {_ANOTHER}"),
        (r"start a new run without --fork", _ANOTHER),
        (r"start a new one with --fork \S+", _ANOTHER),
        (r", use fewer cases, or a smaller minibatch", ", or use fewer cases"),
        (r"(?:add |raise )?--max-[a-z-]+(?: N)?", "budget="),
        (r"\bmax_usd is set\b", "the limit is in dollars"),
        (r"name another folder with -o, or resume the run there", "name another folder"),
        (r" with -o\b", ": folder="),
        (r", or --tracking-uri\b", ""),
        (rf"--({_FLAGS}) ([a-z]+)(?=[,.:;]|$)", r'\1="\2"'),
        (rf"--({_FLAGS})\b(?: [A-Z]+(?::[A-Z]+)?\b)?", r"\1="),
    )
)
_RESUME = re.compile(r"resume the run \(`burnish runs resume [^`]*`\)")


class CallWords:
    """What an error needs to know of the call that it ends."""

    folder: Path | None = None
    """Of the run, once there is one."""

    def __call__(self, text: str) -> str:
        """A message in the words of the call."""
        folder = "its folder" if self.folder is None else f"folder={str(self.folder)!r}"
        text = _RESUME.sub(lambda _: f"make the same call with {folder}, which continues it", text)
        for pattern, words in _WORDS:
            text = pattern.sub(words, text)
        return text


@contextmanager
def words_of_call() -> Generator[CallWords]:
    """Raise what goes wrong inside in the words of the call."""
    words = CallWords()
    try:
        yield words
    except BurnishError as error:
        error.reword(words)
        if isinstance(error, PriceUnknown):
            error.remedy = 'limit runs of cases, or time: budget=300, or budget="30 min"'
        raise


KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "concurrency": (int, "a whole number from 1"),
    "expected": (str, "the name of a column"),
    "folder": ((str, Path), "a path"),
    "input": (str, "the name of a column"),
    "judge": ((str, ModelRef), f"a model's name, such as '{_MODEL}'"),
    "models": (Models, "burnish.models.factory.Models"),
    "policy": (CasePolicy, "a burnish.CasePolicy"),
    "progress": (bool, "True or False"),
    "repeats": (int, "a whole number from 1"),
    "seed": (int, "a whole number"),
    "strategy": (str, "the name of a strategy"),
    "track": ((str, list, tuple), "'mlflow', 'wandb', 'otel' or a list of them"),
    "user_simulator": ((str, ModelRef), f"a model's name, such as '{_MODEL}'"),
}
"""By name, what arguments must be, and how messages call that."""


def check_kinds(**arguments: object) -> None:
    """Refuse arguments of another kind; None stands for one that was left out."""
    for name, value in arguments.items():
        kind, words = KINDS[name]
        is_flag = isinstance(value, bool) and kind is not bool
        too_small = kind is int and isinstance(value, int) and "from 1" in words and value < 1
        if value is not None and (is_flag or too_small or not isinstance(value, kind)):
            found = "a function" if inspect.isfunction(value) else repr(value)
            raise WrongArgument.of(name, f"expected {words}, found {shorten(found, 80)}")


_INPUTS = {
    "target": "agent",
    "baseline": "texts",
    "data": "cases",
    "metrics": "metric",
    "role prompts": "reflector",
    "strategy": "strategy",
    "seed": "seed",
}
"""What run.json has hashes of, as arguments of a call."""


def refuse_another_call(setup: Setup, folder: Path) -> None:
    """Refuse to continue the run in a folder that another call has started."""
    if not (folder / HEADER).exists():
        return
    before, now = Header.read(folder).inputs, setup.inputs()
    others = [word for name, word in _INPUTS.items() if before.get(name) != now.get(name)]
    if others:
        raise ResumeRefused(
            f"the run in {folder} was started with another {listed(others)}",
            remedy="name another folder, or call it as before",
        )
