// NSGA-II: generations of trials, of which the fronts that are best live on and have children.
//
// Each finished trial joins the generation that is open when it ends. When that has `population` of
// them it is closed: of them and of the parents so far as many become the next parents, front by
// front, and of the last front the loneliest (domination.h). Until the first is closed points are
// drawn at random; then they are children of the parents (child.h). So nobody is waited for: with
// several slots late trials join the next generation, and one slot gives Optuna's generations.
// A trial without a number of each objective joins none.
// Source: Deb, Pratap, Agarwal, Meyarivan 2002; defaults and details: optuna 5.0.0, NSGAIISampler,
// which leaves out trials that end when their generation is closed already.
#include "muster/tune/searchers/nsga2.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/objective/domination.h"
#include "muster/tune/search/draw_stream.h"
#include "muster/tune/search/nsga2/child.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {
namespace {

constexpr Param kNsga2Params[] = {
    param<&Nsga2Options::population>("population", "trials of a generation"),
    param<&Nsga2Options::crossover>("crossover", "probability that a trial has two parents"),
    param<&Nsga2Options::swap>("swap", "of a parameter, to be the second parent's"),
    param<&Nsga2Options::mutation>("mutation",
                                   "of a parameter, to be drawn anew; below 0: 1 by their number")};

constexpr uint32_t kChildStream = 0x2A2;

class Nsga2 final : public Searcher {
 public:
  Nsga2(const SearcherContext& context, const Nsga2Options& options)
      : space_(context.space),
        seed_(context.seed),
        options_(options),
        dimensions_(crossed_dimensions(context.space.dimensions())) {
    for (const Objective& objective : context.objectives) modes_.push_back(objective.mode);
    if (modes_.empty()) modes_.push_back(context.mode);
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    Suggestion suggestion{.point = draw_open(space_, partial, seed_, number),
                          .reason = concat("generation ", generation_)};
    if (parents_.empty()) return suggestion;
    std::vector<size_t> open;
    std::ranges::copy_if(
        dimensions_, std::back_inserter(open), [&](size_t d) { return std::isnan(partial[d]); });
    DrawStream stream(seed_, kChildStream, number);
    const Point child = child_of(
        parents_,
        open,
        {.crossover = options_.crossover, .swap = options_.swap, .mutation = options_.mutation},
        [&] { return stream.uniform(); });
    suggestion.point = keep_fixed(std::move(suggestion.point), child);
    return suggestion;
  }

  void told(const FinishedTrial& trial) override {
    std::vector<double> scores = trial.scores;
    if (scores.empty()) scores = {trial.score};
    const bool has_nan =
        std::ranges::any_of(scores, [](double score) { return std::isnan(score); });
    if (trial.state != TrialState::kComplete || has_nan || scores.size() != modes_.size()) return;
    Individual one{.point = trial.point, .violation = trial.violation};
    for (size_t i = 0; i < scores.size(); ++i) {
      one.values.push_back(score_of(scores[i], modes_[i]));
      one.losses.push_back(-scores[i]);
    }
    born_.push_back(std::move(one));
    if (static_cast<int64_t>(born_.size()) >= options_.population) close_generation();
  }

  bool is_quick() const override { return true; }

 private:
  void close_generation() {
    std::vector<Individual> all = std::move(born_);
    born_.clear();
    all.insert(all.end(),
               std::make_move_iterator(parents_.begin()),
               std::make_move_iterator(parents_.end()));
    std::vector<Losses> values, losses;
    std::vector<double> violations;
    for (const Individual& one : all) {
      values.push_back(one.values);
      losses.push_back(one.losses);
      violations.push_back(one.violation);
    }
    std::vector<size_t> alive =
        elite(values, losses, violations, static_cast<size_t>(options_.population));
    std::ranges::sort(alive);
    parents_.clear();
    for (const size_t place : alive) parents_.push_back(std::move(all[place]));
    ++generation_;
  }

  const Space& space_;
  uint64_t seed_;
  Nsga2Options options_;
  std::vector<size_t> dimensions_;
  std::vector<Mode> modes_;
  std::vector<Individual> parents_, born_;
  int64_t generation_ = 0;
};

void check_nsga2(const Nsga2Options& o) {
  const bool holds = o.population >= 2 && o.population <= 100'000 && o.crossover >= 0 &&
                     o.crossover <= 1 && o.swap >= 0 && o.swap <= 1 && o.mutation <= 1;
  if (holds) return;
  throw usage_error({.refused = "searcher nsga2",
                     .rule =
                         "population is 2 to 100,000, crossover and swap are in [0, 1], mutation "
                         "is at most 1",
                     .value = spec_text("nsga2", kNsga2Params, o)});
}

std::unique_ptr<Searcher> make_nsga2(const SearcherContext& context, const ParamValues& params) {
  const auto options = resolve_params<Nsga2Options>(kNsga2Params, params, "searcher nsga2");
  check_nsga2(options);
  const auto opaque = context.space.opaque();
  if (!opaque.empty()) {
    throw usage_error({.refused = "searcher nsga2",
                       .rule = "children have what their parents had, and cannot of C++ functions",
                       .value = join(opaque, ", "),
                       .hint = "write sample_from as an expression"});
  }
  return std::make_unique<Nsga2>(context, options);
}

}  // namespace

std::string nsga2(const Nsga2Options& options) {
  check_nsga2(options);
  return spec_text("nsga2", kNsga2Params, options);
}

extern constinit const SearcherEntry nsga2_entry{
    .name = "nsga2",
    .help = "generations of trials whose best fronts live on and have children",
    .params = kNsga2Params,
    .make = &make_nsga2,
    .takes_goals = true};

}  // namespace muster::tune
