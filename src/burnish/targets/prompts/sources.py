"""The user's prompts, holding one candidate after another, and their own texts in the end."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from burnish.core.errors import BurnishError, ConfigError, Problem, RollbackError
from burnish.effects.failures import is_infrastructure
from burnish.system.borrowing import Borrowing
from burnish.system.restoration import PutBack, borrowed_folder
from burnish.targets.prompts.fields import CallbackField, FileField, decoded, encoded
from burnish.targets.prompts.lent_callbacks import LentCallbacks
from burnish.targets.prompts.locking import lock_files
from burnish.targets.prompts.target_prompt import TargetPrompt
from burnish.targets.prompts.writing import write_together


class _Taken:
    """What is known once the fields are ours for a while: locks, own contents, records."""

    def __init__(
        self,
        prompts: TargetPrompt,
        originals: Mapping[FileField, bytes],
        texts: Mapping[str, str],
        home: Path,
    ) -> None:
        folder = borrowed_folder(home)
        self.originals = dict(originals)
        self.homes = {file: file.home for file in originals}
        own = {self.homes[file]: content for file, content in originals.items()}
        self.borrowing = Borrowing(own, folder)
        behind = {field.name: texts[field.name] for field in prompts.callbacks}
        self.lent = LentCallbacks(prompts.names(), behind, folder)
        self.said: dict[CallbackField, str] = {
            field: texts[field.name] for field in prompts.callbacks
        }
        """What each callback was given last, as far as that is known."""


class Sources:
    """Writes texts where the agent reads them. Nothing is touched before the first run needs it."""

    def __init__(self, prompts: TargetPrompt, values: Mapping[str, str], home: Path) -> None:
        self._prompts = prompts
        self._values = dict(values)
        self._home = home
        self._locks = ExitStack()
        self._taken: _Taken | None = None
        self._closed = False

    async def hold(self, texts: Mapping[str, str]) -> None:
        """See that the fields hold these texts; what they hold already is not written again."""
        self._require_open()
        taken = self._taken or await self._take()
        files = {
            file: content
            for file in self._prompts.files
            if self._differs(
                taken,
                file,
                content := encoded(texts[file.name], taken.originals[file], file.path),
            )
        }
        said = {
            field: texts[field.name]
            for field in self._prompts.callbacks
            if taken.said.get(field) != texts[field.name]
        }
        if files or said:
            await self._write(taken, files, said)

    async def _write(
        self, taken: _Taken, files: Mapping[FileField, bytes], said: Mapping[CallbackField, str]
    ) -> None:
        if files:
            taken.borrowing.note({taken.homes[file]: files[file] for file in files})
        if said:
            taken.lent.note({field.name: text for field, text in said.items()})
        for callback in said:
            taken.said.pop(callback, None)  # until it is written, nobody knows
        try:
            await write_together(files, said)
        except BurnishError:
            raise
        except Exception as error:
            if is_infrastructure(error):
                raise
            told = f"the prompts could not be written: {type(error).__name__}: {error}"
            raise BurnishError(told, remedy="Mend the write function of the field.") from error
        finally:
            if self._closed:  # meanwhile: what was written, or rolled back, is no longer wanted
                taken.borrowing.put_back()
        taken.said.update(said)
        if self._closed:
            await self._callbacks_back(taken)

    def _differs(self, taken: _Taken, file: FileField, content: bytes) -> bool:
        now = file.content()
        if file.home != taken.homes[file] or not taken.borrowing.knows(taken.homes[file], now):
            raise _changed(file.given, "while candidates were tried")
        return now != content

    async def _take(self) -> _Taken:
        """Lock the files and make sure that every field says what the run began with."""
        with lock_files(self._prompts.files, self._home) as locks:
            originals = {file: file.content() for file in self._prompts.files}
            for file, content in originals.items():
                if decoded(content, file.path) != self._values[file.name]:
                    raise _changed(file.given, "after the run was set up")
            for callback in self._prompts.callbacks:
                if await callback.text() != self._values[callback.name]:
                    raise _changed(f"prompt field '{callback.name}'", "after the run was set up")
            self._require_open()
            self._locks = locks.pop_all()
        self._taken = _Taken(self._prompts, originals, self._values, self._home)
        return self._taken

    async def close(self) -> list[PutBack]:
        """Put everything back and let go of it; what did not go as wished.

        Files first, and without waiting for anybody, so that no interruption comes between.
        Raises RollbackError where something could not be put back.
        """
        taken, self._taken, self._closed = self._taken, None, True
        if taken is None:
            return []
        try:
            fates = taken.borrowing.put_back()
            fates += await self._callbacks_back(taken)
        finally:
            self._locks.close()
        failed = {fate.path: BurnishError(fate.told) for fate in fates if fate.fate == "failed"}
        if failed:
            kept = f"What they held is kept in {taken.borrowing.record.parent}."
            remedy = f"{kept} The next burnish command tries again."
            raise RollbackError(failed, remedy=remedy)
        return [fate for fate in fates if fate.fate == "left alone"]

    async def _callbacks_back(self, taken: _Taken) -> list[PutBack]:
        fates: list[PutBack] = []
        for callback in self._prompts.callbacks:
            try:
                fate = await taken.lent.put_back(callback)
            except Exception as error:  # noqa: BLE001 - the user's function: the others go on
                told = f"its own text could not be put back: {type(error).__name__}: {error}"
                fate = PutBack(path=callback.name, fate="failed", told=told)
            fates += [fate] if fate is not None else []
        if not any(fate.fate == "failed" for fate in fates):
            taken.lent.forget()
        return fates

    def _require_open(self) -> None:
        if self._closed:
            raise BurnishError(
                "the prompts were put back already, and no candidate is written any more",
                remedy="Make a new target for another run.",
            )


def _changed(what: str, when: str) -> ConfigError:
    message = f"somebody changed it {when}; nothing of it was overwritten"
    remedy = "let it be while burnish works on it, or use the mode 'isolated'; then start again"
    return ConfigError([Problem(where=what, message=message, remedy=remedy)])
