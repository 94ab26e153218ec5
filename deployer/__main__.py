"""``python -m deployer``."""

from deployer.cli import main

main()
