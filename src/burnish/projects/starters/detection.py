"""What a new project can start with: the program that is the agent, and a model of this machine."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ConfigError, Problem, in_shell
from burnish.models.dotenv import WHERE
from burnish.models.endpoints import missing_extra
from burnish.models.health import HealthSite, embedded_model, served_models
from burnish.models.providers import all_providers, find_provider
from burnish.models.references import ModelRef, shown_address
from burnish.system.config import near
from burnish.system.extras import install_command
from burnish.system.files import read_text
from burnish.system.variables import refuse_login


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """A model, why it is offered, and what it still needs."""

    label: str
    """`provider:name`"""
    reason: str = ""
    base_url: str = ""
    key_variable: str = ""
    """The variable with the key for `base_url`, if it needs one."""
    needs: tuple[str, ...] = ()
    """What to do before it can be called."""

    def __post_init__(self) -> None:
        instead = "name the variable with the key: --key-variable"
        refuse_login(self.base_url, "--base-url", instead)

    @property
    def needs_with_tools(self) -> tuple[str, ...]:
        """What to do before it can be called with tools."""
        return tuple(dict.fromkeys((*_extra(self.label, tools=True), *self.needs)))

    @property
    def keys(self) -> dict[str, str]:
        """The block of a project file, without settings."""
        ref = ModelRef.parse(self.label)
        keys = {"provider": ref.row.written, "name": ref.name, "base_url": self.base_url}
        keys["api_key"] = f"${{{self.key_variable}}}" if self.key_variable else ""
        return {key: value for key, value in keys.items() if value}

    @property
    def block(self) -> str:
        """The block on one line of YAML."""
        return f"{{{', '.join(f'{key}: {json.dumps(value)}' for key, value in self.keys.items())}}}"

    def __str__(self) -> str:
        return f"{self.label}, {self.reason}" if self.reason else self.label


def chosen_model(label: str, *, base_url: str = "", key_variable: str = "") -> ModelChoice:
    """The model that the user names; raises ConfigError if its provider is unknown."""
    if ":" in label and find_provider(provider := label.partition(":")[0]) is None:
        message = f"unknown provider '{provider}'"
        remedy = near(provider, [name for row in all_providers() for name in row.names])
        raise ConfigError([Problem(where="--model", message=message, remedy=remedy)])
    ref = ModelRef.parse(label)
    return ModelChoice(
        label=label, base_url=base_url, key_variable=key_variable, needs=_extra(ref.label)
    )


def offered_models(site: HealthSite) -> list[ModelChoice]:
    """The models that can be called from here, the strongest first; one at least.

    Where there is none, it is a usual one with what it needs.
    """
    choices = [*_with_keys(site), *_served(site), *_embedded(site)]
    if choices:
        return sorted(choices, key=lambda choice: bool(choice.needs))
    usual = all_providers()[0]
    variable = usual.key_variables[0]
    label = f"{usual.name}:{usual.starter}"
    key = f"set {variable} {WHERE}"
    return [ModelChoice(label=label, reason="no key was found", needs=(*_extra(label), key))]


def _with_keys(site: HealthSite) -> Iterator[ModelChoice]:
    for row in all_providers():
        held = [name for name in row.key_variables if site.environ.get(name, "").strip()]
        if held and row.starter:
            label = f"{row.name}:{row.starter}"
            yield ModelChoice(label=label, reason=f"{held[0]} is set", needs=_extra(label))


def _served(site: HealthSite) -> Iterator[ModelChoice]:
    served = served_models(site)
    for row in all_providers():
        for name in served.get(row.name, ())[:3]:
            label = f"{row.name}:{name}"
            reason = f"it runs at {shown_address(site.address(row))}"
            yield ModelChoice(label=label, reason=reason, needs=_extra(label))


def _embedded(site: HealthSite) -> Iterator[ModelChoice]:
    finding = embedded_model(site)
    if finding.state == "ok":
        yield ModelChoice(label=finding.name, reason="small, runs inside burnish, costs nothing")


def _extra(label: str, *, tools: bool = False) -> tuple[str, ...]:
    ref = ModelRef.parse(label)
    extra = missing_extra(ref.row, ref.name, tools=tools)
    return (install_command(extra),) if extra else ()


_ADAPTER = "call_agent.py"
"""The file that makes one function of a program that uses a library."""
_LIBRARIES = {"langgraph": "langgraph", "pydantic_ai": "pydantic-ai", "agents": "openai-agents"}
"""The libraries whose programs are known, by the module that they import."""
_MAKERS: Mapping[str, tuple[str, ...]] = {
    "langgraph": ("compile", "create_react_agent", "create_agent"),
    "pydantic-ai": ("Agent",),
    "openai-agents": ("Agent",),
}
"""The calls that make the object to run."""
_FUNCTIONS = ("call_agent", "answer", "agent", "run", "ask", "main")
_PROMPTS = ("prompts/*.md", "prompts/*.txt", "*prompt*.md", "*prompt*.txt", "instructions*.md")
_CALLS: Mapping[str, str] = {
    "langgraph": '''"""How burnish calls the graph: text in, text out."""

from {module} import {name}


async def call_agent(query: str) -> str:
    # If the state of your graph has other keys than `messages`, change these two lines.
    state = await {name}.ainvoke({{"messages": [("user", query)]}})
    return str(state["messages"][-1].content)
''',
    "pydantic-ai": '''"""How burnish calls the agent: text in, text out."""

from {module} import {name}


async def call_agent(query: str) -> str:
    return str((await {name}.run(query)).output)
''',
    "openai-agents": '''"""How burnish calls the agent: text in, text out."""

from agents import Runner
from {module} import {name}


async def call_agent(query: str) -> str:
    return str((await Runner.run({name}, query)).final_output)
''',
}


@dataclass(frozen=True, kw_only=True)
class Program:
    """An object of a Python module that is the agent."""

    module: str
    name: str
    library: str = ""
    """`langgraph`, `pydantic-ai` or `openai-agents`; empty for a function."""

    @property
    def call(self) -> str:
        """What burnish calls: the function itself, or the one that the adapter makes of it."""
        return "call_agent:call_agent" if self.library else f"{self.module}:{self.name}"

    @property
    def adapter(self) -> dict[str, bytes]:
        """The file that makes one function of the program, if it needs one."""
        if not self.library:
            return {}
        text = _CALLS[self.library].format(module=self.module, name=self.name)
        return {_ADAPTER: text.encode()}


def find_program(folder: Path, written: str, library: str = "") -> Program:
    """The program that the user means: `module:name`, a file, or what the folder has.

    The code is read, not run.
    """
    place, _, name = written.partition(":")
    if not place:
        path = _only_program(folder, library)
    else:
        file = place if place.endswith(".py") else f"{place.replace('.', '/')}.py"
        path = folder / file
        if not path.is_file():
            message = f"there is no {file} in {folder}"
            remedy = "name a module of this folder: --program module:name"
            raise ConfigError([Problem(where="--program", message=message, remedy=remedy)])
    tree = _parsed(path)
    library = library or _library_of(tree)
    name = name or _object_in(tree, library, path)
    module = ".".join(path.relative_to(folder).with_suffix("").parts)
    return Program(module=module, name=name, library=library)


def has_program(folder: Path) -> bool:
    """Whether a file of the folder uses one of the known libraries."""
    return bool(_with_library(folder, ""))


def find_prompts(folder: Path, written: Sequence[str]) -> dict[str, str]:
    """The prompts by name: those named as `NAME=FILE` or FILE, or what looks like some."""
    if not written:
        files = dict.fromkeys(
            path.relative_to(folder)
            for pattern in _PROMPTS
            for path in sorted(folder.glob(pattern))
        )
        return {_field(path.stem): path.as_posix() for path in files}
    named = (each.rpartition("=") for each in written)
    prompts = {name or _field(Path(file).stem): file for name, _, file in named}
    absent = [file for file in prompts.values() if not (folder / file).is_file()]
    if absent:
        remedy = f"put the prompt of your agent there, in {folder}, or name another file"
        problems = [
            Problem(where="--prompt", message=f"there is no file {file}") for file in absent
        ]
        raise ConfigError(problems, remedy=remedy)
    return prompts


def _field(stem: str) -> str:
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "prompt"


def _only_program(folder: Path, library: str) -> Path:
    files = _with_library(folder, library)
    if not files and not library:
        usual = [folder / name for name in ("agent.py", "main.py") if (folder / name).is_file()]
        files = usual or [path for path in _modules(folder) if _functions(_parsed(path))]
    if len(files) == 1:
        return files[0]
    names = ", ".join(path.name for path in files[:5])
    message = f"several files could be the agent: {names}" if files else "no program was found here"
    remedy = "name it: --program module:name"
    raise ConfigError([Problem(where=str(folder), message=message, remedy=remedy)])


def _with_library(folder: Path, library: str) -> list[Path]:
    libraries = ((path, _library_of(_parsed(path))) for path in _modules(folder))
    return [path for path, name in libraries if name and library in ("", name)]


def _modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if path.name != _ADAPTER]


def _functions(tree: ast.Module) -> list[str]:
    """The public functions of a module."""
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_"
    ]


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(read_text(path))
    except SyntaxError as error:
        message = f"it is not valid Python: {error.msg}"
        where = f"{path.name}:{error.lineno}"
        raise ConfigError([Problem(where=where, message=message, remedy="fix it first")]) from None


def _library_of(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        for module in modules:
            if module.partition(".")[0] in _LIBRARIES:
                return _LIBRARIES[module.partition(".")[0]]
    return ""


def _object_in(tree: ast.Module, library: str, path: Path) -> str:
    """The agent in a module: the last object of the library, or the likeliest function."""
    if library:
        names = list(_made(tree, _MAKERS[library]))
        if names:
            return names[-1]
    else:
        functions = _functions(tree)
        for name in (*_FUNCTIONS, *functions[:1]):
            if name in functions:
                return name
    what = f"object of {library}" if library else "function"
    module = path.stem
    remedy = f"name it: --program {in_shell(f'{module}:name')}"
    message = f"no {what} was found at the top level"
    raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])


def _made(tree: ast.Module, makers: Sequence[str]) -> Iterator[str]:
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        function = node.value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        target = node.targets[0]
        if name in makers and isinstance(target, ast.Name):
            yield target.id
