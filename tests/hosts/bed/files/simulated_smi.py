"""The simulated nvidia-smi. What it says of processes is true: it looks in /proc who has /dev/nvidiaN open.

A holder declares its memory by the names of anonymous files that it keeps open, ``memfd:gpuN=MIB MiB``; so memory is in
use exactly as long as the process lives, and ending the wrong process frees nothing. Which GPUs there are stands in
/etc/gpu.json, what a real driver's bad days look like in /run/gpu/switches.json (see the bed's README).

The agent starts it several times a second: it imports only what Python has loaded anyway (no json, no re).
"""
from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Table = dict[str, Any]
    Cell = str | int | tuple[str | int, str] | None
    Row = str | list[Cell]

CONFIG = "/etc/gpu.json"
STATE = "/run/gpu"
OUTER = STATE + "/proc"
"""Where the driver sees processes outside this PID namespace (the /proc of the machine around it), if anywhere."""

HELP = "Option {} is not recognized. Please run 'nvidia-smi -h'."


def main(arguments: list[str]) -> int:
    """Answers as nvidia-smi does; returns the exit status."""
    switches = load(STATE + "/switches.json", {})
    options = dict(word.lstrip("-").partition("=")[::2] for word in arguments)
    query = next((name for name in ("query-gpu", "query-compute-apps") if name in options), "")
    misbehave(switches, query)
    answer = switches.get("answers", {}).get(query or "plain")
    if answer:
        sys.stdout.write(answer.get("out", ""))
        sys.stderr.write(answer.get("err", ""))
        return int(answer.get("code", 0))
    config = load(CONFIG, {"gpus": []})
    if not config["gpus"]:
        print("No devices were found")
        return 6
    gpus = [Gpu(index, entry, config, switches) for index, entry in enumerate(config["gpus"])]
    holders = find_holders()
    leaving = torn_down(holders, switches)
    for gpu in gpus:
        gpu.use(holders, leaving)
    plain = "nounits" in options.get("format", "").split(",")
    header = "noheader" not in options.get("format", "").split(",")
    if query:
        names = options[query].split(",")
        rows = gpu_rows(gpus, names) if query == "query-gpu" else app_rows(gpus, holders, names, switches)
        if header:
            print(", ".join(label(name, plain) for name in names))
        return show(rows, plain)
    if "L" in options:
        for gpu in gpus:
            print(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        return 0
    if not options:
        return table(gpus, holders)
    print(HELP.format(arguments[0]))
    return 2


class Gpu:
    """One GPU with its memory in MiB."""

    def __init__(self, index: int, entry: Table, config: Table, switches: Table) -> None:
        self.index = index
        self.name = entry.get("name", "NVIDIA RTX PRO 6000 Blackwell Server Edition")
        self.uuid = entry["uuid"]
        self.bus = entry.get("bus_id", f"00000000:{0x11 + index:02X}:00.0")
        self.total = entry.get("total", 97887)
        self.reserved = entry.get("reserved", 0)
        self.driver = config.get("driver", "580.95.05")
        self.lost = index in switches.get("lost", ())
        self.hidden = int(switches.get("hidden", {}).get(str(index), 0))
        self.overrides = switches.get("fields", {}).get(str(index), {})
        self.used = 0

    def use(self, holders: list[Holder], leaving: dict[int, int]) -> None:
        self.used = self.hidden + sum(h.memory.get(self.index, 0) for h in holders) + leaving.get(self.index, 0)
        self.used = min(self.used, self.total)

    def farewell(self) -> str:
        """The line that stands where a lost GPU's row would."""
        return (f"Unable to determine the device handle for GPU{self.index}: {self.bus[4:]}: GPU is lost.  "
                "Reboot the system to recover this GPU")

    def field(self, name: str) -> Cell:
        values = {
            "index": self.index, "uuid": self.uuid, "gpu_uuid": self.uuid, "name": self.name, "gpu_name": self.name,
            "pci.bus_id": self.bus, "gpu_bus_id": self.bus, "driver_version": self.driver, "count": "1",
            "memory.total": (self.total, "MiB"), "memory.used": (self.used, "MiB"),
            "memory.free": (self.total - self.used - self.reserved, "MiB"), "memory.reserved": (self.reserved, "MiB"),
            "utilization.gpu": (0, "%"), "utilization.memory": (0, "%"), "mig.mode.current": "Disabled",
            "mig.mode.pending": "Disabled", "compute_mode": "Default", "persistence_mode": "Enabled",
            "temperature.gpu": 31, "power.draw": ("60.00", "W"), "power.limit": ("600.00", "W"), "pstate": "P8",
            "compute_cap": "12.0", "serial": "[N/A]", "ecc.mode.current": "Enabled", "display_active": "Disabled",
            "ecc.errors.uncorrected.volatile.total": 0, "clocks_event_reasons.active": "0x0000000000000001",
        }
        told: Cell = self.overrides.get(name, values.get(name))
        return told


class Holder:
    """A process with a GPU open; ``memory`` by GPU index."""

    def __init__(self, pid: int, start: int, name: str, memory: dict[int, int], visible: bool) -> None:
        self.pid = pid
        self.start = start
        self.name = name
        self.memory = memory
        self.visible = visible


def find_holders() -> list[Holder]:
    outer = os.path.isdir(OUTER + "/1")
    return list(look(OUTER, outside=True) if outer else look("/proc", outside=False))


def look(proc: str, outside: bool) -> Iterator[Holder]:
    """All holders in ``proc``. Seen from within a container, those of other PID namespaces have no pid to show."""
    own = os.readlink("/proc/self/ns/pid")
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        base = proc + "/" + entry
        memory: dict[int, int] = {}
        open_devices: set[int] = set()
        try:
            for handle in os.listdir(base + "/fd"):
                target = link(base + "/fd/" + handle)
                if target.startswith("/memfd:gpu"):
                    index, mib = (int(word) for word in target[10:].partition("MiB")[0].split("="))
                    memory[index] = memory.get(index, 0) + mib
                elif target.startswith("/dev/nvidia") and target[11:].isdigit():
                    open_devices.add(int(target[11:]))
            memory = {index: mib for index, mib in memory.items() if index in open_devices}
            if not memory:
                continue
            with open(base + "/stat") as file:
                start = int(file.read().rpartition(")")[2].split()[19])
            pid, visible = int(entry), True
            if outside:
                visible = link(base + "/ns/pid") == own
                with open(base + "/status") as file:
                    pid = int(next(line for line in file if line.startswith("NSpid:")).split()[-1])
            with open(base + "/cmdline", "rb") as file:
                name = file.read().split(b"\0")[0].decode("utf-8", "replace").strip()
            yield Holder(pid, start, name or "[Not Found]", memory, visible)
        except (OSError, ValueError):
            continue


def torn_down(holders: list[Holder], switches: Table) -> dict[int, int]:
    """Memory (MiB by GPU index) of processes that are gone while the driver still takes it back."""
    rule = switches.get("teardown")
    if not rule:
        return {}
    file = STATE + "/seen.json"
    seen = load(file, {})
    living = {f"{h.pid}.{h.start}": h.memory for h in holders}
    leaving: dict[int, int] = {}
    kept: Table = {}
    now = time.monotonic()
    for key, memory in living.items():
        kept[key] = {"memory": memory}
    for key, entry in seen.items():
        if key in living:
            continue
        entry.setdefault("gone", now)
        entry["asked"] = entry.get("asked", 0) + 1
        if now - entry["gone"] < rule.get("seconds", 0) or entry["asked"] <= rule.get("queries", 0):
            kept[key] = entry
            for index, mib in entry["memory"].items():
                leaving[index] = leaving.get(index, 0) + mib
    with open(file + ".new", "w") as out:
        out.write(repr(kept))
    os.rename(file + ".new", file)
    return leaving


def misbehave(switches: Table, query: str) -> None:
    """Waits, hangs or fails as a whole, where the switches say so."""
    if switches.get("delay"):
        time.sleep(switches["delay"])
    hang = switches.get("hang")
    if hang and (hang is True or query in hang):
        import signal  # with enum a third of the start

        if switches.get("deaf"):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        os.makedirs(STATE + "/hung", exist_ok=True)
        open(f"{STATE}/hung/{os.getpid()}", "w").close()
        while True:
            signal.pause()


def gpu_rows(gpus: list[Gpu], names: list[str]) -> Iterator[Row]:
    for gpu in gpus:
        if gpu.lost:
            yield gpu.farewell()
            continue
        row = [gpu.field(name) for name in names]
        if None in row:
            yield f'Field "{names[row.index(None)]}" is not a valid field to query.'
            return
        yield row


def app_rows(gpus: list[Gpu], holders: list[Holder], names: list[str], switches: Table) -> Iterator[Row]:
    overrides = switches.get("apps", {})
    for gpu in gpus:
        if gpu.lost:
            yield gpu.farewell()
            continue
        for holder in sorted(holders, key=lambda holder: holder.pid):
            if gpu.index not in holder.memory or not holder.visible or switches.get("no_processes"):
                continue
            mib = (holder.memory[gpu.index], "MiB")
            values = {
                "gpu_uuid": gpu.uuid, "gpu_name": gpu.name, "gpu_bus_id": gpu.bus, "gpu_serial": "[N/A]",
                "pid": holder.pid, "process_name": holder.name, "name": holder.name,
                "used_memory": mib, "used_gpu_memory": mib, "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
            }
            row = [overrides.get(name, values.get(name)) for name in names]
            if None in row:
                yield f'Field "{names[row.index(None)]}" is not a valid field to query.'
                return
            yield row


def show(rows: Iterator[Row], plain: bool) -> int:
    code = 0
    for row in rows:
        if isinstance(row, str):
            print(row)
            code = 2 if row.startswith("Field") else 15
            continue
        cells = [value if isinstance(value, tuple) else (value, "") for value in row]
        print(", ".join(str(value) if plain or not unit else f"{value} {unit}" for value, unit in cells))
    return code


def label(name: str, plain: bool) -> str:
    unit = " [MiB]" if "memory" in name and not name.startswith("utilization") else ""
    return name if plain else name + unit


def table(gpus: list[Gpu], holders: list[Holder]) -> int:
    """The plain form, for people."""
    print(f"NVIDIA-SMI 580.95.05    Driver Version: {gpus[0].driver}    CUDA Version: 13.0")
    for gpu in gpus:
        print(f"| {gpu.index:>3}  {gpu.name:<44} {gpu.used:>7}MiB / {gpu.total:>6}MiB |")
    print("| Processes:")
    for gpu in gpus:
        for holder in holders:
            if gpu.index in holder.memory and holder.visible:
                print(f"| {gpu.index:>3}  {holder.pid:>9}  C  {holder.name:<32} {holder.memory[gpu.index]:>7}MiB |")
    return 0


def load(path: str, otherwise: Table) -> Table:
    """A JSON file of the bed's own, read as the Python that it nearly is: json itself takes half of the start."""
    try:
        with open(path) as file:
            known: Table = eval(file.read(), {"true": True, "false": False, "null": None})
            return known
    except (OSError, SyntaxError):
        return otherwise


def link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

