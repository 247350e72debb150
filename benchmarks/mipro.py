"""burnish beside MIPROv2 of DSPy: the same program, scripted models, as many calls of the program.

A help desk answers a ticket with the codes of its topics, and is told two of eight at the start. It
follows a rule that is in its instructions nearly always, one that only its demonstrations show less
often. The model that writes new instructions takes up each code that it sees with luck, and now and
then loses one. `make bench PART=mipro` runs it in the environment of DSPy and prints markdown.
"""

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.page import add_option, made_with, show
from burnish import optimize
from burnish.core.content import stream
from burnish.core.surfaces import Demonstration
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.testing.doubles import ScriptedBackend

dspy: Any = import_module("dspy")

CODES = {
    "delivery": "[D4]",
    "refund": "[R7]",
    "invoice": "[I2]",
    "account": "[A9]",
    "damage": "[X5]",
    "warranty": "[W1]",
    "colour": "[C8]",
    "repair": "[P3]",
}
KNOWN = ("delivery", "refund")
FOLLOWS, IMITATES, TAKES_UP, LOSES = 0.95, 0.6, 0.5, 0.1
"""How often a rule is followed, a demonstration imitated, a code taken up, a stated rule lost."""
CASES = {"train": 60, "holdout": 60, "test": 40}
_RULE = re.compile(r"For (\w+), add (\[\w\d\])\.")
_ASKED = re.compile(r"ticket \d+: ([a-z]+(?: and [a-z]+)?)")
_CODE = re.compile(r"\[\w\d\]")


def instructions(rules: Mapping[str, str]) -> str:
    """The text that states these rules."""
    lines = [f"For {topic}, add {code}." for topic, code in rules.items()]
    return " ".join(("Answer the ticket with the codes of its topics.", *lines))


@dataclass
class Calls:
    """The luck and the number of the calls of one model, whatever copies it has."""

    seed: int
    name: str
    asked: Counter[str] = field(default_factory=Counter[str])

    def __deepcopy__(self, memo: object) -> "Calls":
        return self

    def luck(self, prompt: str) -> Any:
        """A stream for this prompt; another one if it is asked again."""
        self.asked[prompt] += 1
        return stream(self.seed, f"{self.name} {prompt} {self.asked[prompt]}")

    @property
    def count(self) -> int:
        return self.asked.total()


class Scripted(cast("type[Any]", dspy.BaseLM)):
    """A model of DSPy whose answers a method makes, one text for each field."""

    def __init__(self, calls: Calls) -> None:
        dspy.BaseLM.__init__(self, model=calls.name)
        self.calls = calls

    def forward(self, prompt: Any = None, messages: Any = None, **settings: Any) -> Any:
        del prompt, settings
        fields = self.answer(messages, self.calls.luck(json.dumps(messages)))
        parts = [f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items()]
        text = "\n\n".join((*parts, "[[ ## completed ## ]]"))
        choice = SimpleNamespace(
            message=SimpleNamespace(content=text, tool_calls=None), finish_reason="stop"
        )
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return SimpleNamespace(choices=[choice], usage=usage, model=self.calls.name)

    def answer(self, messages: Sequence[Mapping[str, str]], luck: Any) -> dict[str, str]:
        raise NotImplementedError


class Desk(Scripted):
    """Answers tickets by its instructions and demonstrations."""

    def answer(self, messages: Sequence[Mapping[str, str]], luck: Any) -> dict[str, str]:
        stated, shown = rules_in(messages[0]["content"]), shown_in(messages[1:-1])
        (asked, *_) = _ASKED.findall(messages[-1]["content"])
        codes = [
            (stated.get(topic) or shown[topic])
            for topic in asked.split(" and ")
            if luck.random() < kept(topic, stated, shown)
        ]
        return {"codes": " ".join(codes) or "none"}


class Writer(Scripted):
    """Looks at data and writes instructions, as MIPROv2's proposer asks."""

    def answer(self, messages: Sequence[Mapping[str, str]], luck: Any) -> dict[str, str]:
        request = messages[-1]["content"]
        (wanted, *_) = re.findall(r"starting with the field `\[\[ ## (\w+) ## \]\]`", request)
        seen = seen_in(request)
        if wanted == "proposed_instruction":
            basic = request.partition("[[ ## basic_instruction ## ]]")[2]
            return {wanted: rewritten(rules_in(basic), seen, luck)}
        if wanted in ("observations", "summary"):
            return {wanted: "\n".join(f"{t} goes with {c}" for t, c in seen.items())}
        return {wanted: "It answers tickets."}


def rules_in(text: str) -> dict[str, str]:
    """The true rules that a text states."""
    return {topic: code for topic, code in _RULE.findall(text) if CODES.get(topic) == code}


def shown_in(messages: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The codes that demonstrations show."""
    return pairs_in("\n".join(message["content"] for message in messages))


def pairs_in(text: str) -> dict[str, str]:
    """The topics of tickets, with the codes after them where they are as many."""
    found: dict[str, str] = {}
    for match in _ASKED.finditer(text):
        topics = match[1].split(" and ")
        answer = text[match.end() :].partition("ticket ")[0]
        codes = list(dict.fromkeys(_CODE.findall(answer)))
        if len(codes) == len(topics):
            found |= dict(zip(topics, codes, strict=True))
    return {topic: code for topic, code in found.items() if CODES.get(topic) == code}


def seen_in(text: str) -> dict[str, str]:
    """All that a text says of topics and codes, also in a summary."""
    told = dict(re.findall(r"(\w+) goes with (\[\w\d\])", text))
    return {**told, **pairs_in(text)}


def rewritten(rules: Mapping[str, str], seen: Mapping[str, str], luck: Any) -> str:
    """New instructions: most of the old rules, and some of what was seen."""
    old = {topic: code for topic, code in rules.items() if luck.random() >= LOSES}
    new = {topic: code for topic, code in seen.items() if luck.random() < TAKES_UP}
    return instructions({**old, **new})


def kept(topic: str, stated: Mapping[str, str], shown: Mapping[str, str]) -> float:
    """How often the desk gives the code of a topic."""
    return FOLLOWS if topic in stated else IMITATES if topic in shown else 0.0


def worth(program: Any) -> float:
    """The true score of a program: the mean over all tickets that there are."""
    stated = rules_in(program.signature.instructions)
    lines = [{"content": f"{demo['question']} {demo['codes']}"} for demo in program.demos]
    chances = [kept(topic, stated, shown_in(lines)) for topic in CODES]
    pairs = [one * other for one, other in combinations(chances, 2)]
    return (fmean(chances) + fmean(pairs)) / 2


def tickets(seed: int, split: str) -> list[dict[str, str]]:
    """Cases: half have one topic, half two."""
    luck = stream(seed, f"tickets {split}")
    start = 1000 * [*CASES].index(split)
    made: list[dict[str, str]] = []
    for number in range(CASES[split]):
        topics = luck.sample([*CODES], 1 + number % 2)
        codes = " ".join(CODES[topic] for topic in topics)
        asked = f"ticket {start + number}: {' and '.join(topics)}"
        made.append({"question": asked, "codes": codes})
    return made


def program_of() -> Any:
    """The program at the start."""
    rules = {topic: CODES[topic] for topic in KNOWN}
    return dspy.Predict(dspy.Signature("question -> codes", instructions(rules)))


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search gave: the true score, and how often each model was called."""

    score: float
    calls: int
    written: int
    claim: str = ""


def by_mipro(seed: int, auto: str = "light") -> Found:
    """A search by MIPROv2 with its own settings."""
    desk, writer = Calls(seed, "desk"), Calls(seed, "writer")
    examples = {
        split: [dspy.Example(**each).with_inputs("question") for each in tickets(seed, split)]
        for split in ("train", "holdout")
    }

    def right(example: Any, prediction: Any, trace: object = None) -> bool:
        del trace
        return example.codes == prediction.codes

    with redirect_stdout(StringIO()), dspy.context(lm=Desk(desk)):  # it prints its progress
        search = dspy.MIPROv2(
            metric=right, prompt_model=Writer(writer), auto=auto, num_threads=1, seed=seed
        )
        best = search.compile(
            program_of(),
            trainset=examples["train"],
            valset=examples["holdout"],
            requires_permission_to_run=False,
        )
    return Found(score=worth(best), calls=desk.count, written=writer.count)


def by_burnish(seed: int, calls: int) -> Found:
    """A search by burnish with its own settings and no more calls, its sealed test included."""
    desk, writer = Calls(seed, "desk"), Calls(seed, "writer")

    def reflect(request: ChatRequest, draw: int) -> str:
        text = "\n".join(message.content for message in request.messages)
        current = text.partition("The text now:")[2].partition("How it went")[0]
        new = rewritten(rules_in(current), seen_in(text), writer.luck(f"{draw} {text}"))
        return json.dumps({"diagnosis": "codes are missing", "new_text": new})

    program = program_of()
    with tempfile.TemporaryDirectory() as folder, dspy.context(lm=Desk(desk)):
        splits: dict[str, Any] = {split: _rows(seed, split) for split in CASES}
        result = optimize(
            program,
            **splits,
            metric="equality",
            reflector="openai:writer",
            models=Models(backends={"openai": ScriptedBackend(respond=reflect)}),
            budget=calls,
            seed=seed,
            folder=Path(folder) / "run",
        )
        values = result.best
    program.signature = program.signature.with_instructions(values["instructions"])
    shown = cast("tuple[Demonstration, ...]", values["demos"])
    program.demos = [{"question": each.input, "codes": each.output} for each in shown]
    claim = "" if result.claim is None else result.claim.verdict
    return Found(score=worth(program), calls=desk.count, written=writer.count, claim=claim)


def _rows(seed: int, split: str) -> list[tuple[str, str]]:
    return [(each["question"], each["codes"]) for each in tickets(seed, split)]


def report(found: Sequence[tuple[int, Found, Found]]) -> str:
    """A table, one row for each seed, and the means."""
    lines = [
        f"The program at the start is worth {worth(program_of()):.3f}.",
        "",
        "| seed | calls of MIPROv2 | burnish | score of MIPROv2 | burnish | its claim |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {seed} | {one.calls} | {two.calls} | {one.score:.3f} | {two.score:.3f} | {two.claim} |"
        for seed, one, two in found
    ]
    gaps = [two.score - one.score for _, one, two in found]
    error = stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    ones, others = [one for _, one, _ in found], [other for _, _, other in found]
    scores = [fmean(each.score for each in column) for column in (ones, others)]
    asked = [fmean(each.written for each in column) for column in (ones, others)]
    lines += [
        "",
        f"Means: MIPROv2 {scores[0]:.3f}, burnish {scores[1]:.3f}; seed by seed burnish"
        f" {fmean(gaps):+.3f} ± {error:.3f} (standard error). Calls of the model that writes:"
        f" {asked[0]:.0f} and {asked[1]:.0f}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Make the searches, and print what came of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mipro", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--auto", default="light", help="the setting of MIPROv2")
    add_option(parser)
    asked = parser.parse_args()
    dspy.disable_logging()
    found: list[tuple[int, Found, Found]] = []
    for seed in range(1, asked.seeds + 1):
        one = by_mipro(seed, asked.auto)
        found.append((seed, one, by_burnish(seed, one.calls)))
    show("mipro", f"{made_with('mipro')}.\n\n{report(found)}", asked)


if __name__ == "__main__":
    main()
