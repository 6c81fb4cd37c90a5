// `muster train` needs LibTorch: the command itself is in cli/torch/commands/train.cpp.
#include "cli/command.h"
#include "cli/exec_torch.h"

namespace muster::cli {
namespace {

int run_train_command(std::span<const std::string> args, Console&) { exec_torch("train", args); }

}  // namespace

extern constinit const CommandEntry train_entry{
    "train", "train a model; alone, or as one rank under `muster run`", &run_train_command};

}  // namespace muster::cli
