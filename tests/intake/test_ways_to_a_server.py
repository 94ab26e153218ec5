"""Every way in which people start a server: what is in front of it, around it, and where it runs."""

from __future__ import annotations

import pytest

from deployer.intake.bring import How, bring_text
from deployer.intake.files import Files
from deployer.intake.found import Launch

SERVE = "python3 -m sglang.launch_server --model m"
ARGV = SERVE.split()


def launches(text: str) -> list[Launch]:
    result = bring_text(text.replace("SERVE", SERVE).encode(), "x.sh", "shell", Files(None), How())
    return [unit.launch for unit in result.units if unit.launch]


@pytest.mark.parametrize(("text", "wrapper", "env", "cwd"), [
    ("nohup setsid SERVE >log 2>&1 &", [], {}, None),
    ("A=1 numactl -N 0 taskset -c 0-3 SERVE", ["numactl", "-N", "0", "taskset", "-c", "0-3"], {"A": "1"}, None),
    ("sudo -u ai -E env HF_HOME=/x SERVE", ["sudo", "-u", "ai", "-E"], {"HF_HOME": "/x"}, None),
    ("A=1; export A; sudo B=2 SERVE", ["sudo"], {"A": "1", "B": "2"}, None),
    ("env -i A=1 SERVE", [], {"A": "1"}, None),
    ("export A=1 B=2; env -u A -C /w SERVE", [], {"B": "2"}, "/w"),
    ("uv run SERVE", ["uv", "run"], {}, None),
    ("conda run -n x SERVE", ["conda", "run", "-n", "x"], {}, None),
    ("systemd-run --unit=x -p Nice=5 SERVE", ["systemd-run", "--unit=x", "-p", "Nice=5"], {}, None),
    ("tmux new -d -s a -c /w -e A=1 SERVE", [], {"A": "1"}, "/w"),
    ("tmux new -d -s a; tmux send-keys -t a 'cd /w' C-m; tmux send-keys -t a 'SERVE' Enter", [], {}, "/w"),
    ("screen -dmS srv bash -c 'cd /w && exec SERVE'", [], {}, "/w"),
    ("ssh -p 22 gpu1 'cd /w && nohup SERVE > log 2>&1 &'", ["ssh", "-p", "22", "gpu1"], {}, "/w"),
    ("ssh gpu1 <<'EOF'\nSERVE\nEOF", ["ssh", "gpu1"], {}, None),
    ("su - ai -c 'SERVE'", ["su", "-", "ai"], {}, None),
    ("bash -lc 'bash -c \"A=1 exec SERVE\"'", [], {"A": "1"}, None),
    ("while true; do SERVE; sleep 5; done", [], {}, None),
    ("CMD=(SERVE); echo \"${CMD[@]}\"; \"${CMD[@]}\"", [], {}, None),
    ("cd /a || exit 1\npushd b; SERVE; popd", [], {}, "/a/b"),
    ("docker exec -d -w /w box SERVE", ["docker", "exec", "-d", "-w", "/w", "box"], {}, "/w"),
    ("docker run --rm -it --entrypoint python3 -e A=1 img -m sglang.launch_server --model m",
     ["docker", "run", "--rm", "-it", "--entrypoint", "python3", "-e", "A=1", "img"], {"A": "1"}, None),
    ("docker run -dit --gpus all img:1 bash -c 'cd /w && B=2 exec SERVE'",
     ["docker", "run", "-dit", "--gpus", "all", "img:1"], {"B": "2"}, "/w"),
    ("sudo podman --log-level debug run img SERVE", ["sudo", "podman", "--log-level", "debug", "run", "img"], {}, None),
])
def test_way(text: str, wrapper: list[str], env: dict[str, str], cwd: str | None) -> None:
    (found,) = launches(text)
    assert (found.argv, found.wrapper, found.env, found.cwd) == (ARGV, wrapper, env, cwd)


@pytest.mark.parametrize("text", [
    "echo SERVE", "pkill -f 'SERVE'", "# SERVE", "cat <<EOF\nSERVE\nEOF", "usage() { SERVE; }", "grep -c 'SERVE' x",
    "alias s='SERVE'", "false && SERVE", "if [ 1 = 2 ]; then SERVE; fi", "exit 0; SERVE", "docker pull img", "",
    "python3 -m http.server", "python3 train.py --launch sglang.launch_server", "X='SERVE'",
])
def test_no_server(text: str) -> None:
    assert launches(text) == []


@pytest.mark.parametrize(("text", "shown", "unresolved"), [
    ("D=$(cd \"$(dirname \"$0\")\" && pwd); SERVE --x $D/m", '$(cd "$(dirname "$0")" && pwd)/m',
     ['$(cd "$(dirname "$0")" && pwd)']),
    ("SERVE --x ${1}", "${1}", ["1"]),
    ("SERVE --x ${M##*/}", "${M}", ["M"]),
    ("SERVE --x $((A + 1))", "$((A + 1))", ["A"]),
    ("unset A; SERVE --x $((A + 1))", "1", []),
    ("A=$(nproc); SERVE --x $((A + 1))", "$((A + 1))", ["$(nproc)"]),
    ("SERVE --x \"$(< /none)\"", "$(< /none)", ["$(< /none)"]),
    ("SERVE --x $(curl -s http://x | jq .a)", "$(curl -s http://x | jq .a)", ["$(curl -s http://x | jq .a)"]),
    ("SERVE --x ~/m", "${HOME}/m", []),
    ("SERVE --x *.json", "*.json", ["*.json"]),
    ("if command -v nvcc >/dev/null; then A=1; fi; SERVE --x \"$A\"", "1", ["command -v nvcc"]),
    ("source /none/env.sh; SERVE --x $FROM_THERE", "${FROM_THERE}", ["FROM_THERE"]),
])
def test_what_is_not_known(text: str, shown: str, unresolved: list[str]) -> None:
    (found,) = launches(text)
    assert (found.argv[-1], found.unresolved) == (shown, unresolved)
