"""The executors `processes` and `dask`: what workers get, and the pool that holds them."""

import io
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.cluster.pool import RemotePool
from burnish.cluster.station import Order
from burnish.core.errors import ConfigError, MissingExtra
from burnish.journal.limits import Limits
from burnish.runs.evaluation import WorkerPool
from burnish.runs.plugins import ExecutorPlugin
from burnish.runs.spec import WORKER_FIELDS, ExecutionSpec
from burnish.system.extras import install_command

_MOST_BYTES = 100_000_000
"""Of an uploaded folder: every worker gets it through the scheduler."""
_LEFT_OUT = {"__pycache__", "node_modules", "results", "venv"}


class ClusterExecutor(ExecutorPlugin):
    """Workers of a Dask cluster, running elsewhere or started on this machine."""

    def pool(
        self,
        execution: ExecutionSpec,
        spec: Mapping[str, JsonValue],
        *,
        target: str,
        limits: Limits,
    ) -> WorkerPool:
        """The workers at the address, or started here; nothing is connected yet."""
        if find_spec("distributed") is None:
            message = f"the executor '{execution.executor}' needs Dask, which is not installed"
            raise MissingExtra(message, remedy=install_command("cluster"))
        from burnish.cluster.dask_workers import DaskTransport  # takes a second to load

        order = _order(execution, spec, target)
        transport = DaskTransport(
            order.run,
            address=execution.address or "",
            workers=execution.workers or os.cpu_count() or 1,
        )
        return RemotePool(transport, order, limits=limits)


def _order(execution: ExecutionSpec, spec: Mapping[str, JsonValue], target: str) -> Order:
    own = cast("Mapping[str, JsonValue]", spec.get("execution") or {})
    stripped = {name: value for name, value in own.items() if name not in WORKER_FIELDS}
    absent = [name for name in execution.send_keys if not os.environ.get(name)]
    if absent:
        message = f"not set here: {', '.join(absent)}"
        raise ConfigError.of(
            "execution.send_keys", message, "set it, or let workers have their own"
        )
    source = cast("Mapping[str, str]", spec["source"])
    root = "" if execution.upload is None else Path(source["folder"], execution.upload).resolve()
    return Order(
        run=secrets.token_hex(8),
        spec={**spec, "execution": cast("JsonValue", stripped)},
        target=target,
        root=str(root),
        archive=archived(root) if isinstance(root, Path) else b"",
        keys={name: os.environ[name] for name in execution.send_keys},
    )


def archived(folder: Path) -> bytes:
    """The files of a folder as a zip archive, without hidden files and results."""
    if not folder.is_dir():
        raise ConfigError.of("execution.upload", f"{folder} is no folder")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            archive.write(path, path.relative_to(folder))
            if packed.tell() > _MOST_BYTES:
                message = f"{folder} has more than {_MOST_BYTES / 1e6:g} MB"
                remedy = "upload a smaller folder, or let workers share a file system"
                raise ConfigError.of("execution.upload", message, remedy)
    return packed.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path
