// Random search, then local grids around the best trials, narrower from round to round.
//
// Stage 1 draws n1 = `startup` trials. Then come rounds. A round takes the `top` best trials of all
// (complete ones before stopped ones) and puts a grid around each, in units of [0, 1] per parameter
// (of the logarithm, where that is uniform): `points` places from -w to +w, with w = 1 / (2
// n1^(1/d)) in the first round, for d numeric parameters (half of what a trial has for itself if
// the n1 were spread evenly), and `shrink` times that in each later one. Whole and stepped numbers
// always have their neighbours in the grid; categories have the best one's neighbours in the list,
// and others in turn. What was tried is left out. A round ends when all of its trials have
// finished or paused. There is no peer to compare with; tests/tune/searchers/random_then_grid_test.cpp says
// what must hold.
#include "muster/tune/searchers/random_then_grid.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "muster/base/philox.h"
#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

constexpr Param kRandomThenGridParams[] = {
    param<&RandomThenGridOptions::startup>("startup", "random trials first"),
    param<&RandomThenGridOptions::top>("top", "best trials that a round puts a grid around"),
    param<&RandomThenGridOptions::points>("points", "of a grid in each parameter, at most"),
    param<&RandomThenGridOptions::shrink>("shrink",
                                          "width of a round's grids as a share of those before"),
    param<&RandomThenGridOptions::max_grid>(
        "max_grid", "points of a grid; from a larger one so many are drawn")};

constexpr int kMaxEmptyRounds = 60;  // then w is too small for any double
constexpr uint32_t kGridStream = 0x6721D;

class RandomThenGrid final : public Searcher {
 public:
  RandomThenGrid(const SearcherContext& context, const RandomThenGridOptions& options)
      : space_(context.space), seed_(context.seed), options_(options) {
    double numeric = 0;
    for (const Dimension& d : space_.dimensions())
      numeric += !d.grid && !std::holds_alternative<CategoricalDistribution>(d.distribution);
    first_width_ = std::pow(static_cast<double>(options.startup), -1 / std::max(1.0, numeric)) / 2;
    width_ = first_width_;
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    const bool is_open = std::ranges::any_of(partial, [](double x) { return std::isnan(x); });
    Suggestion suggestion;
    if (!is_open) {
      suggestion.point = partial;
    } else if (started_ < options_.startup) {
      suggestion = drawn(number, concat("random start ", started_ + 1, " of ", options_.startup));
    } else {
      if (queue_.empty() && !open_.empty()) return {.kind = Suggestion::kWait};
      suggestion = queue_.empty() ? drawn(number, "random: the grids around the best are used up")
                                  : queued();
    }
    suggestion.point = keep_fixed(std::move(suggestion.point), partial);
    return suggestion;
  }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    if (!queue_.empty() && (memo == kOfGrid || is_of_older_log(point, memo))) {
      queue_.pop_front();
      before_round_.reset();
    }
    seen_.insert(fingerprint(point));
    open_[number] = {
        .number = number, .point = point, .state = TrialState::kPruned, .score = kNone};
    ++started_;
  }

  void reported(int64_t number, int64_t t, double score) override {
    const auto trial = open_.find(number);
    if (trial == open_.end()) return;
    trial->second.step = t;
    trial->second.score = score;
  }

  /// What it has come to counts as that of a stopped one, until it ends.
  void paused(int64_t number) override {
    const auto trial = open_.find(number);
    if (trial == open_.end()) return;
    note(trial->second);
    open_.erase(trial);
    begin_round_if_due();
  }

  void told(const FinishedTrial& trial) override {
    open_.erase(trial.number);
    take_back_round();
    seen_.insert(fingerprint(trial.point));
    std::erase_if(best_, [&](const auto& paused) { return paused.number == trial.number; });
    note(trial);
    begin_round_if_due();
  }

  bool is_quick() const override { return true; }

 private:
  static constexpr std::string_view kOfGrid = "grid";  // the memo of a point of a round
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  void note(const FinishedTrial& trial) {
    if (trial.state == TrialState::kFailed || std::isnan(trial.score)) return;
    best_.push_back(trial);
    std::ranges::sort(best_, {}, [](const FinishedTrial& t) {
      return std::tuple(t.state != TrialState::kComplete, -t.score, t.number);
    });
    if (best_.size() > static_cast<size_t>(options_.top)) best_.pop_back();
    // A random draw that is among the best when the grids are used up: they begin anew.
    const bool is_news =
        std::ranges::find(best_, trial.number, &FinishedTrial::number) != best_.end();
    if (used_up_ && is_news) used_up_ = false, width_ = first_width_;
  }

  /// Here, not when it is asked for: what it holds then hangs on what was told alone.
  void begin_round_if_due() {
    if (started_ < options_.startup || !queue_.empty() || !open_.empty() || used_up_) return;
    before_round_ = BeforeRound{round_, width_, seen_};
    next_round();
  }

  /// One of which nobody has had a point yet: what is told now may be a better centre (all that Optuna
  /// added is told at once, when a study goes on).
  void take_back_round() {
    if (!before_round_ || queue_.empty()) return;
    queue_.clear();
    round_ = before_round_->round;
    width_ = before_round_->width;
    seen_ = std::move(before_round_->seen);
    before_round_.reset();
  }

  /// Of a log without memos: whether the point is the round's next one.
  bool is_of_older_log(const Point& point, const std::string& memo) const {
    if (!memo.empty() || started_ < options_.startup) return false;
    const Point& next = queue_.front().point;
    for (size_t d = 0; d < next.size(); ++d) {
      if (!std::isnan(point[d]) && !space_.dimensions()[d].grid && point[d] != next[d])
        return false;
    }
    return true;
  }

  struct Candidate {
    Point point;
    int64_t centre;
  };
  struct BeforeRound {
    int64_t round;
    double width;
    std::unordered_set<uint64_t> seen;
  };

  Suggestion drawn(int64_t number, std::string reason) const {
    const Point open(space_.dimensions().size(), std::numeric_limits<double>::quiet_NaN());
    return {.point = draw_open(space_, open, seed_, number), .reason = std::move(reason)};
  }

  Suggestion queued() const {
    const Candidate& candidate = queue_.front();
    return {.point = candidate.point,
            .reason = concat("round ", round_, " around ", trial_phrase(candidate.centre)),
            .memo = std::string(kOfGrid)};
  }

  void next_round() {
    for (int i = 0; i < kMaxEmptyRounds && queue_.empty(); ++i) {
      ++round_;
      for (const FinishedTrial& centre : best_) add_grid(centre);
      width_ *= options_.shrink;
    }
    used_up_ = queue_.empty();
  }

  /// Puts the untried points of the grid around a trial into the queue.
  void add_grid(const FinishedTrial& centre) {
    std::vector<std::vector<double>> axes;
    double size = 1;
    for (size_t d = 0; d < centre.point.size(); ++d) {
      axes.push_back(axis(centre, d));
      size *= static_cast<double>(axes.back().size());
    }
    const auto limit = static_cast<double>(options_.max_grid);
    const bool is_small = size - 1 <= limit;
    // Drawn points repeat each other at times: twice the tries find nearly all that were asked for.
    const auto tries = static_cast<uint64_t>(is_small ? size : 2 * limit);
    const size_t before = queue_.size();
    for (uint64_t i = 0; i < tries && queue_.size() - before < limit; ++i) {
      Point point(axes.size());
      uint64_t rest = i;
      for (size_t d = 0; d < axes.size(); ++d) {
        const uint64_t digit = is_small ? rest : any(centre.number, i, d);
        point[d] = axes[d][digit % axes[d].size()];
        rest /= axes[d].size();
      }
      if (seen_.insert(fingerprint(point)).second) queue_.push_back({point, centre.number});
    }
  }

  /// Places of the grid in one dimension, the centre's first.
  std::vector<double> axis(const FinishedTrial& centre, size_t d) const {
    const Dimension& dimension = space_.dimensions()[d];
    const double middle = centre.point[d];
    // A parameter that does not apply to the centre may apply to its neighbours.
    if (std::isnan(middle)) return {space_.draw_dimension(d, seed_, centre.number)};
    std::vector<double> places = {middle};
    if (dimension.grid) return places;
    const auto add = [&](double place) {
      if (std::ranges::find(places, place) == places.end()) places.push_back(place);
    };
    add(shifted(dimension.distribution, middle, -1));
    add(shifted(dimension.distribution, middle, 1));
    const auto* categories = std::get_if<CategoricalDistribution>(&dimension.distribution);
    const auto points = static_cast<size_t>(options_.points);
    if (categories != nullptr) {
      const size_t count = categories->choices.size();
      for (size_t i = 0; i < count && places.size() < points; ++i)
        add(static_cast<double>((static_cast<size_t>(middle) + static_cast<size_t>(round_) + i) %
                                count));
      return places;
    }
    const double place = to_unit(dimension.distribution, middle);
    for (size_t i = 0; i < points; ++i) {
      const double side = 2 * static_cast<double>(i) / static_cast<double>(points - 1) - 1;
      add(from_unit(dimension.distribution, place + side * width_));
    }
    return places;
  }

  uint64_t any(int64_t centre, uint64_t i, size_t d) const {
    const auto bits =
        philox4x32_10({static_cast<uint32_t>(centre),
                       static_cast<uint32_t>(i),
                       kGridStream + static_cast<uint32_t>(d),
                       static_cast<uint32_t>(round_)},
                      {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    return bits[0];
  }

  /// Tells points apart, those of the same values not. (FNV-1a over the words; two points that
  /// share one by chance cost a trial of a grid.)
  uint64_t fingerprint(const Point& point) const {
    uint64_t hash = 0xCBF29CE484222325;
    for (const double x : space_.with_conditions(point)) {
      const auto bits = std::bit_cast<uint64_t>(std::isnan(x) ? 1e308 : x + 0.0);
      for (int shift = 0; shift < 64; shift += 8)
        hash = (hash ^ (bits >> shift & 0xFF)) * 0x100000001B3;
    }
    return hash;
  }

  const Space& space_;
  uint64_t seed_;
  RandomThenGridOptions options_;
  double first_width_ = 0;
  double width_ = 0;  // half of the next grid's, in [0, 1]
  bool used_up_ = false;
  int64_t started_ = 0;
  int64_t round_ = 0;
  std::deque<Candidate> queue_;
  std::optional<BeforeRound> before_round_;          // until a point of it is given out
  std::vector<FinishedTrial> best_;                  // the best first
  std::unordered_map<int64_t, FinishedTrial> open_;  // as they would be if they stopped now
  std::unordered_set<uint64_t> seen_;
};

void check(const RandomThenGridOptions& o) {
  const bool holds = o.startup >= 1 && o.top >= 1 && o.points >= 2 && o.max_grid >= 1 &&
                     o.max_grid <= 1'000'000 && o.points <= 1'000 && o.shrink > 0 && o.shrink <= 1;
  if (holds) return;
  throw usage_error(
      {.refused = "searcher random_then_grid",
       .rule = "startup and top are at least 1, points 2 to 1,000, max_grid 1 to 1,000,000, "
               "shrink in (0, 1]",
       .value = spec_text("random_then_grid", kRandomThenGridParams, o)});
}

std::unique_ptr<Searcher> make_random_then_grid(const SearcherContext& context,
                                                const ParamValues& params) {
  const auto options = resolve_params<RandomThenGridOptions>(
      kRandomThenGridParams, params, "searcher random_then_grid");
  check(options);
  return std::make_unique<RandomThenGrid>(context, options);
}

}  // namespace

std::string random_then_grid(const RandomThenGridOptions& options) {
  check(options);
  return spec_text("random_then_grid", kRandomThenGridParams, options);
}

extern constinit const SearcherEntry random_then_grid_entry{
    "random_then_grid",
    "random trials, then ever finer grids around the best",
    kRandomThenGridParams,
    &make_random_then_grid};

}  // namespace muster::tune
