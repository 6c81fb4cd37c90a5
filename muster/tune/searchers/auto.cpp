// The searcher that was best in the benchmarks for a study of this kind.
//
// It picks one of the others when the first trial is suggested, by the space, the number of trials
// and how many run at once, and is that one from then on: see Note [What auto picks]. Each memo
// begins with the name, so that a study that goes on, with more trials or slots or under a later
// Muster, has the searcher that it began with.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/text.h"
#include "muster/tune/search/searcher.h"
#include "muster/tune/space/distribution.h"

namespace muster::tune {
namespace {

struct AutoOptions {
  int64_t samples = 2048;  ///< of gp
};

constexpr Param kAutoParams[] = {
    param<&AutoOptions::samples>("samples", "that gp looks among, where it is picked")};

constexpr char kMemoMark = '|';  // between the picked searcher and its own memo

/// What the choice hangs on.
struct AutoFacts {
  int64_t parameters = 0;  ///< dimensions that the searcher fills
  int64_t choices = 0;     ///< of these, categories
  bool conditions = false;
  int64_t trials = -1;  ///< -1: without end
  int64_t slots = 0;    ///< 0: not said
  size_t objectives = 1;
  bool constraints = false;

  std::string text() const {
    std::string kinds =
        choices == 0 ? ", all numbers"
        : choices == parameters
            ? ", all choices"
            : concat(", ", choices, choices == 1 ? " of them a choice" : " of them choices");
    if (conditions) kinds += ", some under conditions";
    return concat(objectives > 1 ? concat(objectives, " objectives; ") : "",
                  constraints ? "constraints; " : "",
                  parameters,
                  parameters == 1 ? " parameter" : " parameters",
                  kinds,
                  "; ",
                  trials < 0 ? "trials without end" : concat(trials, " trials"),
                  slots > 0 ? concat(", ", slots, " at a time") : "");
  }
};

AutoFacts facts_of_search(const SearcherContext& context) {
  AutoFacts facts{.trials = context.num_samples,
                  .slots = context.slots,
                  .objectives = std::max<size_t>(context.objectives.size(), 1),
                  .constraints = context.has_constraints};
  for (const Dimension& dimension : context.space.dimensions()) {
    if (dimension.grid || numbers_of(dimension.distribution, 1)) continue;
    ++facts.parameters;
    facts.choices += std::holds_alternative<CategoricalDistribution>(dimension.distribution);
  }
  for (const Parameter& parameter : context.space.parameters())
    facts.conditions = facts.conditions || !parameter.when.empty();
  return facts;
}

/// A searcher as make_searcher() takes it, and why this one.
struct AutoChoice {
  std::string spec, why;
};

// Note [What auto picks]
// Measured in benchmarks/tune (docs/benchmarks.md, "What auto rests on"), on 11 problems, with 1, 4
// and 16 trials at once:
//
//     trials       2 to 10 parameters, all numbers   others
//     up to 200    gp:warp=true                      gp:warp=true
//     up to 1000   cma_es                            gp:warp=true
//     more         cma_es                            tpe
//
// After 200 trials cma_es has caught up on numbers, after 400 it leads; elsewhere gp is better after
// 100 trials than tpe after 400. Past 1,000 a suggestion of gp takes a tenth of a second and more.
// How many run at once changes the order only where hardly a trial has ended before the last one
// starts, and there it is hardly the searcher that finds something. So it is said, and not asked.
constexpr int64_t kFewTrials = 200, kManyTrials = 1000, kFewNumbers = 10;

// Note [What auto picks of several objectives]
// Measured in benchmarks/tune (docs/benchmarks.md, "Several objectives"), on 8 problems, one trial at a
// time (and eight, which changed nothing):
//
//     trials       two objectives, all numbers   others
//     up to 400    tpe                           tpe
//     up to 1000   nsga2                         tpe
//     more         nsga2                         nsga2
//
// After 400 trials tpe is ahead on 7 of 8. After 800 nsga2 is on the five with two objectives and
// numbers, tpe on those with choices and conditions; with three objectives tpe is further after 400
// than nsga2 after 800. Past 800 nothing is measured: there nsga2 takes microseconds for a suggestion.
// Nor is what constraints do to the order; with one objective they are tpe's, whose model has a side
// for what violates them.
constexpr int64_t kTpeForSeveral = 400;

AutoChoice choice_for_goals(const AutoFacts& facts) {
  const std::string text = facts.text();
  if (facts.objectives == 1) return {"tpe", concat(text, "; it models what violates constraints")};
  const bool is_up_to_tpes = facts.trials >= 0 && facts.trials <= kTpeForSeveral;
  const bool is_up_to_many = facts.trials >= 0 && facts.trials <= kManyTrials;
  if (is_up_to_tpes)
    return {"tpe", concat(text, "; best in benchmarks up to ", kTpeForSeveral, " trials")};
  if (facts.objectives == 2 && facts.choices == 0 && !facts.conditions)
    return {"nsga2",
            concat(text, "; best in benchmarks for numbers past ", kTpeForSeveral, " trials")};
  if (is_up_to_many) {
    return {"tpe",
            concat(text, "; best in benchmarks for choices, conditions or three objectives")};
  }
  return {"nsga2", concat(text, "; it stays quick past ", kManyTrials, " trials")};
}

AutoChoice choice_for(const SearcherContext& context) {
  const AutoFacts facts = facts_of_search(context);
  const auto opaque = context.space.opaque();
  if (!opaque.empty())
    return {"random", concat("nothing learns from a C++ function: ", join(opaque, ", "))};
  if (facts.parameters == 0) return {"random", "nothing is left open"};
  if (facts.objectives > 1 || facts.constraints) return choice_for_goals(facts);
  const bool up_to_few = facts.trials >= 0 && facts.trials <= kFewTrials;
  const bool up_to_many = facts.trials >= 0 && facts.trials <= kManyTrials;
  const bool few_numbers = facts.choices == 0 && !facts.conditions && facts.parameters >= 2 &&
                           facts.parameters <= kFewNumbers;
  const std::string text = facts.text();
  if (up_to_few)
    return {"gp:warp=true", concat(text, "; best in benchmarks up to ", kFewTrials, " trials")};
  if (few_numbers)
    return {"cma_es",
            concat(text, "; best in benchmarks for few numbers past ", kFewTrials, " trials")};
  if (up_to_many) {
    return {"gp:warp=true",
            concat(text, "; best in benchmarks for choices, conditions or many numbers")};
  }
  return {"tpe", concat(text, "; a model that stays quick past ", kManyTrials, " trials")};
}

class Auto final : public Searcher {
 public:
  Auto(const SearcherContext& context, const AutoOptions& options)
      : context_(context), options_(options), choice_(choice_for(context)) {
    be(choice_.spec);
  }

  Suggestion suggest(int64_t number, const Point& partial) override {
    Suggestion suggestion = picked_->suggest(number, partial);
    suggestion.memo = concat(spec_, std::string(1, kMemoMark), suggestion.memo);
    return suggestion;
  }

  void suggested(int64_t number, const Point& point, const std::string& memo) override {
    const size_t mark = memo.find(kMemoMark);
    const bool has_spec = mark != std::string::npos;
    if (!is_settled_) take_spec(has_spec ? memo.substr(0, mark) : spec_);
    picked_->suggested(number, point, has_spec ? memo.substr(mark + 1) : memo);
  }

  void reported(int64_t number, int64_t t, double score) override {
    tell([=](Searcher& searcher) { searcher.reported(number, t, score); });
  }
  void paused(int64_t number) override {
    tell([=](Searcher& searcher) { searcher.paused(number); });
  }
  void told(const FinishedTrial& trial) override {
    tell([trial](Searcher& searcher) { searcher.told(trial); });
  }

  std::string introduction() const override {
    if (spec_ == choice_.spec) return concat("auto picked ", spec_, ": ", choice_.why);
    return concat("auto goes on with ",
                  spec_,
                  ", which it picked when the study began; now it would be ",
                  choice_.spec,
                  ": ",
                  choice_.why);
  }

 private:
  using Tell = std::function<void(Searcher&)>;

  void be(const std::string& text) {
    Spec spec = parse_spec(text);
    const SearcherEntry& entry = searchers().at(spec.name);
    const auto has_samples = [](const Param& param) { return param.name == "samples"; };
    if (std::ranges::any_of(entry.params, has_samples))
      spec.params["samples"] = std::to_string(options_.samples);
    picked_ = entry.make(context_, spec.params);
    spec_ = text;
  }

  /// The first trial that starts says what the study's searcher is.
  void take_spec(const std::string& spec) {
    if (spec != spec_) {
      be(spec);
      for (const Tell& tell : early_) tell(*picked_);
    }
    is_settled_ = true;
    early_ = {};
  }

  void tell(const Tell& tell) {
    if (!is_settled_) early_.push_back(tell);
    tell(*picked_);
  }

  SearcherContext context_;
  AutoOptions options_;
  AutoChoice choice_;
  std::string spec_;  // of picked_
  std::unique_ptr<Searcher> picked_;
  bool is_settled_ = false;
  std::vector<Tell> early_;  // what was told before the first trial started
};

std::unique_ptr<Searcher> make_auto(const SearcherContext& context, const ParamValues& params) {
  return std::make_unique<Auto>(context,
                                resolve_params<AutoOptions>(kAutoParams, params, "searcher auto"));
}

}  // namespace

extern constinit const SearcherEntry auto_entry{
    .name = "auto",
    .help = "picks one of the others by space, objectives and trials",
    .params = kAutoParams,
    .make = &make_auto,
    .takes_goals = true};

}  // namespace muster::tune
