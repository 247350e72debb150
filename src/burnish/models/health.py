"""What `burnish doctor` finds out: what is there, what is not, and what to do about it."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from burnish.core.errors import BurnishError
from burnish.effects.schema import connect, prepare
from burnish.models.keys import WHERE, find_dotenv, read_dotenv, variables
from burnish.models.services import services
from burnish.system import Redactor, file_system_of, is_network_file_system
from burnish.version import VERSION

State: TypeAlias = Literal["ok", "absent", "wrong"]
