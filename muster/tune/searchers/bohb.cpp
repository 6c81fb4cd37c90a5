// BOHB's model: kernel densities of the good and the bad trials of one step.
//
// A result is a report: what a trial was worth at a step (its budget). Modelled are the results of
// the largest step that enough trials have reached: the best `good_percent` are good, the others
// bad. Of `candidates` points drawn near good ones the one with the least bad / good density is
// suggested; a third of all trials is drawn at random whatever the model says. With ASHA or
// HyperBand it learns from each rung (Klein and others 2020 have it so in Syne Tune): the model
// goes on from rung to rung as these fill.
//
// Every dimension is a column: numbers by their place in [0, 1] (of a normal distribution: the
// share of draws below), categories, a grid's values too, by index. What is fixed already stays so
// in all candidates. A conditional parameter that does not apply to a trial is imputed.
// Source: Falkner, Klein, Hutter 2018, "BOHB"; details and defaults: hpbandster 0.7.4. Beside it:
// what product_kde.h and budgets.h say of mends, and failed trials, which count as bad in whichever
// step is modelled unless failed=ignore.
#include "muster/tune/searchers/bohb.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/search/draw_stream.h"
#include "muster/tune/search/kde/budgets.h"
#include "muster/tune/search/kde/product_kde.h"
#include "muster/tune/search/normal.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

constexpr Param kBohbParams[] = {
    param<&BohbOptions::min_points>(
        "min_points", "good trials, and bad ones, that a model needs; 0: parameters + 1"),
    param<&BohbOptions::good_percent>("good_percent", "of a step's trials that count as good"),
    param<&BohbOptions::candidates>(
        "candidates", "draws near good trials, of which the most promising is suggested"),
    param<&BohbOptions::random_fraction>("random_fraction",
                                         "of trials that are drawn at random all the same"),
    param<&BohbOptions::bandwidth_factor>("bandwidth_factor",
                                          "how much wider than the density candidates are spread"),
    param<&BohbOptions::min_bandwidth>("min_bandwidth", "of the densities, in units of each range"),
    param<&BohbOptions::failed>("failed", "failed trials count as bad (worst) or not (ignore)")};

constexpr uint32_t kBohbDraws = 0xB0B, kBohbGood = 0xB0C, kBohbBad = 0xB0D;

/// A dimension as a column of the densities.
struct KdeDimension {
  size_t index = 0;
  const Distribution* distribution = nullptr;
  KdeAxis axis;

  double place(double number) const {
    if (axis.levels > 0 || std::isnan(number)) return number;
    if (const auto* normal = std::get_if<NormalDistribution>(distribution))
      return normal_cdf((number - normal->mean) / normal->sd);
    return std::clamp(to_unit(*distribution, number), 0.0, 1.0);
  }
  double number(double place) const {
    if (axis.levels > 0) return place;
    if (std::holds_alternative<NormalDistribution>(*distribution)) {
      constexpr double kEnd = 1e-12, kReach = 6;  // from_unit: mean ± 3 sd are 0 and 1
      place = 0.5 + inverse_normal_cdf(std::clamp(place, kEnd, 1 - kEnd)) / kReach;
    }
    return from_unit(*distribution, place);
  }
};

std::vector<KdeDimension> kde_dimensions(const Space& space) {
  std::vector<KdeDimension> out;
  for (size_t d = 0; d < space.dimensions().size(); ++d) {
    const Distribution& distribution = space.dimensions()[d].distribution;
    const auto ends = ends_of(distribution);
    if (!(ends[0] < ends[1]) || numbers_of(distribution, 1)) continue;  // it has one value
    KdeDimension& dimension = out.emplace_back(KdeDimension{d, &distribution, {}});
    if (const auto* categories = std::get_if<CategoricalDistribution>(&distribution))
      dimension.axis.levels = categories->choices.size();
  }
  return out;
}

class Bohb final : public Searcher {
 public:
  Bohb(const SearcherContext& context, const BohbOptions& options)
      : space_(context.space),
        seed_(context.seed),
        options_(options),
        dimensions_(kde_dimensions(context.space)),
        rule_{dimensions_.size(), options.min_points, options.good_percent},
        budgets_(rule_) {
    for (const KdeDimension& dimension : dimensions_) axes_.push_back(dimension.axis);
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    Point point = draw_open(space_, partial, seed_, number);
    if (dimensions_.empty()) return {.point = std::move(point)};
    if (!budgets_.modelled()) {
      return {.point = std::move(point),
              .reason = concat("random: no step has enough results yet, the most are ",
                               budgets_.most_results())};
    }
    DrawStream draws(seed_, kBohbDraws, number);
    if (draws.uniform() < options_.random_fraction)
      return {.point = std::move(point), .reason = "random, as a share of all trials is"};
    improve(point, partial, draws);
    return {.point = keep_fixed(std::move(point), partial), .reason = model_text_};
  }

  void suggested(int64_t number, const Point& point, const std::string& /*memo*/) override {
    trials_[number].row = add_row(point);
  }

  void reported(int64_t number, int64_t t, double score) override {
    KnownTrial& trial = trials_[number];
    trial.has_reported = true;
    if (trial.row) {
      add(t, *trial.row, score);
    } else {
      trial.early.emplace_back(t, score);  // its point is told at the end
    }
  }

  void told(const FinishedTrial& finished) override {
    KnownTrial trial = std::move(trials_[finished.number]);
    trials_.erase(finished.number);
    const size_t row = trial.row ? *trial.row : add_row(finished.point);
    for (const auto& [t, score] : trial.early) add(t, row, score);
    if (finished.state != TrialState::kFailed) {
      if (!trial.has_reported) add(finished.step, row, finished.score);
    } else if (options_.failed == "worst") {
      budgets_.add_failed(trial.has_reported ? finished.step : -1, row);
      model_.reset();
    }
  }

 private:
  struct KnownTrial {
    std::optional<size_t> row;
    bool has_reported = false;
    std::vector<std::pair<int64_t, double>> early;  // reports before its point was known
  };

  size_t add_row(const Point& point) {
    for (const KdeDimension& dimension : dimensions_)
      rows_.push_back(dimension.place(point[dimension.index]));
    return row_count_++;
  }

  void add(int64_t t, size_t row, double score) {
    const double loss = std::isnan(score) ? std::numeric_limits<double>::infinity() : -score;
    budgets_.add(t, row, loss);
    model_.reset();
  }

  void fit() {
    const auto ranked = budgets_.ranked();
    const auto split = kde_split(ranked.size(), rule_).value_or(KdeSplit{});
    const auto part = [&](size_t first, size_t count, uint32_t purpose) {
      KdeColumns columns(dimensions_.size());
      for (size_t i = first; i < first + count; ++i) {
        for (size_t c = 0; c < columns.size(); ++c)
          columns[c].push_back(rows_[ranked[i].row * columns.size() + c]);
      }
      DrawStream draws(seed_, purpose, static_cast<int64_t>(ranked.size()));
      const KdeDraws random{.index = [&](size_t n) { return draws.index(n); },
                            .uniform = [&] { return draws.uniform(); }};
      return ProductKde(imputed(columns, axes_, random), axes_, options_.min_bandwidth);
    };
    model_ = KdeModel{part(0, split.good, kBohbGood), part(split.good, split.bad, kBohbBad)};
    model_text_ = concat(
        "model of step ", *budgets_.modelled(), ": ", split.good, " good of ", ranked.size());
  }

  void improve(Point& point, const Point& partial, DrawStream& draws) {
    if (!model_) fit();
    std::vector<double> fixed, best;
    for (const KdeDimension& dimension : dimensions_)
      fixed.push_back(dimension.place(partial[dimension.index]));
    double least = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < options_.candidates; ++i) {
      auto candidate = model_->candidate(draws, options_.bandwidth_factor, fixed);
      const double value = model_->acquisition(candidate, least);
      if (value < least) least = value, best = std::move(candidate);
    }
    for (size_t c = 0; c < best.size(); ++c)
      point[dimensions_[c].index] = dimensions_[c].number(best[c]);
  }

  const Space& space_;
  uint64_t seed_;
  BohbOptions options_;
  std::vector<KdeDimension> dimensions_;
  std::vector<KdeAxis> axes_;
  KdeSplitRule rule_;
  Budgets budgets_;
  std::vector<double> rows_;  // [row_count_, d]
  size_t row_count_ = 0;
  std::unordered_map<int64_t, KnownTrial> trials_;  // that are not over
  std::optional<KdeModel> model_;                   // of budgets_ as they are
  std::string model_text_;
};

void check(const BohbOptions& o) {
  const bool holds = o.min_points >= 0 && o.good_percent >= 1 && o.good_percent <= 99 &&
                     o.candidates >= 1 && o.candidates <= 100'000 && o.random_fraction >= 0 &&
                     o.random_fraction <= 1 && o.bandwidth_factor > 0 &&
                     std::isfinite(o.bandwidth_factor) && o.min_bandwidth > 0 &&
                     o.min_bandwidth <= 1 && (o.failed == "worst" || o.failed == "ignore");
  if (holds) return;
  throw usage_error(
      {.refused = "searcher bohb",
       .rule = "min_points is at least 0, good_percent 1 to 99, candidates 1 to 100,000, "
               "random_fraction in [0, 1], bandwidth_factor above 0, min_bandwidth in (0, 1], "
               "failed is worst or ignore",
       .value = spec_text("bohb", kBohbParams, o)});
}

std::unique_ptr<Searcher> make_bohb(const SearcherContext& context, const ParamValues& params) {
  const auto options = resolve_params<BohbOptions>(kBohbParams, params, "searcher bohb");
  check(options);
  const auto opaque = context.space.opaque();
  if (!opaque.empty()) {
    throw usage_error({.refused = "searcher bohb",
                       .rule = "it learns from all parameters, and cannot from C++ functions",
                       .value = join(opaque, ", "),
                       .hint = "write sample_from as an expression"});
  }
  return std::make_unique<Bohb>(context, options);
}

}  // namespace

std::string bohb(const BohbOptions& options) {
  check(options);
  return spec_text("bohb", kBohbParams, options);
}

extern constinit const SearcherEntry bohb_entry{
    "bohb",
    "densities of good and bad trials, at the largest step that enough have reached",
    kBohbParams,
    &make_bohb};

}  // namespace muster::tune
