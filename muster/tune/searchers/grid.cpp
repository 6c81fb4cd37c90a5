// Every combination of the values of all parameters, once. In a study Variants makes the points
// (SearcherEntry::enumerates), so that num_samples is as with grid_search the number of rounds; by
// itself the searcher enumerates in the same order what it is not given.
#include "muster/tune/space/grid.h"

#include <cmath>
#include <map>

#include "muster/base/text.h"
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
    std::string fixed;
    for (size_t d = 0; d < partial.size(); ++d) {
      if (std::isnan(partial[d])) {
        open.push_back(d);
      } else {
        fixed += concat(d, '=', shortest(partial[d]), ' ');
      }
    }
    if (open.empty()) return {.point = partial};
    const Grid grid(space_, open);
    const std::string memo = "fixed " + fixed;
    const auto tried = tried_.find(memo);
    const int64_t next = tried == tried_.end() ? 0 : tried->second;
    if (next == grid.size()) return {.kind = Suggestion::kFinished};
    Point point = partial;
    grid.fill(point, next);
    return {.point = std::move(point), .memo = memo};
  }

  void suggested(int64_t /*number*/, const Point& /*point*/, const std::string& memo) override {
    if (!memo.empty()) ++tried_[memo];
  }

  bool is_quick() const override { return true; }

 private:
  const Space& space_;
  std::map<std::string, int64_t> tried_;  // of the grid of what is open, by what is fixed
};

std::unique_ptr<Searcher> make_grid(const SearcherContext& context, const ParamValues& params) {
  check_param_names({}, params, "searcher grid");
  return std::make_unique<GridSearch>(context);
}

}  // namespace

extern constinit const SearcherEntry grid_entry{
    "grid", "every combination of finitely many values, once", {}, &make_grid, true, true};

}  // namespace muster::tune
