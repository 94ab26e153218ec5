"""The agent's operation ``verify``: the gates alone, for a unit that runs, changing nothing."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from deployer.agent.door import Emit, Refusal
from deployer.agent.store.releases import GOOD, Store
from deployer.agent.verify.watch import Verification, watch
from deployer.protocol import records
from deployer.protocol.codec import DecodeError, from_plain, to_plain
from deployer.protocol.expectations import Expectations
from deployer.protocol.redact import Redactor


def verify(data: Dict[str, Any], emit: Emit) -> Dict[str, Any]:
    """``data``: ``unit``, and ``expectations`` or ``from_store`` (the current release's, with its secrets).

    ``settle`` and ``deadline`` (seconds) go over what the release says; ``secrets`` maps argument names to values where
    expectations are given. Emits ``gate`` and ``progress``; answers with ``passed``, ``verdicts``, ``explanation`` and
    ``figures``. Refused with ``not-pushed`` where the store knows no release of the unit.
    """
    unit = str(data["unit"])
    store = Store()
    secrets: Mapping[str, str] = {}
    history: List[Dict[str, Any]] = []
    if data.get("from_store"):
        try:
            current = store.current(unit)
        except ValueError as error:
            raise Refusal("bad-unit", str(error)) from None
        if current is None:
            raise Refusal("not-pushed", "{} was never pushed to this host".format(unit), unit=unit)
        expected = store.expectations(unit, current.number)
        secrets = store.secrets(unit, current.number)
        history = [manifest.figures for manifest in store.manifests(unit)
                   if manifest.outcome in GOOD and manifest.figures and manifest.number <= current.number]
    else:
        try:
            expected = from_plain(Expectations, data["expectations"])
        except (KeyError, DecodeError) as error:
            raise Refusal("bad-request", "no expectations: {}".format(error)) from None
        secrets = {str(name): str(value) for name, value in dict(data.get("secrets") or {}).items()}
    changes: Dict[str, Any] = {name: float(data[name]) for name in ("settle", "deadline") if data.get(name) is not None}
    expected = records.replace(expected, **changes)
    result = watch(unit, expected, None, emit, secrets=secrets, redactor=Redactor(secrets.values()), history=history)
    return answer(result, Redactor(secrets.values()))


def answer(result: Verification, redactor: Redactor) -> Dict[str, Any]:
    """A verification as JSON values, redacted."""
    return {
        "passed": result.passed, "verdicts": to_plain(result.verdicts), "figures": result.figures,
        "explanation": redactor.plain(to_plain(result.explanation)),
    }
