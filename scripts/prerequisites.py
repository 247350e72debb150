"""What the tests need besides Python packages: what is absent, and how to get it.

`python scripts/prerequisites.py` lists what is absent, which tests are skipped for it, and the
command that brings it; `make test` shows this first. With `install` (`make deps`) it installs what
it may: system packages with apt-get as root or through `sudo -n`, models by `burnish models pull`,
and throwaway database servers on this machine where none answers.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from burnish.core.errors import BurnishError
from burnish.models.embedded.files import EMBEDDING, find_model, models_folder
from burnish.system.databases import Database, DatabaseUrl
from burnish.system.sandbox import probe_bubblewrap

PATIENCE = 60.0
POSTGRESQL = ("BURNISH_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
MARIADB = ("BURNISH_TEST_MARIADB", "mariadb://root@127.0.0.1:3306/test")


@dataclass(frozen=True, kw_only=True)
class Need:
    """Something that some tests cannot do without."""

    name: str
    tests: str
    """What is skipped without it."""
    command: str
    """How to get it by hand."""
    is_here: Callable[[], bool]
    packages: tuple[str, ...] = ()
    """What apt-get calls it."""
    programs: tuple[str, ...] = ()
    """What the packages bring; they are installed only where one of these is not found."""
    prepare: Callable[[], None] | None = None
    """What is left to do once the packages are there."""


def main() -> None:
    """List what is absent, or install it."""
    absent = [need for need in NEEDS if not need.is_here()]
    if sys.argv[1:] == ["install"]:
        _install(absent)
        absent = [need for need in absent if not need.is_here()]
    elif sys.argv[1:]:
        sys.exit(f"usage: {sys.argv[0]} [install]")
    for need in absent:
        print(f"skipped without {need.name}: {need.tests}\n    {need.command}")
    if absent and sys.argv[1:] != ["install"]:
        print("`make deps` installs what it may of this")


# -- what there is ---------------------------------------------------------------------------


def _answers(server: tuple[str, str]) -> bool:
    try:
        database = Database(_address(server), trouble=BurnishError)
        database.connect().close()
        database.close()
    except (BurnishError, ImportError):
        return False
    return True


def _address(server: tuple[str, str]) -> DatabaseUrl:
    variable, usual = server
    return DatabaseUrl.parse(os.environ.get(variable, usual))


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where a server is to listen, and for whom."""

    host: str
    port: int
    user: str
    database: str

    @classmethod
    def of(cls, server: tuple[str, str]) -> "Server":
        """As the address says it, with the usual port of the kind of server."""
        url = _address(server)
        parts = urlsplit(url.expanded)
        return cls(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or {"postgresql": 5432, "mysql": 3306}[url.kind],
            user=parts.username or "",
            database=url.database,
        )


def _has_minilm() -> bool:
    return all((models_folder() / file.name).is_file() for file in EMBEDDING["minilm"])


# -- how it comes ----------------------------------------------------------------------------


def _install(absent: Sequence[Need]) -> None:
    packages = [
        package
        for need in absent
        if not all(map(program, need.programs))
        for package in need.packages
    ]
    may = _root_prefix()
    if packages and may is not None and shutil.which("apt-get"):
        print(f"installing {' '.join(packages)}")
        quiet = [*may, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
        for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.run([*quiet, *step], check=False, stdout=subprocess.DEVNULL)
    for need in absent:
        if need.prepare is not None and not need.is_here():
            try:
                need.prepare()
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{need.name}: {error}")


def _root_prefix() -> list[str] | None:
    """What to put before a command that only root may run; None where nobody lets us."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not subprocess.run(["sudo", "-n", "true"], check=False).returncode:
        return ["sudo", "-n"]
    return None


def program(name: str) -> str:
    """A program of the path, or of a folder where Debian keeps servers; empty where it is not."""
    servers = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]]
    folders = [os.environ.get("PATH", ""), "/usr/sbin", *servers]
    return shutil.which(name, path=os.pathsep.join(folders)) or ""


def _pull(model: str) -> Callable[[], None]:
    program = [str(Path(sys.executable).parent / "burnish"), "models", "pull", model]
    return lambda: subprocess.run(program, check=True) and None


def _start_postgresql() -> None:
    url, data, user = Server.of(POSTGRESQL), _data_folder("postgresql", "postgres"), "postgres"
    control = [program("pg_ctl"), "-D", f"{data}/db", "-w", "-l", f"{data}/log"]
    if not (data / "db").exists():
        make = [program("initdb"), "-D", f"{data}/db", "-U", url.user, "--auth=trust"]
        run_as(user, make)
    options = f"-p {url.port} -h {url.host} -k {data}"
    run_as(user, [*control, "-o", options, "start"])
    with suppress(subprocess.CalledProcessError):  # it is there from an earlier time
        to = ["-h", url.host, "-p", str(url.port), "-U", url.user]
        run_as(user, [program("createdb"), *to, url.database])
    print(f"started PostgreSQL at {url.host}:{url.port}; its data: {data}")


def _start_mariadb() -> None:
    url, data, user = Server.of(MARIADB), _data_folder("mariadb", "mysql"), "mysql"
    usual = ["--no-defaults", f"--datadir={data}/db"]
    if not (data / "db").exists():
        root = "--auth-root-authentication-method=normal"
        run_as(user, [program("mariadb-install-db"), *usual, root])
    (data / "init.sql").write_text(f"CREATE DATABASE IF NOT EXISTS {url.database};\n")
    files = [f"--socket={data}/socket", f"--pid-file={data}/pid", f"--log-error={data}/log"]
    place = [f"--port={url.port}", f"--bind-address={url.host}", f"--init-file={data}/init.sql"]
    command = [program("mariadbd"), *usual, *files, *place]
    subprocess.Popen(
        [*_as_user(user), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    ends = time.monotonic() + PATIENCE
    while not _answers(MARIADB):
        if time.monotonic() > ends:
            raise OSError(f"it does not answer; see {data}/log")
        time.sleep(0.2)
    print(f"started MariaDB at {url.host}:{url.port}; its data: {data}")


def _data_folder(name: str, user: str) -> Path:
    """A folder of the user that the server runs as."""
    folder = Path(tempfile.gettempdir()) / f"burnish-tests-{os.geteuid()}-{name}"
    folder.mkdir(mode=0o755, exist_ok=True)
    give_to(user, folder)
    return folder


def give_to(user: str, folder: Path) -> None:
    """Let a server that runs as this user write to a folder."""
    if os.geteuid() == 0:
        owner = pwd.getpwnam(user)
        os.chown(folder, owner.pw_uid, owner.pw_gid)


def _as_user(user: str) -> list[str]:
    """Servers refuse to run as root."""
    return ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []


def run_as(user: str, command: Sequence[str]) -> None:
    """Run a command of a server to its end, as this user where we are root."""
    subprocess.run([*_as_user(user), *command], check=True, cwd="/", stdout=subprocess.DEVNULL)


NEEDS = (
    Need(
        name="bubblewrap",
        tests="isolation of commands and editors",
        command=f"apt-get install bubblewrap   (now: {probe_bubblewrap().reason})",
        is_here=lambda: probe_bubblewrap().works,
        packages=("bubblewrap",),
        programs=("bwrap",),
    ),
    Need(
        name="PostgreSQL",
        tests=f"stores and journals in PostgreSQL, at {POSTGRESQL[1]} or ${POSTGRESQL[0]}",
        command="docker run -d -p 5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust "
        "-e POSTGRES_DB=test postgres",
        is_here=lambda: _answers(POSTGRESQL),
        packages=("postgresql",),
        programs=("initdb", "pg_ctl", "createdb"),
        prepare=_start_postgresql,
    ),
    Need(
        name="MariaDB",
        tests=f"stores and journals in MariaDB, at {MARIADB[1]} or ${MARIADB[0]}",
        command="docker run -d -p 3306:3306 -e MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1 "
        "-e MARIADB_DATABASE=test mariadb",
        is_here=lambda: _answers(MARIADB),
        packages=("mariadb-server",),
        programs=("mariadbd", "mariadb-install-db"),
        prepare=_start_mariadb,
    ),
    Need(
        name="Chromium",
        tests="pages in a real browser, with playwright",
        command="apt-get install chromium",
        is_here=lambda: Path("/usr/bin/chromium").exists(),
        packages=("chromium",),
        programs=("chromium",),
    ),
    Need(
        name="the model smollm2",
        tests="the embedded model",
        command="burnish models pull smollm2",
        is_here=lambda: find_model("smollm2") is not None,
        prepare=_pull("smollm2"),
    ),
    Need(
        name="the model minilm",
        tests="retrieval by embeddings on this machine",
        command="burnish models pull minilm",
        is_here=_has_minilm,
        prepare=_pull("minilm"),
    ),
    Need(
        name="root",
        tests="two tests that give files away or become another user",
        command="run the tests in a container",
        is_here=lambda: os.geteuid() == 0,
    ),
    Need(
        name="Linux",
        tests="tests that read /proc or write to /dev/full",
        command="run the tests in a container",
        is_here=lambda: Path("/proc/self/mountinfo").exists() and Path("/dev/full").exists(),
    ),
)


if __name__ == "__main__":
    main()
