"""Commands of the admin's own machine before and after a push."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from deployer.protocol.outcome import Outcome
from deployer.rollout.view import View
from deployer.settings.model import Hook, UnitSettings


def before(settings: UnitSettings, host: str, release: str, view: View) -> str:
    """Runs the hooks before; the reason why the push must not begin, or "" when nothing speaks against it."""
    for hook in settings.hooks.before:
        problem = _run(hook, settings, _environment(settings, host, release, ""), host, "before", view)
        if problem and hook.on_failure == "stop":
            return problem
    return ""


def after(settings: UnitSettings, host: str, release: str, outcome: Outcome, view: View) -> None:
    """Runs the hooks after: what they come to is told, and changes nothing."""
    for hook in settings.hooks.after:
        _run(hook, settings, _environment(settings, host, release, outcome.value), host, "after", view)


def _environment(settings: UnitSettings, host: str, release: str, outcome: str) -> dict[str, str]:
    # Not DEPLOYER_UNIT: by that variable a process on a GPU host is proven to be a unit's.
    return {**os.environ, "DEPLOYER_HOOK_UNIT": settings.unit, "DEPLOYER_HOOK_HOST": host,
            "DEPLOYER_HOOK_RELEASE": release, "DEPLOYER_HOOK_OUTCOME": outcome}


def _run(hook: Hook, settings: UnitSettings, environment: dict[str, str], host: str, when: str, view: View) -> str:
    workspace = settings.file.parent.parent if settings.file else None
    command: Sequence[str] = hook.command
    view.tell(host, "hook", {"when": when, "command": list(command), "state": "begin"})
    try:
        ran = subprocess.run(command, env=environment, cwd=workspace, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=hook.timeout, check=False)
        output, problem = ran.stdout, f"ended with status {ran.returncode}" if ran.returncode else ""
    except subprocess.TimeoutExpired as error:
        output, problem = error.stdout or b"", f"gave no answer within {hook.timeout:.0f} s"
    except OSError as error:
        output, problem = b"", str(error.strerror)
    text = output.decode("utf-8", "replace").rstrip()
    view.tell(host, "hook", {"when": when, "command": list(command), "state": "failed" if problem else "done",
                             "output": text, "text": problem})
    return f"the hook {command[0]} {problem}" if problem else ""
