"""What can be said of ranks on a GPU where there is none."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from runtime.event_log import EventLog
from runtime.options import RankOptions
from runtime.rank_process import settle

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "fake_gpu.py"

KINDS = (
    "add, attention, batch_norm, concat, conv2d, dropout, embedding, flat, layer_norm, linear, lstm, luong_attention, "
    "pool2d, relu, softmax"
)
MESSAGES = "all-reduce, exchange, receive, send"


def test_everything_that_ranks_compute_and_send_is_on_their_device() -> None:
    command = [sys.executable, str(SCRIPT), "20"]
    ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == f"{KINDS}\n{MESSAGES}\n"


@pytest.fixture
def tf32_everywhere() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.usefixtures("tf32_everywhere")
def test_a_rank_on_a_gpu_computes_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)

    settle(3, RankOptions(backend="nccl", num_threads=0))

    assert taken == [3]
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


def test_a_step_on_a_gpu_ends_with_its_own_stream_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    class Stream:
        def synchronize(self) -> None:
            waited.append("this stream")

    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append("all streams"))
    log = EventLog(device=torch.device("cuda"), is_timed=True)
    log.restart()

    with log.timed("compute"):
        pass

    assert waited == ["this stream"]
    assert [event.kind for event in log.events] == ["compute"]
