// The worked example of docs/add-a-searcher.md: a quasi-random searcher. searcher_contract_test.cpp
// runs over it as over every entry of the table.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "muster/tune/search/searcher.h"
#include "muster/tune/space/unit_axis.h"

namespace muster::tune {
namespace {

// Halton's sequence: dimension d gets the digits of the trial's number in the d-th prime as base,
// mirrored at the point. Any run of trials covers the space more evenly than random draws.
// Source: Halton 1960; skipping the first numbers, as is usual.

struct HaltonOptions {
  int64_t skip = 20;  ///< numbers of the sequence left out at its start
};

constexpr Param kParams[] = {
    param<&HaltonOptions::skip>("skip", "numbers of the sequence left out at its start")};

constexpr int64_t kPrimes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};

double mirrored(int64_t number, int64_t base) {
  double out = 0, digit = 1;
  for (; number > 0; number /= base) {
    digit /= static_cast<double>(base);
    out += digit * static_cast<double>(number % base);
  }
  return out;
}

class Halton final : public Searcher {
 public:
  Halton(const SearcherContext& context, const HaltonOptions& options)
      : space_(context.space), seed_(context.seed), options_(options) {}

  Suggestion suggest(int64_t number, const Point& partial) override {
    Point point = draw_open(space_, partial, seed_, number);
    const auto dimensions = space_.dimensions();
    for (size_t d = 0; d < dimensions.size() && d < std::size(kPrimes); ++d) {
      // The seed turns the sequence around, so that two studies differ.
      const double turned = mirrored(number + options_.skip, kPrimes[d]) + turn(d);
      point[d] = from_unit(dimensions[d].distribution, turned - std::floor(turned));
    }
    return {.point = keep_fixed(std::move(point), partial)};
  }

 private:
  double turn(size_t d) const { return static_cast<double>(seed_ * (d + 1) % 997) / 997; }

  const Space& space_;
  uint64_t seed_;
  HaltonOptions options_;
};

std::unique_ptr<Searcher> make(const SearcherContext& context, const ParamValues& params) {
  const auto options = resolve_params<HaltonOptions>(kParams, params, "searcher halton");
  return std::make_unique<Halton>(context, options);
}

}  // namespace

namespace worked {  // not in the guide: a reader's halton.cpp is another one

extern constinit const SearcherEntry halton_entry{
    "halton", "covers the space more evenly than random draws", kParams, &make};

}  // namespace worked

namespace {

using worked::halton_entry;

TEST(WorkedSearcher, ItsPointsCoverTheSpaceEvenly) {
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  const auto searcher = halton_entry.make({.space = space}, {{"skip", "0"}});
  std::vector<int> cells(16);
  const Point open(2, std::numeric_limits<double>::quiet_NaN());
  for (int64_t number = 0; number < 144; ++number) {
    const Point point = searcher->suggest(number, open).point;
    ++cells[static_cast<size_t>(point[0] * 4) + 4 * static_cast<size_t>(point[1] * 4)];
  }
  // Nine in each cell on average; random draws have empty halves of cells at times.
  for (const int count : cells) EXPECT_NEAR(count, 9, 2);
}

}  // namespace
}  // namespace muster::tune
