"""Editors: a model, or a program such as a coding agent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.content import Codec, Json, codec, short_id
from burnish.core.errors import FileTrouble, Problem, RoleFailed
from burnish.core.money import Spend, to_nano
from burnish.core.protocols import Effects, Receipt
from burnish.metrics.text_matching import without_middle
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.system.sandbox import CommandResult, Sandbox
from burnish.system.workspaces import Snapshot, edit_violations, read_contents, shown, snapshot
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import Workspace, finished, own_place

ROLE = "editor"


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True)


class EditRequest(_Words):
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
    texts: dict[str, str] = Field(default_factory=dict[str, str])
    """The same files by path, for an editor that is a program."""


class Replacement(_Words):
    """One place in a file."""

    path: str
    search: str
    """Text that stands there now, exactly and once."""
    replace: str


class WholeFile(_Words):
    """The whole new text of a small file."""

    path: str
    content: str


class Edit(_Words):
    """An edit of one or a few files."""

    rationale: str
    replacements: list[Replacement] = Field(default_factory=list[Replacement])
    files: list[WholeFile] = Field(default_factory=list[WholeFile])
    refused: list[str] = Field(default_factory=list[str])
    """What was wrong with what an editing program did, where one edits."""


@dataclass(frozen=True, kw_only=True)
class _Edited:
    """The files after an edit, or why there are none."""

    texts: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def editor(client: ModelClient, prompt: RolePrompt) -> ModelRole[EditRequest, Edit]:
    """The role that edits, played by a model."""
    return ModelRole(
        name=ROLE, request_type=EditRequest, answer_type=Edit, prompt=prompt, client=client
    )


def carried_out(edit: Edit, texts: Mapping[str, str]) -> _Edited:
    """The files with the edit carried out, whole files first."""
    new = dict(texts)
    problems = [Problem(message=message) for message in edit.refused]
    for whole in edit.files:
        if whole.path in new:
            new[whole.path] = whole.content
        else:
            problems.append(_unknown(whole.path))
    for place in edit.replacements:
        if place.path not in new:
            problems.append(_unknown(place.path))
            continue
        count = new[place.path].count(place.search) if place.search else 0
        if count == 1:
            new[place.path] = new[place.path].replace(place.search, place.replace)
        else:
            problems.append(_not_there(place, count))
    return _Edited(texts=new, problems=tuple(problems))


def _unknown(path: str) -> Problem:
    return Problem(where=path, message="this is not one of the files that may be edited")


def _not_there(place: Replacement, count: int) -> Problem:
    fault = "is not there" if count == 0 else f"is there {count} times"
    remedy = "quote a piece of the present text that is there once, exactly as it stands"
    start = place.search.strip().split("\n")[0][:60]
    return Problem(
        where=place.path, message=f"the text to replace {fault}: '{start}'", remedy=remedy
    )


# -- An editor that is a program, such as a coding agent's CLI ------------------------------------


_MOST_SAID = 2000


@dataclass(frozen=True, kw_only=True)
class CommandEditor:
    """The role `editor`, played by a command."""

    command: str
    target: ArtifactsTarget
    max_files: int | None = None
    max_changed_lines: int | None = None
    timeout_seconds: float = 900.0
    env: tuple[str, ...] = ()
    """Names of variables that it may see beside those of the task; the task's runs do not."""
    network: bool = False
    """Whether it may use the network, as a coding agent must; without isolation it always may."""
    usd_per_edit: float | None = None
    """What an edit costs; None where that is not known, which is not 0."""
    name: str = ROLE
    leaf: bool = field(default=True, init=False)

    @property
    def fingerprint(self) -> str:
        """A hash of the command; what program it is, is not seen."""
        limits: list[Json] = [self.max_files, self.max_changed_lines, self.timeout_seconds]
        return short_id([self.name, self.command, *limits, [*self.env], self.network])

    @property
    def sandbox(self) -> Sandbox:
        """The target's, with what only the editor may have."""
        own, task = self.target.sandbox, self.target.task
        allow = (*own.allow, *task.env, *self.env)
        return replace(own, allow=allow, network=self.network or own.network)

    @property
    def answers(self) -> Codec[Edit]:
        """How its answers are kept."""
        return codec(Edit)

    @property
    def priced(self) -> bool:
        """Whether the price of an edit is known."""
        return self.usd_per_edit is not None

    def estimate(self, request: EditRequest, /) -> Spend:
        """One call."""
        del request
        if self.usd_per_edit is None:
            return Spend(calls=1, unpriced=1)
        return Spend(calls=1, nano_usd=to_nano(self.usd_per_edit))

    def encode(self, request: EditRequest, /) -> Json:
        """What it will read."""
        return request.model_dump(mode="json")

    async def answer(
        self, request: EditRequest, /, *, draw: int, effects: Effects
    ) -> Receipt[Edit]:
        """Let it edit, then see what it did. Raises RoleFailed when it ended badly."""
        del draw, effects
        spend = self.estimate(request)
        async with self.target.workspace(request.texts) as workspace:
            ran = await self._edited(request, workspace)
            if not ran.ok:
                raise RoleFailed(f"the editing command failed: {_why(ran)}", spend=spend)
            edit = await finished(self._edit_of, request.texts, workspace, ran)
        return Receipt(value=edit, spend=spend)

    async def _edited(self, request: EditRequest, workspace: Workspace) -> CommandResult:
        async with own_place() as place:
            brief = place / "TASK.md"
            brief.write_text(_brief(request), encoding="utf-8")
            env = {
                "BURNISH_TASK_FILE": str(brief),
                "BURNISH_FILES": json.dumps(sorted(request.texts)),
                "BURNISH_MAX_FILES": _bound(self.max_files),
                "BURNISH_MAX_CHANGED_LINES": _bound(self.max_changed_lines),
            }
            return await self.sandbox.run(
                self.command,
                cwd=workspace.folder,
                writable=[workspace.folder, place],
                env=env,
                limits=replace(self.target.task.limits, seconds=self.timeout_seconds),
            )

    def _edit_of(self, texts: Mapping[str, str], workspace: Workspace, ran: CommandResult) -> Edit:
        """The edit that the workspace shows, or what was wrong with it."""
        rationale = without_middle(ran.stdout.strip(), _MOST_SAID) or "(it said nothing)"
        try:
            after = snapshot(workspace.folder)
        except FileTrouble:
            return Edit(rationale=rationale, refused=["the edit removed the whole workspace"])
        if large := self._too_large(texts, after):
            return Edit(rationale=rationale, refused=large)
        new = read_contents(workspace.folder, texts)
        old = {path: text.encode() for path, text in texts.items()}
        refused = self._refused(workspace, after, old=old, new=new)
        if refused:
            return Edit(rationale=rationale, refused=refused)
        changed = {path: content for path, content in new.items() if content != old[path]}
        files = [WholeFile(path=path, content=c.decode()) for path, c in changed.items()]
        return Edit(rationale=rationale, files=files)

    def _too_large(self, texts: Mapping[str, str], after: Snapshot) -> list[str]:
        """What is too large to be read, and is refused unread."""
        most = self.target.bounds.max_file_bytes
        sizes = {path: after.entries[path].size for path in texts if path in after.entries}
        return [
            f"{path}: it has {size:,} bytes, {most:,} are allowed"
            for path, size in sizes.items()
            if size > most
        ]

    def _refused(
        self,
        workspace: Workspace,
        after: Snapshot,
        *,
        old: Mapping[str, bytes],
        new: Mapping[str, bytes],
    ) -> list[str]:
        bounds = replace(
            self.target.bounds, max_files=self.max_files, max_changed_lines=self.max_changed_lines
        )
        violations = edit_violations(bounds, workspace.before, after, old=old, new=new)
        there = workspace.before.entries
        gone = sorted(path for path in old if path not in after.entries)
        came = [path for path in bounds.artifacts_among(after.files) if path not in there]
        messages = [str(violation) for violation in violations]
        messages += [f"{path}: the file is gone" for path in gone]
        return messages + [f"{shown(path)}: files cannot be added" for path in came]


def _brief(request: EditRequest) -> str:
    """What an editing program is told, as a page of Markdown."""
    parts = {
        "Task": request.task,
        "Bounds": request.bounds,
        "Results so far": request.feedback,
        "Tried and turned down": request.turned_down,
    }
    head = "Edit the files in this folder so that the task scores better: one idea, then stop.\n"
    body = "".join(f"\n## {title}\n\n{text}\n" for title, text in parts.items())
    files = "\n".join(f"- {path}" for path in sorted(request.texts))
    return f"{head}{body}\n## Files that may be edited\n\n{files}\n"


def _bound(most: int | None) -> str:
    return "" if most is None else str(most)


def _why(ran: CommandResult) -> str:
    last = "\n".join((ran.stderr.strip() or ran.stdout.strip()).split("\n")[-8:])
    return f"{ran.reason}: {last}" if last else ran.reason
