"""What differs between releases of SGLang, as far as the stand-in shows it (facts: the releases' own wheels)."""

from __future__ import annotations


class Release:
    """Compares by number: ``release >= (0, 5, 4)``."""

    def __init__(self, text: str) -> None:
        self.text = text
        numbers = []
        for part in text.split(".")[:3]:
            digits = ""
            for character in part:
                if not character.isdigit():
                    break
                digits += character
            numbers.append(int(digits or 0))
        self.number = tuple(numbers)

    def __ge__(self, other: tuple[int, ...]) -> bool:
        return self.number >= other

    def __lt__(self, other: tuple[int, ...]) -> bool:
        return self.number < other

    @property
    def health_means_ready(self) -> bool:
        """/health is 503 until the warm-up has passed, and probes; before, any open port says 200."""
        return self >= (0, 5, 1)

    @property
    def has_ready(self) -> bool:
        return self >= (0, 5, 20)

    @property
    def has_new_info_paths(self) -> bool:
        """/model_info and /server_info beside /get_model_info and /get_server_info."""
        return self >= (0, 5, 6)

    @property
    def args_as_dict(self) -> bool:
        return self >= (0, 5, 19)

    @property
    def reads_config(self) -> bool:
        return self >= (0, 5, 3)

    @property
    def auto_reads_checkpoint(self) -> bool:
        """kv-cache-dtype auto follows the checkpoint's kv_cache_quant_algo."""
        return self >= (0, 5, 3)

    @property
    def accepts_bf16(self) -> bool:
        return self >= (0, 5, 4)

    @property
    def exits_zero(self) -> bool:
        """A clean stop ends with exit status 0; before, with SIGKILL of itself."""
        return self >= (0, 5, 19)

    @property
    def watches_children(self) -> bool:
        """A scheduler that dies at run time is noticed."""
        return self >= (0, 5, 10)

    @property
    def drains(self) -> bool:
        """SIGTERM makes /health 503 meanwhile."""
        return self >= (0, 4, 10)

    @property
    def says_user_warning(self) -> bool:
        return self >= (0, 5, 10)
