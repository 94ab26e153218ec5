"""Hand edits on a host: shown apart from what a push would change, and known where the settings declare them by now."""

from __future__ import annotations

import re

import pytest

from deployer.cli.diff import _show
from deployer.protocol import records
from deployer.protocol.expectations import Expectations
from deployer.protocol.facts import Facts, GpuReading, HostFacts, InstalledFile, UnitFacts
from deployer.protocol.finding import Finding, Level, Where
from deployer.render.model import File, Release
from deployer.rollout.changes import changes
from deployer.rollout.diff import Difference
from deployer.rollout.drift import again, as_pushed, hand_edits, taken_over
from deployer.rollout.preflight import judge
from deployer.settings.model import UnitSettings, Venv

PATH = "/etc/systemd/system/q.service"
HAND = f"{PATH}.d/hand.conf"
EXEC = "ExecStart=/v/bin/python -m sglang.launch_server --model-path /m --port {port}\n"
PUSHED = "[Service]\nRestartSec=10\n" + EXEC.format(port=1)
SETTINGS = UnitSettings("q", Venv("/v/bin/python"), "0.5.9")


def installed(path: str, text: str | None, mode: int = 0o644) -> InstalledFile:
    return InstalledFile(path, "x" if text is not None else "", mode, "root:root", text)


def facts(host: str | None, dropin: str | None = None, *, mode: bool = False) -> Facts:
    """A host whose unit was pushed as ``PUSHED`` and is now ``host``; ``dropin`` was added by hand."""
    drift = []
    if host is None:
        drift.append(Finding("drift-removed", Level.ERROR, f"{PATH} was removed by hand", where=Where(PATH)))
    elif host != PUSHED:
        drift.append(Finding("drift-edited", Level.ERROR, f"{PATH} was edited by hand", where=Where(PATH)))
    elif mode:
        drift.append(Finding("drift-mode", Level.ERROR, f"{PATH} has mode 0600 …", where=Where(PATH)))
    files = [installed(PATH, host, 0o600 if mode else 0o644)]
    if dropin is not None:
        drift.append(Finding("drift-added", Level.ERROR, f"{HAND} was added by hand", where=Where(HAND)))
        files.append(installed(HAND, dropin))
    pushed = (installed(PATH, PUSHED),) if host != PUSHED or mode else ()
    argv = ["/v/bin/python", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "1"]
    unit = UnitFacts("q.service", {}, tuple(files), 1, "d", tuple(drift), ({"number": 1, "argv": argv},), pushed)
    return Facts(HostFacts("gpu1", "b", "6", "Debian", 252, "3.11", 1, 1), unit, GpuReading(), (), ())


def release(text: str, *argv: str) -> Release:
    return Release("q.service", (File(PATH, 0o644, "root:root", text),), argv, {}, "d2", Expectations())


def shown(found: Facts, declared: Release, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    _show(Difference("gpu1", "q.service", changes(declared, as_pushed(found), False, "pushed"), hand_edits(found),
                     taken_over(SETTINGS, declared, found)))
    said = capsys.readouterr()
    return said.out, said.err


def test_an_edit_is_apart_from_what_the_push_would_change(capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(PUSHED.replace("=10", "=77"))
    out, err = shown(found, release(PUSHED.replace("--port 1", "--port 2"), "x", "--model-path", "/m", "--port", "2"),
                     capsys)
    change, edit = out.split(f"+++ host:{PATH.rpartition('/')[2]}")
    assert "RestartSec=77" not in change and "--port 2" not in edit
    assert "-RestartSec=10\n+RestartSec=77" in edit
    assert err.count("edited by hand") == 1
    assert err.count("--port 1 → 2") + err.count("--port: 1 → 2") == 1
    assert "deployer adopt gpu1 -u q takes it over; deployer push gpu1 -u q --overwrite-drift discards it" in err
    assert "the settings declare what was edited" in shown(found, release(PUSHED.replace("=10", "=77")), capsys)[1]


def test_only_an_edit_is_nothing_to_push_yet_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    for found in (facts(PUSHED.replace("=10", "=77")), facts(PUSHED, "[Service]\nNice=3\n"), facts(None)):
        out, err = shown(found, release(PUSHED), capsys)
        assert "nothing to push" in err and "declared:" not in out
        assert re.search(r"^--- pushed:.*\n\+\+\+ host:", out)


def test_a_mode_has_no_diff_and_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(facts(PUSHED, mode=True), release(PUSHED), capsys)
    assert out == "" and err.count("has mode 0600") == 1


def test_arguments_are_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(facts(PUSHED), release(PUSHED + "# more\n", "x", "--model-path", "/n", "--port", "3"), capsys)
    assert err == "gpu1 q: a push changes 2 arguments\n  --model-path: /m → /n\n  --port: 1 → 3\n"
    assert "+# more" in out


EDITED = PUSHED.replace("--port 1", "--port 1 --tp-size 2")


@pytest.mark.parametrize(("found", "declared", "expected"), [
    (facts(EDITED), EDITED, True),
    (facts(EDITED), EDITED.replace("/m", "'/m'") + "# a remark\n", True),
    (facts(PUSHED, "[Service]\nNice=3\n"), PUSHED + "Nice=3\n", True),
    (facts(EDITED), PUSHED, False),
    (facts(EDITED), EDITED + "Nice=3\n", False),
    (facts(None), PUSHED, False),
    (facts(PUSHED, mode=True), PUSHED, False),
    (facts(PUSHED), PUSHED, False),
])
def test_settings_that_declare_the_edit(found: Facts, declared: str, expected: bool) -> None:
    assert taken_over(SETTINGS, release(declared), found) is expected


@pytest.mark.parametrize(("declared", "other", "words"), [
    (EDITED, False, "deployer push gpu1 -u q --overwrite-drift (the settings declare what was edited by hand)"),
    (EDITED, True, "put it right, then: deployer push gpu1 -u q --overwrite-drift (the settings declare what was "
                   "edited by hand)"),
    (PUSHED, False, "deployer diff gpu1 -u q shows it; deployer adopt gpu1 -u q takes it over; "
                    "deployer push gpu1 -u q --overwrite-drift discards it"),
])
def test_the_next_command_of_a_refusal(declared: str, other: bool, words: str) -> None:
    found = facts(EDITED)
    errors = [*judge(SETTINGS, release(declared), found), *([Finding("port-held", Level.ERROR, "x")] if other else [])]
    errors = [finding for finding in errors if finding.code.startswith("drift-") or finding.code == "port-held"]
    assert again("gpu1", SETTINGS, release(declared), found, errors) == words
    assert ("by now" in errors[0].hint) is (declared == EDITED)
    assert again("gpu1", SETTINGS, release(declared), found, [Finding("disk-full", Level.ERROR, "x")]) == ""


def test_a_file_whose_pushed_text_is_lost_stays_as_it_is() -> None:
    found = facts(EDITED)
    lost = records.replace(found, unit=records.replace(found.unit, pushed=(installed(PATH, None),)))
    assert as_pushed(lost).unit.files == found.unit.files
    assert hand_edits(lost)[0].diff == ""
