"""The doctor: each fault of a machine gives one sentence that names it and its mend."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from features.errors import GemlineError
from features.jars import NEEDED
from orchestration import doctor

VERSIONS = {"torch": "2.14.1", "torchrec": "1.9.2", "fbgemm-gpu-cpu": "1.9.0"}
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment'


@pytest.fixture
def machine(tmp_path: Path) -> doctor.Machine:
    """A machine on which all is well."""
    dagster_home = tmp_path / "dagster"
    dagster_home.mkdir()
    (dagster_home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in NEEDED:
        (jars / f"io.delta_{name}.jar").touch()
    return doctor.Machine(
        env={"DAGSTER_HOME": str(dagster_home), "GEMLINE_HOME": str(tmp_path / "home")},
        python=(3, 11),
        which=lambda name: f"/usr/bin/{name}",
        java_text=lambda java: JAVA_17,
        version=VERSIONS.get,
        can_listen=lambda port: True,
        free_gb=lambda path: 50.0,
        memory_gb=lambda: 24.0,
        jars=jars,
    )


def sentence(name: str, machine: doctor.Machine) -> str:
    """The one sentence with which `require` refuses."""
    with pytest.raises(GemlineError) as caught:
        doctor.require([name], machine)
    text = str(caught.value)
    assert "\n" not in text
    assert doctor.CHECKS[name](machine).mend in text
    return text


def with_versions(machine: doctor.Machine, **versions: str | None) -> doctor.Machine:
    found = VERSIONS | {name.replace("_", "-"): version for name, version in versions.items()}
    return replace(machine, version=found.get)


def test_a_whole_machine_passes_every_check(machine: doctor.Machine) -> None:
    doctor.require(doctor.CHECKS, machine)
    text, healthy = doctor.report(machine)
    assert healthy
    assert len(text.splitlines()) == len(doctor.CHECKS)
    assert "WRONG" not in text


def test_every_finding_carries_the_name_that_require_takes(machine: doctor.Machine) -> None:
    assert [found.name for found in doctor.findings(machine)] == list(doctor.CHECKS)


@pytest.mark.parametrize("found", [(3, 10), (3, 14), (2, 7)])
def test_python_out_of_range(machine: doctor.Machine, found: tuple[int, int]) -> None:
    text = sentence("python", replace(machine, python=found))
    assert f"Python {found[0]}.{found[1]}" in text and "PYTHON=python3.11" in text


def test_java_absent(machine: doctor.Machine) -> None:
    text = sentence("java", replace(machine, which=lambda name: None))
    assert "is not in PATH" in text and "openjdk-17" in text


@pytest.mark.parametrize(("banner", "number"), [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2"', 11)])
def test_java_too_old(machine: doctor.Machine, banner: str, number: int) -> None:
    assert f"Java {number} at /usr/bin/java" in sentence("java", replace(machine, java_text=lambda java: banner))


def test_java_home_wins_over_path_and_is_named_when_wrong(machine: doctor.Machine) -> None:
    broken = replace(
        machine,
        env={**machine.env, "JAVA_HOME": "/opt/jdk"},
        which=lambda name: None if name == "/opt/jdk/bin/java" else name,
    )
    assert "JAVA_HOME /opt/jdk" in sentence("java", broken)


def test_java_that_says_nothing(machine: doctor.Machine) -> None:
    assert "does not say its version" in sentence("java", replace(machine, java_text=lambda java: ""))


def test_compiler_absent_and_any_one_of_them_enough(machine: doctor.Machine) -> None:
    assert "no C++ compiler" in sentence("compiler", replace(machine, which=lambda name: None))
    clang = replace(machine, which=lambda name: name if name == "clang++" else None)
    assert doctor.check_compiler(clang).detail == "C++ compiler clang++"


def test_jars_absent(machine: doctor.Machine) -> None:
    next(machine.jars.glob("*delta-storage*")).unlink()
    text = sentence("jars", machine)
    assert "delta-storage" in text and "delta-spark" not in text and "make setup" in text


def test_both_builds_of_fbgemm(machine: doctor.Machine) -> None:
    text = sentence("packages", with_versions(machine, fbgemm_gpu="1.9.0"))
    assert "both installed" in text and "uninstall both" in text


def test_no_build_of_fbgemm(machine: doctor.Machine) -> None:
    assert "fbgemm-gpu or fbgemm-gpu-cpu is absent" in sentence("packages", with_versions(machine, fbgemm_gpu_cpu=None))


@pytest.mark.parametrize(
    ("package", "found", "wanted"),
    [("torch", "2.13.0", "2.14.1"), ("torchrec", "1.9.1", "1.9.2"), ("fbgemm-gpu-cpu", "1.8.0", "1.9.0")],
)
def test_a_wrong_version(machine: doctor.Machine, package: str, found: str, wanted: str) -> None:
    text = sentence("packages", with_versions(machine, **{package: found}))
    assert f"{package} is {found} where {wanted} is needed" in text


def test_torch_absent_and_the_cpu_wheel_accepted(machine: doctor.Machine) -> None:
    assert "torch is absent where" in sentence("packages", with_versions(machine, torch=None))
    assert doctor.check_packages(with_versions(machine, torch="2.14.1+cpu")).ok


def test_dagster_home_unset_relative_or_empty(machine: doctor.Machine, tmp_path: Path) -> None:
    assert "is not set" in sentence("dagster_home", replace(machine, env={}))
    assert "relative path" in sentence("dagster_home", replace(machine, env={"DAGSTER_HOME": "x"}))
    text = sentence("dagster_home", replace(machine, env={"DAGSTER_HOME": str(tmp_path)}))
    assert "holds no dagster.yaml" in text and str(tmp_path) in text


def test_home_that_cannot_be_written(machine: doctor.Machine, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder must be")
    text = sentence("home", replace(machine, env={"GEMLINE_HOME": str(blocked / "home")}))
    assert f"{blocked / 'home'} cannot be written" in text


def test_port_in_use_on_a_real_socket(machine: doctor.Machine) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        taken = replace(machine, env={"PORT": str(port)}, can_listen=doctor.can_listen)
        assert f"port {port} on 127.0.0.1 is in use" in sentence("port", taken)
    assert doctor.can_listen(port)


@pytest.mark.parametrize("text", ["0", "ui", "70000"])
def test_a_port_that_is_none(machine: doctor.Machine, text: str) -> None:
    assert f"PORT {text} is no port" in sentence("port", replace(machine, env={"PORT": text}))


def test_disk_and_memory_too_small(machine: doctor.Machine) -> None:
    assert "4.2 GB are free" in sentence("disk", replace(machine, free_gb=lambda path: 4.2))
    assert "6.0 GB of memory" in sentence("memory", replace(machine, memory_gb=lambda: 6.0))


def test_the_real_machine_is_measured(tmp_path: Path) -> None:
    assert doctor.free_gb(tmp_path / "not" / "there") > 0
    assert doctor.memory_gb() > 0
    assert doctor.installed_version("torch") and doctor.installed_version("no-such-package-here") is None


def test_report_shows_every_fault_at_once(machine: doctor.Machine) -> None:
    text, healthy = doctor.report(replace(machine, which=lambda name: None))
    assert not healthy
    wrong = [line.split()[1] for line in text.splitlines() if line.startswith("WRONG")]
    assert wrong == ["java", "compiler"]


def run_module(*names: str, path: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": path, "PYTHONPATH": str(Path(doctor.__file__).parents[1])}
    # -S: no site-packages, as before `make setup` has made an environment
    command = [sys.executable, "-S", "-m", "orchestration.doctor", *names]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_the_module_runs_without_any_package_and_fails_in_one_line(tmp_path: Path) -> None:
    ended = run_module("python", "java", path=str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr.startswith("Java, which Spark needs, is not in PATH") and ended.stderr.count("\n") == 1


def test_the_module_refuses_an_unknown_subject(tmp_path: Path) -> None:
    ended = run_module("jave", path=str(tmp_path))
    assert ended.returncode == 1 and "knows no jave" in ended.stderr
