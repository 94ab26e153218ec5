"""The agent's entry: ``python3 -IS FOLDER serve`` on a host, ``python3 -m deployer.agent serve`` in a checkout.

Older Pythons than 3.9 must be able to read this file far enough to say so.
"""

import os
import sys


def serve(arguments: "list[str]") -> int:
    """Answers requests on standard input and output."""
    from deployer.agent.serve import main

    return main(arguments)


def transact(arguments: "list[str]") -> int:
    """Runs or recovers the transaction ``UNIT NUMBER``: what its transient unit starts."""
    from deployer.agent import home
    from deployer.agent.transact.run import transact

    home.hold()
    return transact(arguments[0], int(arguments[1]))


ENTRIES = {"serve": serve, "transact": transact}


def main(argv: "list[str]") -> int:
    if sys.version_info < (3, 9):
        sys.stderr.write("deployer: the agent needs Python 3.9 or newer, this is %d.%d\n" % sys.version_info[:2])
        return 69
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if root not in sys.path:
        sys.path.insert(0, root)
    name = argv[0] if argv else "serve"
    if name not in ENTRIES:
        sys.stderr.write("deployer: the agent has no entry %r\n" % name)
        return 64
    return ENTRIES[name](argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
