"""What systemd itself ends or refuses. Exit statuses: systemd.exec(5), "Process Exit Codes"."""

from __future__ import annotations

from typing import Tuple

from deployer.agent.log.known import Known
from deployer.agent.log.signs import SAID, Cause, Remedy, Seen, Sign, sign


def _fixed(text: str) -> Remedy:
    return lambda known, seen: text


def _exec(known: Known, seen: Seen) -> str:
    program = seen.match["program"] if seen.match and "program" in seen.match.re.groupindex else ""
    return (
        "Correct ExecStart= of the unit: {} cannot be run. It must exist, be executable, and its interpreter (the "
        "first line of a script, the python that a venv links to) must exist too; after an upgrade of the venv push "
        "the unit again."
    ).format(program or "its program")


def _step(name: str) -> str:
    return r"Failed at step {} spawning (?P<program>.+?):".format(name)


def _at_step(step: str, status: int, said: str, better: int = 3) -> Tuple[Sign, ...]:
    """Signs of a step before the program's own start: systemd's word of the step, what it ``said`` of it, the status.

    ``better``: the strength of what it said, 2 where the word of the step tells more.
    """
    return (
        sign("Failed at step {}".format(step), _step(step), SAID, 5 - better), sign(said, kind=SAID, strength=better),
        sign("status={}/{}".format(status, step), kind=SAID),
    )


def _timeout(known: Known, seen: Seen) -> str:
    return (
        "Set TimeoutStartSec= of the unit longer than the slowest load (cold page cache, first kernel compilation): "
        "systemd ended a start that was still running. With Type=exec or simple the start does not wait for the model "
        "at all; with Type=notify something must report readiness, which SGLang does not."
    )


CAUSES = (
    Cause("exec-failed", 1, "the program of ExecStart= cannot be run (203/EXEC)", _exec, (
        sign("Failed at step EXEC", _step("EXEC"), SAID, 3),
        sign("to locate executable", r"(?:Failed|Unable) to locate executable '?(?P<program>[^':]+)'?:", SAID, 2),
        sign("Failed to execute", r"^\S+\.service: Failed to execute (?:command|(?P<program>/[^:]+)):", SAID, 2),
        sign("status=203/EXEC", kind=SAID),
    )),
    Cause("user-missing", 1, "the account of the unit does not exist (217/USER, 216/GROUP)", _fixed(
        "Create the account (useradd --system) or correct User= and Group= of the unit."), (
        sign("Failed at step USER", _step("USER"), SAID, 3),
        sign("Failed at step GROUP", _step("GROUP"), SAID, 3),
        sign("Failed to determine user credentials", kind=SAID, strength=2),
        sign("status=217/USER", kind=SAID),
        sign("status=216/GROUP", kind=SAID),
    )),
    Cause("chdir-failed", 1, "the working directory cannot be entered (200/CHDIR)", _fixed(
        "Correct WorkingDirectory= of the unit: the directory must exist and be open to the unit's user; a leading "
        "'-' makes it optional."), _at_step("CHDIR", 200, "Changing to the requested working directory failed", 2)),
    Cause("namespace-failed", 1, "the unit's sandbox cannot be set up (226/NAMESPACE)", _fixed(
        "A path named in ReadWritePaths=, ReadOnlyPaths=, BindPaths= or InaccessiblePaths= does not exist, or the "
        "host (an unprivileged container) allows no mount namespaces: create the path, put '-' before it, or drop the "
        "directive."), _at_step("NAMESPACE", 226, "Failed to set up mount namespacing")),
    Cause("credentials-failed", 1, "a credential of the unit cannot be loaded (243/CREDENTIALS)", _fixed(
        "The source of a LoadCredential directive is missing or unreadable for systemd: create it (root, mode 0600) "
        "or push the unit again, which writes it."), _at_step("CREDENTIALS", 243, "Failed to set up credentials")),
    Cause("unit-resources", 1, "systemd cannot read what the unit refers to", _fixed(
        "A file of EnvironmentFile= is missing, unreadable or not valid UTF-8: create or correct it, or put '-' "
        "before its path where it is optional."), (
        sign("Failed to load environment files", kind=SAID, strength=3),
        sign("Failed to run 'start' task", kind=SAID, strength=2),
    )),
    Cause("sigterm-during-start", 80, "stopped from outside before it was ready", _fixed(
        "Nothing was wrong with the server: somebody or something stopped it. Start it again when it is meant to "
        "run.")),
    Cause("start-timeout", 81, "systemd ended a start that was still running", _timeout),
    Cause("start-limit-hit", 90, "systemd gave up after too many failed starts, and the log holds no better cause",
        _fixed(
        "Repair the step that fails before SGLang runs (mostly an ExecStartPre= check: run its command by hand as the "
        "unit's user), then `systemctl reset-failed UNIT` and start again.")),
    Cause("start-pre-failed", 91, "a command before or after the server's own failed", _fixed(
        "Run the commands of ExecStartPre= and ExecStartPost= by hand as the unit's user and repair the one that "
        "fails.")),
)

STATUSES = {
    203: "exec-failed", 216: "user-missing", 217: "user-missing", 200: "chdir-failed", 226: "namespace-failed",
    243: "credentials-failed",
}
"""Exit statuses of systemd's own, of a process that never became the program."""
