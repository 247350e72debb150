"""The files of a new project: their texts and cases, written only where nothing exists."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split, is_quantity
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import counted
from burnish.datasets.agent_cases import CaseColumns
from burnish.datasets.formats import jsonl_of, read_cases
from burnish.datasets.splits import split
from burnish.projects.starters.detection import ModelChoice
from burnish.system import make_folder
from burnish.system.files import file_trouble

_FOLDER, _SEED = "cases", 42
_FEWEST = 20
"""With fewer cases a search learns little; they are measured only."""
_LABELS, _LABEL_WORDS = 12, 4


@dataclass(frozen=True, kw_only=True)
class MetricChoice:
    """A metric for a project file, and why it was chosen."""

    name: str
    line: str
    reason: str
    judged: bool = False
    """Whether a model must judge."""


_JUDGED = MetricChoice(
    name="helpful",
    line="{type: geval, name: helpful, threshold: 0.7, "
    "criteria: The reply answers the question correctly and completely}",
    reason="there are no expected answers, so a model judges",
    judged=True,
)
_NUMBER = MetricChoice(
    name="numeric",
    line="{type: standard, metric: numeric}",
    reason="the expected answers are numbers",
)
_WORDS = MetricChoice(
    name="rouge",
    line="{type: standard, metric: rouge, threshold: 0.5}",
    reason="the expected answers are texts, so shared words count; `type: geval` asks a judge",
)


@dataclass(frozen=True, kw_only=True)
class StarterCases:
    """The cases that a new project starts with."""

    cases: tuple[Case, ...]
    source: Path | None = None
    """None if they are examples of burnish."""
    columns: CaseColumns | None = None
    """Which columns were taken, where the file has columns."""

    @classmethod
    def read(cls, path: Path, **columns: str) -> "StarterCases":
        """From a file in any format; `columns` are those that the user chose."""
        if not path.is_file():
            message = "there is no such file"
            remedy = "check the path, or leave --cases out to start with examples"
            raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)])
        file = read_cases(path, **columns)
        return cls(cases=file.cases, source=path, columns=file.columns)

    @classmethod
    def examples(cls) -> "StarterCases":
        """120 short tickets with their categories."""
        path = Path(str(files("burnish.projects.starters") / "tickets.csv"))
        file = read_cases(path)
        return cls(cases=file.cases, columns=file.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """The expected answers if they are a few short ones that recur, and no numbers or dates."""
        answers = self._answers
        distinct = sorted(set(answers))
        few = 1 < len(distinct) <= min(_LABELS, len(answers) / 2)
        short = all(len(answer.split()) <= _LABEL_WORDS for answer in distinct)
        return tuple(distinct) if few and short and not any(map(is_quantity, distinct)) else ()

    @property
    def metric(self) -> MetricChoice:
        """The metric that fits the expected answers."""
        answers = self._answers
        if not answers:
            return _JUDGED
        if self.labels:
            return _equality(f"the expected answers are {len(self.labels)} labels")
        if all(map(_is_number, answers)):
            return _NUMBER
        if all(len(answer.split()) <= _LABEL_WORDS for answer in answers):
            return _equality("the expected answers are short")
        return _WORDS

    @property
    def _answers(self) -> list[str]:
        """The expected answers; none if a case has none."""
        answers = [turn.expected or "" for case in self.cases for turn in case.turns[-1:]]
        return answers if all(answers) else []

    @property
    def searchable(self) -> bool:
        """Whether there are enough cases to search with, not only to measure."""
        return len(self.cases) >= _FEWEST

    @cached_property
    def dataset(self) -> Dataset:
        """Train, holdout and test, with each label in each; near-duplicates stay together."""
        if not self.labels or any(case.labels for case in self.cases):
            return split(self.cases, seed=_SEED).dataset
        labelled = [replace(case, labels=(case.turns[-1].expected or "",)) for case in self.cases]
        parts = split(labelled, seed=_SEED).dataset
        return Dataset(
            **{
                part.value: tuple(replace(case, labels=()) for case in parts.cases(part))
                for part in Split
            }
        )

    @property
    def names(self) -> Mapping[Split, str]:
        """The file of each split, from the folder of the project."""
        return {part: f"{_FOLDER}/{part.value}.jsonl" for part in Split}

    @property
    def whole(self) -> str:
        """The file of all cases."""
        return f"{_FOLDER}/all.jsonl"

    def split_files(self) -> dict[str, bytes]:
        """The files of the splits."""
        return {self.names[part]: _written(self.dataset.cases(part)) for part in Split}

    def whole_file(self) -> dict[str, bytes]:
        """One file with all cases."""
        return {self.whole: _written(self.cases)}

    @property
    def columns_lines(self) -> list[str]:
        """Which columns of the user's file were taken, with a sample of each."""
        if self.columns is None or self.source is None:
            return []
        return self.columns.sampled(self.cases).splitlines()

    def __str__(self) -> str:
        source = "of burnish, to replace by your own" if self.source is None else ""
        place = source or f"from {self.source}"
        return f"{counted(len(self.cases), 'case')} {place}"


def _equality(reason: str) -> MetricChoice:
    settings = "case_insensitive: true, strip_whitespace: true, strip_punctuation: true"
    line = f"{{type: standard, metric: equality, {settings}}}"
    return MetricChoice(name="equality", line=line, reason=reason)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def _written(cases: Sequence[Case]) -> bytes:
    return jsonl_of(cases).encode()


def write_new(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Create the folder, or fill an existing one; nothing is written if one of the files exists."""

    def fill(home: Path) -> None:
        for name, content in files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)

    if folder.is_dir():
        there = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
        if there:
            raise _taken(folder, f"these files already exist: {', '.join(there)}")
        try:
            fill(folder)
        except OSError as error:
            raise file_trouble("write to", folder, error) from error
    else:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_trouble("make", folder.parent, error) from error
        if not make_folder(folder, fill):
            raise _taken(folder, "the folder already exists")
    return [folder / name for name in files]


def _taken(folder: Path, message: str) -> ConfigError:
    remedy = "name another folder; nothing was changed"
    return ConfigError([Problem(where=str(folder), message=message, remedy=remedy)])


def agent_text(name: str, cases: StarterCases, model: ModelChoice) -> str:
    """An agent file; with enough cases also what `burnish optimize` may change."""
    judge = f"  model: {model.block}   # judges\n" if cases.metric.judged else ""
    measured = cases.names[Split.TRAIN] if cases.searchable else cases.whole
    return f"""\
# An agent: a model and its instructions, the cases it must get right, and what good means.
# All keys: `burnish schema agent`.
name: {json.dumps(name)}
model:
{_lines(model.keys, "  ")}  temperature: 0.0
instructions:
  file: instructions.md
evaluations:
{judge}  metrics:
    - {cases.metric.line}   # {cases.metric.reason}
{_optimizer_block(cases, model) if cases.searchable else ""}\
test_cases_file: {measured}   # what `burnish eval` measures; CSV, JSONL, YAML or an EvalSet
"""


def _optimizer_block(cases: StarterCases, model: ModelChoice) -> str:
    names = cases.names
    return f"""\
  optimizer:
    strategy: reflective            # a model reads failed cases and rewrites the instructions
    reflector: {model.block}   # that model; a stronger one finds more
    loss: {{{cases.metric.name}: 1.0}}
    train_cases_file: {names[Split.TRAIN]}      # proposals are made from these
    holdout_cases_file: {names[Split.HOLDOUT]}  # these decide, and no proposer sees them
    sealed_cases_file: {names[Split.TEST]}      # looked at once, at the end
    repeats: 1                      # more, if the same question gets different answers
    axes:
      textual:
        - {{path: instructions, max_chars: 2000}}
    budget:
      global: {{max_trials: 10, patience: 5, max_minutes: 30}}
"""


def prompts_text(
    name: str,
    target: Mapping[str, object],
    prompts: Mapping[str, str],
    cases: StarterCases,
    model: ModelChoice,
) -> str:
    """A file of kind prompts: an agent that is called, and its prompts to rewrite."""
    judge = f"judge: {model.block}\n" if cases.metric.judged else ""
    names = cases.names
    return f"""\
# An agent that is called as it is, and its prompts, which a model rewrites.
# All keys: `burnish schema prompts`.
kind: prompts
name: {json.dumps(name)}
target:
{_lines(target, "  ")}\
prompts:                  # the files that your agent reads on each call
{_lines(prompts, "  ")}\
train: {names[Split.TRAIN]}    # proposals are made from these
holdout: {names[Split.HOLDOUT]}  # these decide, and no proposer sees them
sealed: {names[Split.TEST]}    # looked at once, at the end
metrics:
  - {cases.metric.line}   # {cases.metric.reason}
{judge}reflector: {model.block}   # the model that rewrites; a stronger one finds more
budget: {{max_trials: 10, patience: 5, max_minutes: 30}}
"""


def called_text(
    kind: str, name: str, target: Mapping[str, object], cases: StarterCases, model: ModelChoice
) -> str:
    """A file about an agent that is called, to be measured."""
    judge = f"judge: {model.block}\n" if cases.metric.judged else ""
    return f"""\
# An agent that is called as it is, and measured. All keys: `burnish schema {kind}`.
kind: {kind}
name: {json.dumps(name)}
target:
{_lines(target, "  ")}\
cases: {cases.whole}
metrics:
  - {cases.metric.line}   # {cases.metric.reason}
{judge}"""


def instructions_text(cases: StarterCases) -> str:
    """Plain instructions that fit the expected answers."""
    if labels := cases.labels:
        return f"Read the message and sort it.\n\nAnswer with one of: {', '.join(labels)}.\n"
    return "Answer the message.\n"


def graph_text(name: str, cases: StarterCases, model: ModelChoice) -> str:
    """Two agents in a row, and how to improve them."""
    names = cases.names
    judge = f"judge: {model.block}\n" if cases.metric.judged else ""
    return f"""\
# Two agents in a row. burnish finds out which of them is to blame for a wrong answer.
# All keys: `burnish schema graph`.
kind: graph
name: {json.dumps(name)}
nodes:
  reader:
    model: {model.block}
    instructions: {{file: instructions/reader.md}}
  writer:
    model: {model.block}
    instructions: {{file: instructions/writer.md}}
edges:
  - reader -> writer
output: writer
train: {names[Split.TRAIN]}    # proposals are made from these
holdout: {names[Split.HOLDOUT]}  # these decide, and no proposer sees them
sealed: {names[Split.TEST]}    # looked at once, at the end
metrics:
  - {cases.metric.line}   # {cases.metric.reason}
{judge}optimizer:
  strategy: backprop      # losses are walked back to the agent that caused them
  max_rounds: 3
"""


def workflow_text(name: str, model: ModelChoice) -> str:
    """A manager, workers, and how results are checked."""
    return f"""\
# A manager splits a task among workers; a critic and checks decide when it is done.
# All keys: `burnish schema workflow`.
workflow:
  name: {json.dumps(name.replace("-", "_"))}
orchestration:
  engine: delegation_loop
  delegation_loop:
    models:
      manager: {model.block}
      worker: {model.block}
      critic: {model.block}   # better another model: nobody judges its own work well
    budget:
      {{max_loops: 12, max_total_workers: 6, max_total_tokens: 200000, max_tool_calls: 40}}
observability:
  evaluation:
    thresholds: {{accept: 0.9, retry: 0.2, fail: 0.1}}
    metrics:                # what a program can check; no model is asked for its opinion
      - {{name: long_enough, kind: deterministic_test, params: {{expr: "size('report.md') > 400"}}}}
deliverables: [report.md]
"""


def suite_text(name: str) -> str:
    """Tasks to train policy texts on."""
    return f"""\
# Tasks on which the policy texts behind all delegations are trained. Replace them by your own.
# All keys: `burnish schema suite`.
name: {json.dumps(name)}
workflow: workflow.yaml
tasks:                      # what is learned from
  - {{name: winter, task: "Write a report on what people buy in winter to report.md."}}
  - {{name: spring, task: "Write a report on what people buy in spring to report.md."}}
holdout:                    # what decides; no proposer ever sees it
  - {{name: summer, task: "Write a report on what people buy in summer to report.md."}}
optimizer: {{repeats: 2}}
"""


def optimizer_text(cases: StarterCases, model: ModelChoice) -> str:
    """An optimizer.json."""
    text = {"match": "exact", "case_insensitive": True}
    metric = {
        "metric_name": "final_response_avg_score",
        "threshold": 1.0,
        "criterion": {"final_response": {"text": text}},
    }
    reflection = {
        "model_name": model.keys["name"],
        "provider_name": model.keys["provider"],
        "base_url": model.base_url,
        "api_key": model.keys.get("api_key", ""),
    }
    algorithm: dict[str, object] = {
        "name": "gepa_reflective",
        "reflection_lm": {key: value for key, value in reflection.items() if value},
        "max_metric_calls": 10 * len(cases.cases),
    }
    config = {"evaluate": {"metrics": [metric]}, "optimize": {"algorithm": algorithm}}
    return json.dumps(config, indent=2) + "\n"


def _lines(keys: Mapping[str, object], indent: str) -> str:
    """Keys with their values, which are written as JSON, which is YAML."""
    return "".join(
        f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items()
    )
