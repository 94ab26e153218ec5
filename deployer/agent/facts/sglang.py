"""Which SGLang a virtual environment holds, without importing anything of it."""

from __future__ import annotations

import glob
import os
import re
from typing import Dict, Union

from deployer.protocol import patterns
from deployer.protocol.codec import Unknown


def site_packages(python: str) -> Union[str, Unknown]:
    """The site-packages folder of an environment, found beside its interpreter (no symbolic link is followed)."""
    prefix = os.path.dirname(os.path.dirname(python))
    found = sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3*", "site-packages")))
    if not found:
        return Unknown("no site-packages under {}/lib".format(prefix))
    return found[-1]


def version(python: str, distribution: str = "sglang") -> Union[str, Unknown]:
    """The release by the distribution's metadata folder, as pip leaves it: NAME-VERSION.dist-info."""
    folder = site_packages(python)
    if isinstance(folder, Unknown):
        return folder
    name = re.sub(r"[-_.]+", "_", distribution)
    pattern = patterns.compile(re.escape(name) + r"-([^-]+)\.dist-info", re.IGNORECASE)
    try:
        matches = [pattern.fullmatch(entry) for entry in os.listdir(folder)]
    except OSError as error:
        return Unknown("{}: {}".format(folder, error.strerror))
    versions = sorted(match.group(1) for match in matches if match)
    if not versions:
        return Unknown("{} is not installed in {}".format(distribution, folder))
    if len(versions) > 1:
        return Unknown("{} lists several releases of {}: {}".format(folder, distribution, ", ".join(versions)))
    return versions[0]


def identity(python: str, model_path: str) -> Dict[str, object]:
    """What files cannot bring back: versions, sizes and times of the environment and the model."""
    found: Dict[str, object] = {}
    for name in ("sglang", "torch", "sgl-kernel", "sglang-router"):
        known = version(python, name)
        if not isinstance(known, Unknown):
            found[name] = known
    folder = site_packages(python)
    if not isinstance(folder, Unknown):
        found["site-packages"] = _stamp(folder)
    if os.path.isabs(model_path):
        try:
            with os.scandir(model_path) as entries:
                found["model"] = {entry.name: _stamp(entry.path) for entry in entries if entry.is_file()}
        except OSError:
            pass
    return found


def _stamp(path: str) -> str:
    """Size and time of change; for a small file the hash of its bytes instead of the time."""
    status = os.stat(path)
    if status.st_size <= 256 << 10 and os.path.isfile(path):
        import hashlib

        with open(path, "rb") as file:
            return "{} {}".format(status.st_size, hashlib.sha256(file.read()).hexdigest()[:16])
    return "{} {}".format(status.st_size, int(status.st_mtime))
