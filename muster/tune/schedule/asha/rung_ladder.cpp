#include "muster/tune/schedule/asha/rung_ladder.h"

#include <algorithm>
#include <cmath>

#include "muster/base/philox.h"

namespace muster::tune {
namespace {

/// Keeps the stream apart from those of dimensions, which count from 0 in this place.
constexpr uint32_t kBracketStream = 0xB7ACE7;

/// In [0, 1), a function of its arguments.
double uniform_of(uint64_t seed, int64_t number) {
  const auto n = static_cast<uint64_t>(number);
  const auto bits =
      philox4x32_10({static_cast<uint32_t>(n), static_cast<uint32_t>(n >> 32), kBracketStream, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
}

}  // namespace

std::vector<double> rung_ladder(int64_t min_t, int64_t max_t, double eta, size_t limit) {
  std::vector<double> rungs;
  auto rung = static_cast<double>(min_t);
  for (; rung <= static_cast<double>(max_t) && rungs.size() < limit; rung *= eta)
    rungs.push_back(rung);
  return rungs;
}

std::vector<double> ray_rung_ladder(int64_t min_t, int64_t max_t, double eta, int64_t s) {
  const double ratio = static_cast<double>(max_t) / static_cast<double>(min_t);
  const auto count =
      static_cast<int64_t>(std::log(ratio) / std::log(eta) - static_cast<double>(s) + 1);
  std::vector<double> rungs;
  for (int64_t k = 0; k < count; ++k)
    rungs.push_back(static_cast<double>(min_t) * std::pow(eta, static_cast<double>(k + s)));
  return rungs;
}

size_t draw_bracket(std::span<const size_t> rungs, uint64_t seed, int64_t number) {
  if (rungs.size() == 1) return 0;
  const auto most = static_cast<double>(*std::ranges::max_element(rungs));
  std::vector<double> weights;
  double total = 0;
  for (const size_t count : rungs) {
    weights.push_back(std::exp(static_cast<double>(count) - most));
    total += weights.back();
  }
  double at = uniform_of(seed, number) * total;
  for (size_t s = 0; s + 1 < weights.size(); ++s) {
    if (at < weights[s]) return s;
    at -= weights[s];
  }
  return weights.size() - 1;
}

}  // namespace muster::tune
