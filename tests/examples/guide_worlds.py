"""What guide_commands.py puts into the scratch folder of a guide: what the reader has there, and what a page takes for granted."""
import fcntl
import gzip
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tarfile
import threading
import time

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
JPEG = ("colour_420.jpg", "colour_444_q100.jpg", "colour_422.jpg", "colour_444.jpg", "colour_420_q20.jpg", "grey.jpg")
GIB = 1 << 30
lock = threading.Lock()


def cut_fashion_mnist(folder, share):
    """The first samples of each of the four files, one of `share`."""
    folder.mkdir(parents=True)
    for name, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        for split, count in (("train", 60000), ("t10k", 10000)):
            file, kept = f"{split}-{name}-ubyte.gz", count // share
            with gzip.open(FASHION_MNIST / file) as whole:
                text = whole.read(head + kept * size)
            with gzip.open(folder / file, "wb", compresslevel=1) as part:
                part.write(text[:4] + kept.to_bytes(4, "big") + text[8:])


class World:
    """The scratch folder of one guide. `shell(text)` runs there and gives the exit code and what was printed."""

    def __init__(self, build, folder, root, shell):
        self.build, self.folder, self.root, self.shell = build, folder, root, shell
        self.children, self.held = [], []
        (folder / "home").mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "build").symlink_to(build)

    def fashion_mnist(self, share):
        """A small part of it, one for all guides."""
        part = self.folder.parent / f"fashion-mnist-{share}"
        with lock:
            if not part.exists():
                cut_fashion_mnist(part, share)
        return part

    def write(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def must(self, text):
        code, printed = self.shell(text)
        assert code == 0, f"{text}: ends with {code}:\n" + "\n".join(printed)
        return printed

    def train(self, words, share=200):
        self.must(f"muster train {words} --data-dir {self.fashion_mnist(share)}")

    def remove_runs(self):
        shutil.rmtree(self.folder / "runs", ignore_errors=True)

    def start(self, words):
        env = {"HOME": str(self.folder / "home"), "PATH": f"{self.build / 'bin'}:{os.environ['PATH']}"}
        self.children.append(subprocess.Popen(words, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL, start_new_session=True))

    def close(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for held in self.held:
            held.close()
        self.children, self.held = [], []


# Programs of the reader.

def program(name, text):
    return lambda world: world.write(name, f"#!/bin/bash\nexec {world.build}/{text}\n")


def trial(world):
    """One that reports its rate as the loss: ./train --lr RATE."""
    world.write("train", "#!/bin/bash\nexec muster report loss=$2 step=1\n")


# Folders of images and tables.

def put_images(world, folder, classes, count):
    for name in classes:
        (world.folder / folder / name).mkdir(parents=True)
        for i in range(count):
            shutil.copy(world.root / "tests/golden/images/input" / JPEG[i % len(JPEG)], world.folder / folder / name / f"{i}.jpg")


def data(world):
    put_images(world, "home/pets", ("cat", "dog"), 30)
    put_images(world, "photos", ("china", "flower"), 60)
    cut = world.folder / "photos/flower/7.jpg"
    cut.write_bytes(cut.read_bytes()[:1500])
    rows = [f"{i},{4 + i % 3 + i % 7 / 10:.1f},{2 + i % 5 / 10:.1f},{'abc'[i % 3]}" for i in range(150)]
    world.write("flowers.csv", "\n".join(["id,length,width,species", *rows]) + "\n")
    rooms = [(30 + i % 70, 1 + i % 5) for i in range(150)]
    world.write("houses.csv", "\n".join(["area,rooms,price", *(f"{a},{r},{2000 * a + 9000 * r + i % 7}" for i, (a, r) in enumerate(rooms))]) + "\n")
    world.write("new.csv", "rooms,area\n3,55\n2,41\n")
    put_shard(world, "shards/a.tar")


def put_shard(world, name):
    """Samples of two classes: an image each, and the class's name."""
    put_images(world, "in-shard", ("china", "flower"), 10)
    folder = world.folder / "in-shard"
    file = world.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as shard:
        for image in sorted(folder.rglob("*.jpg")):
            label = image.with_suffix(".cls")
            label.write_text(image.parent.name)
            for member in (image, label):
                shard.add(member, str(member.relative_to(folder)))
    shutil.rmtree(folder)


def photos(world):
    put_images(world, "photos", ("china", "flower"), 4)


# Runs.

def evaluated_run(world):
    world.train("--model mlp --epochs 1 --workers 0 --output runs/a")


def unbroken_run(world):
    world.train("--model mlp:hidden=128 --workers 0 --epochs 2 --checkpoint-every 10 --output runs/unbroken", 10)


def hold_run(world):
    held = open(world.folder / "runs/a/.lock", "a+")
    fcntl.lockf(held, fcntl.LOCK_EX)
    world.held.append(held)


def let_go(world):
    world.held.pop().close()


def alter_checkpoint(world):
    run = world.folder / "runs/b"
    file = run / "checkpoints" / (run / "latest").read_text().strip() / "model.safetensors"
    text = bytearray(file.read_bytes())
    text[-1] ^= 1
    file.write_bytes(text)


def resnet_weights(world):
    """A step of ResNet-18: its weights under the names of the page."""
    world.train("--model resnet18 --max-steps 1 --limit-val-batches 0 --limit-test-batches 0 --workers 0 --output runs/weights")
    weights = next((world.folder / "runs/weights/checkpoints").glob("step-*/model.safetensors"))
    for name in ("resnet18", "imagenet", "old"):
        shutil.copy(weights, world.folder / f"{name}.safetensors")


def head_weights(world):
    """What the training of the head would leave."""
    world.must("mkdir -p runs/head/checkpoints/step-44 && cp imagenet.safetensors runs/head/checkpoints/step-44/model.safetensors")


# Studies.

def failed_trials(world):
    """A study of four trials that were asked for; 0 and 3 failed. The page's own one is set aside."""
    set_aside(world)
    world.must("muster study ask study.toml --count 4")
    for number in (0, 3):
        world.must(f"muster study tell study.toml {number} --failed crash")


def set_aside(world):
    world.must("mkdir page && mv fashion* page")


def page_study(world):
    world.must("rm -rf fashion* && mv page/* . && rmdir page")


def running_study(world):
    """Ten trials that report until they are told to end, all at once."""
    set_aside(world)
    world.write("endless.sh", ENDLESS)
    text = (world.folder / "study.toml").read_text()
    text = text[:text.index("[scheduler]")].replace("./train.sh", "./endless.sh")
    text = text.replace("max_concurrent = 2", "max_concurrent = 12\nstop_grace = '0s'")
    world.write("live.toml", text.replace("num_samples = 20", "num_samples = 10") + "\n[resources_per_trial]\ncpu = 0.001\n")
    world.start(["muster", "tune", "live.toml"])
    await_trial("RUNNING")(world)


ENDLESS = """#!/bin/bash
for ((t = 1; ; t++)); do
  touch $MUSTER_CHECKPOINT_DIR/$t
  muster report step=$t accuracy=0.5 --checkpoint $MUSTER_CHECKPOINT_DIR/$t || exit
  sleep 0.5
done
"""


def await_trial(state):
    def wait(world):
        for _ in range(600):
            code, printed = world.shell("muster study show fashion.db")
            if code == 0 and any(line.split()[:2] == ["7", state] for line in printed):
                return
            time.sleep(0.1)
        raise AssertionError(f"trial 7 is not {state}:\n" + "\n".join(printed))
    return wait


def end_running_study(world):
    world.close()
    page_study(world)


def auto_searcher(world):
    """The study file with the page's lines about the searcher, and no study yet."""
    text, lines = ((world.folder / name).read_text() for name in ("study.toml", "searcher.toml"))
    world.write("study.toml", text.replace('[searcher]\ntype = "random"\nseed = 1\n', lines))
    world.must("rm -rf fashion*")


def two_objectives(world):
    """A study with the page's objectives, and what three trials had."""
    world.write("two.toml", 'name = "two"\nnum_samples = 20\ncommand = ["true"]\n' + (world.folder / "objectives.toml").read_text() +
                '[space]\nlr = "loguniform(1e-4, 1e-1)"\nwidth = "randint(8, 256)"\n')
    for number, told in enumerate(("accuracy=0.885 step_s=0.4301", "accuracy=0.6492 step_s=0.0196", "accuracy=0.8506 step_s=0.1767")):
        world.must(f"muster study ask two.toml && muster study tell two.toml {number} {told} peak_mib=500 --end")


# Devices.

def device(index, used, utilization, **more):
    return {"name": "NVIDIA A100-SXM4-40GB", "uuid": f"GPU-0000000{index}", "bus_id": f"00000000:3{index}:00.0", "total": 40 * GIB,
            "used": used * GIB, "reserved": GIB // 2, "utilization": utilization, "temperature": 64, "power_mw": 312400, "limit_mw": 400000,
            "mode": 0, "ecc": 0, "processes": [], **more}


def driver(devices, **more):
    def write(world):
        world.write("scenario.json", json.dumps({"driver": "550.54.15", "cuda": 12040, "devices": devices, **more}))
        world.write("bin/jq", JQ)
    return write


def mig(name, used):
    return {"name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "uuid": name, "total": 20 * GIB, "used": int(used * GIB), "gi": len(name), "ci": 0}


# The paths of jq that the page asks for.
JQ = """#!/usr/bin/env python3
import json, re, sys
found = [json.load(sys.stdin)]
for key, each in re.findall(r"\\.(\\w+)(\\[\\])?", sys.argv[1]):
    found = [value[key] for value in found]
    found = [item for value in found for item in value] if each else found
print(*map(json.dumps, found), sep="\\n")
"""

PAGE_DEVICES = [device(0, 31, 79), device(1, 23, 65), device(2, 7, 0, errors={"nvmlDeviceGetUtilizationRates": 3},
                                                           mig=[mig("a", 6), mig("bb", 1 / 16)])]
FREE_DEVICES = [device(0, 1, 5), device(1, 2, 5)]

TRAIN_LOG = """\
[0] step 811
[2] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 2 has a total capacity of 79.15 GiB of which 17.62 MiB \
is free. Process 4242 has 79.12 GiB memory in use. Of the allocated memory 77.50 GiB is allocated by PyTorch, and 1.01 GiB is reserved by \
PyTorch but unallocated.
[1] [E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, \
NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
[0] terminate called after throwing an instance of 'c10::DistBackendError'
[0]   what():  NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.21.5
"""


def log_of_a_run(world):
    world.write("train.log", TRAIN_LOG)
    world.write("train", f"#!/bin/bash\nexec {world.build}/bin/muster_monitored_rank gloo 3000\n")
