"""The version of the systemd that runs: from the library that PID 1 has loaded, by every distribution's naming."""

from __future__ import annotations

import pytest

from deployer.agent.facts import host

MAPS = {
    "/usr/lib/x86_64-linux-gnu/systemd/libsystemd-core-252.so": 252,
    "/usr/lib/systemd/libsystemd-shared-247.so": 247,
    "/usr/lib/systemd/libsystemd-core-252-18.el9_2.3.so": 252,
    "/usr/lib/systemd/libsystemd-shared-257.7-1.fc42.so": 257,
    "/lib/systemd/libsystemd-shared-255.so (deleted)": 255,
}


@pytest.mark.parametrize(("library", "version"), MAPS.items())
def test_the_number_in_the_name_of_the_library(library: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"7f01-7f02 r--p 00000000 00:2f 1234 {library}\n7f03-7f04 r--p 00000000 00:2f 99 /lib/libsystemd.so.0.35\n"
    monkeypatch.setattr(host.os.path, "isdir", lambda path: True)
    monkeypatch.setattr(host, "_read", {"/proc/1/maps": text}.__getitem__)
    monkeypatch.setattr(host, "run", None)
    assert host.systemd_version() == version
