"""Writing several fields together: files first, and back as they were when anything fails."""

from collections.abc import Mapping

from burnish.core.errors import FileTrouble, RollbackError
from burnish.system.files import file_trouble, write_atomic
from burnish.targets.prompts.fields import CallbackField, FileField


async def write_together(
    files: Mapping[FileField, bytes], callbacks: Mapping[CallbackField, str]
) -> None:
    """Give every field its content, or leave every file as it was.

    Callbacks come last, in order; those that were called are not called again on trouble.
    """
    done: list[tuple[FileField, bytes | None]] = []
    try:
        for field, content in files.items():
            before = _content(field)
            write_atomic(field.path, content)
            done.append((field, before))
        for field, text in callbacks.items():
            await field.put(text)
    except BaseException:
        _roll_back(done)
        raise


def _roll_back(done: list[tuple[FileField, bytes | None]]) -> None:
    failures: dict[str, Exception] = {}
    for field, before in reversed(done):
        try:
            _put_back(field, before)
        except FileTrouble as error:
            failures[field.name] = error
    if failures:
        raise RollbackError(failures, remedy="Look at these files, and put them back by hand.")


def _content(field: FileField) -> bytes | None:
    """What the file holds; None where there is none."""
    try:
        return field.path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise file_trouble("read", field.path, error) from error


def _put_back(field: FileField, before: bytes | None) -> None:
    if before is not None:
        write_atomic(field.path, before)
        return
    try:
        field.home.unlink(missing_ok=True)
    except OSError as error:
        raise file_trouble("remove", field.path, error) from error
