"""What a push imports late, for the process that pushes are forked from."""

import jinja2
import paramiko
import rich.live

import deployer.cli.program
import deployer.cli.push
import deployer.remote.connect
import deployer.render.release
import deployer.rollout.check
import deployer.rollout.push
import deployer.settings.workspace
import tests.hosts.faults.operate

__all__ = ["deployer", "jinja2", "paramiko", "rich", "tests"]
