"""What is still held after a clean, why that may be, and what helps."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from deployer.agent.clean import hidden
from deployer.agent.clean.plan import Wish
from deployer.agent.clean.survey import Survey
from deployer.agent.clean.wait import Waited
from deployer.agent.facts.health_gpu import recent_xids
from deployer.agent.facts.holders import INITIAL_PIDNS
from deployer.protocol.cleaned import HeldMemory
from deployer.protocol.codec import Unknown
from deployer.protocol.facts import Gpu
from deployer.protocol.holder import Holder


def held_memory(
    now: Survey, waited: Waited, stuck: Sequence[Tuple[Holder, str]], again: Sequence[Holder], wish: Wish, late: bool,
) -> Tuple[HeldMemory, ...]:
    """One entry for each GPU that should be free and is not, and for each process that could not be ended.

    ``again``: those that came after as many rounds as were made.
    """
    gpus: Dict[str, Gpu] = {gpu.uuid: gpu for gpu in now.reading.gpus}
    found = [_stuck(holder, why, gpus) for holder, why in stuck]
    found += [_again(holder, gpus) for holder in again]
    named = {uuid for holder in [*again, *(holder for holder, _ in stuck)] for uuid in holder.memory}
    left = [(gpu, amount) for gpu, amount in waited.left if gpu.uuid in wish.gpus and gpu.uuid not in named]
    if left:
        why, hint = _why(now, waited, late)
        found += [HeldMemory(gpu.index, gpu.uuid, amount, why, hint.format(gpu=gpu.index)) for gpu, amount in left]
    return tuple(found)


def _again(holder: Holder, gpus: Dict[str, Gpu]) -> HeldMemory:
    uuid = next(iter(holder.memory), "")
    gpu = gpus.get(uuid)
    by = holder.parents[0] if holder.parents else None
    who = "pid {} ({})".format(by.pid, by.command[:60]) if by else "something"
    return HeldMemory(gpu.index if gpu else None, uuid, holder.memory.get(uuid),
                      "{} starts it again each time: now it is pid {}".format(who, holder.pid),
                      "stop what starts it" + (": kill {}".format(by.pid) if by else ""))


def _stuck(holder: Holder, why: str, gpus: Dict[str, Gpu]) -> HeldMemory:
    uuid = next(iter(holder.memory), "")
    gpu = gpus.get(uuid)
    hint = "wait for it; if it stays, no process of this GPU can go on: reboot the host" if "kernel" in why else \
        "look at it: ps -o pid,stat,wchan,cmd -p {}".format(holder.pid)
    return HeldMemory(gpu.index if gpu else None, uuid, holder.memory.get(uuid), why, hint)


def _why(now: Survey, waited: Waited, late: bool) -> Tuple[str, str]:
    xids = recent_xids()
    xid: Optional[str] = None if isinstance(xids, Unknown) else (str(xids[-1]) if xids else "")
    excluded, possible = hidden.explanations(now.world, now.holders, xid, waited.fell and late)
    words: List[str] = ["no visible process holds it"]
    if possible:
        words.append("may be " + "; ".join(possible))
    if excluded:
        words.append("excluded: " + "; ".join(excluded))
    return ". ".join(words), _hint(now, xid, waited.fell and late)


def _hint(now: Survey, xid: Optional[str], falling: bool) -> str:
    if falling:
        return "it is still falling: clean again in a moment"
    if xid:
        return "reset the GPU with nothing running on it: nvidia-smi --gpu-reset -i {gpu}, or reboot the host"
    if now.world.pidns != INITIAL_PIDNS:
        return "declare hypervisor = {{ host, container }} of this host in hosts.toml and clean again, or look " \
            "there: nvidia-smi --query-compute-apps=pid,used_memory --format=csv"
    return "nvidia-smi --gpu-reset -i {gpu} with nothing running on it, or reboot the host"
