// CMA-ES with margin: a normal distribution over all numbers at once, which moves to where the
// better half of its latest generation lies, and takes on that half's shape and width.
//
// Its axes are the numeric parameters that every trial has, each from 0 to 1 (of the logarithm,
// where that is uniform). Categories, and parameters under a condition, are no axes: they are drawn
// independently, as by `random`.
//
// Trials are members of the generation in which they were suggested. A generation ends when
// `population` results are there, whichever they are; until then as many members as wanted are
// drawn from it, so nobody waits. A member that comes too late counts in the generation that is
// open then, moved towards its mean if it is farther away than one of its own would be. Trials that
// were stopped early, or have paused, rank behind complete ones, the deepest first; failed ones
// last. Points that were given, and trials of another program, are no members; the best of those
// that end before the first member is where the distribution starts. When the distribution can find nothing more (it has shrunk to a point, say), it starts
// elsewhere with twice the population (IPOP: Auger, Hansen 2005).
//
// Beside Optuna 5's CmaEsSampler: the first trials are drawn from the distribution too, stopped
// trials teach, late ones are not lost, and it starts again. What a generation does is
// muster/tune/search/cma/cma.h.
#include "muster/tune/searchers/cma_es.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/search/cma/cma.h"
#include "muster/tune/search/draw_stream.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

constexpr Param kCmaEsParams[] = {
    param<&CmaEsOptions::population>("population",
                                     "trials of a generation; 0: 4 + 3 ln(parameters)"),
    param<&CmaEsOptions::sigma>("sigma",
                                "standard deviation at the start, as a share of each range"),
    param<&CmaEsOptions::margin>("margin",
                                 "keep all steps of whole and stepped numbers within reach"),
    param<&CmaEsOptions::failed>("failed",
                                 "failed trials rank last (worst) or as not tried (ignore)")};

constexpr size_t kQuickAxes = 50;
constexpr uint32_t kCmaMembers = 0xC3A, kCmaStarts = 0xC3B;

// Note [Steps in CMA-ES]
// A whole or stepped number's L values have equal parts of 0 to 1, each value in the middle of its
// own, with the margin and without. (cmaes's own example, and Optuna, put the ends of the range at
// the first and the last value with a margin: sigma is then fewer steps wide, and the end values
// have half a part.) A member counts where its value is, not where between the values it was drawn:
// so Optuna has it without margin; with one, cmaes keeps what was drawn. Both was measured: see
// docs/benchmarks.md, "Tables of recorded networks".

/// A dimension as an axis of CMA-ES.
class CmaDimension {
 public:
  CmaDimension(const Distribution& distribution, size_t index, bool margin)
      : index_(index), distribution_(distribution) {
    if (margin) levels_ = levels_of(distribution);
  }

  size_t index() const { return index_; }
  bool is_bounded() const { return !std::holds_alternative<NormalDistribution>(distribution_); }

  CmaAxis axis() const {
    if (!is_bounded()) return {};
    if (levels_ == 0) return {.low = 0, .high = 1, .step = 0};
    return {.low = 0.5 / levels_, .high = 1 - 0.5 / levels_, .step = 1 / levels_};
  }
  double place(double number) const { return to_unit(distribution_, number); }
  double number(double place) const { return from_unit(distribution_, place); }

 private:
  /// Of equally spaced values how many; 0: of any others, and of so many that none is missed.
  static double levels_of(const Distribution& distribution) {
    constexpr double kMost = 1e6;
    double levels = 0;
    if (const auto* d = std::get_if<IntDistribution>(&distribution); d != nullptr && !d->log) {
      const double span = static_cast<double>(d->high) - static_cast<double>(d->low);
      levels = std::floor(span / static_cast<double>(d->step)) + 1;
    }
    if (const auto* d = std::get_if<FloatDistribution>(&distribution);
        d != nullptr && !d->log && d->step > 0)
      levels = std::nearbyint((d->high - d->low) / d->step) + 1;
    return levels <= kMost ? levels : 0;
  }

  size_t index_;
  Distribution distribution_;
  double levels_ = 0;  // of what has a margin
};

bool varies(const Dimension& dimension) {
  const auto ends = ends_of(dimension.distribution);
  const bool has_one_value = numbers_of(dimension.distribution, 1).has_value();
  return !dimension.grid && ends[0] < ends[1] && !has_one_value;
}

std::vector<CmaDimension> cma_dimensions(const Space& space, bool margin) {
  std::vector<CmaDimension> out;
  for (size_t d = 0; d < space.dimensions().size(); ++d) {
    const Dimension& dimension = space.dimensions()[d];
    const bool is_number = !std::holds_alternative<CategoricalDistribution>(dimension.distribution);
    const bool is_always_there = space.parameters()[dimension.parameter].when.empty();
    if (is_number && is_always_there && varies(dimension))
      out.emplace_back(dimension.distribution, d, margin);
  }
  return out;
}

class CmaEs final : public Searcher {
 public:
  CmaEs(const SearcherContext& context, const CmaEsOptions& options)
      : space_(context.space),
        seed_(context.seed),
        options_(options),
        dimensions_(cma_dimensions(context.space, options.margin)),
        population_(options.population) {
    if (!dimensions_.empty()) start();
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    Point point = draw_open(space_, partial, seed_, number);
    if (dimensions_.empty()) return {.point = std::move(point)};
    DrawStream draws(seed_, kCmaMembers, number);
    const auto places = now_->tried(now_->sample(draws));
    for (size_t i = 0; i < places.size(); ++i)
      point[dimensions_[i].index()] = dimensions_[i].number(places[i]);
    return {.point = keep_fixed(std::move(point), partial),
            .reason = concat("generation ", generation_),
            .memo = std::to_string(generation_)};
  }

  /// What takes long, the eigenvectors of hundreds of axes, is done when a generation ends.
  bool is_quick() const override { return dimensions_.size() <= kQuickAxes; }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    if (dimensions_.empty()) return;
    const int64_t generation = to_int(memo).value_or(generation_);
    under_way_[number] = {.generation = generation, .places = places_of(point)};
  }

  void reported(int64_t number, int64_t t, double score) override {
    const auto found = under_way_.find(number);
    if (found != under_way_.end()) found->second.t = t, found->second.score = score;
  }

  void paused(int64_t number) override {
    const auto found = under_way_.find(number);
    if (found == under_way_.end()) return;
    const Member& member = found->second;
    add_result(found, rank_of(TrialState::kPruned, member.score, member.t));
  }

  void told(const FinishedTrial& trial) override {
    const auto found = under_way_.find(trial.number);
    if (found == under_way_.end()) return start_at(trial);
    if (trial.state == TrialState::kFailed && options_.failed == "ignore") {
      under_way_.erase(found);
    } else {
      add_result(found, rank_of(trial.state, trial.score, trial.step));
    }
  }

 private:
  /// Less is better: complete before stopped before failed; stopped ones by depth.
  struct Rank {
    int group = 2;
    int64_t depth = 0;
    double value = std::numeric_limits<double>::infinity();
    auto key() const { return std::tuple(group, -depth, value); }
  };
  struct Member {
    int64_t generation = 0;
    std::vector<double> places;
    int64_t t = 0;  // of the last report
    double score = std::numeric_limits<double>::quiet_NaN();
  };
  struct Result {
    std::vector<double> places;
    Rank rank;
  };

  static Rank rank_of(TrialState state, double score, int64_t t) {
    if (state == TrialState::kFailed || std::isnan(score)) return {};
    if (state == TrialState::kComplete) return {.group = 0, .value = -score};
    return {.group = 1, .depth = t, .value = -score};
  }

  CmaStart start_from(std::vector<double> mean) const {
    CmaStart start{
        .mean = std::move(mean), .sigma = options_.sigma, .axes = {}, .population = population_};
    for (const CmaDimension& dimension : dimensions_) start.axes.push_back(dimension.axis());
    return start;
  }

  /// The first distribution, or one elsewhere.
  void start() {
    std::vector<double> mean(dimensions_.size(), 0.5);
    if (now_) {
      DrawStream draws(seed_, kCmaStarts, generation_);
      for (size_t i = 0; i < mean.size(); ++i)
        mean[i] = dimensions_[i].is_bounded() ? draws.uniform() : 0.5 + draws.normal() / 6;
    }
    now_ = Cma(start_from(std::move(mean)));
    population_ = now_->population();
    started_at_ = generation_;
  }

  /// A trial that was given, or is another program's, has no place in a generation. But the best
  /// of those that are known before the first result of our own is where the search starts.
  void start_at(const FinishedTrial& trial) {
    const Rank rank = rank_of(trial.state, trial.score, trial.step);
    const bool has_begun = !now_ || now_->generation() > 0 || !results_.empty() || started_at_ > 0;
    if (has_begun || rank.key() >= best_given_.key()) return;
    std::vector<double> mean = places_of(trial.point);
    if (!std::ranges::all_of(mean, [](double x) { return std::isfinite(x); })) return;
    best_given_ = rank;
    ++generation_;
    now_ = Cma(start_from(std::move(mean)));
  }

  std::vector<double> places_of(const Point& point) const {
    std::vector<double> places;
    for (const CmaDimension& dimension : dimensions_)
      places.push_back(dimension.place(point[dimension.index()]));
    return places;
  }

  void add_result(std::unordered_map<int64_t, Member>::iterator found, const Rank& rank) {
    Member member = std::move(found->second);
    under_way_.erase(found);
    if (member.generation < started_at_)
      return;  // it would draw the new start to the old one's end
    if (member.generation != generation_)
      member.places = now_->drawn_near(std::move(member.places));
    results_.push_back({std::move(member.places), rank});
    if (static_cast<int64_t>(results_.size()) == now_->population()) next_generation();
  }

  void next_generation() {
    std::vector<Result> results;
    results.swap(results_);
    std::ranges::stable_sort(results, {}, [](const Result& r) { return r.rank.key(); });
    if (results.front().rank.group == 2) return;  // all failed: that teaches nothing
    std::vector<CmaMember> members;
    for (Result& result : results) {
      const bool has_value = result.rank.group == 0;
      members.push_back({std::move(result.places),
                         has_value ? result.rank.value : std::numeric_limits<double>::infinity()});
    }
    now_->tell(std::move(members));
    ++generation_;
    if (!now_->is_spent()) return;
    population_ *= 2;
    start();
  }

  const Space& space_;
  uint64_t seed_;
  CmaEsOptions options_;
  std::vector<CmaDimension> dimensions_;
  int64_t population_ = 0;  // of the present start
  int64_t generation_ = 0, started_at_ = 0;
  std::optional<Cma> now_;
  std::unordered_map<int64_t, Member> under_way_;
  std::vector<Result> results_;  // of this generation, as they came
  Rank best_given_;              // of trials that were not suggested here
};

void check(const CmaEsOptions& o) {
  const bool holds = (o.population == 0 || (o.population >= 2 && o.population <= 100'000)) &&
                     o.sigma > 0 && o.sigma <= 1 && (o.failed == "worst" || o.failed == "ignore");
  if (holds) return;
  throw usage_error({.refused = "searcher cma_es",
                     .rule = "population is 0 or 2 to 100,000, sigma in (0, 1], failed is worst or "
                             "ignore",
                     .value = spec_text("cma_es", kCmaEsParams, o)});
}

/// Refuses a space of which it could learn nothing. One in which nothing varies has nothing to learn:
/// its point is every searcher's.
void check_cma_space(const Space& space) {
  const auto opaque = space.opaque();
  if (!opaque.empty()) {
    throw usage_error({.refused = "searcher cma_es",
                       .rule = "it learns from numbers, and cannot from C++ functions",
                       .value = join(opaque, ", "),
                       .hint = "write sample_from as an expression"});
  }
  if (!cma_dimensions(space, true).empty() || std::ranges::none_of(space.dimensions(), &varies))
    return;
  throw usage_error({.refused = "searcher cma_es",
                     .rule = "it learns numbers that every trial has, and this space has none "
                             "(categories and conditional parameters are drawn at random)",
                     .hint = "searcher = \"tpe\" learns categories and conditions too"});
}

std::unique_ptr<Searcher> make_cma_es(const SearcherContext& context, const ParamValues& params) {
  const auto options = resolve_params<CmaEsOptions>(kCmaEsParams, params, "searcher cma_es");
  check(options);
  check_cma_space(context.space);
  return std::make_unique<CmaEs>(context, options);
}

}  // namespace

std::string cma_es(const CmaEsOptions& options) {
  check(options);
  return spec_text("cma_es", kCmaEsParams, options);
}

extern constinit const SearcherEntry cma_es_entry{
    "cma_es",
    "a normal distribution that moves to the better trials; categories are drawn at random",
    kCmaEsParams,
    &make_cma_es};

}  // namespace muster::tune
