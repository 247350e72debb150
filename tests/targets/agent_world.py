"""A small agent in a folder, and models that follow a script."""

from collections.abc import Callable, Sequence
from pathlib import Path

from burnish.core.cases import ToolUse
from burnish.core.surfaces import Candidate, Origin, Surface, Value
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.targets.agent.files import load_agent
from burnish.targets.agent.target import AgentTarget
from burnish.testing.doubles import ScriptedBackend

AGENT = """\
# The analyst. This comment stays.
name: analyst
model:
  provider: openai
  name: gpt-4o-mini   # cheap
  temperature: 0.3
  api_key: "${ANALYST_KEY}"
instructions: {file: prompts/system.md}
tools:
  - name: subtract
    type: function
    description: a - b
    file: tools/maths.py
    function: subtract
  - name: archive
    type: hierarchical_document
    description: Search filings
    source: data/*.md
    semantic_weight: 0.6
    keyword_weight: 0.4
    exact_weight: 0.0
evaluations:
  metrics:
    - {type: standard, metric: equality}
test_cases_file: cases.yaml
"""
MATHS = '''\
def subtract(a: float, b: float) -> float:
    """Subtract b from a."""
    return a - b


def broken(a: float) -> float:
    raise RuntimeError("the abacus fell")
'''

Respond = Callable[[ChatRequest, int], str | ChatReply]


def write_agent(folder: Path, text: str = AGENT) -> Path:
    """The agent's folder, with everything it names."""
    for name in ("prompts", "tools", "data"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "prompts" / "system.md").write_text(
        "---\nversion: 3\nauthor: Kim\n---\nYou are an analyst.\n", encoding="utf-8"
    )
    (folder / "tools" / "maths.py").write_text(MATHS, encoding="utf-8")
    (folder / "data" / "filing.md").write_text("# Revenue\nIt rose 3 %.\n", encoding="utf-8")
    (folder / "cases.yaml").write_text("- {input: 7 - 5?, ground_truth: '2'}\n", encoding="utf-8")
    path = folder / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    return path


PLAIN = """\
name: analyst
model: {provider: openai, name: m}
instructions: {inline: You are an analyst.}
"""


def scripted(respond: Respond) -> tuple[Models, ScriptedBackend]:
    """Models that answer by a script, and what they were asked."""
    backend = ScriptedBackend(respond=respond)
    return Models(backends={"openai": backend}, retries=RetryPolicy(attempts=1)), backend


def target(
    path: Path, respond: Respond = lambda _, __: "ok", surfaces: Sequence[Surface] = ()
) -> tuple[AgentTarget, ScriptedBackend]:
    """The agent of a file, as a target."""
    models, backend = scripted(respond)
    return AgentTarget(load_agent(path), models, surfaces=surfaces), backend


def with_values(base: Candidate, **values: Value) -> Candidate:
    """A candidate that differs in these surfaces; `__` in a name stands for a dot."""
    return Candidate(values={**base.values, **values}, origin=Origin(kind="test"))


def uses(name: str, id: str = "c1", **arguments: float | str) -> ChatReply:  # noqa: A002
    """A reply that asks for a tool."""
    return ChatReply(
        text="", uses=(ToolUse(id=id, name=name, arguments={**arguments}),), finish="tool_call"
    )
