"""What both sides of benchmarks/peers/tune_fashion share: the study and the command line of a trial."""

STUDY = """
name = "fashion"
metric = "accuracy"
mode = "max"
num_samples = {trials}
max_concurrent = 2
command = {command}

[space]
l1 = "sample_from(2 ** randint(4, 9))"
lr = "loguniform(1e-4, 1e-1)"
batch_size = "choice(32, 64, 128, 256)"

[searcher]
type = "random"
seed = {seed}

[scheduler]
type = "asha"
max_t = {max_t}
grace_period = 1
reduction_factor = 2

[resources_per_trial]
cpu = 1
"""


def train_command(muster, config, data_dir, max_t):
    return [str(muster), "train", "--data", "fashion-mnist", "--data-dir", str(data_dir), "--model", f"mlp:hidden={config['l1']}",
            "--lr", str(config["lr"]), "--batch-size", str(config["batch_size"]), "--epochs", str(max_t), "--workers", "0",
            "--tensorboard", "off"]
