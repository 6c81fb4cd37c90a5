// How near the batch finder comes to the largest batch where a step's memory grows faster from some
// batch on, which no small probe tells. `build/bin/steep_batches`
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "muster/memory/batch/batch_finder.h"

namespace {

using muster::memory::BatchFound;
using muster::memory::BatchProbe;

constexpr double kLimit = 1e9, kBase = 1e6, kOfForward = 0.7;
constexpr int64_t kMost = 10'000'000;
constexpr int kMachines = 2000;

struct Machine {
  double per_sample = 0, from = 0, steep = 1;  // `steep` times as much from the batch `from` on

  double bytes(int64_t batch) const {
    const auto samples = static_cast<double>(batch);
    return kBase + per_sample * (samples + (steep - 1) * std::max(0.0, samples - from));
  }
  BatchProbe probe(int64_t batch) const {
    const double all = bytes(batch);
    return {.batch = batch,
            .fits = all <= kLimit,
            .bytes = all,
            .forward = kOfForward * per_sample * static_cast<double>(batch)};
  }
  int64_t largest() const {
    int64_t low = 0, high = kMost;
    while (low < high) {
      const int64_t middle = (low + high + 1) / 2;
      if (bytes(middle) <= kLimit)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

void measure(double steep, int probes_more) {
  std::mt19937 draws(7);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(draws);
  };
  std::vector<double> shares;
  size_t most_probes = 0;
  int64_t most_failed = 0;
  for (int i = 0; i < kMachines; ++i) {
    const double per_sample = std::pow(10.0, uniform(3, 6));
    const Machine machine{per_sample, uniform(0.3, 1) * kLimit / per_sample, steep};
    const BatchFound found = muster::memory::find_batch_size(
        {.bytes = kLimit, .most = kMost, .probes_more = probes_more},
        [&](int64_t batch) { return machine.probe(batch); });
    shares.push_back(static_cast<double>(found.largest) / static_cast<double>(machine.largest()));
    most_probes = std::max(most_probes, found.probes.size());
    most_failed = std::max(most_failed, std::ranges::count(found.probes, false, &BatchProbe::fits));
  }
  std::ranges::sort(shares);
  std::printf("| %.1f | %d | %.3f | %.3f | %.3f | %zu | %lld |\n",
              steep,
              5 + probes_more,
              shares.front(),
              shares[shares.size() / 20],
              shares[shares.size() / 2],
              most_probes,
              static_cast<long long>(most_failed));
}

}  // namespace

int main() {
  std::puts(
      "| times as steep | probes allowed | worst | 5th percentile | median | most probes | most "
      "failures |");
  std::puts("|---|---|---|---|---|---|---|");
  for (const double steep : {1.5, 2.0, 3.0})
    for (const int more : {0, 3}) measure(steep, more);
}
