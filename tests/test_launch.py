"""Local processes of an exchange: they end together, whatever happens. Needs no torch."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moe_lib.bench import exchange

ROOT = Path(exchange.__file__).parents[2]
SAY = "import os; open(os.environ['RANK'], 'w').write(str(os.getpid()))\n"
SLEEP = "from moe_lib.bench.exchange import end_with_parent; end_with_parent()\nimport time; time.sleep(60)\n"


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(folder, ranks=2, seconds=30):
    """Process ids that ranks left in a folder."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = [path.read_text() for path in sorted(folder.glob("[0-9]"))]
        if len(found) == ranks and all(found):
            return [int(pid) for pid in found]
        time.sleep(0.02)
    raise AssertionError(f"{ranks} ranks did not start in {folder}")


def run(code, **more):
    exchange.launch([sys.executable, "-c", code], 2, **more)


def test_every_rank_knows_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("import os; open(os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'] + os.environ['LOCAL_RANK'])")
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["20", "21"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_failing_rank_ends_all_and_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails = ("import time\nif os.environ['RANK'] == '1':\n"
             "    while not (os.path.exists('0') and os.path.getsize('0')):\n        time.sleep(.02)\n"
             "    raise ValueError('too hot')\n")
    with pytest.raises(RuntimeError, match="rank 1 of 2 ended with status 1: ValueError: too hot"):
        run(SAY + fails + SLEEP)
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_ranks_that_hang_are_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match=r"ranks \[0, 1\] of 2 did not end in time"):
        run(SAY + SLEEP, patience_s=2)
    assert not any(alive(int(path.read_text())) for path in tmp_path.glob("[0-9]"))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_ranks_end_when_their_parent_is_killed(tmp_path):
    code = f"import sys\nfrom moe_lib.bench.exchange import launch\nlaunch([sys.executable, '-c', {SAY + SLEEP!r}], 2)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env)
    ranks = pids(tmp_path)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in ranks) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in ranks)
