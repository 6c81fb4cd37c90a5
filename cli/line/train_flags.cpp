#include "cli/line/train_flags.h"

#include <algorithm>
#include <type_traits>

#include "muster/base/text.h"

#include "cli/line/parse.h"

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
    "  muster train --data synthetic:samples=2048 --explain\n\n"
    "Under `muster run` or torchrun each process is one rank; the batch size is the\n"
    "global one and is divided by the ranks. The folder given by --output gets\n"
    "config.json, metrics.csv and .jsonl, TensorBoard events, checkpoints/step-N,\n"
    "latest, best, and at the end index.html with the curves.\n"
    "The last line on stdout is the test accuracy.\n\n"
    "Exit codes: 0 trained and tested, 1 failed (a run that diverged, too), 2 wrong\n"
    "use, 130 interrupted with the state saved.";

constexpr std::string_view kSpecs[] = {
    "model", "data", "strategy", "comm-hook", "optimizer", "lr-schedule", "precision"};
constexpr std::string_view kPaths[] = {"data-dir", "weights", "output", "trace"};
constexpr ConfigOwner kOwners[] = {{"model", "model"},
                                   {"data", "dataset"},
                                   {"strategy", "strategy"},
                                   {"comm-hook", "communication hook"},
                                   {"optimizer", "optimizer"},
                                   {"lr-schedule", "lr schedule"},
                                   {"backend", "backend"}};

CLI::Option* add_rate(CLI::App& app,
                      const std::string& flag,
                      train::LearningRate& rate,
                      const std::string& help) {
  const auto read = [&rate](const std::string& name, const std::string& text) {
    rate = {};
    if (train::is_lr_search(text)) {
      rate.search = text;
    } else {
      read_value(name, text, rate.value.emplace());
    }
  };
  return detail::add_value(app, flag, help, read, [] { return std::string(); });
}

}  // namespace

std::string flag_of_option(std::string_view name) {
  std::string flag = concat("--", name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

ConfigKinds train_config_kinds() { return {.specs = kSpecs, .paths = kPaths}; }

std::span<const ConfigOwner> train_config_owners() { return kOwners; }

std::unique_ptr<CLI::App> train_app(TrainFlags& flags) {
  auto app = make_app("train",
                      "Train a model on one device, or on many as ranks under `muster run`.",
                      kTrainExamples);
  const auto add = [&](const train::OptionInfo& info, auto& value) {
    const std::string flag = flag_of_option(info.name), help(info.help);
    if constexpr (std::is_same_v<decltype(value), bool&>) {
      app->add_flag(flag, value, help);
    } else if constexpr (std::is_same_v<decltype(value), train::LearningRate&>) {
      add_rate(*app, flag, value, help)->type_name(std::string(info.value));
    } else {
      CLI::Option* option = add_value(*app, flag, value, help)->type_name(std::string(info.value));
      if (info.show_default) option->capture_default_str();
    }
  };
  train::visit_options(flags.train, add);
  train::visit_run_flags(flags.run, add);
  add_value(*app, "--config", flags.config, "read flags from a TOML file; flags given here win")
      ->type_name("FILE");
  app->add_flag("--json", flags.json, "print the result as one JSON object");
  return app;
}

}  // namespace muster::cli
