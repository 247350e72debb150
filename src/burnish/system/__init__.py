"""What burnish asks of the machine: whole files, locks, YAML trees, redaction, child processes.

Everything here keeps a promise that the rooms above rely on: a file is whole or absent, a lock
dies with its holder, no secret passes a Redactor, every problem of a configuration is shown at
once with its line, and no child process outlives its run.

Names load when they are first used: every command looks here first for files to put back, and
most of them need nothing else.
"""

from typing import TYPE_CHECKING

from burnish.lazy_names import lazy_names

if TYPE_CHECKING:
    from burnish.system.config import expand_variables, load_config, validate_config
    from burnish.system.files import (
        append_line,
        file_system_of,
        is_network_file_system,
        link_atomic,
        make_folder,
        read_bytes,
        read_text,
        remove_stale_temporaries,
        write_atomic,
    )
    from burnish.system.locks import FileLock, is_held
    from burnish.system.processes import ChildProcesses, end_leftovers
    from burnish.system.redaction import Redactor
    from burnish.system.yaml import YamlTree, read_tree, to_plain

_HOMES = {
    "config": ("expand_variables", "load_config", "validate_config"),
    "files": (
        "append_line",
        "file_system_of",
        "is_network_file_system",
        "link_atomic",
        "make_folder",
        "read_bytes",
        "read_text",
        "remove_stale_temporaries",
        "write_atomic",
    ),
    "locks": ("FileLock", "is_held"),
    "processes": ("ChildProcesses", "end_leftovers"),
    "redaction": ("Redactor",),
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
    "read_bytes",
    "read_text",
    "read_tree",
    "remove_stale_temporaries",
    "to_plain",
    "validate_config",
    "write_atomic",
]

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
