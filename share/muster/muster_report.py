"""Reports of a Python program to the tuner of `muster tune`. One file, no dependencies, Python 3.6 or newer.

    from muster_report import report, params, resume_from, checkpoint_dir

    p = params()                                  # {"lr": 0.01, "optimizer": {"name": "sgd"}}; {} outside a study
    for epoch in range(1, 11):
        ...
        if report(loss=loss, accuracy=accuracy, step=epoch, checkpoint=path) != "continue":
            break                                 # "pause" or "stop": what must be kept is in the checkpoint

Copy it beside your program, or put the folder that has it into PYTHONPATH:
PYTHONPATH="$(dirname "$(command -v muster)")/../share/muster".

A process that no tuner started prints its reports on stderr and goes on. With several ranks, rank 0 reports.
Threads may report at the same time; a forked child gets a connection of its own.
What goes over the wire is described in docs/trial-protocol.md of Muster.
"""
import json
import math
import os
import socket
import sys
import threading
import time
import uuid

__all__ = ["report", "params", "resume_from", "checkpoint_dir", "reason", "TunerLost"]

LEASE_S = 60.0  # how long the tuner may be out of reach
_MAX_LINE = 64 * 1024


class TunerLost(SystemExit):
    """The tuner was out of reach for LEASE_S: the program ends with exit code 1, unless it catches this."""


def params(environ=os.environ):
    """The parameters of this trial, nested as in the study's space; {} outside a study."""
    path = environ.get("MUSTER_PARAMS_FILE")
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def resume_from(environ=os.environ):
    """The checkpoint from which this trial is to go on, or None."""
    return environ.get("MUSTER_RESUME_FROM") or None


def checkpoint_dir(environ=os.environ):
    """The folder for this trial's checkpoints, which is there, or None outside a study."""
    return environ.get("MUSTER_CHECKPOINT_DIR") or None


def report(metrics=None, step=None, checkpoint=None, **more):
    """Reports numbers by name, waits until the tuner has stored them, and returns its answer: "continue", "pause" or
    "stop". `step` is the time attribute (else the tuner counts reports); `checkpoint` the path of a checkpoint that holds
    the state at this report. Raises ValueError if the tuner refuses the report, TunerLost if it is gone."""
    return _link.report(dict(metrics or {}, **more), step, checkpoint)


def reason():
    """Why the newest report was answered as it was; may be empty."""
    return _link.reason


def _number(name, value):
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise ValueError("metric %r is no number: %r" % (name, value)) from None
    if math.isnan(value):
        return "nan"  # JSON has no word for it
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


class _Link:
    def __init__(self, environ=os.environ):
        self.environ = environ
        self.lock = threading.Lock()
        self.socket = None
        self.owner = None
        self.reason = ""

    def report(self, metrics, step, checkpoint):
        if not metrics:
            raise ValueError("a report has at least one metric")
        body = {str(name): _number(name, value) for name, value in metrics.items()}
        rest = {}
        if step is not None:
            rest["step"] = int(step)
        if checkpoint is not None:
            rest["checkpoint"] = os.path.abspath(os.fspath(checkpoint))
        self.reason = ""
        if self.environ.get("MUSTER_TUNER_ADDR"):
            with self.lock:
                return self._exchange(body, rest)
        line = json.dumps(dict(body, **rest))
        if self.environ.get("MUSTER_REPORT_FILE"):
            with open(self.environ["MUSTER_REPORT_FILE"], "a", encoding="utf-8") as file:
                file.write(line + "\n")
        else:
            print("report (no tuner listens): " + line, file=sys.stderr, flush=True)
        return "continue"

    def _exchange(self, metrics, rest):
        if self.owner != os.getpid():  # the first report, or a forked child's
            self.owner, self.client, self.sequence, self.socket = os.getpid(), uuid.uuid4().hex, 0, None
        message = dict({"type": "report", "sequence": self.sequence + 1, "metrics": metrics}, **rest)
        line = json.dumps(message).encode() + b"\n"
        if len(line) > _MAX_LINE:
            raise ValueError("a report has at most %d bytes" % _MAX_LINE)
        self.sequence += 1
        lost_since, pause = None, 0.01
        while True:
            try:
                return self._act_on(self._try(line))
            except OSError as error:
                self.socket = None
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since >= LEASE_S:
                    where = self.environ["MUSTER_TUNER_ADDR"]
                    raise TunerLost("muster: the link to the tuner at %s is lost: %s" % (where, error)) from error
                time.sleep(pause)
                pause = min(2 * pause, 1.0)

    def _act_on(self, answer):
        if answer["type"] == "error":
            if answer["sequence"] == 0:
                self.socket = None
            raise ValueError("the tuner refused this report: " + answer["message"])
        self.reason = answer.get("reason", "")
        return answer["action"]

    def _try(self, line):
        if self.socket is None:
            self.socket = self._connect()
            self.answers = self.socket.makefile("rb")
            hello = {"type": "hello", "token": self.environ.get("MUSTER_TUNER_TOKEN", ""), "client": self.client,
                     "trial": int(self.environ.get("MUSTER_TRIAL_ID", 0)),
                     "attempt": int(self.environ.get("MUSTER_TRIAL_ATTEMPT", 1))}
            line = json.dumps(hello).encode() + b"\n" + line
        self.socket.sendall(line)
        while True:
            text = self.answers.readline()
            if not text.endswith(b"\n"):
                raise ConnectionError("the tuner has hung up")
            answer = json.loads(text.decode())
            if answer["sequence"] in (0, self.sequence):
                return answer

    def _connect(self):
        address = self.environ["MUSTER_TUNER_ADDR"]
        if address.startswith("unix:"):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.connect(address[5:])
            return link
        if not address.startswith("tcp:") or ":" not in address[4:]:
            raise ValueError("MUSTER_TUNER_ADDR is no address: " + address)
        host, _, port = address[4:].rpartition(":")
        link = socket.create_connection((host.strip("[]"), int(port)))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link


_link = _Link()
