"""What tests of prompts share: fields in files, a store behind callbacks, an agent that reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.cases import Case, Outcome
from burnish.core.surfaces import Candidate
from burnish.journal.once import DirectEffects
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt

CASE = Case.single("Who are you?")


@dataclass
class Store:
    """Texts behind callbacks."""

    texts: dict[str, str]
    writes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    trouble: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """What writing a text raises."""

    def add(self, prompts: TargetPrompt, name: str) -> TargetPrompt:
        async def read() -> str:
            return self.texts[name]

        async def write(text: str) -> None:
            if text in self.trouble:
                raise self.trouble[text]
            self.texts[name] = text
            self.writes.append((name, text))

        return prompts.add_callback(name, read=read, write=write)


def prompt_file(folder: Path, name: str = "system", text: str | bytes = "Be brief.\n") -> Path:
    path = folder / f"{name}.md"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def reader(path: Path) -> CallableTarget:
    """An agent that reads its prompt each time, as agents in production do."""

    def agent(query: str) -> str:
        return f"{path.read_text()}|{query}"

    return CallableTarget(agent=agent, name="reader")


def changed(target: PromptsTarget, values: Mapping[str, str]) -> Candidate:
    return Candidate(values={**target.baseline.values, **values})


async def output(target: PromptsTarget, values: Mapping[str, str], case: Case = CASE) -> str:
    return (await ran(target, values, case)).output


async def ran(target: PromptsTarget, values: Mapping[str, str], case: Case = CASE) -> Outcome:
    candidate = changed(target, values)
    receipt = await target.run(candidate, case, draw=0, effects=DirectEffects())
    return receipt.value


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
