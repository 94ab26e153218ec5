"""Whether an argument's value is one that a release reads: number of values, type, choices. As argparse judges it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from deployer.protocol import patterns
from deployer.protocol.records import dataclass, replace
from deployer.protocol.redact import is_secret_name
from deployer.sglang.flag import Flag, strip
from deployer.sglang.wording import HERE

HUMAN = patterns.compile(r"\d+(?:\.\d+)?(?:k|M|G|T)|\d+(?:Ki|Mi|Gi|Ti)")
"""Sizes that ``human_readable_int`` reads beside plain integers (sglang/srt/utils/common.py, 0.5.10 and later)."""

_FACTORS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_JSON_TYPES = {"json.loads", "json_list_type", "parse_cuda_graph_config_arg"}
_SHOWN = 12


@dataclass(frozen=True)
class Fault:
    """What is wrong with a value: ``text`` is a sentence with ``HERE`` for the releases, ``hint`` what to write.

    ``doubtful``: plugins may make it right at run time.
    """

    code: str
    text: str
    hint: str = ""
    doubtful: bool = False


def fault(flag: Flag, name: str, value: Any) -> Fault | None:
    """The first fault of a declared value, None where argparse takes it. ``false`` leaves any argument out."""
    if value is False:
        return None
    if flag.nargs == 0:
        return _switch(name, value)
    if value is True and flag.type != "json.loads":
        return _bare(flag, name)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    found = _number(flag, name, values) or next(filter(None, (_one(flag, name, item) for item in values)), None)
    return replace(found, hint="") if found and is_secret_name(name) else found


def _switch(name: str, value: Any) -> Fault | None:
    if value is True:
        return None
    return Fault("takes-no-value", f"`{name}` takes no value in {HERE}", f"write {name} = true")


def _bare(flag: Flag, name: str) -> Fault | None:
    if flag.nargs in ("?", "*"):
        return None
    return Fault("needs-value", f"`{name}` needs a value in {HERE}: {kind_words(flag)}", _example(flag, name))


def _number(flag: Flag, name: str, values: Sequence[Any]) -> Fault | None:
    wanted = flag.nargs
    if wanted is None and len(values) != 1:
        if flag.type in _JSON_TYPES:
            hint = f"write its JSON as text: {name} = '{json.dumps(list(values))}'"
        else:
            hint = f"write {name} = {toml(values[0])}" if values else f"leave {name} out"
        return Fault("value-count", f"`{name}` takes one value in {HERE}, not {len(values)}", hint)
    if wanted == "?" and len(values) > 1:
        return Fault("value-count", f"`{name}` takes at most one value in {HERE}, not {len(values)}")
    if wanted == "+" and not values:
        return Fault("value-count", f"`{name}` takes one value or more in {HERE}", "fill the list, or leave it out")
    if isinstance(wanted, int) and wanted != len(values):
        return Fault("value-count", f"`{name}` takes exactly {wanted} values in {HERE}, not {len(values)}")
    return None


def _one(flag: Flag, name: str, value: Any) -> Fault | None:
    text = written(value)
    try:
        read = convert(flag.type, text)
    except ValueError as error:
        return _misread(flag, name, value, text, str(error))
    if flag.choices is not None and read not in flag.choices:
        return _choice(flag, name, text)
    return None


def _misread(flag: Flag, name: str, value: Any, text: str, why: str) -> Fault:
    if flag.type == "int" and HUMAN.fullmatch(text):
        number = str(plain(text))
        return Fault("value-form", f"`{name}` takes a plain integer in {HERE}, not \"{text}\"",
                     f"write {name} = {number}")
    words = text.replace(",", " ").split()
    if flag.nargs in ("*", "+") and len(words) > 1:
        hint = f"write a list: {name} = [{', '.join(toml(_literal(word)) for word in words)}]"
    elif (seconds := _seconds(text)) is not None and flag.type in ("int", "float"):
        hint = f"it counts in seconds: write {name} = {seconds}" if _counts_seconds(flag.dest) else ""
    elif isinstance(value, float) and value.is_integer() and flag.type in ("int", "human_readable_int"):
        hint = f"write {name} = {int(value)}"
    else:
        hint = ""
    return Fault("value-type", f"`{name}` takes {kind_words(flag)} in {HERE}, and {toml(value)} is none{why}", hint)


_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_DURATION = patterns.compile(r"(\d+) ?(s|sec|m|min|h)")


def _seconds(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def _counts_seconds(dest: str) -> bool:
    return dest.endswith(("timeout", "_secs"))


def _literal(word: str) -> Any:
    for function in (int, float):
        try:
            return function(word)
        except ValueError:
            continue
    return word


def _choice(flag: Flag, name: str, text: str) -> Fault:
    choices = [str(choice) for choice in flag.choices or ()]
    alike = {_folded(choice): choice for choice in reversed(choices)}
    near = [alike[_folded(text)]] if _folded(text) in alike else _near(text, choices)
    listed = ", ".join(choices[:_SHOWN]) + (f" and {len(choices) - _SHOWN} more" if len(choices) > _SHOWN else "")
    hint = f"did you mean \"{near[0]}\"? " if near else ""
    more = f"; `deployer flags {strip(flag.name)}` lists all" if len(choices) > _SHOWN else ""
    return Fault("unknown-choice", f"`{name}` does not take \"{text}\" in {HERE}", f"{hint}it takes {listed}{more}",
                 doubtful=flag.open_choices)


def _near(text: str, choices: list[str]) -> list[str]:
    """The one that was most likely meant: what begins so goes before what is spelled alike ("fp8" is not "mxfp8")."""
    begun = [choice for choice in choices if choice.startswith(text)]
    return [] if len(begun) > 1 else begun or difflib.get_close_matches(text, choices, n=1)


def _folded(choice: str) -> str:
    """A choice without what is easily written in another way."""
    return choice.lower().replace("-", "_").replace(".", "_")


def convert(kind: str, text: str) -> Any:
    """The value as argparse's type function gives it. Raises ValueError, whose text may say why (": …")."""
    if kind in ("int", "float"):
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            raise ValueError("") from None
    if kind == "human_readable_int":
        return _human(text)
    if kind in _JSON_TYPES:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f": {error.msg} at character {error.pos + 1}") from None
    return text


def _human(text: str) -> int:
    if HUMAN.fullmatch(text.strip()):
        return plain(text.strip())
    try:
        return int(text)
    except ValueError:
        raise ValueError("") from None


def plain(text: str) -> int:
    """The integer of a size that ``HUMAN`` matches: k, M, G, T count by 1000, Ki, Mi, Gi, Ti by 1024."""
    suffix = text.lstrip("0123456789.")
    return round(float(text.removesuffix(suffix)) * _FACTORS[suffix])


def written(value: Any) -> str:
    """The word that stands for a value on the command line: tables and lists as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return str(getattr(value, "written", value))


def toml(value: Any) -> str:
    """A value as it is written in TOML."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return written(value)


def kind_words(flag: Flag) -> str:
    """What kind of value an argument takes."""
    if flag.choices:
        return "one of its choices"
    kinds = {"int": "an integer", "float": "a number", "human_readable_int": "an integer such as 32768 or \"32k\"",
             "json.loads": "JSON", "json_list_type": "a JSON list", "parse_cuda_graph_config_arg": "a JSON object"}
    return kinds.get(flag.type, "text")


def _example(flag: Flag, name: str) -> str:
    if flag.choices:
        return f"write one of its choices: {name} = {toml(flag.choices[0])}"
    examples = {"int": "8", "float": "0.5", "human_readable_int": "32768", "json.loads": "{ … }"}
    return f"write {name} = " + examples.get(flag.type, '"…"')
