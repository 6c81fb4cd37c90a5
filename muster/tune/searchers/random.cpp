// Independent draws, each trial from a random stream of its own.
#include "muster/tune/search/searcher.h"

namespace muster::tune {
namespace {

class Random final : public Searcher {
 public:
  explicit Random(const SearcherContext& context) : space_(context.space), seed_(context.seed) {}

  Suggestion suggest(int64_t number, const Point& partial) override {
    return {.point = draw_open(space_, partial, seed_, number)};
  }

  bool is_quick() const override { return true; }
  bool has_history() const override { return false; }

 private:
  const Space& space_;
  uint64_t seed_;
};

std::unique_ptr<Searcher> make_random(const SearcherContext& context, const ParamValues& params) {
  check_param_names({}, params, "searcher random");
  return std::make_unique<Random>(context);
}

}  // namespace

extern constinit const SearcherEntry random_entry{.name = "random",
                                                  .help = "draws every parameter independently",
                                                  .make = &make_random,
                                                  .takes_goals = true,
                                                  .shares_draws = true};

}  // namespace muster::tune
