"""Reading what nvidia-smi prints. Pure: two answers in, a ``GpuReading`` out.

The answers are those of ``gpu.GPU_QUERY`` and ``gpu.APPS_QUERY``. An unknown value is None, never 0. Rows count
whatever the exit status is; a line that is no row is a message about the whole query or one GPU. Exit statuses are
those of ``man nvidia-smi`` (RETURN VALUE), with NVML's numbers where that page is silent (18: version mismatch).
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from deployer.agent.door import NOT_FOUND, TIMED_OUT, Ran
from deployer.protocol import patterns, records
from deployer.protocol.facts import ComputeApp, Gpu, GpuError, GpuReading

PARTIAL = "partial"
HANG = "hang"

_BUS_ID = patterns.compile(r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")
_GPU_ROW = patterns.compile(r"\d+\s*,")
_APP_ROW = patterns.compile(r"(?:GPU-|MIG-|\[)[^,]*,\s*\d+\s*(?:,|$)")
_APP = patterns.compile(r"([^,]+?)\s*,\s*(\d+)\s*,\s*(.*?)\s*,\s*([^,]*)", re.DOTALL)
_NUMBER = patterns.compile(r"(\d+)(?:\s*(?:MiB|%))?")
_GPU_FIELDS = 10

_FIELDS: Dict[str, Optional[str]] = {
    "n/a": None, "not supported": None, "not available": None, "not found": None, "none": None,
    "insufficient permissions": "insufficient-permissions", "no permission": "insufficient-permissions",
    "unknown error": "unknown-error", "gpu requires reset": "unknown-error", "reset required": "unknown-error",
    "gpu is lost": "gpu-lost", "err!": "err-field",
}
"""What stands for a value that there is not: the error that it means, if any."""

_BROKEN = ("gpu-lost", "unknown-error", "err-field")
"""Errors of one GPU or row: what is listed is then not all."""

_MESSAGES: Tuple[Tuple[str, str], ...] = (
    (r"version mismatch", "driver-mismatch"),
    (r"no devices (?:were )?found", "no-devices"),
    (r"couldn'?t communicate with the nvidia driver|driver (?:is )?not loaded|access blocked by the operating system"
     r"|couldn'?t find (?:the )?(?:libnvidia-ml|nvml)|nvml shared library|command not found|library not found",
     "no-driver"),
    (r"insufficient permissions?|permission denied", "insufficient-permissions"),
    (r"gpu is lost|fallen off the bus", "gpu-lost"),
    (r"unknown error|requires reset|unable to determine the device handle", "unknown-error"),
    (r"\bERR!", "err-field"),
)

_CODES: Dict[int, str] = {
    4: "insufficient-permissions", 6: "no-devices", 9: "no-driver", 12: "no-driver", 15: "gpu-lost",
    18: "driver-mismatch", 126: "no-driver", NOT_FOUND: "no-driver",
}

_HARMLESS = patterns.compile(r"(?i)^\s*(?:warning\b|no running processes|\[?not supported\]?|\[?n/a\]?$)")


@records.dataclass
class _Answer:
    """One query's answer: how many rows it had, what was wrong, whether it answered at all."""

    rows: int = 0
    answered: bool = True
    partial: bool = False
    errors: List[GpuError] = records.field(default_factory=list)

    def error(self, code: str, message: str, bus_id: Optional[str] = None) -> None:
        if not any(known.code == code and (not bus_id or known.bus_id == bus_id) for known in self.errors):
            self.errors.append(GpuError(code, message, bus_id))

    def field(self, text: str, row: str) -> bool:
        """Whether ``text`` stands for a missing value; notes the error that it means."""
        bare = text.strip("[] ").lower()
        if bare not in _FIELDS and not (text.startswith("[") and text.endswith("]")):
            return False
        code = _FIELDS.get(bare)
        if code:
            self.error(code, row)
            self.partial = self.partial or code in _BROKEN
        return True


def parse(gpus: Ran, apps: Ran) -> GpuReading:
    """Both answers read together: rows in their order, errors once each."""
    of_gpus, of_apps = _Answer(), _Answer()
    found = _gpus(gpus, of_gpus)
    processes = _apps(apps, of_apps)
    for error in of_apps.errors:
        of_gpus.error(error.code, error.message, error.bus_id)
    errors = of_gpus.errors
    if of_gpus.partial or of_apps.partial or of_gpus.answered != of_apps.answered:
        errors.append(GpuError(PARTIAL, "what is listed is not all"))
    return GpuReading(found, processes, tuple(errors))


def _gpus(ran: Ran, answer: _Answer) -> Tuple[Gpu, ...]:
    found = []
    others = []
    for line, cut in _lines(ran):
        if not _GPU_ROW.match(line):
            others.append(line)
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < _GPU_FIELDS:
            answer.partial = True
            _message(line, answer)
            continue
        answer.rows += 1
        answer.partial = answer.partial or cut
        found.append(_gpu(fields, line.split(",", 3)[3].rsplit(",", 6)[0].strip(), line, answer))
    _rest(ran, others, answer, "no-devices")
    return tuple(found)


def _gpu(fields: List[str], name: str, row: str, answer: _Answer) -> Gpu:
    """``name``: as it stands between the first three and the last six fields, its own commas included."""
    bus = _BUS_ID.search(fields[2])
    total, used, free, utilization, mig, driver = fields[-6:]
    return Gpu(
        index=int(fields[0]),
        uuid=_text(fields[1], row, answer) or "",
        name=_text(name, row, answer),
        bus_id=bus.group(0) if bus else None,
        memory_total_mib=_number(total, row, answer),
        memory_used_mib=_number(used, row, answer),
        memory_free_mib=_number(free, row, answer),
        utilization=_number(utilization, row, answer),
        mig={"enabled": True, "disabled": False}.get((_text(mig, row, answer) or "").lower()),
        driver=_text(driver, row, answer),
    )


def _apps(ran: Ran, answer: _Answer) -> Tuple[ComputeApp, ...]:
    found = []
    others = []
    for line, cut in _lines(ran):
        if not _APP_ROW.match(line):
            others.append(line)
            continue
        match = _APP.fullmatch(line)
        used = match.group(4) if match else ""
        if not match or cut or not (_NUMBER.fullmatch(used) or answer.field(used, line)):
            answer.partial = True                  # the last field is the memory: of a cut row it is not known
            _message(line, answer)
            continue
        answer.rows += 1
        found.append(ComputeApp(int(match.group(2)), _text(match.group(1), line, answer),
                                _text(match.group(3), line, answer), _number(used, line, answer)))
    _rest(ran, others, answer, "")
    return tuple(found)


def _lines(ran: Ran) -> List[Tuple[str, bool]]:
    """The lines that are not blank, and of each whether it was cut: the last without an end, of a program that failed.

    One that ended well has written all it had, with or without a last line end.
    """
    lines = ran.out.replace("\x00", "").lstrip("\ufeff").split("\n")
    last = len(lines) - 1
    return [(line.strip(), ran.code != 0 and number == last) for number, line in enumerate(lines) if line.strip()]


def _rest(ran: Ran, others: List[str], answer: _Answer, when_empty: str) -> None:
    """What the lines that are no rows, and the exit status, say."""
    said = [line for line in others + ran.err.splitlines() if line.strip() and not _HARMLESS.match(line)]
    unknown = [line for line in said if not _message(line, answer)]
    # A piece of a row is not recognised as one: it shows by its commas, in the output alone.
    pieces = [line for line in unknown if line in others and line.count(",") >= 2]
    cut = [line for line, was_cut in _lines(ran) if was_cut and line in unknown]
    answer.partial = answer.partial or bool(pieces or (cut and (answer.rows or re.match(r"\d|GPU-", cut[0]))))
    if ran.code == TIMED_OUT:
        answer.error(HANG, "nvidia-smi gave no answer within its time limit")
        answer.answered = False
        answer.partial = answer.partial or answer.rows > 0
    elif answer.rows:
        if ran.code in (4, 15):
            answer.error(_CODES[ran.code], "exit status {}".format(ran.code))
            answer.partial = answer.partial or ran.code == 15
    elif not answer.partial:
        if not answer.errors and ran.code and not (ran.code in (3, 14) and not unknown):
            answer.error(_CODES.get(ran.code, "unknown-error"), " ".join(unknown) or "exit status {}".format(ran.code))
        if not answer.errors and when_empty:
            answer.error(when_empty, "nvidia-smi listed no GPU")
        answer.answered = not answer.errors


def _message(line: str, answer: _Answer) -> bool:
    """Notes the error that a line of words names; one about a single GPU makes the answer partial."""
    bus = _BUS_ID.search(line)
    bus_id = bus.group(0) if bus else None
    for pattern, code in _MESSAGES:
        if re.search(pattern, line, re.IGNORECASE):
            answer.error(code, line.strip(), bus_id)
            about_one = code in _BROKEN and not re.match(r"(?i)failed to initialize nvml", line.strip())
            answer.partial = answer.partial or about_one
            return True
    return False


def _text(field: str, row: str, answer: _Answer) -> Optional[str]:
    return None if not field or answer.field(field, row) else field


def _number(field: str, row: str, answer: _Answer) -> Optional[int]:
    match = _NUMBER.fullmatch(field)
    if match:
        return int(match.group(1))
    if not answer.field(field, row):
        answer.partial = True
    return None
