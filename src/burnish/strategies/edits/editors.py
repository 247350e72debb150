"""Editors: a model, or a program such as a coding agent, used by a recipe."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from burnish.core.content import Codec, Json, codec, short_id
from burnish.core.errors import FileTrouble, Problem, RoleFailed
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Effects, Receipt
from burnish.metrics.text_matching import without_middle
from burnish.models.answers import Explanation
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RoleMessage, RolePrompt
from burnish.system.files import state_folder
from burnish.system.sandbox import CommandResult, Sandbox, named_paths
from burnish.system.workspaces import (
    Bounds,
    Snapshot,
    copy_workspace,
    edit_violations,
    read_contents,
    remove_tree,
    shown,
    snapshot,
)
from burnish.system.workspaces.snapshots import covers
from burnish.targets.artifacts.safeguards import MOST_NEW_FILES
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Workspace, finished, own_place

_PROXIES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
)
"""What programs need to reach their API behind a proxy."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one program is used."""

    command: str
    """`{arguments}`, `{files}` and `{sandbox}` are filled in."""
    env: tuple[str, ...]
    """Variables of the user that it may see: its keys and its address."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that it always gets."""
    scratch: tuple[str, ...] = ()
    """What it writes to the workspace for itself."""
    outer: str = ""
    """The name of its own sandbox in a sandbox of burnish: two do not nest."""
    alone: str = ""
    """The name of its own sandbox where burnish has none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all variables of the user that it may see."""
        return (*self.env, *_PROXIES)

    def line(self, *, files: Sequence[str], arguments: str, isolated: bool) -> str:
        """The line for the shell."""
        return self.command.format(
            arguments=arguments,
            files=shlex.join(files),
            sandbox=self.outer if isolated else self.alone,
        )


class EditorHome:
    """The HOME of an editing program: it lasts as long as the run, over resumes too.

    It lies in the user's state folder, not in the run's: it may hold a login.
    """

    def __init__(self, seed: Path | None = None) -> None:
        self._seed = seed
        self.folder: Path | None = None

    def open(self, run: Path) -> None:
        """Use the home of this run; if it is new, as a copy of the user's folder."""
        folder = state_folder() / "homes" / short_id(str(run.resolve()))
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            if self._seed is None:
                folder.mkdir()
            else:
                copy_workspace(self._seed, folder, exclude=())
            folder.chmod(0o700)
        self.folder = folder

    def remove(self) -> None:
        """Remove it when the run is over."""
        if self.folder is not None:
            remove_tree(self.folder)
            self.folder = None


RECIPES: Mapping[str, Recipe] = {
    "claude": Recipe(
        command="claude -p --permission-mode acceptEdits --output-format text {arguments} "
        '< "$BURNISH_TASK_FILE"',
        env=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
            *("ANTHROPIC_MODEL", "CLAUDE_CODE_OAUTH_TOKEN"),
        ),
        variables={"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        scratch=(".claude",),
    ),
    "codex": Recipe(
        command="codex exec --skip-git-repo-check --sandbox {sandbox} {arguments} - "
        '< "$BURNISH_TASK_FILE"',
        env=("CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        scratch=(".codex",),
        outer="danger-full-access",
        alone="workspace-write",
    ),
    "aider": Recipe(
        command='aider --message-file "$BURNISH_TASK_FILE" --yes-always --no-git '
        "--no-check-update --no-show-model-warnings --no-stream --no-pretty {arguments} {files}",
        env=(
            *("OPENAI_API_KEY", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
            *("DEEPSEEK_API_KEY", "OPENROUTER_API_KEY", "AIDER_MODEL"),
        ),
        scratch=("**/.aider*",),
    ),
    "gemini": Recipe(
        command="gemini --approval-mode auto_edit --output-format text {arguments} "
        '-p "Do the task above." < "$BURNISH_TASK_FILE"',
        env=(
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT"),
            *("GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
        ),
        variables={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        scratch=(".gemini",),
    ),
}


# -- Editors ---------------------------------------------------------------------------------------


ROLE = "editor"
_REPOSITORY = ".git"
"""Programs refresh its index, and some commit: nothing of it is part of an edit."""


class EditRequest(RoleMessage):
    """What the editor sees."""

    task: str
    files: str
    """The files that may be edited, whole, each under its path."""
    feedback: str
    """The numbers of the present files, and what runner and scorer said."""
    bounds: str
    """Constraints, and what an edit may touch."""
    turned_down: str
    """What was tried and not kept, and why."""
    context: str = ""
    """Files to read that may not be edited."""
    texts: dict[str, str] = Field(default_factory=dict[str, str])
    """The same files by path, for an editor that is a program."""


class Replacement(RoleMessage):
    """One place in a file."""

    path: str
    search: str
    """Text that stands there now, exactly and once."""
    replace: str


class WholeFile(RoleMessage):
    """The whole new text of a small file."""

    path: str
    content: str


class Edit(RoleMessage):
    """An edit of one or a few files."""

    rationale: Explanation
    replacements: list[Replacement] = Field(default_factory=list[Replacement])
    files: list[WholeFile] = Field(default_factory=list[WholeFile])
    refused: list[str] = Field(default_factory=list[str])
    """What was wrong with what an editing program did, where one edits."""


def _emptiness(_: EditRequest, edit: Edit) -> str:
    """What is wrong with an edit that says nothing at all; a reason not to edit is an answer."""
    said = edit.rationale or edit.replacements or edit.files
    return "" if said else "the object has no rationale, no replacements and no files"


def editor(client: ModelClient, prompt: RolePrompt) -> ModelRole[EditRequest, Edit]:
    """The role that edits, played by a model."""
    return ModelRole(
        name=ROLE,
        request_type=EditRequest,
        answer_type=Edit,
        prompt=prompt,
        client=client,
        check=_emptiness,
    )


_NOT_EDITABLE = "this is not one of the files that may be edited"


def carried_out(
    edit: Edit,
    texts: Mapping[str, str],
    *,
    addable: Callable[[str], str] = lambda _: _NOT_EDITABLE,
    keep_line_ends: bool = True,
) -> tuple[dict[str, str], list[Problem]]:
    """The files with the edit carried out, whole files first, and what is wrong with it.

    `addable` says why a file may not be added; where it is empty, a new file is added.
    `keep_line_ends` leaves CRLF in files that have it, whatever the editor wrote.
    """
    new = dict(texts)
    problems = [Problem(message=message) for message in edit.refused]
    parts = [*edit.files, *edit.replacements]
    if keep_line_ends:
        parts = [_with_line_ends(part, texts.get(part.path, "")) for part in parts]
    for part in parts:
        if part.path not in new:
            problem = addable(part.path) if isinstance(part, WholeFile) else _NOT_EDITABLE
            if problem:
                problems.append(Problem(where=part.path, message=problem))
            elif isinstance(part, WholeFile) and part.content.strip():  # A blank one is no file.
                new[part.path] = part.content
        elif isinstance(part, WholeFile):
            new[part.path] = part.content
        elif part.search and new[part.path].count(part.search) == 1:
            new[part.path] = new[part.path].replace(part.search, part.replace)
        else:
            count = new[part.path].count(part.search) if part.search else 0
            fault = f"is there {count} times" if count else "is not there"
            start = part.search.strip().split("\n")[0][:60]
            remedy = "quote a piece of the present text that is there once, exactly as it stands"
            message = f"the text to replace {fault}: '{start}'"
            problems.append(Problem(where=part.path, message=message, remedy=remedy))
    return new, problems


def _with_line_ends(part: WholeFile | Replacement, like: str) -> WholeFile | Replacement:
    """The part with the line ends of its file: models read CRLF and write LF."""
    if "\r\n" not in like:
        return part
    written = {name: text for name, text in part if name != "path"}
    ended = {name: re.sub(r"\r?\n", "\r\n", text) for name, text in written.items()}
    return part.model_copy(update=ended)


@dataclass(frozen=True, kw_only=True)
class CommandEditor:
    """The role `editor`, played by a program, such as the command line of a coding agent."""

    command: str
    """A line for the shell; of a recipe, its name."""
    target: ArtifactsTarget
    recipe: Recipe | None = None
    arguments: str = ""
    """More arguments for the program of the recipe."""
    home: EditorHome | None = None
    """What it keeps from edit to edit; without one it starts in an empty home each time."""
    max_files: int | None = None
    max_changed_lines: int | None = None
    timeout_seconds: float = 900.0
    env: tuple[str, ...] = ()
    """Names of variables that it may see beside those of the task; the task's runs do not."""
    network: bool = False
    """Whether it may use the network, as a coding agent must; without isolation it always may."""
    usd_per_edit: float | None = None
    """What an edit costs; None if it is unknown, which is not 0."""
    name: str = ROLE
    leaf: bool = field(default=True, init=False)

    @property
    def fingerprint(self) -> str:
        """A hash of the command and its limits, but not of the program behind it."""
        limits: list[Json] = [self.max_files, self.max_changed_lines, self.timeout_seconds]
        # A program without a recipe is described as before there were any.
        more: list[Json] = [] if self.recipe is None else [self.recipe.command, self.arguments]
        return short_id([self.name, self.command, *limits, [*self.env], self.network, *more])

    @property
    def sandbox(self) -> Sandbox:
        """The target's sandbox, with what only the editor may have."""
        own, task = self.target.sandbox, self.target.task
        names = () if self.recipe is None else self.recipe.names
        allow = (*own.allow, *task.env, *names, *self.env)
        return replace(own, allow=allow, network=self.network or own.network)

    @property
    def answers(self) -> Codec[Edit]:
        return codec(Edit)

    @property
    def priced(self) -> bool:
        return self.usd_per_edit is not None

    def estimate(self, request: EditRequest, /) -> Spend:
        del request
        if self.usd_per_edit is None:
            return Spend(calls=1, unpriced=1)
        return Spend(calls=1, nano_usd=to_nano(self.usd_per_edit))

    def encode(self, request: EditRequest, /) -> Json:
        return request.model_dump(mode="json")

    async def answer(
        self, request: EditRequest, /, *, draw: int, effects: Effects
    ) -> Receipt[Edit]:
        """Let the program edit a copy, and read the edit from there."""
        del draw, effects
        spend = self.estimate(request)
        async with self.target.workspace(request.texts) as workspace:
            ran = await self._edited(request, workspace)
            if not ran.ok:
                last = "\n".join((ran.stderr.strip() or ran.stdout.strip()).split("\n")[-8:])
                why = f"{ran.reason}: {last}" if last else ran.reason
                raise RoleFailed(f"the editing command failed: {why}", spend=spend)
            edit = await finished(self._edit_of, request.texts, workspace, ran)
        return Receipt(value=edit, spend=spend)

    async def _edited(self, request: EditRequest, workspace: Workspace) -> CommandResult:
        async with own_place() as place:
            brief = place / "TASK.md"
            brief.write_text(_brief(request), encoding="utf-8")
            env = {
                "BURNISH_TASK_FILE": str(brief),
                "BURNISH_FILES": json.dumps(sorted(request.texts)),
                **self._new_files_variable,
                "BURNISH_MAX_FILES": str(self.max_files or ""),
                "BURNISH_MAX_CHANGED_LINES": str(self.max_changed_lines or ""),
                **({} if self.recipe is None else self.recipe.variables),
            }
            return await self.sandbox.run(
                self._line(request),
                cwd=workspace.folder,
                writable=[workspace.folder, place],
                readable=named_paths(self.command),
                mounts=workspace.mounts,
                home=None if self.home is None else self.home.folder,
                env=env,
                limits=replace(self.target.task.limits, seconds=self.timeout_seconds),
            )

    @property
    def _new_files_variable(self) -> dict[str, str]:
        patterns = self.target.task.new_files
        return {"BURNISH_NEW_FILES": json.dumps(patterns)} if patterns else {}

    def _line(self, request: EditRequest) -> str:
        if self.recipe is None:
            return self.command
        isolated = self.sandbox.isolation.kind != "none"
        return self.recipe.line(
            files=sorted(request.texts), arguments=self.arguments, isolated=isolated
        )

    def _edit_of(self, texts: Mapping[str, str], workspace: Workspace, ran: CommandResult) -> Edit:
        """The edit that the workspace shows, or what was wrong with it."""
        rationale = without_middle(ran.stdout.strip(), 2000) or "(it said nothing)"
        try:
            after = snapshot(workspace.folder)
        except FileTrouble:
            return Edit(rationale=rationale, refused=["the edit removed the whole workspace"])
        there = self._bounds(texts).artifacts_among(after.files)
        if refused := self._too_large({*texts, *there}, after):
            return Edit(rationale=rationale, refused=refused)
        new = read_contents(workspace.folder, sorted({*texts, *there}))
        old = {path: text.encode() for path, text in texts.items()}
        refused = self._refused(workspace, after, old=old, new=new)
        if refused:
            return Edit(rationale=rationale, refused=refused)
        removed = dict.fromkeys((path for path in old if path not in after.entries), b"")
        changed = {path: c for path, c in (new | removed).items() if c != old.get(path)}
        files = [WholeFile(path=path, content=c.decode()) for path, c in changed.items()]
        return Edit(rationale=rationale, files=files)

    def _too_large(self, paths: Collection[str], after: Snapshot) -> list[str]:
        """The files that are too large, which are not read, and new files that are too many."""
        most, start = self.target.bounds.max_file_bytes, self.target.texts
        sizes = {path: after.entries[path].size for path in paths if path in after.entries}
        large = [
            f"{shown(path)}: it has {size:,} bytes, {most:,} are allowed"
            for path, size in sorted(sizes.items())
            if size > most
        ]
        added = sum(path not in start for path in paths)
        if added > MOST_NEW_FILES:
            large.append(f"{added} files were added, {MOST_NEW_FILES} are allowed")
        return large

    def _refused(
        self,
        workspace: Workspace,
        after: Snapshot,
        *,
        old: Mapping[str, bytes],
        new: Mapping[str, bytes],
    ) -> list[str]:
        bounds = self._bounds(old)
        violations = edit_violations(bounds, workspace.before, after, old=old, new=new)
        gone = sorted(path for path in old if path not in after.entries)
        before = workspace.before.entries
        added = [path for path in bounds.artifacts_among(after.files) if path not in before]
        messages = [str(violation) for violation in violations]
        messages += [f"{path}: the file is gone" for path in gone if path in self.target.texts]
        if not self.target.task.new_files:
            return messages + [f"{shown(path)}: files cannot be added" for path in added]
        problems = ((path, self.target.new_file_problem(path)) for path in added)
        return messages + [f"{shown(path)}: {problem}" for path, problem in problems if problem]

    def _bounds(self, texts: Collection[str]) -> Bounds:
        """The bounds of the task, with what the program writes for itself as scratch.

        Where artifacts lie nothing is scratch: they may be settings or skills of such a program.
        """
        bounds = self.target.bounds
        written = (_REPOSITORY, *(() if self.recipe is None else self.recipe.scratch))
        own = [each for each in written if not any(covers([each], path) for path in texts)]
        return replace(
            bounds,
            max_files=self.max_files,
            max_changed_lines=self.max_changed_lines,
            exclude=(*bounds.exclude, *own),
            scratch=(*bounds.scratch, *own),
        )


def _brief(request: EditRequest) -> str:
    parts = {
        "Task": request.task,
        "Bounds": request.bounds,
        "Results so far": request.feedback,
        "Tried and turned down": request.turned_down or "(nothing)",
    }
    head = "Edit the files in this folder so that the task scores better: one idea, then stop.\n"
    body = "".join(f"\n## {title}\n\n{text}\n" for title, text in parts.items())
    files = "\n".join(f"- {path}" for path in sorted(request.texts))
    return f"{head}{body}\n## Files that may be edited\n\n{files}\n"
