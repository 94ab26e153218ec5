"""What a push would change, from rendered files and the host's facts."""

from __future__ import annotations

from deployer.protocol.expectations import Expectations
from deployer.protocol.facts import Facts, GpuReading, HostFacts, InstalledFile, UnitFacts
from deployer.protocol.finding import Finding
from deployer.render.model import File, Release, SecretText
from deployer.rollout.changes import arguments, changes

PATH = "/etc/systemd/system/q.service"
SECRET = "/etc/deployer/q/sglang.yaml"
UNIT = InstalledFile(PATH, "x", 0o644, "root:root", "a\n")
KEY = InstalledFile(SECRET, "y")


def facts(*files: InstalledFile, drift: tuple[Finding, ...] = (), argv: tuple[str, ...] = ()) -> Facts:
    host = HostFacts("gpu1", "b", "6", "Debian", 252, "3.11", 1, 1)
    unit = UnitFacts("q.service", {}, files, 1, "d", drift, ({"number": 1, "argv": list(argv)},))
    return Facts(host, unit, GpuReading(), (), ())


def release(text: str, *argv: str) -> Release:
    files = (File(PATH, 0o644, "root:root", text), File(SECRET, 0o600, "root:root", SecretText((), "yaml")))
    return Release("q.service", files, argv, {}, "d2", Expectations())


def test_nothing_to_change() -> None:
    found = changes(release("a\n"), facts(UNIT, KEY), False)
    assert not found
    assert found.words() == "nothing to change"


def test_a_changed_argument_is_named_with_both_values() -> None:
    old = ("python", "-m", "sglang.launch_server", "--port", "1", "--enable-metrics")
    found = changes(release("b\n", "python", "-m", "sglang.launch_server", "--port", "2", "--tp-size", "8"),
                    facts(UNIT, KEY, argv=old), False)
    assert found.arguments == {"--port": ("1", "2"), "--tp-size": (None, "8"), "--enable-metrics": ("", None)}
    assert found.words() == "--port 1 → 2; --tp-size (absent) → 8; --enable-metrics (on) → (absent)"
    assert found.files[0].diff == f"--- host:{PATH}\n+++ declared:q.service\n@@ -1 +1 @@\n-a\n+b\n"


def test_a_secret_that_changed_is_a_change_without_a_text() -> None:
    found = changes(release("a\n"), facts(UNIT, KEY), True)
    assert found and found.secrets and not found.files
    assert found.words() == "secrets"


def test_files_that_are_too_many_are_removed() -> None:
    dropin = "/etc/systemd/system/q.service.d/hand.conf"
    found = changes(release("a\n"), facts(
        UNIT, KEY,
        InstalledFile(dropin, "z", 0o644, "root:root", "[Service]\n")), False)
    assert [(change.path, change.kind) for change in found.files] == [(dropin, "removed")]


def test_values_of_several_words_belong_together() -> None:
    assert arguments(["--cuda-graph-bs", "1", "2"], ["--cuda-graph-bs", "1", "2", "4"]) == {
        "--cuda-graph-bs": ("1 2", "1 2 4")}
