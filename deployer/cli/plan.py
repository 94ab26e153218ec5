"""``deployer plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deployer.cli import console, run_hosts
from deployer.cli.complete import units as complete_units
from deployer.errors import DeployerError, SettingsError, UsageError
from deployer.protocol.records import replace


@click.command("plan")
@click.argument("unit", shell_complete=complete_units)
@click.option("--host", "host_name", default=None, metavar="HOST", help="Ask this host for GPUs and checkpoint.")
@click.option("--gpu-memory", default=None, metavar="SIZE", help='Memory of one GPU, "96GiB", where no host is asked.')
@click.option("--gpus", default=None, type=click.IntRange(1), metavar="N", help="How many (default: as declared).")
@click.option("--config", "folder", default=None, type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="A folder with the checkpoint's config.json on this machine.")
@click.option("--weights", default=None, metavar="SIZE",
              help='Size of the checkpoint\'s weight files, "380GiB", where it cannot be read from them.')
@click.option("--sglang", "release", default=None, metavar="V",
              help="This release (default: the host's, else the newest that is declared).")
@click.option("--tokens", default=4096, show_default=True, type=click.IntRange(1), help="Tokens of one request.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@click.pass_context
def command(ctx: click.Context, unit: str, host_name: str | None, gpu_memory: str | None, gpus: int | None,
            folder: Path | None, weights: str | None, release: str | None, tokens: int, as_json: bool) -> int:
    """Say what will fit, before anything is pushed: weights, KV cache, tokens and requests, bf16 beside fp8.

    \b
    deployer plan qwen3.5-397b --host gpu1
    deployer plan qwen3.5-397b --gpu-memory 96GiB --gpus 8 --config ./Qwen3.5-397B-A17B-NVFP4
    deployer plan qwen3.5-397b --gpu-memory 96GiB --gpus 8 --config ./only-config-json --weights 235GiB
    """
    from deployer.rollout.plan import chosen, forecast, shape_of
    from deployer.rollout.units import check_again

    space = run_hosts.workspace(ctx)
    host = space.resolve([host_name])[0] if host_name else None
    loaded = space.load_unit(unit.removesuffix(".service"), host)
    if loaded.settings is None:
        raise SettingsError(f"the settings of {unit} cannot be read", loaded.findings,
                            hint=check_again(unit.removesuffix(".service"), host))
    settings = loaded.settings
    if settings.program != "sglang":
        raise UsageError(f"{unit} runs a router, which holds no model: there is nothing to plan")
    given = _mib(weights, "--weights") << 20 if weights else None
    texts, size, machine, found = _sources(settings, host, folder, gpu_memory, gpus or shape_of(settings).ranks_here)
    meant, why = (release, "") if release else chosen(settings.sglang, found)
    if meant is None:
        raise UsageError(f"no known release of SGLang matches {settings.sglang}", hint="name one with --sglang")
    result = forecast(settings, meant, texts, given or size, machine, tokens)
    if why:
        result = replace(result, notes=(why, *result.notes))
    if as_json:
        console.result_json(_plain(unit, result))
    else:
        _show(unit, result)
    return 1 if result.missing else 0


def _sources(settings: Any, host: Any, folder: Path | None, gpu_memory: str | None, gpus: int) -> tuple[Any, ...]:
    """Texts, weight bytes, machine and release, from a host or from this machine."""
    from deployer.rollout.plan import Machine, host_texts, local_texts

    if host is None:
        if gpu_memory is None or folder is None:
            raise UsageError("where are the GPUs and the checkpoint?",
                             hint="--host HOST, or --gpu-memory SIZE --gpus N --config DIR")
        return *local_texts(folder), Machine(_mib(gpu_memory), gpus), None
    from deployer.cli.asking import Quiet
    from deployer.rollout.preflight import meant

    with run_hosts.open_contact(host, Quiet()) as contact:
        facts = contact.ask_facts(settings.unit, settings).facts
    totals = [gpu.memory_total_mib for gpu in meant(settings, facts) if gpu.memory_total_mib]
    if gpu_memory is not None:
        totals = [_mib(gpu_memory)] * gpus
    if not totals:
        raise DeployerError(f"{host.name} shows no GPU memory", hint="deployer gpus, or --gpu-memory SIZE")
    texts, size = local_texts(folder) if folder else host_texts(facts)
    memory = facts.host.memory_total if isinstance(facts.host.memory_total, int) else None
    release = facts.sglang if isinstance(facts.sglang, str) else None
    return texts, size, Machine(min(totals), len(totals), memory), release


def _mib(text: str, option: str = "--gpu-memory") -> int:
    from deployer.settings.quantity import size

    try:
        return size(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}", hint='write it as "96GiB"') from None


def _show(unit: str, result: Any) -> None:
    console.show_findings(result.findings)
    source = f" ({result.resolved.by}{': ' + result.resolved.source if result.resolved.source else ''})"
    console.result(f"{unit}  SGLang {result.release}  KV cache {result.resolved.dtype}{source}")
    if result.missing:
        console.say(f"no forecast: {result.missing}")
        if result.hint:
            console.say(f"  next: {result.hint}")
    for line in result.common:
        console.result(f"  {line.name:<24} {line.text:<20} {line.how}")
    for column in result.columns:
        mark = "→" if _same(column.dtype, result.resolved.dtype) else " "
        console.result(f"{mark} KV cache {column.dtype}")
        for line in column.lines:
            console.result(f"    {line.name:<22} {line.text:<20} {line.how}")
    for line in result.around:
        console.result(f"  {line.name:<34} {line.text}")
    for note in result.notes:
        console.say(f"note: {note}")


def _same(one: str, other: str) -> bool:
    names = {"bfloat16": "bf16"}
    return names.get(one, one) == names.get(other, other)


def _plain(unit: str, result: Any) -> dict[str, Any]:
    def lines(found: Any) -> list[dict[str, Any]]:
        return [{"name": line.name, "value": line.value, "text": line.text, "how": line.how} for line in found]

    return {
        "unit": unit, "sglang": result.release, "kv_cache_dtype": result.resolved.dtype, "by": result.resolved.by,
        "source": result.resolved.source, "missing": result.missing or None,
        "next": result.hint or None, "common": lines(result.common),
        "dtypes": [{"dtype": column.dtype, "tokens": column.tokens, "lines": lines(column.lines)}
                   for column in result.columns],
        "around": lines(result.around), "request_tokens": result.request_tokens,
        "findings": [console.finding_json(finding) for finding in result.findings], "notes": list(result.notes),
    }
