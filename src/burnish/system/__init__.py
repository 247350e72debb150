"""What burnish needs of the machine: files, locks, YAML trees, redaction, child processes.

The packages above rely on guarantees made here: a file is complete or absent, a lock ends with
its holder, no secret passes a Redactor, all problems of a configuration are reported at once
with their lines, and no child process outlives its run.

Names load on first use: every command looks here for files to restore, and most need nothing else.
"""

from typing import TYPE_CHECKING

from burnish.lazy_names import lazy_names

if TYPE_CHECKING:
    from burnish.system.config import load_config, validate_config
    from burnish.system.files import (
        FileLock,
        append_line,
        file_system_of,
        is_held,
        is_network_file_system,
        link_atomic,
        make_folder,
        place_inside,
        read_bytes,
        read_text,
        remove_stale_temporaries,
        update_inside,
        write_atomic,
        write_inside,
    )
    from burnish.system.processes import ChildProcesses, end_leftovers
    from burnish.system.redaction import Redactor
    from burnish.system.variables import expand_variables
    from burnish.system.yaml import YamlTree, read_tree, to_plain

_HOMES = {
    "config": ("load_config", "validate_config"),
    "files": (
        "FileLock",
        "append_line",
        "file_system_of",
        "is_held",
        "is_network_file_system",
        "link_atomic",
        "make_folder",
        "place_inside",
        "read_bytes",
        "read_text",
        "remove_stale_temporaries",
        "update_inside",
        "write_atomic",
        "write_inside",
    ),
    "processes": ("ChildProcesses", "end_leftovers"),
    "redaction": ("Redactor",),
    "variables": ("expand_variables",),
    "yaml": ("YamlTree", "read_tree", "to_plain"),
}

__all__ = [
    "ChildProcesses",
    "FileLock",
    "Redactor",
    "YamlTree",
    "append_line",
    "end_leftovers",
    "expand_variables",
    "file_system_of",
    "is_held",
    "is_network_file_system",
    "link_atomic",
    "load_config",
    "make_folder",
    "place_inside",
    "read_bytes",
    "read_text",
    "read_tree",
    "remove_stale_temporaries",
    "to_plain",
    "update_inside",
    "validate_config",
    "write_atomic",
    "write_inside",
]

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
