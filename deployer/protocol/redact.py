"""The one redactor: everything printed or stored from the journal, argv or /server_info passes it."""

from __future__ import annotations

import re
from typing import Any, Iterable, Sequence, Tuple

from deployer.protocol import patterns

MASK = "[redacted]"

_SECRET_NAME = r"(?:[A-Za-z0-9_-]*(?:api[_-]?key|token|password|passwd|secret|credential)s?)"
_NOT_SECRET = patterns.compile(
    r"(?i)(?:max|min|num|total|prefill|decode|draft|context|running|queued|pending|new|per|bos|eos|pad|full|swa|cache"
    r"|cached)[a-z0-9_-]*tokens?$"
    r"|^#?tokens?$|tokenizer|token_(?:id|ids|usage)$|tokens$|skip_?tokenizer"
)
_ASSIGNED = patterns.compile(
    r"(?i)(?P<head>(?P<q>['\"]?)(?P<name>" + _SECRET_NAME + r")(?P=q)\s*[=:]\s*)"
    r"(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s,;)}\]]+)"
)
_FLAG = patterns.compile(r"(?i)(?P<head>--(?P<name>" + _SECRET_NAME + r")(?:\s+|=))(?P<value>'[^']*'|\"[^\"]*\"|\S+)")
_BEARER = patterns.compile(r"(?i)(?P<head>\bbearer\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_SHAPES = patterns.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{16,}|ghp_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,})"
)
_EMPTY = {"none", "null", "''", '""', "false", "true", ""}


class Redactor:
    """Masks known secret values wherever they stand, and values that stand where secrets stand.

    ``values`` are the secrets themselves (they never leave this object); ones of under 4 characters are masked
    only where a secret's name stands before them, since they would eat ordinary text.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: Tuple[str, ...] = tuple(
            sorted({form for value in values if len(value) >= 4 for form in _forms(value)}, key=len, reverse=True)
        )

    def text(self, text: str) -> str:
        """``text`` with every secret masked; the rest is unchanged."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        lowered = text.lower()
        if any(word in lowered for word in ("key", "token", "pass", "secret", "credential", "bearer")):
            text = _ASSIGNED.sub(_mask, _FLAG.sub(_mask, _BEARER.sub(r"\g<head>" + MASK, text)))
        return _SHAPES.sub(MASK, text)

    def plain(self, value: Any) -> Any:
        """A JSON value with every string in it redacted, and values under secret names masked whole."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                key: MASK if isinstance(item, str) and item and is_secret_name(str(key)) else self.plain(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        return value


def mask_argv(argv: Sequence[str]) -> Tuple[str, ...]:
    """A command line as words: the word after a flag with a secret's name is masked, and so is ``--flag=value``."""
    redact = Redactor().text
    words = [redact(word) for word in argv]
    for index in range(1, len(words)):
        before = argv[index - 1]
        if before.startswith("-") and "=" not in before and is_secret_name(before) and not argv[index].startswith("--"):
            words[index] = MASK
    return tuple(words)


def is_secret_name(name: str) -> bool:
    """Whether a variable, key or flag of this name holds a secret: API_KEY, HF_TOKEN; not max_total_tokens."""
    bare = name.lstrip("-")
    return bool(re.fullmatch(_SECRET_NAME, bare, re.IGNORECASE)) and not _NOT_SECRET.search(bare)


def _mask(match: "re.Match[str]") -> str:
    if match["value"].lower() in _EMPTY or not is_secret_name(match["name"]) or MASK[:-1] in match["value"]:
        return match[0]
    return match["head"] + MASK


def _forms(value: str) -> Tuple[str, ...]:
    return value, repr(value)[1:-1], value.replace("\\", "\\\\").replace('"', '\\"')
