// The two types of ASHA; see schedulers/asha.cpp, which makes them.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/text.h"
#include "muster/tune/schedule/asha/asha_options.h"
#include "muster/tune/schedule/asha/rung_ladder.h"
#include "muster/tune/schedule/scheduler.h"
#include "muster/tune/schedule/score_text.h"

namespace muster::tune {

/// Rungs of each bracket, from low to high.
using Ladders = std::vector<std::vector<double>>;

std::unique_ptr<Scheduler> make_asha_stopping(const SchedulerContext& context,
                                              const AshaOptions& options,
                                              const Ladders& ladders);
std::unique_ptr<Scheduler> make_asha_promotion(const SchedulerContext& context,
                                               const AshaOptions& options,
                                               const Ladders& ladders);

/// A rung of either type.
template <class Members>
struct Rung {
  double milestone;
  Members members;
};

/// What both types share: options, brackets of rungs, and words.
template <class Members>
class Halving : public Scheduler {
 public:
  bool donors_may_be_over() const override { return false; }

 protected:
  Halving(const SchedulerContext& context,
          const AshaOptions& options,
          const Ladders& ladders,
          double members_option)
      : context_(context), options_(options) {
    for (const auto& ladder : ladders) {
      rungs_per_bracket_.push_back(ladder.size());
      brackets_.emplace_back();
      for (const double milestone : ladder)
        brackets_.back().push_back({milestone, Members(members_option)});
    }
  }

  uint32_t bracket_of(int64_t number) const {
    return static_cast<uint32_t>(draw_bracket(rungs_per_bracket_, context_.seed, number));
  }
  bool is_last(int64_t t) const { return t >= options_.max_t; }
  Decision reached_max_t() const {
    return {Action::kStop, concat("reached max_t ", options_.max_t), true};
  }
  Decision not_finite(double milestone, double score) const {
    return {Action::kStop,
            concat("stopped at rung ",
                   shortest(milestone),
                   ": ",
                   context_.metric,
                   " is ",
                   metric_text(score, context_.mode))};
  }

  /// "asha: reduction 2, max_t 10: rung 1: n=9, …; rung 2: …", with `describe` for what follows n.
  template <class Describe>
  std::string status_of(std::string_view name, Describe&& describe) const {
    std::string text = concat(
        name, ": reduction ", shortest(options_.reduction_factor), ", max_t ", options_.max_t);
    for (size_t s = 0; s < brackets_.size(); ++s) {
      if (brackets_.size() > 1) text += concat(s == 0 ? ": " : " | ", "bracket ", s);
      std::string_view separator = ": ";
      for (const auto& rung : brackets_[s]) {
        text += concat(separator, "rung ", shortest(rung.milestone), ": n=", rung.members.size());
        text += describe(rung.members);
        separator = "; ";
      }
    }
    return text;
  }

  SchedulerContext context_;
  AshaOptions options_;
  std::vector<size_t> rungs_per_bracket_;
  std::vector<std::vector<Rung<Members>>> brackets_;  // rungs from low to high
};

}  // namespace muster::tune
