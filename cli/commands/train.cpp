// `muster train` needs LibTorch, but for its help: the command itself is in
// cli/torch/commands/train.cpp.
#include "cli/command.h"
#include "cli/exec_torch.h"
#include "cli/line/help_only.h"
#include "cli/line/train_flags.h"

namespace muster::cli {
namespace {

int run_train_command(std::span<const std::string> args, program::Console& console) {
  TrainFlags flags;
  if (const auto over = help_only(*train_app(flags), args, console)) return *over;
  exec_torch("train", args);
}

}  // namespace

extern constinit const CommandEntry train_entry{
    "train", "train a model; alone, or as one rank under `muster run`", &run_train_command};

}  // namespace muster::cli
