// Bayesian optimisation: a Gaussian process of the scores, and the point that promises most.
//
// Source: GPSampler of Optuna 5.0 (Matern 5/2 with a length per axis, Hamming for categories,
// hyperparameters by maximum a posteriori, logEI, fantasies for running trials, the search of
// maximise.h), of which Muster's differs so: it starts along Sobol's sequence; parameters with a
// condition are modelled (axes.h); stopped trials are (rows.h); failed trials count as the worst,
// and those out of memory as infeasible; hyperparameters are fitted again when a fiftieth of the
// trials is new, and in between a trial is a row more (posterior.h); past max_trials it models a
// part of them; what was tried once is not suggested again.
//
// Of several objectives each has a process of its own, and what promises most is the point that is
// expected to add most hypervolume (hypervolume_improvement.h). The front is of the trials that have
// ended by themselves, and of what the models expect of those under way; volume counts from the
// worst result of each objective. A trial that was stopped early has no result and is left out.
// Constraints are a process more, of what violated none: each point is weighed by the probability.
#include "muster/tune/searchers/gp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "muster/base/text.h"
#include "muster/tune/objective/domination.h"
#include "muster/tune/objective/hypervolume.h"
#include "muster/tune/search/gp/acquisition.h"
#include "muster/tune/search/gp/hypervolume_improvement.h"
#include "muster/tune/search/gp/maximise.h"
#include "muster/tune/search/gp/model.h"
#include "muster/tune/search/gp/sobol_points.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {
namespace {

constexpr Param kGpParams[] = {
    param<&GpOptions::startup>("startup", "trials with a result before there is a model"),
    param<&GpOptions::deterministic>("deterministic", "the score of a point is always the same"),
    param<&GpOptions::failed>("failed", "what a failed trial counts as: worst or ignore"),
    param<&GpOptions::max_trials>("max_trials",
                                  "of more the best half and the latest half are modelled"),
    param<&GpOptions::samples>("samples",
                               "points that a suggestion is looked for among, to begin with"),
    param<&GpOptions::warp>("warp", "scores below the median count by their rank alone")};

constexpr size_t kFantasySamples = 128;
constexpr size_t kMostFantasies = 64;
// Of the probability that a trial fits into memory. With 1, as for other constraints, half of the
// trials beside a border behind which scores would be better do not.
constexpr double kFeasiblePower = 3;

/// Tells points apart (FNV-1a over the words).
uint64_t gp_fingerprint(const Point& point) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const double x : point) {
    const auto bits = std::bit_cast<uint64_t>(std::isnan(x) ? 1e308 : x + 0.0);
    for (int shift = 0; shift < 64; shift += 8)
      hash = (hash ^ (bits >> shift & 0xFF)) * 0x100000001B3;
  }
  return hash;
}

using GpIncumbents = std::vector<std::vector<double>>;

/// What both searchers below have in common: where they start, and what they have seen.
class GpStart {
 public:
  GpStart(const Space& space, uint64_t seed, const GpAxes& axes)
      : space_(space), seed_(seed), axes_(axes) {
    if (SobolPoints::count(space_) <= SobolSequence::kMaxDimensions) start_.emplace(space_, seed_);
  }

  /// The answer while there is no model, or nothing for one to choose.
  std::optional<Searcher::Suggestion> answer(int64_t number,
                                             const Point& partial,
                                             int64_t results,
                                             int64_t startup) const {
    if (results >= startup && is_open(partial)) return {};
    Searcher::Suggestion out{.point = partial};
    if (start_) out.point = start_->fill(static_cast<uint64_t>(number), std::move(out.point));
    out.point = draw_open(space_, out.point, seed_, number);
    if (results < startup) out.reason = concat("start: ", results, " of ", startup, " results");
    return out;
  }

  void saw(const Point& point) { seen_.insert(gp_fingerprint(point)); }

  /// The best that was not tried; the best if all were.
  const GpCandidate& first_new(const std::vector<GpCandidate>& candidates,
                               const Point& partial) const {
    for (const GpCandidate& candidate : candidates) {
      const Point point = space_.with_conditions(axes_.point_of(candidate.places, partial));
      if (!seen_.contains(gp_fingerprint(point))) return candidate;
    }
    return candidates.front();
  }

 private:
  bool is_open(const Point& partial) const {
    for (const GpAxis& axis : axes_.axes())
      if (std::isnan(partial[axis.dimension])) return true;
    return false;
  }

  const Space& space_;
  uint64_t seed_;
  const GpAxes& axes_;
  std::optional<SobolPoints> start_;
  std::unordered_set<uint64_t> seen_;
};

/// Columns as a place to begin: a category that did not apply has none.
std::vector<double> incumbent_of(std::vector<double> columns) {
  for (double& x : columns) x = std::max(x, 0.0);
  return columns;
}

class Gp final : public Searcher {
 public:
  Gp(const SearcherContext& context, const GpOptions& options)
      : space_(context.space),
        seed_(context.seed),
        options_(options),
        axes_(context.space),
        rows_(axes_, options.failed == "worst"),
        model_(axes_,
               rows_,
               {.deterministic = options.deterministic,
                .warp = options.warp,
                .max_rows = static_cast<size_t>(options.max_trials)}),
        start_(context.space, context.seed, axes_) {}

  Suggestion suggest(int64_t number, const Point& partial) override {
    const auto results = static_cast<int64_t>(rows_.rows().size());
    if (auto start = start_.answer(number, partial, results, options_.startup)) return *start;
    const GpFit& fit = model_.update();
    const std::vector<GpCandidate> candidates = found(number, partial);
    const GpCandidate& best = start_.first_new(candidates, partial);
    return {.point = axes_.point_of(best.places, partial),
            .reason = concat("log expected improvement ", fixed(best.value, 2)),
            .memo = fit.memo()};
  }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    rows_.suggested(number, point);
    start_.saw(space_.with_conditions(point));
    if (auto fit = GpFit::from_memo(memo)) model_.adopt(std::move(*fit));
  }

  void reported(int64_t number, int64_t t, double score) override {
    rows_.reported(number, t, score);
  }

  void paused(int64_t number) override { rows_.paused(number); }

  void told(const FinishedTrial& trial) override {
    rows_.told(trial);
    start_.saw(trial.point);
  }

 private:
  std::vector<GpCandidate> found(int64_t number, const Point& partial) const {
    Acquisition acquisition(model_.objective(), model_.best());
    const size_t running = std::min(model_.running(), kMostFantasies);
    const auto stream = static_cast<uint32_t>(number);
    if (running > 0)
      acquisition.set_fantasies(Fantasies::of_sobol(kFantasySamples, running, ~seed_, stream));
    if (model_.feasibility() != nullptr)
      acquisition.set_feasibility(*model_.feasibility(), 0, kFeasiblePower);
    if (!model_.has_score() && model_.feasibility() != nullptr) acquisition.ignore_objective();

    GpIncumbents incumbents;
    if (!model_.incumbent().empty()) incumbents.push_back(incumbent_of(model_.incumbent()));
    const AcquisitionSearch search(
        acquisition, axes_, partial, 1, model_.objective().hyper().weights);
    return search.run(
        incumbents,
        {.samples = static_cast<size_t>(options_.samples), .seed = seed_, .stream = stream});
  }

  const Space& space_;
  uint64_t seed_;
  GpOptions options_;
  GpAxes axes_;
  GpRows rows_;
  GpModel model_;
  GpStart start_;
};

class GpOfSeveral final : public Searcher {
 public:
  GpOfSeveral(const SearcherContext& context, const GpOptions& options)
      : space_(context.space),
        seed_(context.seed),
        options_(options),
        axes_(context.space),
        start_(context.space, context.seed, axes_) {
    const GpModelOptions model{.deterministic = options.deterministic,
                               .max_rows = static_cast<size_t>(options.max_trials)};
    for (size_t m = 0; m < context.objectives.size(); ++m) {
      rows_.push_back(std::make_unique<GpRows>(axes_, options.failed == "worst"));
      models_.push_back(std::make_unique<GpModel>(axes_, *rows_.back(), model));
    }
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    const auto results = static_cast<int64_t>(rows_[0]->rows().size());
    if (auto start = start_.answer(number, partial, results, options_.startup)) return *start;
    std::string memo;
    for (const auto& model : models_) {
      if (!memo.empty()) memo += kMemoMark;
      memo += model->update().memo();
    }
    const std::vector<GpCandidate> candidates = found(number, partial);
    const GpCandidate& best = start_.first_new(candidates, partial);
    return {.point = axes_.point_of(best.places, partial),
            .reason = concat("log expected hypervolume improvement ", fixed(best.value, 2)),
            .memo = std::move(memo)};
  }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    for (const auto& rows : rows_) rows->suggested(number, point);
    start_.saw(space_.with_conditions(point));
    const auto memos = split(memo, kMemoMark);
    if (memos.size() != models_.size()) return;
    for (size_t m = 0; m < memos.size(); ++m)
      if (auto fit = GpFit::from_memo(memos[m])) models_[m]->adopt(std::move(*fit));
  }

  void told(const FinishedTrial& trial) override {
    start_.saw(trial.point);
    const bool has_all = trial.scores.size() == rows_.size() &&
                         std::ranges::none_of(trial.scores, [](double s) { return std::isnan(s); });
    const bool is_result = trial.state == TrialState::kComplete && has_all;
    const bool was_stopped = trial.state == TrialState::kPruned && !trial.is_infeasible();
    for (size_t m = 0; m < rows_.size(); ++m) {
      FinishedTrial one = trial;
      one.score = is_result ? trial.scores[m] : std::numeric_limits<double>::quiet_NaN();
      was_stopped ? rows_[m]->forget(trial.number) : rows_[m]->told(one);
    }
    if (is_result && !trial.is_infeasible())
      results_.push_back({.scores = trial.scores, .columns = axes_.columns_of(trial.point)});
  }

 private:
  static constexpr char kMemoMark = '&';  // between the fits of two objectives
  static constexpr double kMostBoxes = 4096;

  struct Result {
    std::vector<double> scores, columns;
  };

  /// Those that no other is better than; of more than boxes are made of, those that dominate most.
  std::vector<size_t> front() const {
    std::vector<Losses> losses;
    for (const Result& result : results_) {
      losses.emplace_back();
      for (size_t m = 0; m < models_.size(); ++m)
        losses.back().push_back(-models_[m]->target_of(result.scores[m]));
    }
    if (losses.empty()) return {};
    std::vector<size_t> places;
    std::vector<Losses> firsts;
    const std::vector<int64_t> ranks = front_ranks(losses, 1);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == 0) places.push_back(i), firsts.push_back(losses[i]);
    }
    const auto most = static_cast<size_t>(
        std::pow(kMostBoxes, 1 / std::max(1.0, static_cast<double>(models_.size()) - 1)));
    if (places.size() <= most) return places;
    std::vector<size_t> out;
    for (const size_t i : hypervolume_subset(firsts, most, reference_beyond(firsts)))
      out.push_back(places[i]);
    return out;
  }

  std::vector<double> worst_targets() const {
    std::vector<double> out;
    for (size_t m = 0; m < models_.size(); ++m) {
      out.push_back(std::numeric_limits<double>::infinity());
      for (const Result& result : results_)
        out[m] = std::min(out[m], models_[m]->target_of(result.scores[m]));
      if (results_.empty()) out[m] = models_[m]->target_of(0);
      out[m] -= kBeyondWorst;
    }
    return out;
  }

  /// What the models expect of the trials under way, by trial.
  GpIncumbents expected() const {
    const size_t running = std::min(models_[0]->running(), kMostFantasies);
    GpIncumbents out(running);
    for (const auto& model : models_) {
      const GpPosterior& posterior = model->objective();
      PointSet points(posterior.points().axes(), running);
      for (size_t r = 0; r < running; ++r)
        points.append(posterior.points().point(posterior.rows() - running + r));
      GpPosterior::Answer answer;
      if (running > 0) posterior.ask(points, 0, running, false, answer);
      for (size_t r = 0; r < running; ++r) out[r].push_back(answer.mean[r]);
    }
    return out;
  }

  std::vector<GpCandidate> found(int64_t number, const Point& partial) const {
    GpIncumbents incumbents, targets = expected();
    for (const size_t place : front()) {
      incumbents.push_back(incumbent_of(results_[place].columns));
      targets.emplace_back();
      for (size_t m = 0; m < models_.size(); ++m)
        targets.back().push_back(models_[m]->target_of(results_[place].scores[m]));
    }
    std::vector<const GpPosterior*> objectives;
    std::vector<double> weights;  // how far is far: as the most sensitive objective has it
    for (const auto& model : models_) {
      objectives.push_back(&model->objective());
      const std::vector<double>& own = model->objective().hyper().weights;
      weights.resize(own.size());
      for (size_t a = 0; a < own.size(); ++a) weights[a] = std::max(weights[a], own[a]);
    }
    HypervolumeImprovement improvement(std::move(objectives), targets, worst_targets());
    Acquisition feasible(models_[0]->objective(), 0);
    if (const GpPosterior* feasibility = models_[0]->feasibility()) {
      feasible.ignore_objective();
      feasible.set_feasibility(*feasibility, 0);
      improvement.add(feasible);
    }
    // Half of the local searches begin at the front, in turn.
    std::rotate(incumbents.begin(),
                incumbents.begin() + (incumbents.empty() ? 0 : number % std::ssize(incumbents)),
                incumbents.end());
    incumbents.resize(std::min(incumbents.size(), MaximiseOptions{}.starts / 2));
    const AcquisitionSearch search(improvement, axes_, partial, 1, weights);
    return search.run(incumbents,
                      {.samples = static_cast<size_t>(options_.samples),
                       .seed = seed_,
                       .stream = static_cast<uint32_t>(number)});
  }

  static constexpr double kBeyondWorst = 0.1;  // of an objective's deviation

  const Space& space_;
  uint64_t seed_;
  GpOptions options_;
  GpAxes axes_;
  GpStart start_;
  std::vector<std::unique_ptr<GpRows>> rows_;  // by objective, as models_
  std::vector<std::unique_ptr<GpModel>> models_;
  std::vector<Result> results_;  // feasible ones, as they came
};

void check_gp(const GpOptions& o) {
  const bool holds = o.startup >= 1 && (o.failed == "worst" || o.failed == "ignore") &&
                     o.max_trials >= 20 && o.max_trials <= 10'000 && o.samples >= 16 &&
                     o.samples <= 1'000'000;
  if (holds) return;
  throw usage_error({.refused = "searcher gp",
                     .rule = "startup is at least 1, failed worst or ignore, max_trials 20 to "
                             "10,000, samples 16 to 1,000,000",
                     .value = spec_text("gp", kGpParams, o)});
}

std::unique_ptr<Searcher> make_gp(const SearcherContext& context, const ParamValues& params) {
  const auto options = resolve_params<GpOptions>(kGpParams, params, "searcher gp");
  check_gp(options);
  if (const auto opaque = context.space.opaque(); !opaque.empty()) {
    throw usage_error({.refused = "searcher gp",
                       .rule = "it cannot learn what a C++ function draws",
                       .value = join(opaque, ", "),
                       .hint = "say it as an expression: sample_from(\"2 ** randint(2, 9)\")"});
  }
  if (context.objectives.size() < 2) return std::make_unique<Gp>(context, options);
  if (options.warp) {
    throw usage_error({.refused = "searcher gp with warp in a study of several objectives",
                       .rule = "volume is of the scores themselves, warp leaves only their ranks",
                       .hint = "leave warp out"});
  }
  return std::make_unique<GpOfSeveral>(context, options);
}

}  // namespace

std::string gp(const GpOptions& options) {
  check_gp(options);
  return spec_text("gp", kGpParams, options);
}

extern constinit const SearcherEntry gp_entry{
    .name = "gp",
    .help = "Bayesian optimisation with a Gaussian process",
    .params = kGpParams,
    .make = &make_gp,
    .takes_goals = true};

}  // namespace muster::tune
