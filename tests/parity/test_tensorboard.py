"""Event files of muster::track beside those of torch.utils.tensorboard, both read by TensorBoard's own readers."""

import io
import json
import math
import re
import shutil

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from torch.utils.tensorboard import SummaryWriter


@pytest.fixture
def both(program, run, tmp_path):
    """both(calls, purge_step) writes ours/ and theirs/ and returns the two folders."""

    def write(calls, purge_step=None, ours="ours", theirs="theirs"):
        (tmp_path / "calls.json").write_text(json.dumps([["open", purge_step], *calls]))
        run(program("tensorboard_twin"), "calls.json", tmp_path / ours)
        with SummaryWriter(tmp_path / theirs, purge_step=purge_step) as writer:
            for call in calls:
                make(writer, *call)
        return tmp_path / ours, tmp_path / theirs

    return write


def make(writer, method, *arguments):
    match method, arguments:
        case "scalar", (tag, value, step, time):
            writer.add_scalar(tag, float(value), step, time)
        case "text", (tag, text, step, time):
            writer.add_text(tag, text, step, time)
        case "histogram", (tag, values, step, time):
            writer.add_histogram(tag, np.array([float(v) for v in values]), step, walltime=time)
        case "histogram32", (tag, values, step, time):
            writer.add_histogram(tag, np.array([float(v) for v in values], dtype=np.float32), step, walltime=time)
        case "image", (tag, shape, pixels, step, time):
            writer.add_image(tag, np.array(pixels, dtype=np.uint8).reshape(shape), step, time, dataformats="HWC")
        case "hparams", (hparams, metrics):
            writer.add_hparams(hparams, metrics, run_name="hparams")
        case _:
            raise ValueError(method)


def events(folder):
    """Every event of a folder's files, in TensorBoard's order."""
    return [event for file in sorted(folder.glob("events.out.tfevents.*")) for event in LegacyEventFileLoader(str(file)).Load()]


def age_files(folder, seconds):
    """Gives a folder's event files the names they had if they had been made so many seconds ago. PyTorch's writers count up behind
    the second, the host and the process: "….9" and "….10", made in one second, sort as text, and so are read the wrong way round."""
    for file in folder.glob("events.out.tfevents.*"):
        prefix, time, rest = re.fullmatch(r"(events\.out\.tfevents\.)(\d{10})(\..*)", file.name).groups()
        file.rename(folder / f"{prefix}{int(time) - seconds:010d}{rest}")


def without_clock(event):
    """An event with what may differ taken out: the writer's name, and the times that no call gave."""
    event.ClearField("source_metadata")
    if event.WhichOneof("what") != "summary":
        event.wall_time = 0
    return event


def read(folder):
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}).Reload()


def test_scalars_and_texts_are_the_same_events(both):
    values = [0.0, -0.0, 1.5, -3, 1e-40, 3e38, 0.1, "nan", "inf", "-inf"]
    calls = [["scalar", "loss/train", v, step, 1700000000.25 + step] for step, v in enumerate(values)]
    calls += [["scalar", "größe 损失", 1, 2**40, 5.5], ["text", "note", "# title\n<b>ü</b>", 3, 6.5], ["text", "empty", "", 0, 1]]
    ours, theirs = both(calls)
    assert list(map(without_clock, events(ours))) == list(map(without_clock, events(theirs)))
    scalars = read(ours).Scalars("loss/train")
    assert [s.step for s in scalars] == list(range(10))
    assert [s.wall_time for s in scalars] == [1700000000.25 + step for step in range(10)]
    assert [s.value for s in scalars[:7]] == [float(np.float32(v)) for v in values[:7]]
    assert math.isnan(scalars[7].value) and scalars[8].value == -scalars[9].value == math.inf


def first_edges(count):
    edges, v = [], 1e-12
    while v < 1e20:
        edges.append(v)
        v *= 1.1
    return edges[:count] + edges[-count:]


def histogram_inputs():
    rng = np.random.default_rng(5)
    edges = first_edges(300)
    return {
        "normal": rng.normal(size=5000).tolist(),
        "heavy": (rng.normal(size=3000) * 10.0 ** rng.uniform(-14, 21, 3000)).tolist(),
        "edges": edges + [-e for e in edges],
        "beside edges": [np.nextafter(s * e, up) for e in edges for s in (1, -1) for up in (math.inf, -math.inf)],
        "zeros": [0.0, -0.0, 0.0],
        "one": [3.0],
        "small": [1e-300, -1e-300, 5e-324, 1e-12, -1e-12],
        "largest": [edges[-1], -edges[-1], np.nextafter(edges[-1], math.inf), 1e30, -1e30, 0.5],
        "leftmost": [-edges[-1]],
        "nan": [0.5, "nan", 1.5],
        "inf": [0.5, "inf", 1.5, -2],
        "-inf": [0.5, "-inf", -1.5],
    }


@pytest.mark.parametrize("method", ["histogram", "histogram32"])
@pytest.mark.parametrize("name", histogram_inputs())
def test_histograms_have_the_same_buckets(both, name, method):
    ours, theirs = both([[method, "w", histogram_inputs()[name], 4, 2.0]])
    our, their = (next(e for e in events(folder) if e.summary.value).summary.value[0].histo for folder in (ours, theirs))
    assert list(our.bucket_limit) == list(their.bucket_limit)
    assert list(our.bucket) == list(their.bucket)
    assert [our.num] == [their.num]
    for field in ("min", "max"):
        np.testing.assert_equal(getattr(our, field), getattr(their, field))
    scale = sum(abs(float(v)) for v in histogram_inputs()[name])
    for field, size in (("sum", scale), ("sum_squares", their.sum_squares)):
        o, t = getattr(our, field), getattr(their, field)
        assert o == t or (math.isnan(o) and math.isnan(t)) or abs(o - t) <= 1e-12 * size, field
    if name == "normal":
        assert read(ours).Histograms("w")[0].histogram_value.num == 5000


@pytest.mark.parametrize("values", [[], ["nan", "nan"], ["inf"], [1e21]])
def test_a_histogram_that_python_refuses_is_refused(program, tmp_path, values):
    with SummaryWriter(tmp_path / "theirs") as writer, pytest.raises(ValueError):
        make(writer, "histogram", "w", values, 0, 0.0)
    (tmp_path / "calls.json").write_text(json.dumps([["open", None], ["histogram", "w", values, 0, 0.0]]))
    import subprocess
    done = subprocess.run([program("tensorboard_twin"), tmp_path / "calls.json", tmp_path / "ours"], capture_output=True, text=True)
    assert done.returncode != 0 and "a histogram of nothing" in done.stderr


@pytest.mark.parametrize("channels, mode", [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_pictures_decode_to_the_same_pixels(both, channels, mode):
    shape = [7, 5, channels]
    pixels = np.random.default_rng(channels).integers(0, 256, shape, dtype=np.uint8)
    ours, theirs = both([["image", "digit", shape, pixels.flatten().tolist(), 1, 2.0]])
    our, their = (read(folder).Images("digit")[0] for folder in (ours, theirs))
    assert (our.step, our.wall_time, our.height, our.width) == (their.step, their.wall_time, their.height, their.width)
    decoded = Image.open(io.BytesIO(our.encoded_image_string))
    assert decoded.mode == mode
    assert (np.asarray(decoded).reshape(shape) == pixels).all()
    same = Image.open(io.BytesIO(their.encoded_image_string)).convert(decoded.mode)
    assert (np.asarray(same).reshape(shape) == pixels).all()


def hparam_summaries(folder):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
    values = [v for e in events(folder) for v in e.summary.value]
    return {v.tag: HParamsPluginData.FromString(v.metadata.plugin_data.content)
            for v in values if v.metadata.plugin_data.plugin_name == "hparams"}


def test_hyperparameters_are_the_same_summaries(both):
    hparams = {"lr": 0.05, "batch": 128, "model": "cnn:width=8", "zero": 0, "name": "größe"}
    metrics = {"accuracy/test": 0.5, "loss/test": 1.25}
    ours, theirs = both([["hparams", hparams, metrics]])
    our, their = hparam_summaries(ours), hparam_summaries(theirs / "hparams")
    assert our == their and len(our) == 3
    assert {tag: read(ours).Scalars(tag)[0].value for tag in metrics} == metrics


def test_the_hparams_tab_lists_a_run_while_it_runs_and_afterwards(program, run, tmp_path):
    """Through the plugin's own backend, as the web page asks it."""
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    def sessions():
        multiplexer = plugin_event_multiplexer.EventMultiplexer()
        multiplexer.AddRunsFromDirectory(str(tmp_path / "runs")).Reload()
        provider = data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path / "runs"))
        back = backend_context.Context(base_plugin.TBContext(data_provider=provider, multiplexer=multiplexer))
        request = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=10, allowed_statuses=[0, 1, 2, 3])
        request.col_params.add(metric=api_pb2.MetricName(tag="accuracy/test"))
        found = list_session_groups.Handler(context.RequestContext(), back, "", request).run()
        return [session for group in found.session_groups for session in group.sessions], found.session_groups

    start = ["start_hparams", {"lr": 0.1, "nesterov": True, "model": "mlp"}, ["accuracy/test"]]
    calls = {
        "running": [start],
        "done": [start, ["scalar", "accuracy/test", 0.75, 9, 1.0], ["end_hparams", True]],
        "failed": [start, ["end_hparams", False]],
    }
    for name, list_ in calls.items():
        (tmp_path / "calls.json").write_text(json.dumps([["open", None], *list_]))
        run(program("tensorboard_twin"), "calls.json", tmp_path / "runs" / name)
    found, groups = sessions()
    status = {s.name: s.status for s in found}
    assert status == {"running": api_pb2.STATUS_UNKNOWN, "done": api_pb2.STATUS_SUCCESS, "failed": api_pb2.STATUS_FAILURE}
    done = next(s for s in found if s.name == "done")
    assert done.start_time_secs > 1e9 and done.end_time_secs >= done.start_time_secs
    assert [m.value for m in done.metric_values if m.name.tag == "accuracy/test"] == [0.75]
    kinds = {name: value.WhichOneof("kind") for name, value in groups[0].hparams.items()}
    assert kinds == {"lr": "number_value", "nesterov": "bool_value", "model": "string_value"}


def test_a_resumed_run_replaces_what_it_does_again(both):
    first = [["scalar", "loss", 10 + step, step, 100.0 + step] for step in range(8)]
    _, theirs = both(first)
    age_files(theirs, 60)
    again = [["scalar", "loss", 20 + step, step, 200.0 + step] for step in range(5, 9)]
    ours, theirs = both(again, purge_step=5)
    for folder in (ours, theirs):
        assert [(s.step, s.value) for s in read(folder).Scalars("loss")] == [
            *((step, 10 + step) for step in range(5)), *((step, 20 + step) for step in range(5, 9))], folder
    assert list(map(without_clock, events(ours))) == list(map(without_clock, events(theirs)))


def test_a_file_cut_anywhere_reads_as_its_whole_events(both, tmp_path):
    ours, _ = both([["scalar", "loss", step, step, float(step)] for step in range(4)])
    file = next(ours.iterdir())
    whole = file.read_bytes()
    seen = set()
    for size in range(len(whole) + 1):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        (tmp_path / "cut").mkdir()
        (tmp_path / "cut" / file.name).write_bytes(whole[:size])
        count = len([e for e in events(tmp_path / "cut") if e.summary.value])
        seen.add(count)
        assert count <= 4
    assert seen == {0, 1, 2, 3, 4}
