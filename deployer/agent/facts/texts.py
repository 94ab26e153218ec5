"""Small files of the host's that the client judges: a checkpoint's config.json and its like."""

from __future__ import annotations

import os
from typing import Sequence, Tuple, Union

from deployer.protocol.codec import Unknown
from deployer.protocol.facts import TextFile

LIMIT = 4 << 20
CHECKPOINT = ("config.json", "hf_quant_config.json", "generation_config.json", "tokenizer_config.json",
              "model.safetensors.index.json")


def read_texts(paths: Sequence[str]) -> Tuple[TextFile, ...]:
    """Each path with its text, or why there is none. Files of over 4 MiB are not read."""
    return tuple(TextFile(path, _read(path)) for path in paths)


def checkpoint(model_path: str) -> Tuple[str, ...]:
    """The paths of a local checkpoint's descriptions."""
    return tuple(os.path.join(model_path, name) for name in CHECKPOINT)


def weights_bytes(model_path: str) -> Union[int, Unknown]:
    """The size of a checkpoint's weight files together, in bytes."""
    endings = (".safetensors", ".bin", ".pt", ".gguf")
    try:
        with os.scandir(model_path) as entries:
            sizes = [entry.stat().st_size for entry in entries if entry.name.endswith(endings)]
    except OSError as error:
        return Unknown("{}: {}".format(model_path, error.strerror))
    return sum(sizes) if sizes else Unknown("{} holds no weight files".format(model_path))


def _read(path: str) -> Union[str, Unknown]:
    try:
        if os.path.getsize(path) > LIMIT:
            return Unknown("larger than 4 MiB")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        return Unknown("not UTF-8")
    except OSError as error:
        return Unknown(error.strerror or "not readable")
