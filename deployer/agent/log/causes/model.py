"""The checkpoint: where it should be, whether it can be fetched, and whether its code may run."""

from __future__ import annotations

import re

from deployer.agent.log.known import Known
from deployer.agent.log.signs import HINT, Cause, Seen, sign
from deployer.protocol import patterns

_LOCAL = patterns.compile(r"^(?:[/~.]|[^/]*/[^/]*/)")


def _model(known: Known, seen: Seen) -> str:
    named = re.search(r"[`'\"]((?:/|~|\./)[^`'\"]+)[`'\"]", seen.text)
    path = named[1] if named else known.arg("model_path")
    if any(word in seen.text for word in ("any model weights", "incomplete", "eserializ", ".safetensors")):
        return (
            "The model directory{} is there but not its weight files, or not whole: finish the copy (compare sizes "
            "with the source; a git clone without LFS leaves pointer files), or correct --model-path."
        ).format(" " + path if path else "")
    return (
        "Correct --model-path{}: on this host there is no such directory (or not for the unit's user), so the "
        "libraries take it for a name on the hub. A mount that comes up later needs RequiresMountsFor= in the unit."
    ).format(" (now {})".format(path) if path else "")


def _local(known: Known, match: "re.Match[str]") -> bool:
    return bool(_LOCAL.match(match["path"]))


def _remote(known: Known, match: "re.Match[str]") -> bool:
    return not _LOCAL.match(match["path"])


def _of_model(known: Known, match: "re.Match[str]") -> bool:
    """A missing file that belongs to the model, not to some cache or tool."""
    path, model = match["path"], known.arg("model_path")
    return bool(model.startswith("/") and path.startswith(model)) or path.endswith(
        (".safetensors", ".gguf", "/config.json", ".safetensors.index.json", "tokenizer.json", "tokenizer_config.json"))


def _download(known: Known, seen: Seen) -> str:
    text = seen.text.lower()
    if "outgoing traffic" in text or "offline" in text:
        return (
            "The hub may not be asked (HF_HUB_OFFLINE) and the model is not in the cache: fill the cache that HF_HOME "
            "points to, unset HF_HUB_OFFLINE (with HF_TOKEN where the model needs it), or copy the model and give its "
            "directory as --model-path."
        )
    if "connect" in text or "resolve" in text or "resolution" in text or "unreachable" in text or "max retries" in text:
        return (
            "The hub cannot be reached from this host: give the unit its proxy (https_proxy), or copy the model and "
            "give its directory as --model-path; with a full cache set HF_HUB_OFFLINE=1 and HF_HOME (HF_TOKEN does "
            "not help here)."
        )
    return (
        "The hub refuses: accept the model's terms there and give the unit a token that may read it, HF_TOKEN "
        "(`[secrets]` in the settings), or copy the model to the host and give its directory as --model-path (or fill "
        "the cache that HF_HOME points to and set HF_HUB_OFFLINE=1)."
    )


def _code(known: Known, seen: Seen) -> str:
    return (
        "The model brings its own code: read it, then start with --trust-remote-code; or take a release of SGLang and "
        "transformers that knows this model and tokenizer."
    )


def _not_trusted(known: Known, match: "re.Match[str]") -> bool:
    return known.arg("trust_remote_code").lower() != "true"


CAUSES = (
    Cause("trust-remote-code-needed", 24, "the model brings its own code or tokenizer class", _code, (
        sign("trust_remote_code=True", r"Please pass the argument `trust_remote_code=True`", strength=4,
             when=_not_trusted),
        sign("trust_remote_code=True", r"set the option `trust_remote_code=True` to remove this error", strength=4,
             when=_not_trusted),
        sign("Failed to load the tokenizer", r"Failed to load the tokenizer\. If the tokenizer is a custom",
             strength=4),
        sign("requires you to execute the", strength=3, when=_not_trusted),
        sign("contains custom code which must be executed", strength=2, when=_not_trusted),
        sign("does not exist or is not currently imported",
             r"Tokenizer class \S+ does not exist or is not currently imported", strength=2),
        sign("Do you wish to run the custom code?", kind=HINT, strength=1),
        sign("can avoid this prompt in future by passing", kind=HINT, strength=1),
    ), ("scheduler-exception", "unknown")),
    Cause("model-path-missing", 25, "the model directory or its weight files do not exist", _model, (
        sign("Repo id must be in the form", r"Repo id must be in the form .*?: '(?P<path>[^']+)'", strength=4,
             when=_local),
        sign("Cannot find any model weights with", strength=4),
        sign("Incorrect path_or_model_id", r"Incorrect path_or_model_id: '(?P<path>[^']+)'", strength=3, when=_local),
        sign("is not a local folder and is not a valid model identifier",
             r"(?P<path>\S+) is not a local folder and is not a valid",
             strength=3, when=_local),
        sign("does not appear to have a file named", r"(?P<path>\S+) does not appear to have a file named",
             strength=3, when=_local),
        sign("[Errno 2]", r"\[Errno 2\] [^:]*: '(?P<path>[^']+)'", strength=3, when=_of_model),
        sign("No such file or directory", r"No such file or directory: \"?(?P<path>/[^\"' ]+\.safetensors)",
             strength=3),
        sign("Error while deserializing header", strength=2),
        sign("Can't load tokenizer for", r"Can't load tokenizer for '(?P<path>[^']+)'", strength=2, when=_local),
        sign("Can't load the configuration of", r"Can't load the configuration of '(?P<path>[^']+)'", strength=2,
             when=_local),
        sign("Couldn't instantiate the backend tokenizer", strength=1),
    )),
    Cause("hf-download-failed", 26, "the hub does not give the model", _download, (
        sign("trying to access a gated repo", strength=6),
        sign("outgoing traffic has been disabled", strength=5),
        sign("offline mode is enabled", r"Cannot reach \S+: offline mode is enabled", strength=5),
        sign("couldn't connect to", r"We couldn't connect to '", strength=4),
        sign("GatedRepoError", r"GatedRepoError: ", strength=3),
        sign("Cannot access gated repo", strength=3),
        sign("is not a local folder and is not a valid model identifier",
             r"(?P<path>\S+) is not a local folder and is not a valid",
             strength=3, when=_remote),
        sign("Client Error", r"\b40[13] Client Error", strength=2),
        sign("Client Error", r"\b(?:404|429) Client Error", strength=1),
        sign("RepositoryNotFoundError", r"RepositoryNotFoundError: ", strength=2),
        sign("LocalEntryNotFoundError", r"LocalEntryNotFoundError: ", strength=2),
        sign("does not appear to have a file named", r"(?P<path>\S+) does not appear to have a file named",
             strength=2, when=_remote),
        sign("Max retries exceeded",
             r"HTTPSConnectionPool\(host='[^']+', port=443\): Max retries exceeded", strength=2),
        sign("locate the file on the Hub", strength=2),
        sign("httpx.Connect", r"httpx\.Connect(?:Error|Timeout): ", strength=1),
    )),
)
