#include "muster/tune/search/searcher.h"

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/search/concurrency.h"

namespace muster::tune {
namespace {

struct LimitOptions {
  int64_t max_concurrent = 0;
  bool batch = false;
};

constexpr Param kLimitParams[] = {
    param<&LimitOptions::max_concurrent>("max_concurrent", "trials under way at once; 0: no limit"),
    param<&LimitOptions::batch>("batch", "learn of trials only when a whole batch has finished")};

/// Takes the parameters of LimitOptions out of `params`, those that the searcher has not itself.
LimitOptions take_limit(const SearcherEntry& entry, ParamValues& params) {
  ParamValues limit;
  for (const Param& param : kLimitParams) {
    const bool is_its_own =
        std::ranges::any_of(entry.params, [&](const Param& own) { return own.name == param.name; });
    const auto given = params.find(param.name);
    if (!is_its_own && given != params.end()) limit.insert(params.extract(given));
  }
  return resolve_params<LimitOptions>(kLimitParams, limit, "searcher " + std::string(entry.name));
}

}  // namespace

std::string trial_phrase(int64_t number) {
  return number < 0 ? concat("Optuna's trial ", outside_number(number)) : concat("trial ", number);
}

std::unique_ptr<Searcher> make_searcher(const std::string& text, const SearcherContext& context) {
  Spec spec = parse_spec(text);
  const SearcherEntry& entry = searchers().at(spec.name);
  const LimitOptions limit = take_limit(entry, spec.params);
  auto searcher = entry.make(context, spec.params);
  if (limit.max_concurrent != 0)
    return limit_concurrency(std::move(searcher), limit.max_concurrent, limit.batch);
  if (limit.batch) {
    throw usage_error({.refused = "batch of searcher " + spec.name,
                       .rule = "a batch has a size",
                       .hint = "add max_concurrent=4, say"});
  }
  return searcher;
}

Point keep_fixed(Point point, const Point& partial) {
  for (size_t d = 0; d < partial.size(); ++d) {
    if (!std::isnan(partial[d])) point[d] = partial[d];
  }
  return point;
}

Point draw_open(const Space& space, const Point& partial, uint64_t seed, int64_t number) {
  Point point = space.draw(partial, seed, number);
  for (size_t d = 0; d < point.size(); ++d) {
    // A grid's dimension that nobody filled.
    if (std::isnan(point[d])) point[d] = space.draw_dimension(d, seed, number);
  }
  return point;
}

}  // namespace muster::tune
