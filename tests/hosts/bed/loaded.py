"""All that the program imports on the operator's side, sooner or later: for the process that it is forked from."""

import importlib
import pkgutil

import jinja2
import paramiko
import rich.live

import deployer
import tests.hosts.bed.forked

for module in pkgutil.walk_packages(deployer.__path__, "deployer."):
    if not module.name.startswith("deployer.agent") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)

__all__ = ["jinja2", "paramiko", "rich", "tests"]
