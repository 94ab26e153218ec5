"""Files that scripts and units name, looked up below a root; what a script itself writes comes before them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from deployer.protocol import patterns


class Files:
    """``root`` stands for ``/`` of the host (None: no file is known). Nothing is ever written to it.

    ``beside``: the folder of what is imported; a file that is not below the root may lie there under its bare name.
    """

    def __init__(self, root: Path | None, beside: Path | None = None) -> None:
        self.root = root
        self.beside = beside
        self.written: dict[str, str | None] = {}        # None: written, with what is not known
        self.asked: dict[str, bool] = {}                # every path that was read -> found

    def read(self, path: str, cwd: str | None = None) -> str | None:
        """The text of a file (bytes that are no UTF-8 as surrogates); None where it is not known."""
        place = self._place(path, cwd)
        if place is None:
            return self._text(self.beside / path) if self.beside and cwd is None and path[:1] not in ("", "/") else None
        if place in self.written:
            return self.written[place]
        text = self._text(self._file(place))
        if text is None and self.beside:
            text = self._text(self.beside / posixpath.basename(place))
        self.asked[place] = text is not None
        return text

    @staticmethod
    def _text(file: Path | None) -> str | None:
        try:
            return file.read_bytes().decode("utf-8", "surrogateescape") if file and file.is_file() else None
        except OSError:
            return None

    def write(self, path: str, text: str | None, cwd: str | None = None, *, append: bool = False) -> None:
        """What the script would write."""
        place = self._place(path, cwd)
        if place is None or place.startswith("/dev/"):
            return
        before = (self.read(place) or "") if append else ""
        self.written[place] = None if text is None else before + text

    def exists(self, path: str, cwd: str | None = None) -> bool:
        place = self._place(path, cwd)
        if place is None:
            return False
        file = self._file(place)
        return place in self.written or bool(file and file.exists())

    def is_folder(self, path: str, cwd: str | None = None) -> bool:
        place = self._place(path, cwd)
        file = self._file(place) if place else None
        return bool(file and file.is_dir())

    def match(self, pattern: str, regex: str, cwd: str | None) -> list[str] | None:
        """The names that a pattern of the shell stands for, sorted; None where the folder is not known."""
        folder, _, last = pattern.rpartition("/")
        if re.search(r"[*?\[]", folder):
            return None
        where = folder if pattern.startswith("/") else posixpath.join(cwd, folder) if cwd else None
        if where is None:
            return None
        file = self._file(where or "/")
        if not file or not file.is_dir():
            return None
        tail = patterns.compile(regex.rpartition("/")[2])
        names = sorted(item.name for item in file.iterdir())
        found = [name for name in names if tail.fullmatch(name) and (last.startswith(".") or not name.startswith("."))]
        return [f"{folder}/{name}" if "/" in pattern else name for name in found]

    def _place(self, path: str, cwd: str | None) -> str | None:
        if path.startswith("/"):
            return posixpath.normpath(path)
        return posixpath.normpath(posixpath.join(cwd, path)) if cwd and cwd.startswith("/") else None

    def _file(self, place: str) -> Path | None:
        return self.root / place.lstrip("/") if self.root else None
