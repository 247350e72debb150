"""Plug-ins that were written only for tests: each one module and one entry point.

`install` writes them into a folder as pip would, for child processes with that PYTHONPATH.
"""

from pathlib import Path

STRATEGY = '''\
"""The strategy `shout`: writes the text in capitals, word by word."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from burnish import Origin, Pair, Split, SplitResult, Trial, min_gain
from burnish.core.content import short_id
from burnish.plugins import (
    Access, AtLeastOne, Door, StrategyParts, StrategyPlugin, StrategySettings
)


class ShoutSettings(StrategySettings):
    """How much it shouts."""

    words: Annotated[AtLeastOne, Door(flag="*", http=Access.CLIENT)] = 2
    """Words to write in capitals."""


@dataclass(frozen=True, kw_only=True)
class Shout:
    settings: ShoutSettings
    name: str = "shout"
    roles: tuple = ()

    @property
    def fingerprint(self):
        return short_id([self.name, self.settings.model_dump()])

    def mismatch(self, target):
        return ()

    async def search(self, run):
        best = run.target.baseline
        score = await run.evaluate(best, split=Split.HOLDOUT)
        result = SplitResult.of(score, run.objective)
        run.record(Trial(candidate=best, phase="baseline", holdout=result))
        run.advance(best)
        for number in range(self.settings.words):
            if run.stop_reason(run.estimate(Split.HOLDOUT)) is not None:
                return
            parts = str(best.values["text"]).split()
            parts[number % len(parts)] = parts[number % len(parts)].upper()
            louder = best.child({"text": " ".join(parts)}, origin=Origin(by="shout"))
            found = await run.evaluate(louder, split=Split.HOLDOUT)
            pair = Pair(candidate=found, incumbent=score)
            decision = min_gain(objective=run.objective, validation=pair, gain=0.0)
            result = SplitResult.of(found, run.objective)
            trial = Trial(candidate=louder, cycle=1, phase="shout", touched=("text",))
            run.record(trial.__class__(**{**vars(trial), "holdout": result, "decision": decision}))
            if decision.accepted:
                run.advance(louder)
                best, score = louder, found


class ShoutPlugin(StrategyPlugin):
    name: ClassVar[str] = "shout"
    Settings: ClassVar[type[StrategySettings]] = ShoutSettings

    def build(self, building, parts):
        return StrategyParts(strategy=Shout(settings=building.spec.strategy.settings))
'''
TARGET = '''\
"""The target `parrot`: repeats its text."""

from pathlib import Path
from typing import Annotated, ClassVar

from burnish import TextSurface
from burnish.plugins import (
    Access, Door, FileHome, FileHomes, TargetParts, TargetPlugin, TargetSpec,
    read_metrics, read_splits
)
from burnish.testing import ScriptedTarget


class ParrotSpec(TargetSpec):
    """A parrot."""

    kind: str = "parrot"
    text: Annotated[str, Door(flag="parrot_text", http=Access.CLIENT)] = "hello"
    """What it says."""


class ParrotPlugin(TargetPlugin):
    kind: ClassVar[str] = "parrot"
    Spec: ClassVar[type[TargetSpec]] = ParrotSpec

    def build(self, building, strategy):
        dataset = read_splits(building, strategy)
        if dataset is None:
            return None
        target = ScriptedTarget(
            respond=lambda candidate, case, draw: str(candidate.values["text"]),
            surfaces=(TextSurface(id="text", max_chars=100),),
            values={"text": building.spec.target.text},
            name="parrot",
        )
        home = FileHome(path=Path(building.spec.source.file), place="says")
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=read_metrics(building, dataset.train),
            record=FileHomes(homes={"text": home}).record(),
        )
'''
METRIC = '''\
"""The metric `loudness`: the share of capitals."""

from dataclasses import dataclass
from typing import ClassVar

from burnish.plugins import ComputedMetric, MetricBlock, MetricPlugin, Share, Verdict


class LoudnessBlock(MetricBlock):
    """How loud a reply must be."""

    enough: Share = 1.0
    """The share of capitals from which a reply passes."""


@dataclass(frozen=True, kw_only=True)
class Loudness(ComputedMetric):
    def compute(self, exchange):
        letters = [letter for letter in exchange.reply if letter.isalpha()]
        if not letters:
            return Verdict(value=0.0, reason="it says nothing")
        share = sum(letter.isupper() for letter in letters) / len(letters)
        return Verdict(value=share, reason=f"{share:.0%} of it is in capitals")


class LoudnessPlugin(MetricPlugin):
    kind: ClassVar[str] = "loudness"
    Block: ClassVar[type[MetricBlock]] = LoudnessBlock

    def make(self, block, making):
        return Loudness(name=self.name(block), threshold=block.enough)
'''
DIALECT = '''\
"""The dialect `parrot`: files about parrots."""

from collections.abc import Mapping
from typing import ClassVar

from burnish.plugins import Dialect


class ParrotFile(Dialect):
    kind: ClassVar[str] = "parrot"
    target: ClassVar[str] = "parrot"
    strategy: ClassVar[str] = "shout"
    keys: ClassVar[Mapping[str, str]] = {
        "says": "target.text",
        "measured_by": "metrics.blocks",
        "cases.train": "data.train",
        "cases.holdout": "data.holdout",
        "search": "strategy.name",
        "limits": "budget",
        "words": "strategy.shout.words",
    }
'''
PROVIDER = '''\
"""The provider `nest`: an endpoint of one's own."""

from burnish.plugins import Provider

PROVIDER = Provider(
    name="nest",
    address="http://127.0.0.1:9/v1",
    hosts=("127.0.0.1",),
    key_variables=("NEST_KEY",),
)
'''
MODULES = {
    "own_strategy": (STRATEGY, "burnish.strategies", "shout = own_strategy:ShoutPlugin"),
    "own_target": (TARGET, "burnish.targets", "parrot = own_target:ParrotPlugin"),
    "own_metric": (METRIC, "burnish.metrics", "loudness = own_metric:LoudnessPlugin"),
    "own_dialect": (DIALECT, "burnish.projects", "parrot = own_dialect:ParrotFile"),
    "own_provider": (PROVIDER, "burnish.providers", "nest = own_provider:PROVIDER"),
}
PROJECT = """\
kind: parrot
says: hello dear world
measured_by: [{type: loudness, enough: 0.5}]
cases: {train: train.jsonl, holdout: holdout.jsonl}
words: 2
"""


def install(site: Path) -> Path:
    """Five distributions, as pip would leave them."""
    for name, (source, group, point) in MODULES.items():
        site.mkdir(exist_ok=True)
        (site / f"{name}.py").write_text(source, encoding="utf-8")
        meta = site / f"{name}-1.dist-info"
        meta.mkdir()
        about = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1\n"
        (meta / "METADATA").write_text(about, encoding="utf-8")
        (meta / "entry_points.txt").write_text(f"[{group}]\n{point}\n", encoding="utf-8")
    return site


def write_project(folder: Path) -> Path:
    """A file about a parrot, with its cases."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "holdout"):
        (folder / f"{split}.jsonl").write_text(
            f'{{"id": "{split}", "input": "speak of {split}", "expected": "HELLO"}}\n',
            encoding="utf-8",
        )
    file = folder / "parrot.yaml"
    file.write_text(PROJECT, encoding="utf-8")
    return file
