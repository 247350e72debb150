"""Everything that reads a file: a few valid files each, and how they are read."""

import asyncio
import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from pydantic import JsonValue

from burnish.cli.program import run as burnish
from burnish.core.cases import Attachment
from burnish.datasets.client_cases import read_client_cases
from burnish.datasets.formats import read_cases
from burnish.metrics.eval_metrics import read_metrics
from burnish.metrics.files import read_metric_file
from burnish.models.dotenv import read_dotenv
from burnish.projects.launch import load_project
from burnish.retrieval.documents import html_sections, markdown_sections
from burnish.system.yaml import with_values
from burnish.targets.agent.attachments import text_in
from burnish.targets.agent.files import read_instructions
from tests.runs.small import add_letters, driven, small
from tests.targets.office_files import docx, pdf, pptx, xlsx

Read = Callable[[Path], object]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One way in: the name of its file, valid contents, and files that stand beside it."""

    file: str
    seeds: Callable[[], tuple[bytes, ...]]
    read: Read
    beside: Callable[[], Mapping[str, bytes]] = field(default=dict[str, bytes])


_MODEL = "{provider: openai, name: m, base_url: http://127.0.0.1:9/v1}"
_METRICS = "metrics: [{type: standard, metric: equality}]"
_CASES = b"- {name: a, input: q, ground_truth: x}\n- {name: b, input: r, ground_truth: y}\n"
_ROWS = (
    b'{"name": "a", "input": "q", "expected": "x", "labels": ["l"]}\n'
    b'{"name": "b", "turns": [{"input": "r", "expected_tools": [{"name": "t", "args": '
    b'{"x": {"regex": "a+"}}}]}], "rubrics": [{"id": "1", "text": "good"}]}\n'
)
_OTHERS = b"".join(
    b'{"name": "h%d", "input": "h %d", "expected": "x"}\n' % (n, n) for n in range(5)
)
_EVALSET = json.dumps(
    {
        "eval_set_id": "s",
        "eval_cases": [
            {
                "eval_id": "a",
                "conversation": [
                    {
                        "user_content": {"role": "user", "parts": [{"text": "q"}]},
                        "final_response": {"role": "model", "parts": [{"text": "x"}]},
                        "intermediate_data": {
                            "tool_uses": [{"name": "t", "args": {"x": 1}, "id": "1"}],
                            "tool_responses": [{"name": "t", "response": {"y": 2}, "id": "1"}],
                        },
                    }
                ],
                "session_input": {"app_name": "p", "user_id": "u", "state": {"k": "v"}},
                "rubrics": [{"id": "r", "content": {"text": "good"}}],
            }
        ],
    }
).encode()
_AGENT = f"""\
# An agent.
name: a
model: {_MODEL}
instructions: {{inline: "Answer {{{{input}}}}."}}
tools:
  - {{type: prompt, name: t, description: d, template: "x", parameters: {{q: {{type: string}}}}}}
evaluations:
  {_METRICS}
  optimizer:
    loss: {{equality: 1.0}}
    train_cases_file: cases.yaml
    holdout_cases_file: others.jsonl
    axes: {{textual: [{{path: instructions, max_chars: 60}}]}}
test_cases:
  - {{name: a, input: &q q, ground_truth: x}}
  - {{name: b, input: *q, ground_truth: y}}
""".encode()
_OPTIMIZER = json.dumps(
    {
        "evaluate": {
            "metrics": [
                {
                    "metric_name": "final_response_avg_score",
                    "threshold": 1.0,
                    "criterion": {"final_response": {"text": {"match": "contains"}}},
                }
            ],
            "num_runs": 1,
        },
        "optimize": {
            "stop": {"required_metrics": "all"},
            "algorithm": {
                "name": "gepa_reflective",
                "seed": 42,
                "reflection_lm": {"model_name": "m", "base_url": "http://127.0.0.1:9/v1"},
                "max_metric_calls": 20,
            },
        },
    }
).encode()
_GRAPH = f"""\
kind: graph
name: g
output: b
nodes:
  a: {{model: &m {_MODEL}, instructions: {{inline: Plan.}}}}
  b: {{model: *m, instructions: {{inline: Answer.}}}}
edges:
  - {{from: a, to: b, when: {{matches: "x+"}}}}
train: cases.jsonl
holdout: others.jsonl
metrics:
  - metric_name: final_response_avg_score
    criterion: {{final_response: {{text: {{match: exact}}}}}}
optimizer: {{strategy: backprop, max_rounds: 1}}
""".encode()
_TASK = b"""\
id: t
description: d
artifacts: {include: [config.yaml]}
scorer: {type: python, function: "scoring:score", parse: {score_field: ms}}
objective: {primary_metric: ms, direction: minimize, tolerance: 0.1, worst: 9, best: 0}
constraints: [{metric: mb, op: "<=", value: 400}]
mutation: {mode: command, command: python edit.py, network: false, max_changed_lines: 8}
axes: [{file: config.yaml, path: a.b, low: 1, high: 6, integer: true}]
budget: {max_iterations: 3}
"""
_WORKFLOW = f"""\
workflow: {{name: w}}
orchestration:
  engine: delegation_loop
  delegation_loop:
    models: {{manager: {_MODEL}, worker: {_MODEL}, critic: {_MODEL}}}
    budget: {{max_loops: 2, max_total_workers: 2, max_total_tokens: 2000}}
observability:
  evaluation:
    thresholds: {{accept: 0.9, retry: 0.1, fail: 0.05}}
    metrics:
      - {{name: u, kind: deterministic_assertion, params: {{path: r.md, matches: "[0-9] mm"}}}}
      - {{name: l, kind: deterministic_test, params: {{expr: "size('r.md') > 40"}}}}
deliverables: [r.md]
""".encode()
_SUITE = b"""\
name: s
workflow: workflow.yaml
tasks: [{name: a, task: Write r.md.}, {name: b, task: Write it.}]
holdout: [{name: c, task: Write more.}]
optimizer: {repeats: 1}
"""
_PROMPTS = b"""\
kind: prompts
target: {python: "agent:answer"}
prompts: {system: prompt.md}
isolation: isolated
reflector: {provider: openai, name: m, base_url: "http://127.0.0.1:9/v1"}
train: cases.jsonl
holdout: others.jsonl
metrics: [{type: standard, metric: equality}]
"""
_COMMAND = b"""\
kind: command
name: c
target: {command: [cat], usd_per_call: 0, timeout: 2}
cases: cases.jsonl
metrics: [{type: standard, metric: equality}]
"""
_HTTP = b"""\
kind: http
name: h
target: {url: "http://127.0.0.1:9/x", body: {q: "{{input}}"}, response_path: a.b}
cases: cases.jsonl
metrics: [{type: standard, metric: equality}]
"""
_METRIC_LIST = b"""\
- {type: standard, metric: equality, case_insensitive: true}
- {type: geval, name: g, criteria: good, threshold: 0.5}
- {metric_name: final_response_avg_score, criterion: {final_response: {text: {match: regex}}}}
"""
_METRIC_CONFIG = json.dumps(
    {"criteria": {"tool_trajectory_avg_score": 1.0, "rouge": {"threshold": 0.5}}}
).encode()
_CSV = b'name,input,expected,context,labels\na,"q, ""x""",x,"[""c""]",l\nb,r,y,,\n'
_CONFIG = b"# numbers\na: {b: 1, c: [x, 2.5]}\nd: 'text'\n"


def _beside() -> Mapping[str, bytes]:
    return {
        "cases.yaml": _CASES,
        "cases.jsonl": _ROWS,
        "others.jsonl": _OTHERS,
        "config.yaml": _CONFIG,
        "prompt.md": b"Answer {{input}}.\n",
        "workflow.yaml": _WORKFLOW,
        "scoring.py": b"def score(path):\n    return {'ms': 1.0, 'mb': 1}\n",
        "agent.py": b"def answer(text):\n    return text\n",
        "edit.py": b"",
    }


def _seeds(*contents: bytes) -> Callable[[], tuple[bytes, ...]]:
    return lambda: contents


def _project(**flags: JsonValue) -> Read:
    return lambda path: load_project(path, flags)


_CALLED = _project(strategy="measure")
_BLACK_BOX = _project(
    train="cases.jsonl",
    holdout="others.jsonl",
    agent="agent:answer",
    prompt={"system": "prompt.md"},
)


def _attached(kind: str) -> Read:
    return lambda path: text_in(Attachment(kind=kind, path=path.name), path.read_bytes())


def _documents(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    html_sections(text)
    markdown_sections(text)


def _console(*arguments: str) -> Read:
    """A command on a run's folder; an error that it reports is fine, a traceback is not."""

    def read(path: Path) -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            burnish([part.replace("RUN", str(path.parent)) for part in arguments])

    return read


def _commands(path: Path) -> None:
    for words in ("runs show RUN", "runs show RUN --trial 1", "runs show RUN --calls",
                  "runs report RUN", "runs compare RUN RUN", "adopt RUN --diff"):  # fmt: skip
        _console(*words.split())(path)


@cache
def _run_files() -> Mapping[str, bytes]:
    """The files of a small run that has ended."""
    folder = Path(mkdtemp(prefix="burnish-fuzz-")) / "run"
    try:
        asyncio.run(_driven(folder))
        paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


async def _driven(folder: Path) -> None:
    from burnish.journal.limits import Budget

    await driven(small(steps=add_letters, budget=Budget(max_metric_calls=12)), folder)


def _of_run(name: str) -> Reader:
    return Reader(
        file=name,
        seeds=lambda: (_run_files()[name],),
        read=_commands,
        beside=lambda: {path: body for path, body in _run_files().items() if path != name},
    )


def _configured(path: Path) -> str:
    text = path.read_bytes().decode("utf-8", "replace")
    return with_values(path.name, text, {"a.b": 3, "d": "other"})


_SHEET = '<row r="1"><c r="A1" t="inlineStr"><is><t>x</t></is></c><c r="B1"><v>2.5</v></c></row>'

READERS: Mapping[str, Reader] = {
    "agent": Reader(file="agent.yaml", seeds=_seeds(_AGENT), read=_project(), beside=_beside),
    "optimizer": Reader(
        file="optimizer.json", seeds=_seeds(_OPTIMIZER), read=_BLACK_BOX, beside=_beside
    ),
    "graph": Reader(file="graph.yaml", seeds=_seeds(_GRAPH), read=_project(), beside=_beside),
    "task": Reader(file="task.yaml", seeds=_seeds(_TASK), read=_project(), beside=_beside),
    "suite": Reader(file="suite.yaml", seeds=_seeds(_SUITE), read=_project(), beside=_beside),
    "workflow": Reader(
        file="workflow.yaml", seeds=_seeds(_WORKFLOW), read=_project(task="Write."), beside=_beside
    ),
    "prompts": Reader(file="p.yaml", seeds=_seeds(_PROMPTS), read=_project(), beside=_beside),
    "called": Reader(
        file="called.yaml", seeds=_seeds(_COMMAND, _HTTP), read=_CALLED, beside=_beside
    ),
    "metrics": Reader(
        file="metrics.yaml", seeds=_seeds(_METRIC_LIST, _METRIC_CONFIG), read=read_metric_file
    ),
    "test_config": Reader(file="test_config.json", seeds=_seeds(_METRIC_CONFIG), read=read_metrics),
    "evalset": Reader(file="a.evalset.json", seeds=_seeds(_EVALSET), read=read_cases),
    "csv": Reader(file="a.csv", seeds=_seeds(_CSV), read=read_cases),
    "jsonl": Reader(file="a.jsonl", seeds=_seeds(_ROWS), read=read_cases),
    "json": Reader(
        file="a.json",
        seeds=lambda: (json.dumps([json.loads(r) for r in _ROWS.splitlines()]).encode(), _EVALSET),
        read=read_cases,
    ),
    "test_cases": Reader(file="a.yaml", seeds=_seeds(_CASES), read=read_cases),
    "sent_jsonl": Reader(file="a.jsonl", seeds=_seeds(_ROWS), read=read_client_cases),
    "sent_yaml": Reader(file="a.yaml", seeds=_seeds(_CASES), read=read_client_cases),
    "sent_evalset": Reader(file="a.evalset.json", seeds=_seeds(_EVALSET), read=read_client_cases),
    "sent_csv": Reader(file="a.csv", seeds=_seeds(_CSV), read=read_client_cases),
    "prompt": Reader(
        file="prompt.md",
        seeds=_seeds(b"---\nversion: 1\nname: x\n---\nAnswer {{input}}.\n"),
        read=read_instructions,
    ),
    "config": Reader(file="config.yaml", seeds=_seeds(_CONFIG), read=_configured),
    "dotenv": Reader(
        file=".env", seeds=_seeds(b"A=1\nB='two'\nC=\"th\\nree\" # x\n"), read=read_dotenv
    ),
    "word": Reader(
        file="a.docx",
        seeds=lambda: (docx("<w:p><w:r><w:t>text</w:t></w:r></w:p>"),),
        read=_attached("word"),
    ),
    "excel": Reader(
        file="a.xlsx",
        seeds=lambda: (xlsx({"One": _SHEET}, shared=["<t>s</t>"]),),
        read=_attached("excel"),
    ),
    "powerpoint": Reader(
        file="a.pptx", seeds=lambda: (pptx("One", "Two"),), read=_attached("powerpoint")
    ),
    "pdf": Reader(file="a.pdf", seeds=lambda: (pdf("One", "Two"),), read=_attached("pdf")),
    "sources": Reader(
        file="a.html",
        seeds=_seeds(b"<html><h1>T</h1><p>text</p><table><tr><td>x</td></tr></table></html>"),
        read=_documents,
    ),
    "run.json": _of_run("run.json"),
    "events.jsonl": _of_run("events.jsonl"),
    "trials.jsonl": _of_run("trials.jsonl"),
    "journal.db": _of_run("journal.db"),
}


def prepare(reader: Reader, folder: Path) -> Path:
    """Write what stands beside the file; returns where the file goes."""
    for name, content in reader.beside().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    os.environ.setdefault("BURNISH_HOME", str(folder / "home"))
    return folder / reader.file
