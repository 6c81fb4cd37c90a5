"""Snapshot files of memory::AllocationHistory in PyTorch's own viewer: torch/cuda/_memory_viz.py opens them, and its totals are ours."""

import json
import pickle
import pickletools
import re
import sys

import pytest
from torch.cuda import _memory_viz


@pytest.fixture
def snapshot(program, run, tmp_path):
    """The file, what it holds, and what our counters say."""
    said = json.loads(run(program("memory_twin"), "memory.pickle", 30))
    path = tmp_path / "memory.pickle"
    return path, pickle.loads(path.read_bytes()), said


def test_the_file_has_the_form_of_their_snapshots(snapshot):
    _, data, _ = snapshot
    assert set(data) == {"segments", "device_traces", "allocator_settings"}
    for segment in data["segments"]:
        assert {"device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
                "blocks", "frames"} <= set(segment)
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    actions = {event["action"] for event in data["device_traces"][0]}
    assert actions == {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot"}


def test_opcodes_are_those_that_the_viewer_in_the_browser_reads(snapshot):
    path, _, _ = snapshot
    # MemoryViz.js of 2.15; and no list has more items at once than a call may have arguments there.
    known = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BININT", "LONG1", "BINUNICODE", "LONG_BINPUT",
             "LONG_BINGET", "STOP"}
    depth, batch = [], 0
    for opcode, argument, _ in pickletools.genops(path.read_bytes()):
        assert opcode.name in known, opcode.name
        if opcode.name == "LONG1":
            assert -(1 << 63) <= argument < 1 << 63
    # "unknown" is among the categories, or the viewer stumbles over its own typing error.
    data = pickle.loads(path.read_bytes())
    assert "unknown" in {event["category"] for event in data["device_traces"][0]}
    assert len(data["device_traces"][0]) > 1000  # several batches


def collapsed(lines):
    """"stream_0;active_allocated;scope:0:forward;operator:0:aten::relu 123" as (frames, bytes)."""
    for line in lines.splitlines():
        frames, size = line.rsplit(" ", 1)
        yield frames.split(";"), int(size)


def test_the_viewers_totals_are_ours(snapshot):
    _, data, said = snapshot
    for view in (_memory_viz.segments, _memory_viz.memory):
        rows = list(collapsed(view(data, format_flamegraph=lambda lines: lines)))
        assert sum(size for _, size in rows) == said["bytes"] == said["current"]
    summary = _memory_viz.segsum(data)
    assert f"segments: {said['blocks']}\n" in summary
    assert f"total_allocated: {_memory_viz.Bytes(said['bytes'])}\n" in summary


def test_frames_are_scopes_and_operators_with_our_bytes(snapshot):
    _, data, said = snapshot
    theirs = {}
    for frames, size in collapsed(_memory_viz.memory(data, format_flamegraph=lambda lines: lines)):
        named = [frame.split(":", 2) for frame in frames[2:] if frame != "<non-python>"]
        scope = "/".join(name for kind, _, name in named if kind == "scope")
        operator = "".join(name for kind, _, name in named if kind == "operator")
        key = f"{scope};{operator}"
        theirs[key] = theirs.get(key, 0) + size
    assert theirs == said["by_scope"]
    assert any(key.startswith("forward;") for key in theirs)


def test_the_trace_replays_to_the_live_bytes(snapshot):
    _, data, said = snapshot
    live, most = {}, 0
    for event in data["device_traces"][0]:
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed":
            assert live.pop(event["addr"]) == event["size"]
        elif event["action"] == "oom":
            assert (event["size"], event["device_free"]) == (4 << 20, 1000)
            assert sum(live.values()) == said["current"]
        most = max(most, sum(live.values()) if event["action"] == "alloc" else 0)
    assert said["forgotten"] == 0
    assert sum(live.values()) == said["current"]
    assert most > said["current"]
    times = [event["time_us"] for event in data["device_traces"][0]]
    assert times == sorted(times)
    assert {"activation", "gradient", "unknown"} <= {event["category"] for event in data["device_traces"][0]}


@pytest.mark.parametrize("command", ["trace_plot", "segment_plot", "stats", "trace"])
def test_their_command_line_opens_it(snapshot, run, tmp_path, command):
    path, data, said = snapshot
    words = [sys.executable, "-m", "torch.cuda._memory_viz", command, path]
    if not command.endswith("_plot"):
        out = run(*words)
        assert f"segments: {said['blocks']}" in out or "OutOfMemoryError # 4.0MiB requested, 1000.0B free" in out
        return
    run(*words, "-o", "plot.html")
    page = (tmp_path / "plot.html").read_text()
    import base64
    held = base64.b64decode(re.search(r'"base64": "([^"]*)"', page)[1])
    assert pickle.loads(held) == data
