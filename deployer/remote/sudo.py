"""sudo: what it says when it refuses, and what the admin can do about it."""

from __future__ import annotations

import re

from deployer.errors import HostError, SudoError
from deployer.protocol import patterns

TRIES = 3
"""Passwords sent to one sudo at most; sudo's own ``passwd_tries`` may be lower."""

NEEDS_TTY = patterns.compile(r"(?i)must have a tty|no tty present|a terminal is required|need a terminal")

_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (r"(?i)is not in the sudoers file|may not run sudo|is not allowed to run sudo|unknown user in sudoers",
     "{user} may not use sudo",
     "let root add {user} to the sudoers there (`sudo visudo`), or log in as another user (user = … in hosts.toml)"),
    (r"(?i)is not allowed to execute|not allowed to run",
     "sudo lets {user} run only some commands, and a root shell is not among them",
     "the sudoers rule must allow all commands: `{user} ALL=(root) ALL`, or NOPASSWD: ALL"),
    (r"(?i)setuid bit|effective uid is not 0|no new privileges|nosuid",
     "sudo cannot become root there",
     "repair sudo on the host (`ls -l $(command -v sudo)`), or log in as root"),
    (r"(?i)incorrect password|authentication failure|incorrect authentication|maximum \d+ .*attempts",
     "sudo did not accept the password for {user}",
     "try `ssh {target} sudo -v`; the password is the one that sudo asks {user} for on that host"),
    (r"(?i)account validation failure|password has expired|account has expired|account or password is expired",
     "sudo refuses {user}: the account or its password has expired",
     "renew it there: `ssh -t {target} passwd`"),
    (r"(?i)timed out reading password",
     "sudo gave up waiting for the password", "run the command again"),
    (r"(?i)parse error|syntax error|no valid sudoers|unable to (?:stat|open) /etc/sudoers|unable to initialize",
     "sudo on the host is broken",
     "repair it there as root: `visudo -c`"),
    (r"(?i)command not found|sudo: not found", "sudo is not installed on the host",
     "install it there, or log in as root (user = \"root\" in hosts.toml)"),
)


def refusal(host: str, user: str, target: str, said: str) -> SudoError | None:
    """The error for what sudo printed (``said``), or None where it is none of sudo's refusals."""
    for pattern, message, hint in _REFUSALS:
        if re.search(pattern, said):
            words = {"user": user, "target": target}
            last = _sudo_line(said)
            return SudoError(host, message.format(**words) + (f" ({last})" if last else ""),
                             hint=hint.format(**words))
    return None


def nobody_to_ask(host: str, user: str, target: str) -> HostError:
    """sudo wants a password and there is neither a terminal nor an askpass program."""
    return SudoError(
        host, f"sudo asks for {user}'s password, and there is nobody to ask",
        hint=f"run this on a terminal, set SUDO_ASKPASS, or allow {user} sudo without a password "
             f"(`{user} ALL=(root) NOPASSWD: ALL`)")


def _sudo_line(said: str) -> str:
    # It quotes the whole command line that it was given.
    said = re.sub(r"(?s)'(\S*sh) -c .*?' as ", r"'\1' as ", said)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    own = [line for line in lines if re.match(r"(?i)sudo(?:-rs)?:|sorry,", line)]
    return (own or lines or [""])[-1][:200]
