"""Models that are named by their id on a hub: where the unit keeps its copy of them."""

from __future__ import annotations

from collections.abc import Iterator

from deployer.protocol import patterns
from deployer.protocol.finding import Finding, Level
from deployer.rollout.directives import texts
from deployer.settings.model import UnitSettings

_ID = patterns.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")
_MODELS = ("model-path", "model", "speculative-draft-model-path")
_DECIDES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "MODELSCOPE_CACHE")
"""Variables by which huggingface_hub or ModelScope are told where copies are, or not to make any."""


def judge(settings: UnitSettings) -> Iterator[Finding]:
    """A note for each model that this unit downloads into a folder of its own: the template sets HF_HOME there."""
    written = texts(settings.directives.get("Service", {}).get("Environment", []))
    told = [*settings.env, *(name for name in _DECIDES if any(f"{name}=" in text for text in written))]
    if settings.program != "sglang" or any(name in told for name in _DECIDES):
        return
    if any(name.replace("_", "-") == "download-dir" for name in settings.args):
        return
    for name, value in settings.args.items():
        if name.replace("_", "-") in _MODELS and isinstance(value, str) and _ID.fullmatch(value):
            yield Finding(
                "hub-copy", Level.NOTE, f"`{value}` is no path but a name on a hub: this unit downloads a copy of its "
                f"own, below /var/cache", ("args", name), hint='HF_HOME = "/models/huggingface" under [env] shares one '
                "between units; a path to a folder needs no hub")
