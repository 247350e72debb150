"""What burnish asks of the machine: whole files, locks, YAML trees, redaction, child processes.

Everything here keeps a promise that the rooms above rely on: a file is whole or absent, a lock
dies with its holder, no secret passes a Redactor, every problem of a configuration is shown at
once with its line, and no child process outlives its run.
"""

from burnish.system.config import expand_variables, load_config, validate_config
from burnish.system.files import (
    append_line,
    link_atomic,
    read_bytes,
    read_text,
    remove_stale_temporaries,
    write_atomic,
)
from burnish.system.folders import make_folder
from burnish.system.locks import FileLock, is_held
from burnish.system.mounts import file_system_of, is_network_file_system
from burnish.system.plain_data import to_plain
from burnish.system.processes import ChildProcesses, end_leftovers
from burnish.system.redaction import Redactor
from burnish.system.yaml_tree import YamlTree, read_tree

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
