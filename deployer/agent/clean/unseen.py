"""What forks faster than /proc can be read: the kernel lists members of a group of which the look saw none that lives.

Such a group is a holder without a pid. Only that of a unit of this tool that does not run: what is left in it is the
unit's own by systemd's own book-keeping, and can be ended as a whole.
"""

from __future__ import annotations

from typing import List

from deployer.agent.clean.group import groups_of, members
from deployer.agent.clean.world import World
from deployer.agent.facts.process import lives
from deployer.agent.facts.systemd import states
from deployer.protocol.codec import Unknown
from deployer.protocol.holder import Holder, HolderClass

NAME = "(several, each gone before it can be looked at)"


def find(world: World) -> List[Holder]:
    """One holder for each such group."""
    if world.contained:
        return []
    return [_holder(unit, path) for unit in sorted(world.ours) for path in groups_of(unit, world.root)
            if not any(_seen(world, pid) for pid in members(path)) and stopped(unit)]


def stopped(unit: str) -> bool:
    """Whether systemd says, now, that the unit does not run."""
    found = states([unit])
    return not isinstance(found, Unknown) and not found[unit].live


def _seen(world: World, pid: int) -> bool:
    process = world.processes.get(pid)
    return process is not None and lives(pid, process.start)


def _holder(unit: str, path: str) -> Holder:
    return Holder(
        pid=0, start=0, pidns=0, user="", argv=(NAME,), cgroup=path, unit=unit,
        holder_class=HolderClass.OWN, proof="in the control group of {}, which does not run".format(unit),
    )
