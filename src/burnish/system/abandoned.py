"""Borrowed files whose borrower is gone: found by their records and put back.

Every command looks here before anything else, so what is only needed to put back loads late.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from burnish.system.borrow_records import borrowed_folder, records_in

if TYPE_CHECKING:
    from burnish.system.processes import Owner
    from burnish.system.putting_back import PutBack


def restore_abandoned(folder: Path | None = None) -> "list[PutBack]":
    """Put back what killed processes borrowed; what was done, file by file.

    Where nothing was ever borrowed this costs one look at a folder that is not there.
    """
    found: list[PutBack] = []
    for record, told in records_in(folder or borrowed_folder(), "[0-9]*.json"):
        from burnish.system.processes import Owner
        from burnish.system.putting_back import put_back

        if Owner.parse(told["owner"]).is_gone(record):
            found += put_back(record)
    return found


def borrower_of(path: Path, folder: Path) -> "Owner | None":
    """The living process that has borrowed a file; None where nobody has."""
    for record, told in records_in(folder, "[0-9]*.json"):
        from burnish.system.processes import Owner

        owner = Owner.parse(told["owner"])
        paths = {file["path"] for file in told["files"]}
        if str(path) in paths and not owner.is_gone(record):
            return owner
    return None
