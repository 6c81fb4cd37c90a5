"""Writes golden.json beside this file: records that TensorBoard's and PyTorch's own writers make, as hex.

Times are fixed, so that the bytes are. Run it with the peers' Python: .venv/bin/python tests/golden/tensorboard/make_golden.py
"""

import io
import json
import random
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog, SourceMetadata
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter, masked_crc32c
from torch.utils.tensorboard import SummaryWriter, summary


def record(event):
    out = io.BytesIO()
    RecordWriter(out).write(event.SerializeToString())
    return out.getvalue().hex()


def summary_record(value, step, wall_time):
    event = Event(summary=value, wall_time=wall_time)
    if step is not None:
        event.step = step
    return record(event)


def default_bins():
    writer = SummaryWriter.__new__(SummaryWriter)  # without a file
    writer.file_writer = writer.all_writers = None
    writer._get_file_writer = lambda: None
    SummaryWriter.__init__(writer, log_dir="unused")
    return writer.default_bins


def histogram(values):
    h = summary.make_histogram(np.array([float(v) for v in values]), default_bins())
    numbers = {name: repr(float(getattr(h, name))) for name in ("min", "max", "num", "sum", "sum_squares")}
    limits, counts = list(h.bucket_limit), list(h.bucket)
    start = default_bins().index(limits[0])
    assert default_bins()[start:start + len(limits)] == limits and len(limits) == len(counts)
    return {"values": values, **numbers, "start": start, "buckets": len(counts),
            "counts": [[i, count] for i, count in enumerate(counts) if count]}


def hparams():
    """Our own session: bool kept as such, in the order of the call."""
    data = plugin_data_pb2.HParamsPluginData()
    for name, kind in (("lr", "FLOAT64"), ("nesterov", "BOOL"), ("model", "STRING")):
        data.experiment.hparam_infos.add(name=name, type=f"DATA_TYPE_{kind}")
    data.experiment.metric_infos.add(name=api_pb2.MetricName(tag="accuracy/test"))
    return data.SerializeToString().hex()


def golden():
    bins = default_bins()
    rng = random.Random(3)
    normal = [rng.gauss(0, 1) for _ in range(60)]
    wide = [rng.choice([-1, 1]) * 10 ** rng.uniform(-15, 21) for _ in range(60)]
    edges = [bins[0], bins[-1], bins[1], -bins[1], bins[1200], -bins[1200], 0.0, 1e-12, -1e-12, 1e-13, -1e-13, 1e30]
    source = SourceMetadata(writer="muster.track.tensorboard")
    return {
        "records": {
            "version": record(Event(wall_time=1700000000.5, file_version="brain.Event:2", source_metadata=source)),
            "purge version": record(Event(wall_time=1700000000.5, step=7, file_version="brain.Event:2")),
            "purge start": record(Event(wall_time=1700000000.5, step=7, session_log=SessionLog(status=SessionLog.START))),
            "scalar": summary_record(summary.scalar("loss/train", 0.1), 300, 1700000001.25),
            "scalar at 0": summary_record(summary.scalar("loss/train", 0.0), 0, 1700000001.25),
            "text": summary_record(summary.text("note", "# größe"), 3, 1700000001.25),
            "histogram": summary_record(summary.histogram("w", np.array([0.5, 0.75, 0.5]), bins), 4, 1700000001.25),
        },
        "experiment": hparams(),
        "masked_crc32c": {text: masked_crc32c(text.encode()) for text in ("", "a", "123456789", "TensorBoard" * 9)},
        "edges": bins,
        "histograms": [histogram(values) for values in (normal, wide, edges, [3.0], [0.5, "nan", 1.5], [0.5, "-inf", 2.0])],
    }


Path(__file__).with_name("golden.json").write_text(json.dumps(golden(), indent=None).replace("}, ", "},\n") + "\n")
