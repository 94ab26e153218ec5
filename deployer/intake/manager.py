"""Which manager a unit is for, and what follows: its specifiers, its variables, its folders."""

from __future__ import annotations

import re

from deployer.intake.unknown import Unknowns
from deployer.protocol.records import dataclass
from deployer.systemd import specifiers
from deployer.systemd.parse import Unit

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
"""DEFAULT_PATH of systemd where /usr is merged (path-util.h, 252)."""
_FOLDERS = {"StateDirectory": ("STATE_DIRECTORY", "/var/lib"), "CacheDirectory": ("CACHE_DIRECTORY", "/var/cache"),
            "LogsDirectory": ("LOGS_DIRECTORY", "/var/log"), "RuntimeDirectory": ("RUNTIME_DIRECTORY", "/run"),
            "ConfigurationDirectory": ("CONFIGURATION_DIRECTORY", "/etc")}


@dataclass(frozen=True)
class Manager:
    """``user``: a user's own manager. ``specifiers`` have marks where only the host or the account knows."""

    user: bool
    specifiers: dict[str, str]
    unknowns: Unknowns
    default_folder: str

    def expand(self, text: str) -> str:
        """``text`` with its specifiers; as it is where one is none."""
        try:
            return specifiers.expand(text, self.specifiers)
        except specifiers.UnknownSpecifier:
            return text

    def base(self, unit: Unit) -> dict[str, str]:
        """The variables that the manager adds: they are not the unit's, but its command may name them."""
        account = unit.value("Service", "User")
        found = {"PATH": SYSTEM_PATH, "LANG": self.unknowns.variable("LANG")}
        if self.user:
            found |= {"HOME": self.specifiers["h"], "USER": self.specifiers["u"], "LOGNAME": self.specifiers["u"],
                      "PATH": self.unknowns.mark("${PATH}", ())}
        elif account or unit.value("Service", "DynamicUser"):
            name = self.expand(account) if account else self.unknowns.variable("USER")
            home = "/root" if name in ("root", "0") else self.unknowns.variable("HOME")
            found |= {"USER": name, "LOGNAME": name, "HOME": home,
                      "SHELL": "/bin/sh" if name == "root" else self.unknowns.variable("SHELL")}
        for name in ("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MAINPID", "CREDENTIALS_DIRECTORY",
                     "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "MANAGERPID"):
            found[name] = self.unknowns.variable(name)
        if not self.user:
            for key, (variable, folder) in _FOLDERS.items():
                names = [self.expand(word).partition(":")[0] for word in unit.words("Service", key)]
                if names:
                    found[variable] = ":".join(f"{folder}/{name}" for name in names)
        return found

    def folder(self, written: str, base: dict[str, str]) -> str:
        """``WorkingDirectory=`` as a path."""
        return base.get("HOME", self.unknowns.variable("HOME")) if written == "~" else self.expand(written)


def manager(unit: Unit, user: bool | None, home: str | None, name: str, unknowns: Unknowns) -> Manager:
    """The manager of a unit: a user's where ``user`` says so, or where only a user's manager would start it."""
    wanted = set(unit.words("Install", "WantedBy"))
    if user is None:
        account = unit.value("Service", "User") or unit.value("Service", "DynamicUser")
        user = "default.target" in wanted and "multi-user.target" not in wanted and not account
    values = {**specifiers.SYSTEM, **_instance(unit, name)}
    for letter in specifiers.HOST:
        values[letter] = unknowns.mark(f"%{letter}", (f"%{letter}",))
    if "@." in name and not values["i"]:
        for letter in "iI":
            values[letter] = unknowns.mark(f"%{letter}", (f"%{letter}",))
    if user:
        folder = home or unknowns.mark("${HOME}", ("%h",))
        account = home.rpartition("/")[2] if home and re.match(r"/home/[^/]+$", home) else None
        values |= {"h": folder, "u": account or unknowns.mark("${USER}", ("%u",)), "C": f"{folder}/.cache",
                   "E": f"{folder}/.config", "L": unknowns.mark("%L", ("%L",)), "S": unknowns.mark("%S", ("%S",)),
                   "t": unknowns.mark("${XDG_RUNTIME_DIR}", ("%t",)), "U": unknowns.mark("%U", ("%U",)),
                   "g": unknowns.mark("%g", ("%g",)), "G": unknowns.mark("%G", ("%G",)),
                   "s": unknowns.mark("${SHELL}", ("%s",))}
    return Manager(user, values, unknowns, values["h"] if user else "/")


def _instance(unit: Unit, name: str) -> dict[str, str]:
    """The specifiers of the name; a template without an instance is taken for its default one."""
    default = unit.value("Install", "DefaultInstance")
    if "@." in name and default:
        name = name.replace("@.", f"@{default}.", 1)
    return specifiers.of_unit(name)
