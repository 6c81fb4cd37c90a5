// The tree-structured Parzen estimator: looks where good trials are dense and bad ones are not.
//
// Finished trials are split into good ones (the best tenth, 25 at most) and bad ones; trials under
// way count as bad ("constant liar"). Each side is a density (Note [Parzen estimators]), l(x) and
// g(x). `candidates` are drawn from l, and the one with the largest l(x) / g(x) is suggested, which
// maximises the expected improvement. Dimensions that all trials have are modelled together; one
// that a condition leaves out at times is modelled by itself, from the trials that have it, or in
// its group. What is fixed already (a grid's numbers) is a condition: candidates are drawn from
// l(x | fixed), so that they go by what was good beside such values.
// Source: Bergstra, Bardenet, Bengio, Kégl 2011, "Algorithms for hyper-parameter optimization";
// multivariate: Falkner, Klein, Hutter 2018; defaults and details: optuna 5.0.0, TPESampler.
// Several objectives: the good trials are the first fronts, of the last one those that dominate most
// volume (best_by_fronts), a tenth of all without the limit of 25, and all weigh the same; each
// parameter is modelled by itself, unless multivariate is asked for. Constraints: trials that
// violate some come behind all others, by how much they do. Source: Ozaki, Tanigaki, Watanabe,
// Onishi 2020, "Multiobjective tree-structured Parzen estimator"; as optuna 5.0.0.
// Beside Optuna: failed trials, which are not in its model, count as bad, unless failed=ignore, but
// neither for startup nor for how many are good; those that ran out of memory are Optuna's
// infeasible ones. A paused trial counts as one that was stopped at its last report.
#include "muster/tune/searchers/tpe.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/search/tpe/parzen.h"
#include "muster/tune/search/tpe/ranking.h"
#include "muster/tune/search/tpe/subspaces.h"

namespace muster::tune {
namespace {

constexpr Param kTpeParams[] = {
    param<&TpeOptions::startup>("startup", "random trials first: until so many have finished"),
    param<&TpeOptions::candidates>("candidates",
                                   "draws, of which the most promising one is suggested"),
    param<&TpeOptions::good_share>("good_share", "of finished trials that count as good"),
    param<&TpeOptions::good_most>("good_most", "trials that count as good, at most"),
    param<&TpeOptions::prior_weight>("prior_weight", "of \"anything may be good\", in trials"),
    param<&TpeOptions::recent>("recent", "latest trials with full weight; older ones fade"),
    param<&TpeOptions::multivariate>("multivariate", "parameters are modelled together"),
    param<&TpeOptions::group>("group",
                              "conditional parameters are modelled together with those that come "
                              "with them"),
    param<&TpeOptions::constant_liar>(
        "constant_liar", "trials under way count as bad, so that others look elsewhere"),
    param<&TpeOptions::failed>("failed", "failed trials count as bad (worst) or not (ignore)")};

// How much was missing is not known.
constexpr double kOutOfMemoryViolation = std::numeric_limits<double>::infinity();

Together tpe_together(const TpeOptions& options) {
  if (!options.multivariate) return Together::kApart;
  return options.group ? Together::kGroups : Together::kJoint;
}

/// Trials of other programs are older than all of the study's own, in the order of their numbers.
int64_t tpe_age(int64_t number) {
  return number >= 0 ? number : std::numeric_limits<int64_t>::min() / 2 + outside_number(number);
}

/// Good and bad trials in the dimensions of one subspace.
struct TpeModel {
  std::vector<size_t> dimensions;
  ParzenEstimator good, bad;

  bool has_all(const Point& point) const {
    return std::ranges::none_of(dimensions, [&](size_t d) { return std::isnan(point[d]); });
  }
  std::vector<double> part(const Point& point) const {
    std::vector<double> numbers;
    for (const size_t d : dimensions) numbers.push_back(point[d]);
    return numbers;
  }
};

class Tpe final : public Searcher {
 public:
  Tpe(const SearcherContext& context, const TpeOptions& options)
      : space_(context.space),
        seed_(context.seed),
        options_(options),
        objectives_(context.objectives.size()),
        subspaces_(open_dimensions(context.space), tpe_together(options)) {
    make_models();
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    Suggestion suggestion{.point = draw_open(space_, partial, seed_, number)};
    const auto finished = static_cast<int64_t>(ranking_.size());
    if (finished < options_.startup) {
      suggestion.reason = concat("random: ", finished, " of ", options_.startup, " have finished");
    } else {
      RandomStream random(seed_, number);
      improve(suggestion.point, partial, random);
    }
    return suggestion;
  }

  void suggested(int64_t number, const Point& point, const std::string& /*memo*/) override {
    put(number, point, options_.constant_liar ? Side::kBad : Side::kNone);
  }

  void reported(int64_t number, int64_t t, double score) override {
    const auto known = trials_.find(tpe_age(number));
    if (known != trials_.end()) known->second.last_t = t, known->second.last_score = score;
  }

  /// It may stay so for ever: until more is heard it counts as if it had been stopped here.
  void paused(int64_t number) override {
    const auto found = trials_.find(tpe_age(number));
    if (found == trials_.end()) return;  // its point is heard of at its end
    const Known known = found->second;
    ranking_.add_pruned(found->first, known.last_t, known.last_score);
    count_in(number, known.point);
  }

  void told(const FinishedTrial& trial) override {
    if (rank(trial)) return count_in(trial.number, trial.point);
    const bool is_kept = options_.failed == "worst";
    ranking_.remove(tpe_age(trial.number));
    put(trial.number, trial.point, is_kept ? Side::kBad : Side::kNone);
    choose_good();
  }

 private:
  enum class Side { kNone, kGood, kBad };
  struct Known {
    Point point;
    Side side = Side::kNone;
    int64_t last_t = 0;
    double last_score = std::numeric_limits<double>::quiet_NaN();
  };

  static std::vector<bool> open_dimensions(const Space& space) {
    std::vector<bool> is_open;
    for (const Dimension& dimension : space.dimensions())
      is_open.push_back(!has_one_value(dimension.distribution));
    return is_open;
  }

  void make_models() {
    models_.clear();
    const ParzenOptions options{.prior_weight = options_.prior_weight, .recent = options_.recent};
    ParzenOptions of_good = options;
    if (objectives_ > 0) of_good.recent = std::numeric_limits<int64_t>::max();
    for (const auto& dimensions : subspaces_.all()) {
      std::vector<ParzenAxis> axes;
      for (const size_t d : dimensions)
        axes.push_back(parzen_axis(space_.dimensions()[d].distribution));
      models_.push_back({dimensions, {axes, of_good}, {axes, options}});
    }
    for (const auto& [age, known] : trials_) add(age, known);
  }

  void add(int64_t age, const Known& known) {
    if (known.side == Side::kNone) return;
    for (TpeModel& model : models_) {
      if (model.has_all(known.point))
        side_of(model, known.side).insert(age, model.part(known.point));
    }
  }

  void remove(int64_t age, const Known& known) {
    if (known.side == Side::kNone) return;
    for (TpeModel& model : models_) {
      if (model.has_all(known.point)) side_of(model, known.side).erase(age);
    }
  }

  static ParzenEstimator& side_of(TpeModel& model, Side side) {
    return side == Side::kGood ? model.good : model.bad;
  }

  void put(int64_t number, const Point& point, Side side) {
    const int64_t age = tpe_age(number);
    Known& known = trials_[age];
    const bool is_same =
        known.side == side && std::ranges::equal(known.point, point, [](double a, double b) {
          return a == b || (a != a && b != b);
        });
    if (is_same) return;
    if (known.side == Side::kGood) std::erase(good_, age);
    remove(age, known);
    known.point = point, known.side = side;
    add(age, known);
  }

  void move(int64_t age, Side side) {
    Known& known = trials_.at(age);
    remove(age, known);
    known.side = side;
    add(age, known);
  }

  /// A trial that is ranked: among the bad ones, out of which the good ones are chosen.
  void count_in(int64_t number, const Point& point) {
    put(number, point, Side::kBad);
    if (subspaces_.add(point)) make_models();
    choose_good();
  }

  /// False for a trial that has failed otherwise than for want of memory.
  bool rank(const FinishedTrial& trial) {
    const int64_t age = tpe_age(trial.number);
    if (trial.violation > 0) {
      ranking_.add_infeasible(age, trial.violation);
    } else if (trial.state == TrialState::kPruned) {
      ranking_.add_pruned(age, trial.step, trial.score);
    } else if (trial.state == TrialState::kComplete && has_scores(trial)) {
      objectives_ > 0 ? ranking_.add_complete(age, trial.scores)
                      : ranking_.add_complete(age, trial.score);
    } else if (trial.is_infeasible()) {
      ranking_.add_infeasible(age, kOutOfMemoryViolation);
    } else {
      return false;
    }
    return true;
  }

  bool has_scores(const FinishedTrial& trial) const {
    if (objectives_ == 0) return !std::isnan(trial.score);
    const auto is_nan = [](double score) { return std::isnan(score); };
    return trial.scores.size() == objectives_ && std::ranges::none_of(trial.scores, is_nan);
  }

  void choose_good() {
    auto best = ranking_.best(good_count(ranking_.size(), options_.good_share, options_.good_most));
    std::vector<int64_t> gone, come;
    std::ranges::set_difference(good_, best, std::back_inserter(gone));
    std::ranges::set_difference(best, good_, std::back_inserter(come));
    for (const int64_t age : gone) move(age, Side::kBad);
    for (const int64_t age : come) move(age, Side::kGood);
    good_ = std::move(best);
  }

  /// Puts what the models say in place of what was drawn at random, wherever it applies.
  void improve(Point& point, const Point& partial, RandomStream& random) {
    std::vector<bool> is_done(models_.size());
    for (bool again = true; again;) {
      again = false;
      // What is chosen decides what else applies.
      Point active = space_.with_conditions(point);
      for (size_t m = 0; m < models_.size(); ++m) {
        const auto applies = [&](size_t d) { return !std::isnan(active[d]); };
        if (is_done[m] || std::ranges::none_of(models_[m].dimensions, applies)) continue;
        is_done[m] = again = true;
        choose(models_[m], point, partial, random);
        if (m + 1 < models_.size()) active = space_.with_conditions(point);
      }
    }
  }

  void choose(TpeModel& model, Point& point, const Point& partial, RandomStream& random) {
    const auto fixed = model.part(partial);
    if (std::ranges::none_of(fixed, [](double x) { return std::isnan(x); })) return;
    const auto drawn = model.good.draw(static_cast<size_t>(options_.candidates), fixed, random);
    const auto good = model.good.log_density(drawn), bad = model.bad.log_density(drawn);
    size_t best = 0;
    for (size_t c = 1; c < drawn.count; ++c) {
      if (good[c] - bad[c] > good[best] - bad[best]) best = c;
    }
    for (size_t i = 0; i < model.dimensions.size(); ++i)
      point[model.dimensions[i]] = drawn.numbers[i][best];
  }

  const Space& space_;
  uint64_t seed_;
  TpeOptions options_;
  size_t objectives_;  // 0: one
  Subspaces subspaces_;
  std::vector<TpeModel> models_;
  std::map<int64_t, Known> trials_;  // by age
  TrialRanking ranking_;
  std::vector<int64_t> good_;  // ages, sorted
};

void check(const TpeOptions& o) {
  const auto require = [](bool holds, const char* rule, const std::string& value) {
    if (!holds) throw usage_error({.refused = "searcher tpe", .rule = rule, .value = value});
  };
  require(o.startup >= 1, "startup is at least 1", concat("startup=", o.startup));
  require(o.candidates >= 1 && o.candidates <= 100'000,
          "candidates is 1 to 100,000",
          concat("candidates=", o.candidates));
  require(o.good_share > 0 && o.good_share < 1,
          "good_share is in (0, 1)",
          concat("good_share=", shortest(o.good_share)));
  require(o.good_most >= 1, "good_most is at least 1", concat("good_most=", o.good_most));
  require(o.prior_weight >= 0 && std::isfinite(o.prior_weight),
          "prior_weight is at least 0",
          concat("prior_weight=", shortest(o.prior_weight)));
  require(o.recent >= 0, "recent is at least 0", concat("recent=", o.recent));
  require(o.failed == "worst" || o.failed == "ignore",
          "failed is worst or ignore",
          concat("failed=", o.failed));
  require(o.multivariate || !o.group, "group goes with multivariate", "group=true");
}

std::unique_ptr<Searcher> make_tpe(const SearcherContext& context, const ParamValues& params) {
  auto options = resolve_params<TpeOptions>(kTpeParams, params, "searcher tpe");
  check(options);
  if (!context.objectives.empty()) {  // Optuna's defaults for several
    if (!params.contains("good_most")) options.good_most = std::numeric_limits<int64_t>::max();
    if (!params.contains("multivariate")) options.multivariate = options.group;
  }
  const auto opaque = context.space.opaque();
  if (!opaque.empty()) {
    throw usage_error({.refused = "searcher tpe",
                       .rule = "it learns from all parameters, and cannot from C++ functions",
                       .value = join(opaque, ", "),
                       .hint = "write sample_from as an expression"});
  }
  return std::make_unique<Tpe>(context, options);
}

}  // namespace

std::string tpe(const TpeOptions& options) {
  check(options);
  return spec_text("tpe", kTpeParams, options);
}

extern constinit const SearcherEntry tpe_entry{
    "tpe",
    "looks where good trials are dense and bad ones are not",
    kTpeParams,
    &make_tpe,
    false,
    true};

}  // namespace muster::tune
