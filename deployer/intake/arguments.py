"""A server's arguments as settings: names written out, values by their types, as argparse would read them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from deployer.protocol import patterns
from deployer.protocol.records import dataclass, field
from deployer.sglang.catalogue import Catalogue, catalogue
from deployer.sglang.flag import Flag, dashed, strip

_NUMBER = patterns.compile(r"-\d+$|-\d*\.\d+$")
_JSON = {"json.loads", "json_list_type", "parse_cuda_graph_config_arg"}


@dataclass
class Read:
    """``args`` by full names; ``remarks``: what is to be said of an argument; ``lost``: words with no place."""

    args: dict[str, Any] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def remark(self, name: str, text: str) -> None:
        self.remarks.setdefault(name, []).append(text)


def read(words: Sequence[str], program: str) -> Read:
    """The words behind the module as ``[args]``. The newest release that has an argument tells how it is read."""
    known = catalogue(program)
    found = Read()
    dests: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if not _is_flag(word):
            found.lost.append(word)
            at += 1
            continue
        name, equals, joined = word.partition("=")
        spelling, flag = _flag(known, name)
        taken: list[str] = [joined] if equals else []
        at += 1
        if not equals:
            limit = _limit(flag)
            while at < len(words) and len(taken) < limit and not _is_flag(words[at]):
                taken.append(words[at])
                at += 1
        written = strip(spelling)
        negated = bool(flag and flag.nargs == 0 and spelling.startswith("--no-") and flag.name != spelling)
        if negated and flag:
            written = strip(flag.name)
        dest = flag.dest if flag else spelling
        if dest in dests:
            found.args.pop(dests[dest], None)
            found.remark(written, "given more than once: the last one counts")
        dests[dest] = written
        if flag is None:
            found.remark(written, "no release of SGLang that is known has this argument")
        elif known.find(known.newest, name) is None and dashed(name) != spelling:
            found.remark(written, f"written as {name}")
        found.args[written] = False if negated else _value(flag, taken, bool(equals))
    return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word) and " " not in word.partition("=")[0]


def _flag(known: Catalogue, name: str) -> tuple[str, Flag | None]:
    """The full spelling and what is known of it: in the newest release, else in the last that had it."""
    newest = known.newest
    name = name if name.startswith("--") else "--" + name.lstrip("-")
    flag = known.find(newest, name)
    if flag is None:
        spans = known.history(name)
        if spans:
            return dashed(name), spans[-1].flag
        abbreviated = known.abbreviated(newest, name)
        flags = {known.spellings(newest)[item].dest for item in abbreviated}
        if abbreviated and len(flags) == 1:
            flag = known.spellings(newest)[abbreviated[0]]
            return known.spelling(newest, abbreviated[0]) or abbreviated[0], flag
        old = [item for item in known.names if item.startswith(dashed(name))]
        if len(old) == 1:
            return old[0], known.history(old[0])[-1].flag
        return name, None
    if flag.nargs == 0 and name.startswith("--no-"):
        return dashed(name), flag
    return known.spelling(newest, name) or dashed(name), flag


def _limit(flag: Flag | None) -> int:
    """How many words may be its values."""
    if flag is None or flag.nargs in ("*", "+"):
        return 1_000_000
    if flag.nargs is None or flag.nargs == "?":
        return 1
    return int(flag.nargs)


def _value(flag: Flag | None, taken: list[str], joined: bool) -> Any:
    if flag is None:
        return True if not taken else taken[0] if len(taken) == 1 else taken
    if not taken and flag.nargs != "*":
        return True
    values = [_one(flag, text) for text in taken]
    if flag.nargs in ("*", "+") or (isinstance(flag.nargs, int) and flag.nargs > 1):
        return values if len(values) != 1 or not joined else values[0]
    return values[0]


def _one(flag: Flag, text: str) -> Any:
    """A number where it would be written the same again, JSON as a table where its text is the compact form."""
    if flag.type in ("int", "human_readable_int") and re.fullmatch(r"-?(?:0|[1-9]\d{0,15})", text):
        return int(text)
    if flag.type == "float" and re.fullmatch(r"-?(?:0|[1-9]\d*)\.\d+", text) and str(float(text)) == text:
        return float(text)
    if (flag.type in _JSON or text[:1] == "{") and text[:1] == "{":
        return _table(text)
    return text


def _table(text: str) -> Any:
    try:
        value = json.loads(text)
        same = json.dumps(value, separators=(",", ":"), ensure_ascii=False) == text
    except ValueError:
        return text
    return value if same and value and not _unfit(value) else text


def _unfit(value: Any) -> bool:
    """What TOML has no place for: null, numbers that it writes in another way."""
    if isinstance(value, dict):
        return any(not isinstance(key, str) or _unfit(item) for key, item in value.items())
    if isinstance(value, list):
        return any(_unfit(item) for item in value)
    return value is None or (isinstance(value, float) and repr(value) != str(value).lower()) or (
        isinstance(value, int) and abs(value) >= 2**63)
