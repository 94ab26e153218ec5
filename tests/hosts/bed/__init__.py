"""The test bed: real systemd hosts in network namespaces of this machine, with simulated GPUs."""

from tests.hosts.bed.container import Hypervisor
from tests.hosts.bed.host import CommandFailed, Host, Ran
from tests.hosts.bed.machine import Unable
from tests.hosts.bed.operator import Operator, Said
from tests.hosts.bed.pool import Pool

__all__ = ["CommandFailed", "Host", "Hypervisor", "Operator", "Pool", "Ran", "Said", "Unable"]
