"""For each thing that people start from: the files of a project, and the commands to go on with."""

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from burnish.core.cases import Split
from burnish.core.errors import ConfigError, Problem, in_shell
from burnish.projects.artifacts.spec import TASK_FILE, starter_files
from burnish.projects.file_structure import editor_line, schema_file, schema_text
from burnish.projects.starters.detection import ModelChoice, find_program, find_prompts
from burnish.projects.starters.files import (
    StarterCases,
    agent_text,
    called_text,
    graph_text,
    instructions_text,
    optimizer_text,
    prompts_text,
    suite_text,
    workflow_text,
)
from burnish.system.variables import refuse_login

_PROJECT = "burnish.yaml"
AGENT = "agent.yaml"


@dataclass(frozen=True, kw_only=True)
class StarterRequest:
    """What the user has and wants; everything has been asked or chosen."""

    folder: Path
    name: str
    cases: StarterCases
    model: ModelChoice
    program: str = ""
    """`module:name`, a file, or nothing to look for one."""
    url: str = ""
    body: str = ""
    response_path: str = ""
    command: str = ""
    prompts: tuple[str, ...] = ()
    """As `NAME=FILE` or FILE; nothing to look for some."""


@dataclass(frozen=True, kw_only=True)
class StarterProject:
    """The files of a new project, and how to go on."""

    files: Mapping[str, bytes]
    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """What to do before the first command."""


class Starter(ABC):
    """One thing that people start from."""

    have: ClassVar[str]
    """The value of `--have`."""
    about: ClassVar[str]
    """What it is, in the words of a question."""
    asks: ClassVar[tuple[str, str]] = ("", "")
    """The field of the request that only the user knows, and how to ask for it."""
    takes_cases: ClassVar[bool] = True
    takes_model: ClassVar[bool] = True

    @abstractmethod
    def make(self, request: StarterRequest) -> StarterProject:
        """The project; raises ConfigError if something that is needed is missing."""


class NewAgent(Starter):
    """A new agent file with instructions."""

    have, about = "nothing", "nothing yet: start with a model and instructions"

    def make(self, request: StarterRequest) -> StarterProject:
        cases = request.cases
        files = {
            **_described("agent", AGENT, agent_text(request.name, cases, request.model)),
            "instructions.md": instructions_text(cases).encode(),
            **_case_files(cases),
        }
        return StarterProject(
            files=files,
            commands=_commands(AGENT, searches=cases.searchable),
            notes=_few(cases),
            needs=request.model.needs,
        )


class AgentFileStarter(Starter):
    """Cases and a metric for an agent file that exists."""

    have, about = "agent", "an agent file (agent.yaml)"
    asks = ("program", "the agent file")

    def make(self, request: StarterRequest) -> StarterProject:
        file, cases = request.program or AGENT, request.cases
        if not (request.folder / file).is_file():
            message = f"there is no {file} in {request.folder}"
            remedy = "name it with --program FILE, or start without one: --have nothing"
            raise ConfigError([Problem(where="--have agent", message=message, remedy=remedy)])
        metric = cases.metric
        files = {
            "metrics.yaml": f"# {metric.reason}\n- {metric.line}\n".encode(),
            **_case_files(cases),
        }
        named = in_shell(file)
        train = cases.names[Split.TRAIN] if cases.searchable else cases.whole
        judge = f" --judge {in_shell(request.model.label)}" if metric.judged else ""
        block = "paste the block of the second command under `evaluations:` of the agent file"
        return StarterProject(
            files=files,
            commands=(
                f"burnish eval {named} --cases {train} --metrics metrics.yaml{judge}",
                f"burnish optimize {named} --suggest-axes",
                f"burnish optimize {named} --dry-run",
            ),
            notes=(*_few(cases), f"{block}, with the files of cases/"),
        )


class CalledStarter(Starter):
    """An agent that is called: its prompts are rewritten if it has any, else it is measured."""

    def make(self, request: StarterRequest) -> StarterProject:
        block, adapter = self._target(request)
        prompts = find_prompts(request.folder, request.prompts)
        if not prompts or not request.cases.searchable:
            return self._measured(request, block, adapter, prompts)
        text = prompts_text(request.name, {self._key: block}, prompts, request.cases, request.model)
        reads = f"the agent must read {', '.join(prompts.values())} on each call: candidates are "
        return StarterProject(
            files={
                **_described("prompts", _PROJECT, text),
                **adapter,
                **_case_files(request.cases),
            },
            commands=_commands(_PROJECT, searches=True),
            notes=(f"{reads}written there while a run measures them, and put back",),
            needs=request.model.needs,
        )

    _key: ClassVar[str]

    @abstractmethod
    def _target(self, request: StarterRequest) -> tuple[dict[str, object], dict[str, bytes]]:
        """The block that says how the agent is called, and a file that it needs."""

    def _measured(
        self,
        request: StarterRequest,
        block: dict[str, object],
        adapter: dict[str, bytes],
        prompts: Mapping[str, str],
    ) -> StarterProject:
        cases = request.cases
        text = called_text(self._key, request.name, block, cases, request.model)
        how = "to have its prompt rewritten, put it into a file that the agent reads on each call, "
        again = f"then run `burnish init --have {self.have} --prompt FILE --folder FOLDER`"
        judged = cases.metric.judged
        return StarterProject(
            files={**_described(self._key, _PROJECT, text), **adapter, **cases.whole_file()},
            commands=(
                f"burnish eval {_PROJECT}",
                f"burnish eval {_PROJECT} --repeats 3",
                f"burnish data check {cases.whole}",
            ),
            notes=_few(cases) if prompts else (*_few(cases), f"{how}{again}"),
            needs=request.model.needs if judged else (),
        )


class FunctionStarter(CalledStarter):
    """A Python function."""

    have, about = "python", "a Python function"
    asks = ("program", "the function, as module:function (empty: look for it here)")
    library: ClassVar[str] = ""
    _key = "python"

    def _target(self, request: StarterRequest) -> tuple[dict[str, object], dict[str, bytes]]:
        program = find_program(request.folder, request.program, self.library)
        return {"call": program.call}, program.adapter


class LangGraphStarter(FunctionStarter):
    """A graph of LangGraph."""

    have, about, library = "langgraph", "a LangGraph program", "langgraph"
    asks = ("program", "the compiled graph, as module:name (empty: look for it here)")


class PydanticAiStarter(FunctionStarter):
    """An agent of pydantic-ai."""

    have, about, library = "pydantic-ai", "a pydantic-ai program", "pydantic-ai"
    asks = ("program", "the agent, as module:name (empty: look for it here)")


class OpenAiAgentsStarter(FunctionStarter):
    """An agent of the OpenAI Agents SDK."""

    have, about, library = "openai-agents", "an OpenAI Agents program", "openai-agents"
    asks = ("program", "the agent, as module:name (empty: look for it here)")


class HttpStarter(CalledStarter):
    """An HTTP endpoint."""

    have, about = "http", "an HTTP endpoint"
    asks = ("url", "its address")
    _key = "http"

    def _target(self, request: StarterRequest) -> tuple[dict[str, object], dict[str, bytes]]:
        if not request.url:
            message, remedy = "an endpoint needs an address", "add --url http://…"
            raise ConfigError([Problem(where="--have http", message=message, remedy=remedy)])
        refuse_login(request.url, "--url", "add a header to the file that is made")
        body = _json(request.body) if request.body else {"input": "{{input}}"}
        block: dict[str, object] = {"url": request.url, "body": body}
        if request.response_path:
            block["response_path"] = request.response_path
        return block, {}


class CommandStarter(CalledStarter):
    """A command."""

    have, about = "command", "a command"
    asks = ("command", "the command; {input} stands for the question, else it is sent on stdin")
    _key = "command"

    def _target(self, request: StarterRequest) -> tuple[dict[str, object], dict[str, bytes]]:
        words = shlex.split(request.command)
        if not words:
            message, remedy = "there is no command", "add --command 'python agent.py'"
            raise ConfigError([Problem(where="--have command", message=message, remedy=remedy)])
        block: dict[str, object] = {"command": words}
        if request.response_path:
            block["response_path"] = request.response_path
        return block, {}


class GraphStarter(Starter):
    """Two agents in a row."""

    have, about = "graph", "a graph of agents: start with two in a row"

    def make(self, request: StarterRequest) -> StarterProject:
        cases, model = request.cases, request.model
        text = graph_text(request.name, cases, model)
        files = {
            **_described("graph", "graph.yaml", text),
            "instructions/reader.md": b"List the facts in the message that matter for an answer.\n",
            "instructions/writer.md": instructions_text(cases).encode(),
            **cases.split_files(),
        }
        commands = _commands("graph.yaml", searches=True)
        return StarterProject(files=files, commands=commands, notes=_few(cases), needs=model.needs)


class FilesStarter(Starter):
    """A task: files with a command that runs and one that scores them."""

    have, about = "files", "files: code, a config or a skill, with a command that scores them"
    takes_cases, takes_model = False, False

    def make(self, request: StarterRequest) -> StarterProject:
        del request  # it is the same for everybody
        commands = (
            f"burnish optimize {TASK_FILE} --dry-run",
            f"burnish optimize {TASK_FILE}",
            "burnish runs",
        )
        note = "it runs at once; replace SKILL.md and the scripts by your own"
        return StarterProject(files=starter_files(), commands=commands, notes=(note,))


class WorkflowStarter(Starter):
    """A manager and workers on one task."""

    have, about = "workflow", "one task for a manager and workers"
    takes_cases = False

    def make(self, request: StarterRequest) -> StarterProject:
        files = {
            **_described("workflow", "workflow.yaml", workflow_text(request.name, request.model)),
            "task.md": b"Write a short report on what people buy in winter to report.md.\n",
        }
        start = "burnish delegate workflow.yaml --task-file task.md"
        commands = (f"{start} --dry-run", f"{start} -o work/first", "burnish refine work/first")
        return StarterProject(files=files, commands=commands, needs=request.model.needs_with_tools)


class SuiteStarter(Starter):
    """Tasks to train the policy texts of delegations on."""

    have, about = "suite", "several tasks that keep getting the same thing wrong"
    takes_cases = False

    def make(self, request: StarterRequest) -> StarterProject:
        model = request.model
        files = {
            **_described("suite", "suite.yaml", suite_text(request.name)),
            **_described("workflow", "workflow.yaml", workflow_text(request.name, model)),
        }
        start = "burnish optimize suite.yaml --with-textgrad"
        commands = (f"{start} --dry-run", f"{start} --epochs 1", "burnish policy --help")
        return StarterProject(files=files, commands=commands, needs=model.needs_with_tools)


class OptimizerStarter(FunctionStarter):
    """An optimizer.json of AgentOptimizer, for a Python function and its prompts."""

    have, about = "optimizer", "a config of AgentOptimizer (optimizer.json)"

    def make(self, request: StarterRequest) -> StarterProject:
        program = find_program(request.folder, request.program)
        prompts = find_prompts(request.folder, request.prompts)
        if not prompts:
            message = "there is no prompt to rewrite"
            remedy = "put it into a file that the agent reads on each call, and add --prompt FILE"
            raise ConfigError([Problem(where="--have optimizer", message=message, remedy=remedy)])
        files = {
            "optimizer.json": optimizer_text(request.cases, request.model).encode(),
            **program.adapter,
            **request.cases.split_files(),
        }
        names = request.cases.names
        flags = " ".join(f"--prompt {in_shell(f'{name}={file}')}" for name, file in prompts.items())
        cases = f"--train {names[Split.TRAIN]} --holdout {names[Split.HOLDOUT]}"
        start = f"burnish optimize optimizer.json --agent {in_shell(program.call)} {flags} {cases}"
        commands = (f"{start} --dry-run", start, "burnish runs")
        return StarterProject(
            files=files, commands=commands, notes=_few(request.cases), needs=request.model.needs
        )


STARTERS: Mapping[str, Starter] = {
    starter.have: starter
    for starter in (
        NewAgent(),
        AgentFileStarter(),
        FunctionStarter(),
        HttpStarter(),
        CommandStarter(),
        LangGraphStarter(),
        PydanticAiStarter(),
        OpenAiAgentsStarter(),
        GraphStarter(),
        FilesStarter(),
        WorkflowStarter(),
        SuiteStarter(),
        OptimizerStarter(),
    )
}
"""By the value of `--have`, in the order of the question."""


def _described(kind: str, name: str, text: str) -> dict[str, bytes]:
    """A file of a kind, whose first line tells editors where its schema is, and that schema."""
    return {
        name: f"{editor_line(kind)}{text}".encode(),
        schema_file(kind): schema_text(kind).encode(),
    }


def _case_files(cases: StarterCases) -> dict[str, bytes]:
    return cases.split_files() if cases.searchable else cases.whole_file()


def _few(cases: StarterCases) -> tuple[str, ...]:
    if cases.searchable:
        return ()
    count = len(cases.cases)
    enough = f"{count} cases are enough to measure, but a search needs 20 or more"
    return (f"{enough}: add some and run `burnish init` in another folder",)


def _commands(file: str, *, searches: bool) -> tuple[str, ...]:
    if not searches:
        return (f"burnish eval {file}", f"burnish eval {file} --repeats 3", "burnish runs")
    return (
        f"burnish eval {file}",
        f"burnish optimize {file} --dry-run",
        f"burnish optimize {file}",
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        message, remedy = "it is not JSON", """write it as --body '{"message": "{{input}}"}'"""
        raise ConfigError([Problem(where="--body", message=message, remedy=remedy)]) from None
