// `muster train` needs LibTorch, but for its help: the command itself is in
// cli/torch/commands/train.cpp.
#include <algorithm>

#include "cli/command.h"
#include "cli/exec_torch.h"
#include "cli/line/command_text.h"
#include "cli/line/parse.h"
#include "cli/line/train_flags.h"

namespace muster::cli {
namespace {

int run_train_command(std::span<const std::string> args, Console& console) {
  const std::vector<std::string> help{"--help"};
  TrainFlags flags;
  for (const std::string& word : args) {
    if (word == "--help" || word == "-h") return parse(*train_app(flags), help, console).value();
  }
  if (args.size() == 1 && args[0] == kDescribe)
    return parse(*train_app(flags), args, console).value();
  exec_torch("train", args);
}

}  // namespace

extern constinit const CommandEntry train_entry{
    "train", "train a model; alone, or as one rank under `muster run`", &run_train_command};

}  // namespace muster::cli
