"""Workflows that run a program, so that whole delegations need no model."""

import shlex
import sys
from pathlib import Path

AGENT = """
import pathlib, sys, time
home = pathlib.Path(sys.argv[1])
with (home / "calls").open("a") as calls:
    calls.write("started\\n")
flaws = ["flaw-1", "flaw-2", "flaw-3"]
given = pathlib.Path("input/report.md")
if given.exists():
    text = given.read_text()
    left = [flaw for flaw in flaws if flaw in text]
    if left and "same" not in sys.argv:
        text = text.replace(left[0], "sound")
else:
    text = "# Heat\\n" + "It is warm, and will be. " * 30 + " ".join(flaws) + "\\n"
while (home / "wait").exists():
    (home / "waiting").touch()
    time.sleep(0.01)
pathlib.Path("report.md").write_text(text)
"""
FLOW = """\
workflow: {{name: coder}}
orchestration:
  engine: command
  command: {{command: "{python} {folder}/agent.py {folder} {more}", critique: {{enabled: false}}}}
observability:
  evaluation:
    thresholds: {{accept: 0.9, retry: 0.0, fail: 0.0}}
    metrics:
      - {{name: one, kind: deterministic_assertion, threshold: 0.9,
         params: {{path: report.md, lacks: flaw-1}}}}
      - {{name: two, kind: deterministic_assertion, threshold: 0.9,
         params: {{path: report.md, lacks: flaw-2}}}}
      - {{name: three, kind: deterministic_assertion, threshold: 0.9,
         params: {{path: report.md, lacks: flaw-3}}}}
deliverables: [report.md]
sandbox: none
"""
SUITE = """\
name: weather
workflow: flow.yaml
concurrency: 2
tasks:
  - {name: heat, task: Write a report on the heat.}
  - {name: rain, task: Write a report on the rain.}
  - {name: wind, task: Write a report on the wind.}
"""


def write_coders(folder: Path) -> None:
    """The program, workflows that mend one flaw (flow.yaml) or none (same.yaml), and a suite.

    The program counts its starts in `calls`, and while `wait` is there it says `waiting`.
    """
    (folder / "agent.py").write_text(AGENT)
    for name, more in (("flow.yaml", ""), ("same.yaml", "same")):
        text = FLOW.format(python=shlex.quote(sys.executable), folder=folder, more=more)
        (folder / name).write_text(text)
    (folder / "suite.yaml").write_text(SUITE)
