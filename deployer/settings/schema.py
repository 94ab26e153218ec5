"""JSON Schema (2020-12) of the settings files, from the same objects that validate them."""

from __future__ import annotations

from typing import Any

from deployer.settings.host_keys import HOSTS
from deployer.settings.unit_keys import UNIT

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_JSON: dict[str, Any] = {
    "description": "A value that JSON has: no date and no time.",
    "type": ["string", "number", "boolean", "array", "object"],
    "items": {"$ref": "#/$defs/json"},
    "additionalProperties": {"$ref": "#/$defs/json"},
}


def unit_schema() -> dict[str, Any]:
    """Of ``units/NAME.toml``."""
    return {
        "$schema": _DRAFT,
        "title": "deployer: units/NAME.toml",
        "description": "The settings of one SGLang server: the unit NAME.service.",
        **UNIT.schema(),
        "oneOf": [{"required": ["sglang"]}, {"required": ["router"]}],
        "$defs": {"json": _JSON},
    }


def hosts_schema() -> dict[str, Any]:
    """Of ``hosts.toml``."""
    return {
        "$schema": _DRAFT,
        "title": "deployer: hosts.toml",
        "description": "The hosts that units are pushed to.",
        **HOSTS.schema(),
        "$defs": {
            "overrides": {"description": "A unit's settings, each optional.", **_optional(UNIT.schema())},
            "json": _JSON,
        },
    }


def _optional(schema: Any) -> Any:
    """The same schema with nothing required, and `false` taken for each key, since it takes the key away."""
    if not isinstance(schema, dict) or "oneOf" in schema:  # a secret's place is replaced as a whole
        return schema
    result = {key: value for key, value in schema.items() if key not in ("required", "default")}
    for key in ("properties", "patternProperties"):
        if key in schema:
            result[key] = {name: _removable(_optional(below)) for name, below in schema[key].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _removable(_optional(schema["additionalProperties"]))
    return result


def _removable(schema: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {key: schema[key] for key in ("description", "examples") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    return {**about, "anyOf": [rest, {"const": False}]}
