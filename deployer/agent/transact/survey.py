"""The facts that a push asks for, gathered in one go; what takes long runs side by side."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

from deployer.agent.clean.survey import Survey, survey
from deployer.agent.door import Emit, begin
from deployer.agent.facts import host, sglang, texts
from deployer.agent.facts.process import Process
from deployer.agent.facts.sockets import listening
from deployer.agent.facts.unit import paths_of, unit_facts
from deployer.agent.store import files
from deployer.agent.store.releases import Store
from deployer.agent.transact.operations import last_result, transaction_facts
from deployer.protocol.codec import Unknown, to_plain
from deployer.protocol.facts import Facts, GpuReading, Socket
from deployer.protocol.holder import Holder


def facts(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``{unit, python, distribution, model_path, gpus, secret_digests}`` -> ``{facts, secrets_differ, last_result}``.

    ``secret_digests`` maps a secret file's path to the sha256 that it should have; only whether they differ comes back.
    """
    store = Store()
    unit, python = str(data["unit"]), str(data.get("python") or "")
    model = str(data.get("model_path") or "")
    looked = begin(survey, unit) if data.get("gpus", True) else None
    known_unit = begin(unit_facts, store, unit)
    known_host = begin(host.host_facts, ("/var/lib", "/etc", model or "/"))
    release: Union[str, Unknown] = Unknown("no interpreter declared")
    if python:
        release = sglang.version(python, str(data.get("distribution") or "sglang"))
    found_texts = texts.read_texts(texts.checkpoint(model)) if model.startswith("/") else ()
    reading, holders, processes = _looked(looked)
    gathered = Facts(
        host=known_host(), unit=known_unit(), gpus=reading, holders=holders,
        sockets=_sockets(processes), texts=found_texts, sglang=release, transaction=transaction_facts(store),
        weights_bytes=texts.weights_bytes(model) if model.startswith("/") else Unknown("not a local folder"),
    )
    return {
        "facts": to_plain(gathered),
        "secrets_differ": _secrets_differ(store, unit, dict(data.get("secret_digests") or {})),
        "last_result": last_result(store, unit),
    }


def _sockets(processes: Optional[Mapping[int, Process]]) -> Union[Tuple[Socket, ...], Unknown]:
    try:
        return listening(processes)
    except OSError as error:
        return Unknown("/proc/net/tcp: {}".format(error.strerror))


def _looked(looked: Optional[Callable[[], Survey]]) -> Tuple[
        GpuReading, Union[Tuple[Holder, ...], Unknown], Optional[Mapping[int, Process]]]:
    """GPUs, holders and the processes that were looked through; none of these where the unit uses no GPU."""
    if looked is None:
        return GpuReading(), (), None
    try:
        found = looked()
    except OSError as error:
        return GpuReading(), Unknown("/proc: {}".format(error.strerror)), None
    return found.reading, found.holders, found.world.processes


def _secrets_differ(store: Store, unit: str, wanted: Dict[str, str]) -> bool:
    current = store.current(unit)
    present = {path for path, secret in paths_of(unit, current) if secret}
    return any(_digest(path) != digest for path, digest in wanted.items()) or bool(present - set(wanted))


def _digest(path: str) -> Optional[str]:
    try:
        data = files.read(path)
    except OSError:
        return None
    return files.digest(data) if data is not None else None
