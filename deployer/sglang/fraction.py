"""``mem-fraction-static`` where none is declared, by release (``server_args.py``, ``arg_groups/memory_hook.py``)."""

from __future__ import annotations

from deployer.protocol.records import dataclass
from deployer.sglang.version import at_least

_BY_TP = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88))


@dataclass(frozen=True)
class Fraction:
    """``value`` and how it comes about; ``exact`` False where it depends on what only the running release knows."""

    value: float
    how: str
    exact: bool = True


def default(release: str, gpu_mib: float, *, tp: int = 1, pp: int = 1, attention_dp: int = 1,
            speculative: str | None = None, multimodal: bool = False, chunked_prefill: int | None = None,
            graph_max_bs: int | None = None) -> Fraction:
    """The fraction a release takes for a GPU of ``gpu_mib`` MiB in all when nothing is declared."""
    if not at_least(release, "0.4.8"):
        value = next(value for size, value in _BY_TP if tp >= size)
        return Fraction(value, f"by tensor parallel size {tp}")
    if not at_least(release, "0.5.3"):
        return _by_class(gpu_mib, tp * pp, attention_dp > 1, bool(speculative), multimodal)
    return _by_reserve(release, gpu_mib, tp, pp, attention_dp, (speculative or "").upper(), multimodal,
                       chunked_prefill, graph_max_bs)


def _by_class(gpu_mib: float, ps: int, dp_attention: bool, speculative: bool, multimodal: bool) -> Fraction:
    gib = gpu_mib / 1024
    reserve = 2.8 + ps / 10 if gib < 35 else 9.5 + ps / 2 if gib < 90 else 12 + ps / 2 if gib < 160 else 32.0
    reserve += 2.0 * speculative + 4.0 * dp_attention
    value = round((gib - reserve) / gib, 3) * (0.9 if multimodal else 1.0)
    return Fraction(value, f"{reserve:g} GiB are reserved of {gib:.0f}")


def _by_reserve(release: str, gpu_mib: float, tp: int, pp: int, attention_dp: int, speculative: str, multimodal: bool,
                chunked: int | None, graph_bs: int | None) -> Fraction:
    gib = gpu_mib / 1024
    prefill, graphs = _by_size(gib, tp)
    prefill, graphs = chunked or prefill, graph_bs or graphs
    reserve = 512 + max(prefill, 2048) * 1.5 + graphs * 2 + tp * pp / 8 * 1024
    if attention_dp > 1:
        reserve += graphs * attention_dp * 3 * (1.5 if graphs > 300 else 1.0)
    if gib > 60:
        reserve = max(reserve, 10 * 1024)
    if not at_least(release, "0.5.14"):
        reserve += {"EAGLE": 2048, "EAGLE3": 2048, "NEXTN": 2048, "STANDALONE": 6144}.get(speculative, 0)
    value = round((gpu_mib - reserve) / gpu_mib, 3)
    return Fraction(value * (0.95 if multimodal else 1.0), f"{reserve / 1024:.1f} GiB are reserved of {gib:.1f}",
                    exact=not multimodal and not at_least(release, "0.5.14"))


def _by_size(gib: float, tp: int) -> tuple[int, int]:
    """Chunked prefill size and largest captured batch by the GPU's size."""
    many = tp >= 4
    if gib < 20:
        return 2048, 8
    if gib < 35:
        return 4096, 160 if many else 48
    if gib < 60:
        return 4096, 160 if many else 32
    if gib < 160:
        return 8192, 512 if many else 256
    return 16384, 512
