// Bayesian optimisation: a Gaussian process of the scores, and the point that promises most.
//
// Source: GPSampler of Optuna 5.0 (Matern 5/2 with a length per axis, Hamming for categories,
// hyperparameters by maximum a posteriori, logEI, fantasies for running trials, the search of
// maximise.h), of which Muster's differs so: it starts along Sobol's sequence; parameters with a
// condition are modelled (axes.h); stopped trials are (rows.h); failed trials count as the worst,
// and those out of memory as infeasible; hyperparameters are fitted again when a fiftieth of the
// trials is new, and in between a trial is a row more (posterior.h); past max_trials it models a
// part of them; what was tried once is not suggested again.
#include "muster/tune/searchers/gp.h"

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "muster/base/text.h"
#include "muster/tune/search/gp/acquisition.h"
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
                .max_rows = static_cast<size_t>(options.max_trials)}) {
    if (SobolPoints::count(space_) <= SobolSequence::kMaxDimensions) start_.emplace(space_, seed_);
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    const auto results = static_cast<int64_t>(rows_.rows().size());
    if (results < options_.startup || !is_open(partial)) {
      Suggestion out{.point = start(number, partial)};
      if (results < options_.startup)
        out.reason = concat("start: ", results, " of ", options_.startup, " results");
      return out;
    }
    const GpFit& fit = model_.update();
    const std::vector<GpCandidate> candidates = found(number, partial);
    const GpCandidate& best = first_new(candidates, partial);
    return {.point = axes_.point_of(best.places, partial),
            .reason = concat("log expected improvement ", fixed(best.value, 2)),
            .memo = fit.memo()};
  }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    rows_.suggested(number, point);
    seen_.insert(gp_fingerprint(space_.with_conditions(point)));
    if (auto fit = GpFit::from_memo(memo)) model_.adopt(std::move(*fit));
  }

  void reported(int64_t number, int64_t t, double score) override {
    rows_.reported(number, t, score);
  }

  void paused(int64_t number) override { rows_.paused(number); }

  void told(const FinishedTrial& trial) override {
    rows_.told(trial);
    seen_.insert(gp_fingerprint(trial.point));
  }

 private:
  bool is_open(const Point& partial) const {
    for (const GpAxis& axis : axes_.axes())
      if (std::isnan(partial[axis.dimension])) return true;
    return false;
  }

  Point start(int64_t number, const Point& partial) const {
    Point point = partial;
    if (start_) point = start_->fill(static_cast<uint64_t>(number), std::move(point));
    return draw_open(space_, point, seed_, number);
  }

  std::vector<GpCandidate> found(int64_t number, const Point& partial) const {
    Acquisition acquisition(model_.objective(), model_.best());
    const size_t running = std::min(model_.running(), kMostFantasies);
    const auto stream = static_cast<uint32_t>(number);
    if (running > 0)
      acquisition.set_fantasies(Fantasies::of_sobol(kFantasySamples, running, ~seed_, stream));
    if (model_.feasibility() != nullptr)
      acquisition.set_feasibility(*model_.feasibility(), 0, kFeasiblePower);
    if (!model_.has_score() && model_.feasibility() != nullptr) acquisition.ignore_objective();

    std::vector<std::vector<double>> incumbents;
    if (!model_.incumbent().empty()) {
      incumbents.push_back(model_.incumbent());
      for (double& x : incumbents[0]) x = std::max(x, 0.0);  // a category that did not apply
    }
    const AcquisitionSearch search(
        acquisition, axes_, partial, 1, model_.objective().hyper().weights);
    return search.run(
        incumbents,
        {.samples = static_cast<size_t>(options_.samples), .seed = seed_, .stream = stream});
  }

  /// The best that was not tried; the best if all were.
  const GpCandidate& first_new(const std::vector<GpCandidate>& candidates,
                               const Point& partial) const {
    for (const GpCandidate& candidate : candidates) {
      const Point point = space_.with_conditions(axes_.point_of(candidate.places, partial));
      if (!seen_.contains(gp_fingerprint(point))) return candidate;
    }
    return candidates.front();
  }

  const Space& space_;
  uint64_t seed_;
  GpOptions options_;
  GpAxes axes_;
  GpRows rows_;
  GpModel model_;
  std::optional<SobolPoints> start_;
  std::unordered_set<uint64_t> seen_;
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
  return std::make_unique<Gp>(context, options);
}

}  // namespace

std::string gp(const GpOptions& options) {
  check_gp(options);
  return spec_text("gp", kGpParams, options);
}

extern constinit const SearcherEntry gp_entry{
    "gp", "Bayesian optimisation with a Gaussian process", kGpParams, &make_gp};

}  // namespace muster::tune
