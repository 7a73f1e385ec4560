"""Delta's jars: an absent one is named with its mend; a failed fetch leaves nothing that passes for one."""

from pathlib import Path

import pytest

from features import jars
from features.errors import GemlineError


def test_an_absent_jar_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMLINE_JARS", str(tmp_path))
    (tmp_path / f"io.delta_{jars.NEEDED[0]}.jar").touch()
    with pytest.raises(GemlineError, match=rf"delta-storage-4\.4\.0 is not in .*{tmp_path.name}; run `make setup`"):
        jars.jar_paths()


def test_half_a_jar_is_none(tmp_path: Path) -> None:
    for name in jars.NEEDED:
        (tmp_path / f"io.delta_{name}.jar.part").touch()
    assert jars.missing_jars(tmp_path) == list(jars.NEEDED)


def test_all_kept_jars_are_given_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMLINE_JARS", str(tmp_path))
    for name in (*jars.NEEDED, "delta-kernel-api-4.4.0"):
        (tmp_path / f"io.delta_{name}.jar").touch()
    assert [Path(path).name for path in jars.jar_paths()] == [
        "io.delta_delta-kernel-api-4.4.0.jar",
        "io.delta_delta-spark_4.1_2.13-4.4.0.jar",
        "io.delta_delta-storage-4.4.0.jar",
    ]


def test_a_resolver_that_cannot_start_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(GemlineError, match=r"could not be fetched; check the network, then `make setup`: .+"):
        jars.fetch(tmp_path / "jars")
    assert not (tmp_path / "jars").exists()
