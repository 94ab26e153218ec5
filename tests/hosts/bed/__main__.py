"""``python -m tests.hosts.bed sweep``: cleans what test runs left behind that were killed. ``image``: makes it now."""

from __future__ import annotations

import os
import sys

from tests.hosts.bed import image, machine, slot

if __name__ == "__main__":
    if sys.argv[1:] == ["image"]:
        machine.enable()
        print(image.image())
    elif sys.argv[1:] == ["sweep"]:
        if os.geteuid() == 0:
            slot.sweep()
    else:
        sys.exit(__doc__)
