"""What a machine lacks for this product, and how to mend it: one finding a subject, one sentence each.

Pure functions of what they are given (environment, `which`, installed versions), so every fault can be shown
in a test. Only the standard library at the top: `make setup` runs this before there is an environment.

`python -m orchestration.doctor python java compiler` checks those subjects and exits 1 at the first fault.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from features.errors import GemlineError
from features.jars import jar_folder, missing_jars

PYTHON = ((3, 11), (3, 14))
JAVA = 17
COMPILERS = ("c++", "g++", "clang++")
VERSIONS = {"torch": "2.14.1", "torchrec": "1.9.2", "fbgemm": "1.9.0"}
FBGEMM = ("fbgemm-gpu", "fbgemm-gpu-cpu")
DISK_GB = 5.0
MEMORY_GB = 8.0
PORT = 3000


@dataclass(frozen=True)
class Finding:
    """What was found about one subject.

    Attributes:
        name: the subject, as `require` takes it.
        ok: whether it is as it must be.
        detail: what was found.
        mend: what to do about it; empty when `ok`.
    """

    name: str
    ok: bool
    detail: str
    mend: str = ""

    @property
    def sentence(self) -> str:
        """What is wrong and how to mend it, in one sentence."""
        return f"{self.detail}; {self.mend}" if self.mend else self.detail


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution without importing it; None when it is absent."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def java_text(java: str) -> str:
    """What `java -version` says (it writes to standard error)."""
    ended = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    return ended.stderr + ended.stdout


def can_listen(port: int) -> bool:
    """Whether a loopback port is free."""
    with socket.socket() as probe:
        # as servers do: a port that was just left is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_gb(path: Path) -> float:
    """Free space, in GB, of the disk that holds `path` or its nearest existing parent."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free / 1e9


def memory_gb() -> float:
    """Physical memory, in GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


@dataclass(frozen=True)
class Machine:
    """Everything that the checks look at; a test replaces what it wants to break."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    python: tuple[int, int] = (sys.version_info.major, sys.version_info.minor)
    which: Callable[[str], str | None] = shutil.which
    java_text: Callable[[str], str] = java_text
    version: Callable[[str], str | None] = installed_version
    can_listen: Callable[[int], bool] = can_listen
    free_gb: Callable[[Path], float] = free_gb
    memory_gb: Callable[[], float] = memory_gb
    jars: Path = field(default_factory=jar_folder)

    @property
    def home(self) -> Path:
        """`GEMLINE_HOME`, or its default."""
        return Path(self.env.get("GEMLINE_HOME") or ".gemline").resolve()

    @property
    def port(self) -> int:
        """Port of the Dagster UI; 0, which is refused, when `PORT` is no number."""
        text = self.env.get("PORT") or str(PORT)
        return int(text) if text.isdecimal() else 0


def check_python(machine: Machine) -> Finding:
    """The interpreter's version is one that the pinned packages exist for."""
    low, high = PYTHON
    found = ".".join(map(str, machine.python))
    if low <= machine.python < high:
        return Finding("python", True, f"Python {found}")
    return Finding(
        "python",
        False,
        f"Python {found} does not fit",
        "name one of 3.11 to 3.13: `make setup PYTHON=python3.11`",
    )


def check_java(machine: Machine) -> Finding:
    """Spark has a Java, new enough."""
    mend = f"install Java {JAVA} (Debian: `apt-get install openjdk-{JAVA}-jre-headless`) or set JAVA_HOME to one"
    home = machine.env.get("JAVA_HOME")
    java = machine.which(str(Path(home) / "bin" / "java")) if home else machine.which("java")
    if java is None:
        return Finding(
            "java",
            False,
            f"Java, which Spark needs, is not in {'JAVA_HOME ' + home if home else 'PATH'}",
            mend,
        )
    text = machine.java_text(java)
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    if match is None:
        return Finding("java", False, f"{java} does not say its version", mend)
    found = int(match[1])
    if found < JAVA:
        return Finding("java", False, f"Java {found} at {java} is too old for Spark", mend)
    return Finding("java", True, f"Java {found}")


def check_compiler(machine: Machine) -> Finding:
    """A C++ compiler is there (torch compiles exported models with it)."""
    for name in COMPILERS:
        if machine.which(name):
            return Finding("compiler", True, f"C++ compiler {name}")
    tried = ", ".join(COMPILERS)
    return Finding(
        "compiler",
        False,
        f"no C++ compiler ({tried}) is in PATH",
        "install one (Debian: `apt-get install g++`)",
    )


def check_jars(machine: Machine) -> Finding:
    """Delta's jars for Spark were fetched."""
    missing = missing_jars(machine.jars)
    if missing:
        return Finding("jars", False, f"Delta's {', '.join(missing)} is not in {machine.jars}", "run `make setup`")
    return Finding("jars", True, f"Delta jars in {machine.jars}")


def check_packages(machine: Machine) -> Finding:
    """torch, torchrec and fbgemm are the versions that work together, with exactly one build of fbgemm."""
    mend = "run `make setup`; with a GPU, `make setup REQUIREMENTS=requirements/gpu.txt`"
    builds = {name: version for name in FBGEMM if (version := machine.version(name))}
    if len(builds) == 2:
        return Finding(
            "packages",
            False,
            f"{' and '.join(FBGEMM)} are both installed and overwrite each other",
            f"uninstall both, then {mend}",
        )
    found = {"torch": machine.version("torch"), "torchrec": machine.version("torchrec")}
    found["fbgemm"] = next(iter(builds.values()), None)
    for name, wanted in VERSIONS.items():
        # torch's own builds carry a local part, as in 2.14.1+cpu
        if (found[name] or "absent").split("+")[0] != wanted:
            label = next(iter(builds), " or ".join(FBGEMM)) if name == "fbgemm" else name
            return Finding("packages", False, f"{label} is {found[name] or 'absent'} where {wanted} is needed", mend)
    return Finding("packages", True, f"torch {found['torch']}, torchrec {found['torchrec']}, {next(iter(builds))}")


def check_dagster_home(machine: Machine) -> Finding:
    """`DAGSTER_HOME` is a folder with a dagster.yaml, so that history lasts."""
    mend = "run through make, or `make home` and `export DAGSTER_HOME=$PWD/.gemline/dagster`"
    home = machine.env.get("DAGSTER_HOME")
    if not home:
        return Finding("dagster_home", False, "DAGSTER_HOME is not set, so the history of runs would be lost", mend)
    if not Path(home).is_absolute():
        return Finding("dagster_home", False, f"DAGSTER_HOME is the relative path {home}", mend)
    if not (Path(home) / "dagster.yaml").is_file():
        return Finding("dagster_home", False, f"DAGSTER_HOME {home} holds no dagster.yaml", mend)
    return Finding("dagster_home", True, f"DAGSTER_HOME {home}")


def check_home(machine: Machine) -> Finding:
    """`GEMLINE_HOME`, or the nearest folder above it that exists, can be written."""
    folder = machine.home
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Finding(
            "home",
            False,
            f"GEMLINE_HOME {machine.home} cannot be written",
            "set GEMLINE_HOME to a folder of yours",
        )
    return Finding("home", True, f"GEMLINE_HOME {machine.home}")


def check_port(machine: Machine) -> Finding:
    """The port of the Dagster UI is free."""
    if not 0 < machine.port < 65536:
        return Finding(
            "port", False, f"PORT {machine.env['PORT']} is no port", f"give a number: `make dev PORT={PORT}`"
        )
    if not machine.can_listen(machine.port):
        mend = f"end what holds it, or choose another: `make dev PORT={machine.port + 1}`"
        return Finding("port", False, f"port {machine.port} on 127.0.0.1 is in use", mend)
    return Finding("port", True, f"port {machine.port} is free")


def check_disk(machine: Machine) -> Finding:
    """The disk of `GEMLINE_HOME` has room."""
    free = machine.free_gb(machine.home)
    if free < DISK_GB:
        return Finding(
            "disk",
            False,
            f"{free:.1f} GB are free where GEMLINE_HOME {machine.home} lies and {DISK_GB:.0f} are needed",
            "make room, or set GEMLINE_HOME to another disk",
        )
    return Finding("disk", True, f"{free:.0f} GB free")


def check_memory(machine: Machine) -> Finding:
    """Spark and two training processes fit in memory."""
    found = machine.memory_gb()
    if found < MEMORY_GB:
        return Finding(
            "memory",
            False,
            f"{found:.1f} GB of memory are less than the {MEMORY_GB:.0f} that Spark and training take",
            "use a larger machine, or set GEMLINE_SPARK_DRIVER_MEMORY=1g and a smaller world",
        )
    return Finding("memory", True, f"{found:.0f} GB of memory")


CHECKS: dict[str, Callable[[Machine], Finding]] = {
    "python": check_python,
    "java": check_java,
    "compiler": check_compiler,
    "jars": check_jars,
    "packages": check_packages,
    "dagster_home": check_dagster_home,
    "home": check_home,
    "port": check_port,
    "disk": check_disk,
    "memory": check_memory,
}


def findings(machine: Machine | None = None) -> list[Finding]:
    """All findings, in the order in which one would mend them."""
    machine = machine or Machine()
    return [check(machine) for check in CHECKS.values()]


def require(names: Iterable[str], machine: Machine | None = None) -> None:
    """Refuse to start heavy work on a machine that cannot do it.

    Args:
        names: subjects, keys of `CHECKS`.
        machine: what to look at; by default this machine.

    Raises:
        GemlineError: the first of them that is not as it must be, as one sentence.
    """
    machine = machine or Machine()
    for name in names:
        finding = CHECKS[name](machine)
        if not finding.ok:
            raise GemlineError(finding.sentence)


def report(machine: Machine | None = None) -> tuple[str, bool]:
    """All findings, a line each, and whether all are well."""
    found = findings(machine)
    lines = [f"{'ok   ' if each.ok else 'WRONG'}  {each.name:<13} {each.sentence}" for each in found]
    return "\n".join(lines), all(each.ok for each in found)


def main(names: list[str]) -> None:
    """Check the named subjects; exit 1 with one sentence at the first that is wrong."""
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        sys.exit(f"doctor knows no {', '.join(unknown)}; it knows {', '.join(CHECKS)}")
    try:
        require(names)
    except GemlineError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
