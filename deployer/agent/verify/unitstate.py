"""The unit as systemd tells it and as its control group shows it: one ``systemctl show`` and a few small files."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

from deployer.agent.door import run

PROPERTIES = (
    "LoadState", "LoadError", "ActiveState", "SubState", "Result", "MainPID", "NRestarts", "ExecMainCode",
    "ExecMainStatus", "InvocationID", "ControlGroup", "Job", "ConditionResult", "ConditionTimestampMonotonic",
    "StandardOutput", "StandardError", "LogNamespace",
)
_ROOTS = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup", "/sys/fs/cgroup/unified")
"""Where the hierarchy that systemd itself uses may lie: legacy and hybrid, unified, and hybrid again."""
_TO_JOURNAL = ("", "inherit", "journal", "journal+console", "kmsg", "kmsg+console", "syslog", "syslog+console", "tty")


def show(unit: str) -> Dict[str, str]:
    """The properties as text; empty where systemd did not answer in time."""
    ran = run(["systemctl", "show", "--property=" + ",".join(PROPERTIES), "--", unit], timeout=10)
    return dict(line.partition("=")[::2] for line in ran.out.splitlines() if "=" in line)


def invocation(unit: str) -> str:
    """The invocation that runs, as systemd leaves it for journald; "" where none does. Takes no program."""
    try:
        return os.readlink("/run/systemd/units/invocation:" + unit)
    except OSError:
        return ""


def value(state: Dict[str, str]) -> Dict[str, Any]:
    """The observation's value of these properties, with the control group's processes and the main one's argv."""
    main = _number(state.get("MainPID"))
    error = state.get("LoadError", "").strip('"')
    return {
        "load": state.get("LoadState", ""), "load_error": error.split(' "', 1)[-1].strip('"') if error else "",
        "active": state.get("ActiveState", ""), "sub": state.get("SubState", ""), "result": state.get("Result", ""),
        "main_pid": main, "restarts": _number(state.get("NRestarts")), "exit_code": state.get("ExecMainCode", ""),
        "exit_status": state.get("ExecMainStatus", ""), "invocation": state.get("InvocationID", ""),
        "job": state.get("Job", "0") not in ("", "0"), "condition": _condition(state),
        "pids": list(pids(state.get("ControlGroup", ""), main)), "argv": list(argv(main)) if main else [],
        "elsewhere": not logs_to_journal(state),
    }


def _condition(state: Dict[str, str]) -> str:
    """"yes" or "no"; "" where none was ever tested, which systemd shows as "no" as well."""
    return state.get("ConditionResult", "") if _number(state.get("ConditionTimestampMonotonic")) else ""


def logs_to_journal(state: Dict[str, str]) -> bool:
    """Whether what SGLang logs (on standard error) reaches the journal."""
    if state.get("LogNamespace"):
        return False
    error = state.get("StandardError", "")
    return (state.get("StandardOutput", "") if error in ("", "inherit") else error) in _TO_JOURNAL


def _number(text: Optional[str]) -> int:
    return int(text) if text and text.isdigit() else 0


def group_folder(group: str) -> Optional[str]:
    """The folder of a control group as ``ControlGroup`` names it."""
    if not group:
        return None
    for root in _ROOTS:
        folder = root + group
        if os.path.exists(os.path.join(folder, "cgroup.procs")):
            return folder
    return None


def pids(group: str, main: int = 0) -> Tuple[int, ...]:
    """The processes of a control group and of those below it; by descent from ``main`` where there is none."""
    folder = group_folder(group)
    found: List[int] = []
    if folder is not None:
        for path, _, _ in os.walk(folder):
            found.extend(_numbers(os.path.join(path, "cgroup.procs")))
    return tuple(found) if found or not main else tuple(_descendants(main))


def _descendants(pid: int) -> List[int]:
    found: List[int] = []
    queue = [pid]
    while queue and len(found) < 4096:
        current = queue.pop()
        found.append(current)
        queue.extend(_numbers("/proc/{0}/task/{0}/children".format(current)))
    return found


def _numbers(path: str) -> List[int]:
    try:
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def argv(pid: int) -> Tuple[str, ...]:
    """The command line of a process; empty when it is gone."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as file:
            raw = file.read()
    except OSError:
        return ()
    return tuple(word.decode("utf-8", "replace") for word in raw.split(b"\0")[:-1])
