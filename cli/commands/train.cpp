// `muster train` needs LibTorch: the command itself is in cli/torch/commands/train.cpp.
#include "cli/command.h"
#include "cli/exec_torch.h"

namespace muster::cli {
namespace {

int run(std::span<const std::string> args, Console&) { exec_torch("train", args); }

}  // namespace

extern constinit const CommandEntry train_entry{
    "train", "train a model; alone, or as one rank under `muster run`", &run};

}  // namespace muster::cli
