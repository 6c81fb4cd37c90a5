// Studies to draw, made by hand.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "muster/tune/plot/plot.h"

#include "tests/support/markup.h"

namespace muster::test {

using tune::TrialHistory;
using tune::TrialState;

inline constexpr double kNoResult = std::numeric_limits<double>::quiet_NaN();

/// One that reported `last` at step `steps`, and 1, 2, … times it before, from above.
inline TrialHistory trial_of(
    int64_t number, tune::Values values, TrialState state, double last, int64_t steps = 1) {
  TrialHistory trial;
  trial.number = number;
  trial.values = std::move(values);
  trial.state = state;
  trial.started_s = 1000 + 10.0 * static_cast<double>(number);
  trial.ended_s = tune::is_over(state) ? trial.started_s + 10 : 0;
  trial.ran.push_back({trial.started_s, trial.ended_s});
  trial.last = trial.best = last;
  for (int64_t t = 1; t <= steps; ++t)
    trial.rows.push_back(
        {.t = t, .metrics = {{"loss", last * static_cast<double>(1 + steps - t)}}});
  return trial;
}

/// Five trials of loss: complete 0.4, pruned 0.8, failed, complete 0.1 without momentum, running 0.2.
inline tune::PlotInput small_study() {
  tune::PlotInput input;
  input.facts = {.name = "fashion",
                 .metric = "loss",
                 .mode = tune::Mode::kMin,
                 .parameters = {{"lr", "loguniform(1e-4, 1e-1)"},
                                {"momentum", "uniform(0, 1)"},
                                {"optimizer", "choice('adam', 'sgd')"},
                                {"epochs", "10"}}};
  input.trials = {trial_of(0, {0.001, 0.5, "sgd", 10}, TrialState::kComplete, 0.4, 9),
                  trial_of(1, {0.1, 0.9, "sgd", 10}, TrialState::kPruned, 0.8, 3),
                  trial_of(2, {0.05, 0.1, "sgd", 10}, TrialState::kFailed, kNoResult, 0),
                  trial_of(3, {0.01, {}, "adam", 10}, TrialState::kComplete, 0.1, 9),
                  trial_of(4, {0.02, {}, "adam", 10}, TrialState::kRunning, 0.2, 1)};
  input.scheduler = "asha:max_t=9,grace_period=1,reduction_factor=3";
  input.now_s = 1050;
  return input;
}

/// `count` trials of two numbers, with loss (x - 0.3)^2 + y.
inline tune::PlotInput many_trials(size_t count) {
  tune::PlotInput input;
  input.facts = {.name = "many",
                 .metric = "loss",
                 .mode = tune::Mode::kMin,
                 .parameters = {{"x", "uniform(0, 1)"}, {"y", "uniform(0, 1)"}}};
  for (size_t i = 0; i < count; ++i) {
    const double x = std::fmod(0.618034 * static_cast<double>(i), 1);
    const double y = std::fmod(0.754878 * static_cast<double>(i), 1);
    input.trials.push_back(trial_of(
        static_cast<int64_t>(i), {x, y}, TrialState::kComplete, (x - 0.3) * (x - 0.3) + y, 3));
  }
  input.now_s = 1e6;
  return input;
}

/// The marks, lines and boxes of an item in a picture, in the order in which they are drawn.
template <class Command>
std::vector<Command> commands_of(const track::Picture& picture, int64_t item = -2) {
  std::vector<Command> out;
  for (const track::DrawCommand& command : picture.commands()) {
    const Command* one = std::get_if<Command>(&command);
    if (one == nullptr) continue;
    if constexpr (requires { one->item; }) {
      if (item == -2 ? one->item >= 0 : one->item != item) continue;
    }
    out.push_back(*one);
  }
  return out;
}

/// Those of any item.
template <class Command>
std::vector<Command> item_commands(const track::Picture& picture) {
  std::vector<Command> out;
  for (const track::DrawCommand& command : picture.commands()) {
    if (const Command* one = std::get_if<Command>(&command); one != nullptr && one->item >= 0)
      out.push_back(*one);
  }
  return out;
}

inline bool says(const track::Picture& picture, const std::string& words) {
  for (const auto& text : commands_of<track::TextCommand>(picture)) {
    if (text.text.find(words) != std::string::npos) return true;
  }
  return false;
}

inline std::vector<track::Picture> draw(const std::string& kind,
                                        const tune::PlotStudy& study,
                                        std::vector<size_t> parameters = {}) {
  return tune::plots().at(kind).draw(study, {.parameters = std::move(parameters)});
}

}  // namespace muster::test
