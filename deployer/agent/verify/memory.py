"""The gate of GPU memory, and its curve. Pure. Memory in MiB; None is not known, never 0."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from deployer.agent.verify.say import fails, gib, passes, skips, waits
from deployer.agent.verify.seen import Seen
from deployer.protocol.expectations import Expectations
from deployer.protocol.verdict import Verdict

BAND = 0.05
"""Share by which the memory in use may differ from the declared figure."""
BAND_FLOOR = 512
UNEVEN = 0.5
"""A tensor-parallel rank that holds less than this share of the fullest one has not loaded what the others have."""
SPREAD = 0.15
"""Share between ranks from which on the spread is named."""
POINTS = 120
"""Points that a curve keeps, however long the start was."""

_HELPERS = ("nvidia-cuda-mps", "Xorg", "gnome-shell", "nv-hostengine", "dcgm", "nvidia-persiste")


def memory(seen: Seen, expected: Expectations, now: float) -> Verdict:
    """Every declared GPU is held by this unit's own processes, by nobody else, with the headroom declared."""
    if not expected.gpus and not expected.all_gpus:
        return skips("memory", "no GPUs are declared")
    if expected.kind == "minimal":
        return skips("memory", "nothing is known of its GPUs")
    reading = seen.gpu
    if reading is None or seen.open_at is None or seen.gpu_at < seen.open_at:
        return waits("memory", "waits for the GPUs to be read once the server has loaded")
    gpus, absent = chosen(reading, expected)
    errors = list(reading.get("errors") or ())
    slices = [name for name in expected.gpus if name.startswith("MIG-")]
    if slices:
        return _slices(seen, reading, slices)
    if not gpus:
        return _unread(errors, absent, expected)
    if absent:
        return fails("memory", "GPU {} is not there{}".format(", ".join(absent), _errors(errors)), errors=errors)
    return _judge(seen, expected, reading, gpus, errors)


def chosen(reading: Mapping[str, Any], expected: Expectations) -> Tuple[List[Mapping[str, Any]], List[str]]:
    """The declared GPUs' rows, and the declared ones that have none."""
    rows = list(reading.get("gpus") or ())
    if expected.all_gpus or not expected.gpus:
        return rows, []
    found, absent = [], []
    for name in expected.gpus:
        match = [row for row in rows if str(row.get("index")) == name or _uuid(row, name)]
        found.extend(match[:1])
        if not match:
            absent.append(name)
    return found, absent


def _slices(seen: Seen, reading: Mapping[str, Any], names: Sequence[str]) -> Verdict:
    """MIG devices: nvidia-smi's queries tell their processes, not their memory."""
    own = set(reading.get("pids") or seen.pids)
    apps = [app for app in reading.get("apps") or () if app.get("gpu") in names]
    strangers = [str(app.get("pid")) for app in apps if app.get("pid") not in own]
    if strangers:
        return fails("memory", "a declared MIG device is also held by process {}".format(", ".join(strangers)))
    if apps:
        return passes("memory", "MIG devices held by this unit, their free memory is not told")
    return skips("memory", "nvidia-smi tells nothing of the declared MIG devices")


def _uuid(row: Mapping[str, Any], name: str) -> bool:
    return len(name) >= 8 and str(row.get("uuid") or "").lower().startswith(name.lower())


def _unread(errors: Sequence[str], absent: Sequence[str], expected: Expectations) -> Verdict:
    if absent and not errors:
        return fails("memory", "GPU {} is not there".format(", ".join(absent)))
    if "hang" in errors:
        text = "nvidia-smi gives no answer within its time limit: what the GPUs hold is not known"
    else:
        text = "what the GPUs hold is not known{}".format(_errors(errors))
    if expected.memory_free_mib or expected.memory_used_mib:
        text += "; the declared figure cannot be checked"
    return skips("memory", text, errors=list(errors))


def _errors(errors: Sequence[str]) -> str:
    return " (nvidia-smi: {})".format(", ".join(errors)) if errors else ""


def _judge(seen: Seen, expected: Expectations, reading: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]],
           errors: List[str]) -> Verdict:
    own = set(reading.get("pids") or seen.pids)
    apps = list(reading.get("apps") or ())
    held = {str(gpu["uuid"]): own_memory(apps, str(gpu["uuid"]), own) for gpu in gpus}
    figures: Dict[str, Any] = {
        "gpus": [{"index": gpu.get("index"), "used": gpu.get("used"), "free": gpu.get("free"),
                  "own": held[str(gpu["uuid"])]} for gpu in gpus],
    }
    if errors:
        figures["errors"] = errors
    problems, notes = _others(apps, gpus, own, expected)
    visible = any(app.get("pid") in own for app in apps)
    if visible:
        mine = {app.get("gpu") for app in apps if app.get("pid") in own}
        sliced = any(str(uuid).startswith("MIG-") for uuid in mine)
        empty = [] if sliced else [str(gpu.get("index")) for gpu in gpus if gpu["uuid"] not in mine]
        if empty and _needs_all(expected, len(gpus)):
            problems.append("GPU {} holds nothing of this unit".format(", ".join(empty)))
    else:
        problems.extend(_invisible(seen, reading, gpus, apps, notes))
    problems.extend(_bands(expected, gpus, notes))
    _ranks(expected, held, gpus, problems, notes)
    if problems:
        return fails("memory", "; ".join(problems + notes), **figures)
    return passes("memory", "; ".join([_summary(gpus), *notes]), **figures)


def own_memory(apps: Sequence[Mapping[str, Any]], uuid: str, own: Any) -> Optional[int]:
    """MiB of a GPU that this unit's processes hold; None where no figure is known."""
    amounts = [app.get("used") for app in apps if app.get("pid") in own and app.get("gpu") == uuid]
    known = [int(amount) for amount in amounts if amount is not None]
    return sum(known) if known else None


def _needs_all(expected: Expectations, count: int) -> bool:
    """Whether the server uses every GPU that it may: all of the machine's are declared where only some are used."""
    if not expected.all_gpus:
        return True
    ranks = 1
    for name in ("tp_size", "pp_size"):
        value = expected.args.get(name, expected.args.get(
            {"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size"}[name], 1))
        ranks *= int(value) if isinstance(value, (int, float)) or str(value).isdigit() else 1
    return ranks >= count


def _others(apps: Sequence[Mapping[str, Any]], gpus: Sequence[Mapping[str, Any]], own: Any,
            expected: Expectations) -> Tuple[List[str], List[str]]:
    """Holders on the declared GPUs that are not of this unit: problems, or notes where sharing is harmless."""
    index = {str(gpu["uuid"]): gpu.get("index") for gpu in gpus}
    problems: List[str] = []
    notes: List[str] = []
    for app in apps:
        uuid = str(app.get("gpu"))
        if uuid not in index or app.get("pid") in own:
            continue
        name = str(app.get("name") or app.get("command") or "a process")
        text = "GPU {} is also held by process {} ({}{}{})".format(
            index[uuid], app.get("pid"), name[:60], ", " + gib(app["used"]) if app.get("used") else "",
            ", of " + str(app["unit"]) if app.get("unit") else "")
        # A pid that does not exist here has just ended, or is another PID namespace's: then it may be our own.
        harmless = any(helper in name for helper in _HELPERS) or expected.clean == "none" or app.get("unseen")
        (notes if harmless else problems).append(text)
    return problems, notes


def _invisible(seen: Seen, reading: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]],
               apps: Sequence[Mapping[str, Any]], notes: List[str]) -> List[str]:
    """None of the unit's processes is listed: in a container's PID namespace nvidia-smi lists none at all."""
    opened = reading.get("open") or {}
    if opened:
        nodes = sorted({node for devices in opened.values() for node in devices})
        notes.append("nvidia-smi lists no process of this unit; they have {} open".format(", ".join(nodes)))
        return []
    used = [gpu.get("used") for gpu in gpus]
    if any(amount is None for amount in used) and not apps:
        notes.append("nvidia-smi tells neither processes nor memory: who holds the GPUs is not known")
        return []
    return ["no process of this unit holds memory of GPU {}".format(", ".join(str(gpu.get("index")) for gpu in gpus))]


def _bands(expected: Expectations, gpus: Sequence[Mapping[str, Any]], notes: List[str]) -> List[str]:
    problems, unknown = [], []
    for gpu in gpus:
        free, used = gpu.get("free"), gpu.get("used")
        if expected.memory_free_mib is not None:
            if free is None:
                unknown.append(str(gpu.get("index")))
            elif free < expected.memory_free_mib:
                problems.append("GPU {} has {} free, {} declared".format(
                    gpu.get("index"), gib(free), gib(expected.memory_free_mib)))
        wanted = expected.memory_used_mib
        if wanted is not None and used is not None and abs(used - wanted) > max(BAND_FLOOR, BAND * wanted):
            problems.append("GPU {} has {} in use, {} declared".format(gpu.get("index"), gib(used), gib(wanted)))
    if unknown:
        notes.append("the free memory of GPU {} is not told".format(", ".join(unknown)))
    return problems


def _ranks(expected: Expectations, held: Mapping[str, Optional[int]], gpus: Sequence[Mapping[str, Any]],
           problems: List[str], notes: List[str]) -> None:
    amounts = {str(gpu.get("index")): held[str(gpu["uuid"])] for gpu in gpus}
    known = {index: amount for index, amount in amounts.items() if amount}
    stages = expected.args.get("pp_size", expected.args.get("pipeline_parallel_size", 1))
    if len(known) < 2 or str(stages) not in ("1", "None"):
        return
    low, high = min(known, key=lambda index: known[index]), max(known, key=lambda index: known[index])
    share = known[low] / known[high]
    if share < UNEVEN and _needs_all(expected, len(gpus)):
        problems.append("the ranks are not alike: GPU {} holds {}, GPU {} {}".format(
            low, gib(known[low]), high, gib(known[high])))
    elif 1 - share > SPREAD:
        notes.append("the ranks differ: GPU {} holds {}, GPU {} {}".format(
            low, gib(known[low]), high, gib(known[high])))


def _summary(gpus: Sequence[Mapping[str, Any]]) -> str:
    free = [int(gpu["free"]) for gpu in gpus if gpu.get("free") is not None]
    used = [int(gpu["used"]) for gpu in gpus if gpu.get("used") is not None]
    if not free or not used:
        return "{} GPU{} held by this unit, amounts not told".format(len(gpus), "" if len(gpus) == 1 else "s")
    spread = gib(min(used)) if max(used) - min(used) < 103 else "{} to {}".format(gib(min(used)), gib(max(used)))
    return "{} GPU{} with {} in use, {} free at least".format(
        len(gpus), "" if len(gpus) == 1 else "s", spread, gib(min(free)))


class Curve:
    """Memory in use of each GPU over a start; every second point is dropped when it grows beyond ``POINTS``."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._every = 0.0
        self._points: List[List[Optional[float]]] = []

    def add(self, at: float, used: Sequence[Optional[int]]) -> None:
        seconds = round(at - self._begun, 1)
        if self._points and seconds - float(self._points[-1][0] or 0) < self._every:
            return
        self._points.append([seconds, *used])
        if len(self._points) > POINTS:
            self._points = self._points[::2]
            self._every = max(self._every * 2, (seconds / POINTS) * 2)

    def plain(self) -> List[List[Optional[float]]]:
        """Rows of seconds since the start and MiB of each GPU."""
        return self._points
