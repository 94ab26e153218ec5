"""The bench runs on the hosts of the test bed."""

from tests.hosts.conftest import host, hosts, operator, pool

__all__ = ["host", "hosts", "operator", "pool"]
