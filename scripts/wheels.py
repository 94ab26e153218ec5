"""Published wheels by name and release, through pip; kept in .cache/wheels."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "wheels"
PARSERS = (
    "sglang/srt/server_args", "sglang/srt/arg_groups/", "sglang/srt/environ", "sglang/srt/constants",
    "sglang/srt/model_executor/cuda_graph_config", "sglang/srt/function_call/parser_names",
    "sglang/srt/parser/reasoning_parser_names", "sglang_router/",
)
"""Where the files lie that a release's own parser is made of."""

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def releases(package: str) -> list[str]:
    """The releases on the package index, without pre-releases, as pip lists them. Raises CalledProcessError."""
    listed = subprocess.run([*PIP, "index", "versions", package, "--json"], check=True, capture_output=True, text=True)
    return [str(version) for version in json.loads(listed.stdout)["versions"]]


def wheel(package: str, release: str) -> Path:
    """The wheel of a release, downloaded if it is not in the cache. Raises CalledProcessError, FileNotFoundError."""
    stem = f"{package.replace('-', '_')}-{release}-"
    found = sorted(CACHE.glob(f"{stem}*.whl"))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [*PIP, "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary", ":all:",
             "--ignore-requires-python", "--dest", str(CACHE), f"{package}=={release}"],
            check=True, stdout=subprocess.DEVNULL,
        )
        found = sorted(CACHE.glob(f"{stem}*.whl"))
    if not found:
        raise FileNotFoundError(f"pip brought no wheel of {package} {release}")
    return found[0]


def unpack(package: str, release: str, folder: Path, prefixes: tuple[str, ...]) -> None:
    """The Python files of a release whose paths begin so, into ``folder``."""
    with zipfile.ZipFile(wheel(package, release)) as packed:
        packed.extractall(folder, [n for n in packed.namelist() if n.endswith(".py") and n.startswith(prefixes)])


class WheelFiles(Mapping[str, str]):
    """The Python files of a wheel: path in it -> text. Nothing is unpacked."""

    def __init__(self, path: Path) -> None:
        self._wheel = zipfile.ZipFile(path)
        self._names = {name for name in self._wheel.namelist() if name.endswith(".py")}

    def __getitem__(self, path: str) -> str:
        return self._wheel.read(path).decode("utf-8")

    def __contains__(self, path: object) -> bool:
        return path in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
