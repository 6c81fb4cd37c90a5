// Every combination of the values of all parameters, once. In a study Variants makes the points
// (SearcherEntry::enumerates), so that num_samples is as with grid_search the number of rounds; by
// itself the searcher enumerates in the same order what it is not given.
#include "muster/tune/space/grid.h"

#include <cmath>
#include <map>

#include "muster/tune/search/searcher.h"

namespace muster::tune {
namespace {

class GridSearch final : public Searcher {
 public:
  explicit GridSearch(const SearcherContext& context) : space_(context.space) {
    std::vector<size_t> all(space_.dimensions().size());
    for (size_t d = 0; d < all.size(); ++d) all[d] = d;
    Grid(space_, all);  // refuses what has no end, before the first trial
  }

  Suggestion suggest(int64_t /*number*/, const Point& partial) override {
    std::vector<size_t> open;
    std::vector<double> fixed;
    for (size_t d = 0; d < partial.size(); ++d) {
      if (std::isnan(partial[d])) {
        open.push_back(d);
      } else {
        fixed.push_back(partial[d]);
      }
    }
    if (open.empty()) return {.point = partial};
    Walk& walk = walks_[{open, fixed}];
    if (walk.next == 0) walk.grid = Grid(space_, open);
    if (walk.next == walk.grid.size()) return {.kind = Suggestion::kFinished};
    Point point = partial;
    walk.grid.fill(point, walk.next++);
    return {.point = std::move(point)};
  }

 private:
  struct Walk {
    Grid grid;
    int64_t next = 0;
  };

  const Space& space_;
  std::map<std::pair<std::vector<size_t>, std::vector<double>>, Walk> walks_;  // by what is given
};

std::unique_ptr<Searcher> make_grid(const SearcherContext& context, const ParamValues& params) {
  check_param_names({}, params, "searcher grid");
  return std::make_unique<GridSearch>(context);
}

}  // namespace

extern constinit const SearcherEntry grid_entry{
    "grid", "every combination of finitely many values, once", {}, &make_grid, true};

}  // namespace muster::tune
