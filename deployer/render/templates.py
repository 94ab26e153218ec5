"""Jinja: the workspace's template of a name comes before the packaged one, for what is included or imported too.

What goes wrong in a template is a finding with the template's file and line.
"""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from deployer import resources
from deployer.errors import SettingsError
from deployer.protocol.finding import Finding, Level, Where
from deployer.render import unclosed
from deployer.systemd import quote

SUFFIX = ".j2"


def names() -> list[str]:
    """The packaged templates, by the names that settings use."""
    return sorted(path.name.removesuffix(SUFFIX) for path in resources.templates().glob(f"*{SUFFIX}"))


def source(name: str, workspace: Path | None) -> Path | None:
    """The file that a template's name means."""
    for folder in _folders(workspace):
        if (folder / (name + SUFFIX)).is_file():
            return folder / (name + SUFFIX)
    return None


def fill(name: str, context: Mapping[str, Any], workspace: Path | None, key: tuple[str, ...] = ("template",)) -> str:
    """The text of template ``name`` (without ``.j2``). Raises SettingsError with the place in the template.

    ``key`` is the place in the settings that named it.
    """
    file = source(name, workspace)
    if file is None:
        raise _failure("template-missing", f"there is no template {name}", None, key,
                       f"there are: {', '.join(names())}" if name not in names() else "")
    try:
        return _environment(workspace).get_template(name + SUFFIX).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise _syntax(error, file, key) from None
    except jinja2.TemplateNotFound as error:
        raise _failure("template-missing", f"there is no template {error.name}, which is included here",
                       _place(error, workspace) or Where(str(file)), key) from None
    except jinja2.UndefinedError as error:
        where = _place(error, workspace) or Where(str(file))
        raise _failure("template-undefined", str(error.message), where, key,
                       "the names that a template knows are listed at the end of `deployer templates -h`") from None
    except quote.QuotingError as error:
        raise _failure(error.code, str(error), _place(error, workspace) or Where(str(file)), key) from None
    except SettingsError:
        raise
    except Exception as error:
        place = _place(error, workspace)
        if place is None:
            raise
        raise _failure("template-failed", f"{type(error).__name__}: {error}", place, key) from None


@functools.lru_cache(maxsize=8)
def _environment(workspace: Path | None) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(folder) for folder in _folders(workspace)]),
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        word=_quoting(quote.word), path=_quoting(quote.path), text=_quoting(quote.text),
        program=_quoting(quote.program),
    )
    environment.globals.update(environment=quote.environment)
    return environment


def _quoting(function: Any) -> Any:
    return lambda value: function(str(value))


def _folders(workspace: Path | None) -> list[Path]:
    return [*([workspace] if workspace else []), resources.templates()]


def _place(error: BaseException, workspace: Path | None) -> Where | None:
    """The innermost frame that lies in a template; Jinja gives its frames the template's own lines."""
    folders = tuple(str(folder) for folder in _folders(workspace))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.endswith(SUFFIX) and frame.filename.startswith(folders):
            return Where(frame.filename, frame.lineno)
    return None


def _syntax(error: jinja2.TemplateSyntaxError, file: Path, key: tuple[str, ...]) -> SettingsError:
    """Where something was not closed: the place where it was opened, which comes before the one that Jinja names."""
    said, name, line = error.message or "syntax error", error.filename or str(file), error.lineno
    text = error.source or ""
    left = re.search(r"Unexpected end of template.*block that needs to be closed is '(\w+)'", said)
    begun = unclosed.block(text, left[1]) if left else None
    if left and begun:
        return _failure("template-syntax", f"the block `{left[1]}` here is not closed", Where(name, begun), key,
                        f"write {{% end{left[1]} %}} where it ends")
    opened = unclosed.mark(text, line)
    if opened:
        hint = f"write {unclosed.CLOSES[opened[1]]} where it ends" + (
            f"; that showed in line {line}" if line != opened[0] else "")
        return _failure("template-syntax", f"the `{opened[1]}` here is not closed", Where(name, opened[0]), key, hint)
    return _failure("template-syntax", said, Where(name, line), key)


def _failure(code: str, message: str, where: Where | None, key: tuple[str, ...], hint: str = "") -> SettingsError:
    return SettingsError("the template cannot be used",
                         [Finding(code, Level.ERROR, message, key=key, where=where, hint=hint)])
