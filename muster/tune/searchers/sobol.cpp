// Sobol's sequence, scrambled: covers the space more evenly than random draws. Trial n has point n.
#include "muster/tune/searchers/sobol.h"

#include "muster/tune/search/gp/sobol_points.h"
#include "muster/tune/search/searcher.h"

namespace muster::tune {
namespace {

constexpr Param kSobolParams[] = {
    param<&SobolOptions::scramble>("scramble", "by the seed; without it every study is the same"),
    param<&SobolOptions::skip>("skip", "points left out at the start of the sequence")};

class Sobol final : public Searcher {
 public:
  Sobol(const SearcherContext& context, const SobolOptions& options)
      : space_(context.space),
        seed_(context.seed),
        skip_(options.skip),
        points_(context.space,
                options.scramble ? std::optional<uint64_t>(context.seed) : std::nullopt) {}

  Suggestion suggest(int64_t number, const Point& partial) override {
    // Only a grid's dimension that nobody filled is left to draw.
    const Point point = points_.fill(static_cast<uint64_t>(number + skip_), partial);
    return {.point = draw_open(space_, point, seed_, number)};
  }

  bool has_history() const override { return false; }

 private:
  const Space& space_;
  uint64_t seed_;
  int64_t skip_;
  SobolPoints points_;
};

void check_sobol(const SobolOptions& options) {
  if (options.skip >= 0) return;
  throw usage_error({.refused = "skip of searcher sobol",
                     .rule = "it is at least 0",
                     .value = std::to_string(options.skip)});
}

std::unique_ptr<Searcher> make_sobol(const SearcherContext& context, const ParamValues& params) {
  const auto options = resolve_params<SobolOptions>(kSobolParams, params, "searcher sobol");
  check_sobol(options);
  const size_t dimensions = SobolPoints::count(context.space);
  if (dimensions > SobolSequence::kMaxDimensions) {
    throw usage_error(
        {.refused = "searcher sobol",
         .rule = concat("its sequence has at most ", SobolSequence::kMaxDimensions, " dimensions"),
         .value = std::to_string(dimensions),
         .hint = "the searcher random has no limit"});
  }
  return std::make_unique<Sobol>(context, options);
}

}  // namespace

std::string sobol(const SobolOptions& options) {
  check_sobol(options);
  return spec_text("sobol", kSobolParams, options);
}

extern constinit const SearcherEntry sobol_entry{
    "sobol",
    "Sobol's sequence, scrambled: evener than random draws",
    kSobolParams,
    &make_sobol,
    false,
    true};

}  // namespace muster::tune
