// `muster predict` needs LibTorch, but for its help: the command itself is in
// cli/torch/commands/predict.cpp.
#include "cli/command.h"
#include "cli/exec_torch.h"
#include "cli/line/ask_flags.h"
#include "cli/line/help_only.h"

namespace muster::cli {
namespace {

int run_predict_command(std::span<const std::string> args, program::Console& console) {
  PredictFlags flags;
  if (const auto over = help_only(*predict_app(flags), args, console)) return *over;
  exec_torch("predict", args);
}

}  // namespace

extern constinit const CommandEntry predict_entry{
    "predict", "write a trained model's answer to each sample", &run_predict_command};

}  // namespace muster::cli
