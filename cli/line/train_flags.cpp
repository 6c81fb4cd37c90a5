#include "cli/line/train_flags.h"

#include <algorithm>
#include <type_traits>

#include "muster/base/text.h"
#include "muster/program/line/said.h"
#include "muster/train/plan/option_infos.h"

#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kTrainExamples =
    "Examples:\n"
    "  muster train --model cnn --data fashion-mnist --epochs 3\n"
    "  muster train --model cnn --strategy dp --devices 2\n"
    "  muster run --nproc-per-node 2 -- muster train --model cnn --output runs/a\n"
    "  muster train --resume runs/a --epochs 10\n"
    "  muster train --model mlp:hidden=256,layers=3 --optimizer adamw --lr 0.001\n"
    "  muster train --config run.toml --seed 2\n"
    "  muster train --data synthetic:samples=2048 --explain\n"
    "  muster train --model mlp --data csv:rows.csv,target=price,target_kind=number\n\n"
    "Under `muster run` or torchrun each process is one rank; the batch size is the\n"
    "global one and is divided by the ranks. The folder given by --output gets\n"
    "config.json, metrics.csv and .jsonl, TensorBoard events, checkpoints/step-N,\n"
    "latest, best, and at the end index.html with the curves.\n"
    "The last line on stdout is the test accuracy, of a regression the test rmse.\n\n"
    "Exit codes: 0 trained and tested, 1 failed (a run that diverged, too), 2 wrong\n"
    "use, 130 interrupted with the state saved.";

constexpr std::string_view kSpecs[] = {
    "model", "data", "strategy", "comm-hook", "optimizer", "lr-schedule", "precision", "loss"};
constexpr std::string_view kPaths[] = {"data-dir", "weights", "output", "trace"};
constexpr program::ConfigOwner kOwners[] = {{"model", "model"},
                                            {"data", "dataset"},
                                            {"strategy", "strategy"},
                                            {"comm-hook", "communication hook"},
                                            {"optimizer", "optimizer"},
                                            {"lr-schedule", "lr schedule"},
                                            {"backend", "backend"},
                                            {"strategy", "pipeline schedule"},
                                            {"resume", "nothing to resume"},
                                            {"train-transform", "transform"},
                                            {"eval-transform", "transform"}};

}  // namespace

program::ConfigKinds train_config_kinds() { return {.specs = kSpecs, .paths = kPaths}; }

std::span<const program::ConfigOwner> train_config_owners() { return kOwners; }

std::unique_ptr<CLI::App> train_app(TrainFlags& flags) {
  auto app = make_app("train",
                      "Train a model on one device, or on many as ranks under `muster run`.",
                      kTrainExamples);
  const auto add = [&](const train::OptionInfo& info, auto& value) {
    program::add_option_flag(*app, info, value);
  };
  train::visit_options(flags.train, add);
  train::visit_run_flags(flags.run, add);
  program::add_value(
      *app, "--config", flags.config, "read flags from a TOML file; flags given here win")
      ->type_name("FILE");
  app->add_flag("--json", flags.json, "print the result as one JSON object");
  return app;
}

}  // namespace muster::cli
