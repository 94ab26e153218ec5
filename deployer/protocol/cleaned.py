"""What a clean would do, and what it did."""

from __future__ import annotations

import enum
from typing import Optional, Tuple

from deployer.protocol import records
from deployer.protocol.holder import Holder


class Act(enum.Enum):
    """What happens to one holder."""

    END = "end"                        # SIGTERM, then SIGKILL, to the process
    STOP_UNIT = "stop-unit"            # systemctl stop of the unit that would restart it
    STOP_CONTAINER = "stop-container"  # as its engine stops it
    SPARE = "spare"


@records.dataclass(frozen=True)
class Treatment:
    """One holder, what is done with it, and why in words. ``target``: the unit or container that is stopped.

    ``blocks``: it holds memory of the GPUs that were asked for and stays there.
    """

    holder: Holder
    act: Act
    reason: str
    target: str = ""
    blocks: bool = False


@records.dataclass(frozen=True)
class Ended:
    """``how``: SIGTERM, SIGKILL, the command that stopped it, or "by itself"."""

    holder: Holder
    how: str
    seconds: float = 0.0


@records.dataclass(frozen=True)
class HeldMemory:
    """A GPU on which memory is in use that should be free; ``why`` names the explanations, ``hint`` what helps."""

    index: Optional[int]
    uuid: str
    used_mib: Optional[int]
    why: str
    hint: str


@records.dataclass(frozen=True)
class Cleaned:
    """``spared``: all that stays, with the reason; ``foreign``: of those, what holds memory of the GPUs asked for.

    ``held``: what should be free and is not. ``errors``: what could not be found out or done, in words. ``waited`` is
    the time in seconds between the end of the last process and free memory, ``asked`` what nvidia-smi took of
    ``seconds`` before anything was ended.
    """

    ended: Tuple[Ended, ...] = ()
    spared: Tuple[Treatment, ...] = ()
    held: Tuple[HeldMemory, ...] = ()
    errors: Tuple[str, ...] = ()
    foreign: Tuple[Holder, ...] = ()
    planned: Tuple[Treatment, ...] = ()
    seconds: float = 0.0
    asked: float = 0.0
    waited: float = 0.0
    freed_mib: int = 0

    @property
    def clean(self) -> bool:
        """Whether all that was to end has ended, and its memory is free."""
        return not self.held
