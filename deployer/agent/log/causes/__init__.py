"""The table of causes: one entry a cause, in the module of its field. A new cause is one entry there."""

from __future__ import annotations

from typing import Dict, Tuple

from deployer.agent.log.causes.arguments import CAUSES as ARGUMENTS
from deployer.agent.log.causes.gpu import CAUSES as GPU
from deployer.agent.log.causes.host import CAUSES as HOST
from deployer.agent.log.causes.memory import CAUSES as MEMORY
from deployer.agent.log.causes.model import CAUSES as MODEL
from deployer.agent.log.causes.network import CAUSES as NETWORK
from deployer.agent.log.causes.process import CAUSES as PROCESS
from deployer.agent.log.causes.units import CAUSES as UNITS
from deployer.agent.log.signs import Cause

UNKNOWN = "unknown"

CAUSES: Tuple[Cause, ...] = tuple(sorted(
    UNITS + ARGUMENTS + NETWORK + HOST + MODEL + GPU + MEMORY + PROCESS,
    key=lambda cause: cause.rank,
))
"""All causes, the most root one first."""

BY_CODE: Dict[str, Cause] = {cause.code: cause for cause in CAUSES}
