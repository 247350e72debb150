"""Prompts that are kept elsewhere: Python literals, git, HTTP stores, Langfuse, SQL tables.

A prompt that was changed since it was read is not overwritten: every store has versions, and
writing compares them.
"""

import ast
import asyncio
import os
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urldefrag, urlsplit

from burnish.core.errors import BurnishError, ConfigError
from burnish.models.dotenv import require_own_keys
from burnish.system.files import read_bytes, state_folder, write_atomic
from burnish.system.restoration import digest
from burnish.targets.prompts.fields import FileField, decoded, lock_files
from burnish.targets.user_code import blocking_client, is_web_address

_SECONDS = 30.0
_TRIES = 5
"""Commits of others, to other files, that may come between."""


_ASSIGN = "Assign a string literal to it, outside of functions and classes."


class PromptChanged(BurnishError):
    """A prompt is not what was read, so it was not overwritten."""

    def __init__(self, place: str, *, read: str, now: str) -> None:
        super().__init__(
            f"{place} was changed since it was read: version {read} was read, now it is {now}",
            remedy="Compare both, then read it again. Nothing was written.",
        )


class PromptStore(ABC):
    """One prompt that can be read, and written if nobody else has changed it."""

    place: str
    """Where it is, for people; without a password."""
    _version: str | None = None

    async def read(self) -> str:
        """Read the text, and note its version."""
        text, self._version = await asyncio.to_thread(self._fetch)
        return text

    async def write(self, text: str) -> None:
        """Replace the text; raises PromptChanged if it is not the version that was read last."""
        if self._version is None:
            await self.read()
        assert self._version is not None
        self._version = await asyncio.to_thread(self._replace, text, self._version)

    @abstractmethod
    def _fetch(self) -> tuple[str, str]:
        """The text and its version."""

    @abstractmethod
    def _replace(self, text: str, version: str) -> str:
        """Write over this version; the new one."""

    def _require(self, read: str, now: str) -> None:
        if read != now:
            raise PromptChanged(self.place, read=read, now=now)

    def _trouble(self, message: str, remedy: str = "") -> BurnishError:
        return BurnishError(f"{self.place}: {message}", remedy=remedy)


def prompt_store(reference: str, *, folder: Path | None = None) -> PromptStore:
    """The store of a reference such as `python:agent.py#PROMPT`; paths are relative to `folder`."""
    kind, _, rest = reference.partition(":")
    if kind in ("http", "https"):
        return _HttpStore.of(reference)
    if kind not in _KINDS:
        kinds = ", ".join([*(f"{each}:" for each in _KINDS), "http:", "https:"])
        remedy = f"begin it with one of {kinds}"
        raise ConfigError.of(reference, "this is not a reference to a prompt", remedy)
    where, mark, name = rest.rpartition("#")
    if not (where and mark and name):
        remedy = f"write {_KINDS[kind].form}"
        raise ConfigError.of(reference, "it does not say which prompt", remedy)
    return _KINDS[kind].make(where, name, folder or Path.cwd())


def _version(text: str) -> str:
    return digest(text.encode(errors="surrogatepass"))[:12]


@dataclass(kw_only=True)
class _PythonStore(PromptStore):
    """A text that is assigned to a name of a module."""

    place: str
    path: Path
    name: str

    @classmethod
    def of(cls, where: str, name: str, folder: Path) -> "_PythonStore":
        return cls(place=f"{name} in {where}", path=(folder / where).absolute(), name=name)

    def _fetch(self) -> tuple[str, str]:
        _, text = self._literal(read_bytes(self.path))
        return text, _version(text)

    def _replace(self, text: str, version: str) -> str:
        file = FileField(name=self.name, shown=str(self.path), path=self.path)
        with lock_files([file], state_folder()):
            source = read_bytes(self.path)
            node, before = self._literal(source)
            self._require(version, _version(before))
            lines = source.splitlines(keepends=True)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
            end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
            new = source[:start] + _literal_of(text).encode() + source[end:]
            if self._literal(new)[1] != text:
                raise self._trouble("the text cannot be written as a literal here")
            write_atomic(self.path, new)
        return _version(text)

    def _literal(self, source: bytes) -> tuple[ast.Constant, str]:
        """The last literal that the name gets, and its text."""
        decoded(source, self.path)
        try:
            statements = ast.parse(source).body
        except SyntaxError as error:
            raise self._trouble(f"line {error.lineno} is not Python") from None
        values = [value for each in statements if (value := self._assigned(each)) is not None]
        if not values:
            raise self._trouble("there is no such name", _ASSIGN)
        node = values[-1]
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            raise self._trouble("it is not a plain text", _ASSIGN)
        return node, node.value

    def _assigned(self, statement: ast.stmt) -> ast.expr | None:
        """What a statement assigns to the name."""
        match statement:
            case ast.Assign(targets=targets):
                names = targets
            case ast.AnnAssign(target=target):
                names = [target]
            case _:
                return None
        mine = any(isinstance(each, ast.Name) and each.id == self.name for each in names)
        return statement.value if mine else None


def _literal_of(text: str) -> str:
    """A literal that reads well: of many lines between three quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"' if text.endswith('"') else '"')
    literal = '"""' + escaped.replace('"""', '\\"\\"\\"') + '"""'
    try:
        plain = "\n" in text and ast.literal_eval(literal) == text
    except (SyntaxError, ValueError):
        plain = False
    return literal if plain else repr(text)


@dataclass(kw_only=True)
class _GitStore(PromptStore):
    """A file on a branch. Writing makes a commit, and needs no working tree."""

    place: str
    repository: Path
    branch: str
    """Empty for the one that HEAD names."""
    path: str

    @classmethod
    def of(cls, where: str, name: str, folder: Path) -> "_GitStore":
        repository, mark, branch = where.rpartition("@")
        where = repository if mark else where
        return cls(
            place=f"{name} in {where}{mark}{branch if mark else ''}",
            repository=folder / where,
            branch=branch if mark else "",
            path=name,
        )

    def _fetch(self) -> tuple[str, str]:
        blob = self._blob(self._git("rev-parse", "--verify", f"{self._ref()}^{{commit}}"))
        return self._git("cat-file", "blob", blob, strip=False), blob[:12]

    def _replace(self, text: str, version: str) -> str:
        ref = self._ref()
        if f"branch {ref}" in self._git("worktree", "list", "--porcelain").splitlines():
            name = ref.removeprefix("refs/heads/")
            remedy = (
                "Name another branch, as in git:REPOSITORY@BRANCH#PATH, or use the file itself."
            )
            raise self._trouble(f"the branch {name} is checked out, so it is not moved", remedy)
        for _ in range(_TRIES):
            commit = self._git("rev-parse", "--verify", f"{ref}^{{commit}}")
            self._require(version, self._blob(commit)[:12])
            blob, new = self._commit(commit, text)
            try:
                self._git("update-ref", ref, new, commit)
            except BurnishError:  # somebody was faster: look again at what they did
                continue
            return blob[:12]
        raise self._trouble("others commit to the branch all the time", "Try again later.")

    def _commit(self, parent: str, text: str) -> tuple[str, str]:
        """The blob and a commit with it, which no branch has yet."""
        blob = self._git("hash-object", "-w", "--stdin", given=text)
        mode = self._git("ls-tree", parent, "--", self.path).split(maxsplit=1)[0]
        with tempfile.TemporaryDirectory() as folder:
            index = str(Path(folder, "index"))
            self._git("read-tree", parent, index=index)
            self._git("update-index", "--cacheinfo", f"{mode},{blob},{self.path}", index=index)
            tree = self._git("write-tree", index=index)
        return blob, self._git("commit-tree", tree, "-p", parent, "-m", f"Update {self.path}")

    def _blob(self, commit: str) -> str:
        return self._git("rev-parse", "--verify", f"{commit}:{self.path}")

    def _ref(self) -> str:
        return f"refs/heads/{self.branch}" if self.branch else self._git("symbolic-ref", "HEAD")

    def _git(self, *words: str, given: str = "", strip: bool = True, index: str = "") -> str:
        who = {f"GIT_{role}_NAME": "burnish" for role in ("AUTHOR", "COMMITTER")}
        who |= {f"GIT_{role}_EMAIL": "burnish@localhost" for role in ("AUTHOR", "COMMITTER")}
        try:
            done = subprocess.run(  # noqa: S603 - words of this class, no shell
                ["git", "-C", str(self.repository), *words],  # noqa: S607 - as the user runs it
                input=given.encode(),
                capture_output=True,
                check=False,
                env={**who, **os.environ, **({"GIT_INDEX_FILE": index} if index else {})},
            )
        except OSError as error:
            raise self._trouble(f"git cannot be run: {error.strerror}") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
            raise self._trouble(lines[0].removeprefix("fatal: "))
        text = decoded(done.stdout, self.repository / self.path)
        return text.strip() if strip else text


@dataclass(kw_only=True)
class _HttpStore(PromptStore):
    """A text behind GET and PUT, or in a field of JSON; its ETag is its version."""

    place: str
    address: str
    name: str = ""
    """The field of a JSON document; empty if the text is the whole body."""
    _has_tags: bool = field(default=False, init=False)

    @classmethod
    def of(cls, reference: str) -> "_HttpStore":
        address, name = urldefrag(reference)
        return cls(place=_web_place(address), address=address, name=name)

    def _fetch(self) -> tuple[str, str]:
        answer = self._send("GET")
        text = self._text_of(answer)
        tag = answer.headers.get("etag")
        self._has_tags = tag is not None
        return text, tag or _version(text)

    def _replace(self, text: str, version: str) -> str:
        if not self._has_tags:
            self._require(version, self._fetch()[1])
        body: dict[str, Any] = {"json": {self.name: text}} if self.name else {"content": text}
        answer = self._send("PUT", {"If-Match": version} if self._has_tags else {}, **body)
        if answer.status_code == 412:
            self._require(version, self._fetch()[1])
        return answer.headers.get("etag") or self._fetch()[1]

    def _text_of(self, answer: Any) -> str:
        if not self.name:
            return answer.text
        try:
            text = answer.json()[self.name]
        except (ValueError, KeyError, TypeError):
            raise self._trouble(f"the answer has no field '{self.name}'") from None
        if not isinstance(text, str):
            raise self._trouble(f"the field '{self.name}' is not a text")
        return text

    def _send(self, method: str, headers: Mapping[str, str] | None = None, **body: Any) -> Any:
        token = os.environ.get("BURNISH_PROMPT_TOKEN")
        own = {"Authorization": f"Bearer {token}"} if token else {}
        return _sent(self, method, self.address, headers={**own, **(headers or {})}, **body)


def _web_place(address: str) -> str:
    if not is_web_address(address) or "@" in urlsplit(address).netloc:
        remedy = "write https://host/path; keys belong in variables"
        raise ConfigError.of(_without_user(address), "this is no address of a store", remedy)
    return address


def _without_user(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


def _sent(store: PromptStore, method: str, url: str, **options: Any) -> Any:
    """The answer of a store; 412 is one. Raises ConnectionError if there is none."""
    import httpx2

    try:
        with blocking_client(url, timeout=_SECONDS) as client:
            answer = client.request(method, url, **options)
    except (httpx2.HTTPError, OSError) as error:
        cause = str(error) or type(error).__name__
        raise ConnectionError(f"{store.place}: {cause}") from None
    if not answer.is_success and answer.status_code != 412:
        raise BurnishError(f"{store.place}: it answered {method} with HTTP {answer.status_code}")
    return answer


@dataclass(kw_only=True)
class _LangfuseStore(PromptStore):
    """A text prompt of Langfuse with a label. Writing makes a new version with that label."""

    place: str
    address: str
    name: str
    label: str

    @classmethod
    def of(cls, where: str, name: str, folder: Path) -> "_LangfuseStore":
        del folder
        address = _web_place(where.rstrip("/"))
        name, _, label = name.partition("@")
        label = label or "production"
        return cls(place=f"{name} ({label}) at {address}", address=address, name=name, label=label)

    def _fetch(self) -> tuple[str, str]:
        path = f"/{quote(self.name, safe='')}?label={quote(self.label, safe='')}"
        prompt = self._send("GET", path)
        if not isinstance(prompt.get("prompt"), str):
            raise self._trouble("it is not a text prompt", "Chat prompts cannot be optimised here.")
        return prompt["prompt"], str(prompt["version"])

    def _replace(self, text: str, version: str) -> str:
        self._require(version, self._fetch()[1])
        body = {"type": "text", "name": self.name, "prompt": text, "labels": [self.label]}
        return str(self._send("POST", "", json=body)["version"])

    def _send(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        names = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
        keys = tuple(os.environ.get(each, "") for each in names)
        url = f"{self.address}/api/public/v2/prompts{path}"
        answer = _sent(self, method, url, auth=keys if all(keys) else None, **body)
        try:
            return dict(answer.json())
        except (ValueError, TypeError):
            raise self._trouble("it did not answer with a JSON object") from None


@dataclass(kw_only=True)
class _SqlStore(PromptStore):
    """A row of a table with the columns name, text and version, which is a number."""

    place: str
    address: str
    table: str
    name: str

    @classmethod
    def of(cls, where: str, name: str, folder: Path) -> "_SqlStore":
        from burnish.system.databases import DatabaseUrl

        del folder
        table, slash, row = name.partition("/")
        if not slash or not row or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table):
            form = _KINDS["sql"].form
            raise ConfigError.of(
                f"#{name}", "it does not name a table and a prompt", f"write {form}"
            )
        require_own_keys(where)
        place = f"'{row}' of {table} in {DatabaseUrl.parse(where)}"
        return cls(place=place, address=where, table=table, name=row)

    def _fetch(self) -> tuple[str, str]:
        rows = self._execute("SELECT text, version FROM {} WHERE name = :name")
        if not rows:
            raise self._trouble("there is no such row", "Insert it with version 1.")
        text, version = rows[0]
        return str(text), str(version)

    def _replace(self, text: str, version: str) -> str:
        changed = self._execute(
            "UPDATE {} SET text = :text, version = version + 1 "
            "WHERE name = :name AND version = :version",
            text=text,
            version=int(version),
        )
        if not changed:
            self._require(version, self._fetch()[1])
        return str(int(version) + 1)

    def _execute(self, statement: str, **values: Any) -> list[Any]:
        """The rows that it gives or, of an update, one for each row that it changed."""
        from sqlalchemy import CursorResult, text

        from burnish.system.databases import Database, DatabaseUrl

        url = DatabaseUrl.parse(self.address)
        database = Database(url, trouble=self._trouble, pooled=False)
        try:
            with database.transaction() as db:
                result = db.execute(
                    text(statement.format(self.table)), {"name": self.name, **values}
                )
                assert isinstance(result, CursorResult)
                return [*result] if result.returns_rows else [()] * result.rowcount
        finally:
            database.close()


@dataclass(frozen=True, kw_only=True)
class _Kind:
    make: Callable[[str, str, Path], PromptStore]
    form: str


_KINDS = {
    "python": _Kind(make=_PythonStore.of, form="python:FILE#NAME"),
    "git": _Kind(make=_GitStore.of, form="git:REPOSITORY@BRANCH#PATH"),
    "langfuse": _Kind(make=_LangfuseStore.of, form="langfuse:https://HOST#NAME@LABEL"),
    "sql": _Kind(make=_SqlStore.of, form="sql:postgresql://HOST/DATABASE#TABLE/NAME"),
}
