#include "muster/pipeline/partition/partition.h"

#include <algorithm>
#include <limits>

#include "muster/base/counted.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/pipeline/partition/bounds.h"

namespace muster::pipeline {
namespace {

constexpr double kTie = 1e-12;  // relative: bounds add in another order than the simulator

/// Branch and bound over the cuts, from the first to the last.
class Search {
 public:
  Search(const BlockSums& sums, const ActionLists& lists, const PartitionOptions& options)
      : sums_(sums),
        lists_(lists),
        options_(options),
        stages_(lists.placement.stages()),
        splits_backward_(lists.splits_backward()),
        simulator_(lists),
        bounds_(sums, simulator_, lists) {}

  std::optional<Partition> run() {
    improve(even_split());
    split_ = {0};
    descend();
    if (best_.first_block.empty()) return {};
    if (!best_.is_best) improve(best_.first_block);
    best_.at_least_s = best_.is_best ? best_.step_s : bounds_.at_least({}, 0);
    best_.rank_bytes = rank_bytes(sums_, best_.first_block, lists_, simulator_);
    return best_;
  }

 private:
  double best_s() const {
    return best_.first_block.empty() ? std::numeric_limits<double>::infinity() : best_.step_s;
  }

  /// Whether what is cut so far, and nothing of the rest, is within the ranks' memory; letters are
  /// not among it, for nobody knows yet when they are taken.
  bool fits(const Split& split, int64_t end) const {
    if (options_.memory_bytes.empty()) return true;
    std::vector<StageBytes> bytes(static_cast<size_t>(stages_), {0, 0});
    std::vector<double> held(options_.memory_bytes.size());
    for (size_t s = 0; s < split.size(); ++s) {
      const int64_t last = s + 1 < split.size() ? split[s + 1] : end;
      const auto stage = static_cast<int64_t>(s);
      bytes[s] = sums_.bytes(split[s], last, setting_of(lists_, stage, splits_backward_));
      held[static_cast<size_t>(lists_.placement.rank_of(stage))] +=
          sums_.parameter_bytes(split[s], last);
    }
    const std::vector<double> peaks = peak_bytes(lists_, bytes);
    for (size_t rank = 0; rank < held.size(); ++rank) {
      if (held[rank] + peaks[rank] > options_.memory_bytes[rank]) return false;
    }
    return true;
  }

  /// The same of a whole split, with the letters that wait in its step.
  bool fits_with_letters(const Split& split) const {
    if (options_.memory_bytes.empty()) return true;
    if (!fits(split, sums_.count())) return false;
    const std::vector<double> bytes = rank_bytes(sums_, split, lists_, simulator_);
    for (size_t rank = 0; rank < bytes.size(); ++rank) {
      if (bytes[rank] > options_.memory_bytes[rank]) return false;
    }
    return true;
  }

  /// Takes the split if it is the best so far.
  void offer(const Split& split) {
    if (!fits_with_letters(split)) return;
    ++best_.steps_simulated;
    const double step = simulator_.step_s(stage_times(sums_, split));
    if (step >= best_s()) return;
    best_.step_s = step;
    best_.first_block = split;
  }

  /// Stages of about equal time, as a first guess.
  Split even_split() const {
    const auto time = [&](int64_t end) {
      const StageTimes t = sums_.times(0, end);
      return t.forward_s + std::max(t.backward_s, t.input_s + t.weight_s);
    };
    Split split = {0};
    for (int64_t stage = 1; stage < stages_; ++stage) {
      const double share = static_cast<double>(stage) / static_cast<double>(stages_);
      int64_t cut = split.back() + 1;
      const int64_t last = sums_.count() - (stages_ - stage);
      while (cut < last && time(cut) < share * time(sums_.count())) ++cut;
      split.push_back(cut);
    }
    return split;
  }

  /// Moves neighbouring cuts by one block as long as that helps: good bounds need a good split early.
  void improve(const Split& split) {
    offer(split);
    Split from;
    while (from != best_.first_block) {
      from = best_.first_block;
      for (size_t first = 1; first < from.size(); ++first) {
        for (size_t last = first; last < from.size(); ++last) {
          for (const int64_t by : {-1, 1}) offer_moved(from, first, last, by);
        }
      }
    }
  }

  void offer_moved(Split split, size_t first, size_t last, int64_t by) {
    for (size_t s = first; s <= last; ++s) split[s] += by;
    const int64_t next = last + 1 < split.size() ? split[last + 1] : sums_.count();
    if (split[first] > split[first - 1] && split[last] < next) offer(split);
  }

  struct Child {
    double bound;
    int64_t cut;
    auto operator<=>(const Child&) const = default;
  };

  /// Cuts behind the stage begun last, the most promising first.
  std::vector<Child> children() {
    std::vector<Child> out;
    const int64_t begin = split_.back();
    const int64_t left = stages_ - static_cast<int64_t>(split_.size());  // stages behind this one
    for (int64_t cut = begin + 1; cut <= sums_.count() - left; ++cut) {
      times_.push_back(sums_.times(begin, cut));
      const double bound = bounds_.at_least(times_, cut);
      times_.pop_back();
      if (fits(split_, cut)) out.push_back({bound, cut});
    }
    std::ranges::sort(out);
    return out;
  }

  void descend() {
    if (static_cast<int64_t>(split_.size()) == stages_) {
      offer(split_);
      return;
    }
    for (const Child& child : children()) {
      if (child.bound >= best_s() * (1 - kTie)) return;  // so are all that follow
      if (++visits_ > options_.most_visits) {
        best_.is_best = false;
        return;
      }
      times_.push_back(sums_.times(split_.back(), child.cut));
      split_.push_back(child.cut);
      descend();
      split_.pop_back();
      times_.pop_back();
    }
  }

  const BlockSums& sums_;
  const ActionLists& lists_;
  const PartitionOptions& options_;
  int64_t stages_;
  bool splits_backward_;
  Simulator simulator_;
  StepBounds bounds_;
  Split split_;                    // cuts so far
  std::vector<StageTimes> times_;  // of the stages that are closed
  int64_t visits_ = 0;
  Partition best_;
};

}  // namespace

std::optional<Partition> partition(std::span<const BlockCosts> blocks,
                                   const ActionLists& lists,
                                   const PartitionOptions& options) {
  const int64_t stages = lists.placement.stages();
  if (static_cast<int64_t>(blocks.size()) < stages)
    throw usage_error(
        {.refused = "the model cannot be cut into so many stages",
         .rule = "each stage has at least one block",
         .value = concat(counted(std::ssize(blocks), "block"), ", ", counted(stages, "stage"))});
  if (!options.memory_bytes.empty() &&
      static_cast<int64_t>(options.memory_bytes.size()) != lists.placement.ranks())
    throw usage_error(
        {.refused = "the memory limits do not suit the schedule",
         .rule = "there is one for each rank, or none",
         .value =
             concat(options.memory_bytes.size(), " limits, ", lists.placement.ranks(), " ranks")});
  const BlockSums sums(blocks);
  return Search(sums, lists, options).run();
}

}  // namespace muster::pipeline
