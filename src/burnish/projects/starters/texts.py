"""The texts of the files that `burnish init` writes, with comments for whoever edits them."""

import json
from collections.abc import Mapping

from burnish.core.cases import Split
from burnish.projects.starters.cases import StarterCases
from burnish.projects.starters.models import ModelChoice


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
