// `muster evaluate` needs LibTorch, but for its help: the command itself is in
// cli/torch/commands/evaluate.cpp.
#include "cli/command.h"
#include "cli/exec_torch.h"
#include "cli/line/ask_flags.h"
#include "cli/line/help_only.h"

namespace muster::cli {
namespace {

int run_evaluate_command(std::span<const std::string> args, program::Console& console) {
  EvaluateFlags flags;
  if (const auto over = help_only(*evaluate_app(flags), args, console)) return *over;
  exec_torch("evaluate", args);
}

}  // namespace

extern constinit const CommandEntry evaluate_entry{
    "evaluate",
    "measure a trained model: loss, accuracy, F1, or rmse, mae, r2",
    &run_evaluate_command};

}  // namespace muster::cli
