// The finder against machines whose memory is a formula: how close it comes, in how many probes.
#include "muster/memory/batch/batch_finder.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::memory {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

/// A step that takes max(flat, base + c * batch), in blocks; its forward holds a share of it.
struct Machine {
  double limit = 0, base = 0, per_sample = 0;
  double flat = 0;
  double of_forward = 0.7;  // of per_sample
  double block = 1;

  double bytes(int64_t batch) const {
    const double grown = std::ceil(per_sample * static_cast<double>(batch) / block) * block;
    return std::max(flat, base + grown);
  }
  double forward(int64_t batch) const {
    return base / 2 +
           std::ceil(of_forward * per_sample * static_cast<double>(batch) / block) * block;
  }
  BatchProbe probe(int64_t batch) const {
    const double all = bytes(batch);
    if (all > limit) return {.batch = batch, .fits = false};
    return {.batch = batch, .bytes = all, .forward = forward(batch)};
  }
  int64_t true_most(int64_t unit, int64_t most) const {
    int64_t low = 0, high = most / unit;
    while (low < high) {
      const int64_t middle = (low + high + 1) / 2;
      if (bytes(middle * unit) <= limit)
        low = middle;
      else
        high = middle - 1;
    }
    return low * unit;
  }
};

struct Seen {
  BatchFound found;
  int64_t failed = 0;
};

Seen seen_of(const Machine& machine, const BatchLimits& limits) {
  Seen seen{.found = find_batch_size(limits, [&](int64_t batch) { return machine.probe(batch); })};
  for (const BatchProbe& probe : seen.found.probes) seen.failed += probe.fits ? 0 : 1;
  return seen;
}

TEST(BatchFinder, ComesWithinATwentiethOfWhatALineHasRoomForInFiveProbesWithoutAFailure) {
  std::mt19937 draws(1);
  const auto log_uniform = [&](double low, double high) {
    return std::pow(10.0, std::uniform_real_distribution<>(low, high)(draws));
  };
  for (int trial = 0; trial < 5000; ++trial) {
    Machine machine{.base = log_uniform(3, 9), .per_sample = log_uniform(3.5, 7)};
    machine.limit = machine.base + machine.per_sample * log_uniform(0, 5);
    const int64_t unit = int64_t{1} << (trial % 3);
    if (machine.bytes(unit) > machine.limit) continue;
    const BatchLimits limits{.bytes = machine.limit, .most = 10'000'000, .multiple_of = unit};
    const Seen seen = seen_of(machine, limits);
    const int64_t most = machine.true_most(unit, limits.most);
    EXPECT_GE(static_cast<double>(seen.found.largest), 0.95 * static_cast<double>(most))
        << "unit " << unit << " limit " << machine.limit << " base " << machine.base;
    EXPECT_LE(seen.found.largest, most);
    EXPECT_EQ(seen.found.largest % unit, 0);
    EXPECT_LE(seen.found.probes.size(), seen.failed == 0 ? 5U : 8U);
    EXPECT_LE(seen.failed, 1);
  }
}

// Of allocators that round, and where the optimizer's step makes the peak of small batches.
TEST(BatchFinder, FindsTheSteepPartBehindAFlatOneWithHardlyAFailure) {
  std::mt19937 draws(2);
  int trials = 0, close = 0, failed_twice = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    const auto uniform = [&](double low, double high) {
      return std::uniform_real_distribution<>(low, high)(draws);
    };
    Machine machine{.base = std::pow(10.0, uniform(3, 9)),
                    .per_sample = std::pow(10.0, uniform(3.5, 7)),
                    .of_forward = uniform(0.4, 1),
                    .block = 512};
    const double fits = std::pow(10.0, uniform(1, 5));
    machine.limit = machine.base + machine.per_sample * fits;
    machine.flat = machine.base + machine.per_sample * uniform(0, 0.3) * fits;
    const BatchLimits limits{.bytes = machine.limit, .most = 10'000'000};
    const Seen seen = seen_of(machine, limits);
    ++trials;
    close += static_cast<double>(seen.found.largest) >=
             0.95 * static_cast<double>(machine.true_most(1, limits.most));
    EXPECT_LE(seen.found.probes.size(), seen.failed == 0 ? 5U : 8U);
    EXPECT_LE(seen.failed, 2);
    failed_twice += seen.failed == 2;
    EXPECT_LE(machine.bytes(seen.found.largest), machine.limit);
  }
  EXPECT_GE(close, trials * 95 / 100);
  EXPECT_LE(failed_twice, trials / 100);
}

TEST(BatchFinder, EndsAtTheDataWhereMemoryIsNotTheLimit) {
  const Machine machine{.limit = 1e12, .base = 1e6, .per_sample = 1e3};
  const Seen seen = seen_of(machine, {.bytes = 1e12, .most = 1003, .multiple_of = 4});
  EXPECT_EQ(seen.found.largest, 1000);
  EXPECT_TRUE(seen.found.is_most);
  EXPECT_EQ(seen.failed, 0);
}

TEST(BatchFinder, StaysBelowASizeThatDidNotFitThoughTheLineSaidSo) {
  // Above 300 samples a kernel takes a workspace that nobody could foresee.
  const Machine line{.limit = 1e6, .base = 1e4, .per_sample = 1e3};
  const auto measure = [&](int64_t batch) {
    BatchProbe probe = line.probe(batch);
    if (batch > 600) probe.fits = false;
    return probe;
  };
  const BatchFound found = find_batch_size({.bytes = 1e6, .most = 100'000}, measure);
  EXPECT_LE(found.largest, 600);
  EXPECT_GE(found.largest, 570) << "within a twentieth";
  EXPECT_LE(found.probes.size(), 8U);
  const BatchFound five =
      find_batch_size({.bytes = 1e6, .most = 100'000, .probes_more = 0}, measure);
  EXPECT_LE(five.largest, 600);
  EXPECT_GE(five.largest, 495) << "half of what the line said was measured and fits";
}

// Backward needs three times the bytes of forward from some size on: the last of five probes fails.
// A pipeline that is cut anew for each size: small ones are cut where they take more.
TEST(BatchFinder, GoesOnWhereAllFitAndTheLastLineSaysThatTheEndIsFar) {
  for (const int64_t bends : {20, 50, 90}) {
    const auto measure = [&](int64_t batch) {
      const auto samples = static_cast<double>(batch);
      const double bytes = batch < bends ? 1000 + (30 * samples) : 1000 + (8 * samples);
      return BatchProbe{.batch = batch, .fits = bytes <= 4000, .bytes = bytes, .forward = bytes};
    };
    const BatchFound found =
        find_batch_size({.bytes = 4000, .most = 1000, .multiple_of = 4}, measure);
    EXPECT_GE(static_cast<double>(found.largest), 0.85 * 375) << "bends at " << bends;
    EXPECT_LE(found.probes.size(), 8U);
  }
}

// The fifth size is cut otherwise than those before it, and takes less: they do not say where the end is.
TEST(BatchFinder, GoesOnWhereALargerSizeTookLess) {
  const auto measure = [&](int64_t batch) {
    const auto samples = static_cast<double>(batch);
    const double bytes = batch <= 8    ? 1200 + (75 * samples)
                         : batch <= 20 ? 1000 + (100 * samples)
                                       : 1600 + (37.5 * samples);
    return BatchProbe{.batch = batch, .fits = bytes <= 4000, .bytes = bytes, .forward = bytes};
  };
  const BatchFound found =
      find_batch_size({.bytes = 4000, .most = 1000, .multiple_of = 4}, measure);
  ASSERT_EQ(found.probes.at(4).batch, 28);
  EXPECT_GE(static_cast<double>(found.largest), 0.85 * 64);
  EXPECT_LE(found.largest, 64);
  EXPECT_LE(found.probes.size(), 8U);
}

TEST(BatchFinder, SearchesBelowOneUnitWhereThatDoesNotFit) {
  for (const int64_t fits : {1, 2, 9, 33, 60, 99}) {
    const Machine machine{
        .limit = 1000.0 + static_cast<double>(fits), .base = 1000, .per_sample = 1};
    const BatchLimits limits{.bytes = machine.limit, .most = 1000, .multiple_of = 100, .least = 1};
    const Seen seen = seen_of(machine, limits);
    EXPECT_LE(seen.found.largest, fits);
    EXPECT_GE(static_cast<double>(seen.found.largest), 0.8 * static_cast<double>(fits)) << fits;
    EXPECT_LE(seen.found.probes.size(), 8U);
    EXPECT_FALSE(seen.found.is_most);
    EXPECT_EQ(seen.found.probes[0].batch, 100);
    EXPECT_EQ(seen.found.probes[1].batch, 1);
  }
  const Machine two{.limit = 1005, .base = 1000, .per_sample = 1};
  const BatchFound even =
      seen_of(two, {.bytes = two.limit, .most = 8, .multiple_of = 8, .least = 2}).found;
  EXPECT_EQ(even.largest, 4);
}

TEST(BatchFinder, HalvesTheWayWhereTheLastProbeDidNotFit) {
  std::mt19937 draws(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto uniform = [&](double low, double high) {
      return std::uniform_real_distribution<>(low, high)(draws);
    };
    const Machine line{.limit = 1e9, .base = 1e6, .per_sample = std::pow(10.0, uniform(3, 6))};
    const double steep = uniform(1.2, 4), from = uniform(0.3, 1) * 1e9 / line.per_sample;
    const auto measure = [&](int64_t batch) {
      BatchProbe probe = line.probe(batch);
      probe.bytes +=
          std::max(0.0, static_cast<double>(batch) - from) * (steep - 1) * line.per_sample;
      if (probe.bytes > line.limit) probe.fits = false;
      return probe;
    };
    const BatchFound found = find_batch_size({.bytes = 1e9, .most = 10'000'000}, measure);
    EXPECT_TRUE(measure(found.largest).fits);
    const auto within = static_cast<int64_t>(std::ceil(static_cast<double>(found.largest) * 1.1));
    EXPECT_FALSE(measure(within).fits) << "line " << line.per_sample << " steep " << steep
                                       << " from " << from << ": " << found.largest;
  }
}

TEST(BatchFinder, TellsTheSmallestBatchThatIsNearlyAsFastAsTheFastest) {
  const Machine machine{.limit = 1e6, .base = 1e4, .per_sample = 1e3};
  // A millisecond each step, and 10 microseconds a sample: 8 samples take 1.08 ms.
  const auto timed = [&](double fixed_s, int64_t batch) {
    BatchProbe probe = machine.probe(batch);
    probe.seconds = fixed_s + 1e-5 * static_cast<double>(batch);
    return probe;
  };
  const BatchLimits limits{.bytes = 1e6, .most = 100'000};
  const BatchFound slow_start =
      find_batch_size(limits, [&](int64_t batch) { return timed(1e-2, batch); });
  EXPECT_EQ(slow_start.fastest, slow_start.largest);
  const BatchFound flat =
      find_batch_size(limits, [&](int64_t batch) { return timed(1e-7, batch); });
  EXPECT_EQ(flat.fastest, 1) << "each size is as fast";
  EXPECT_THAT(text_of(flat, limits), HasSubstr("; fastest 1 ("));
}

TEST(BatchFinder, SaysTheLineAndHowOftenMemoryRanOut) {
  const Machine machine{.limit = 1 << 30, .base = 1 << 20, .per_sample = 1 << 10};
  const BatchLimits limits{.bytes = machine.limit, .most = int64_t{1} << 40};
  const Seen seen = seen_of(machine, limits);
  EXPECT_DOUBLE_EQ(seen.found.base_bytes, machine.base);
  EXPECT_DOUBLE_EQ(seen.found.bytes_per_sample, machine.per_sample);
  EXPECT_THAT(text_of(seen.found, limits), HasSubstr("1.0 MiB + 1.0 KiB a sample"));
}

TEST(BatchFinder, RefusesWhatDoesNotFitAtAllAndLimitsThatMakeNoSense) {
  const Machine none{.limit = 10, .base = 100, .per_sample = 1};
  EXPECT_THAT(refusal_of([&] { seen_of(none, {.bytes = 10, .most = 8, .multiple_of = 2}); },
                         ErrorKind::kEnvironment),
              HasSubstr("not even 2 samples do"));
  EXPECT_THAT(
      refusal_of([&] { seen_of(none, {.bytes = 10, .most = 8, .multiple_of = 4, .least = 1}); },
                 ErrorKind::kEnvironment),
      HasSubstr("not even 1 sample does"));
  const auto refused = [](const BatchLimits& limits) {
    return refusal_of([&] { BatchFinder finder(limits); }, ErrorKind::kUsage);
  };
  EXPECT_THAT(refused({.bytes = 0, .most = 1}), HasSubstr("BatchLimits::bytes"));
  EXPECT_THAT(refused({.bytes = 1, .most = 1, .multiple_of = 2}), HasSubstr("BatchLimits::most"));
  EXPECT_THAT(refused({.bytes = 1, .most = 1, .multiple_of = 0}), HasSubstr("multiple_of"));
  EXPECT_THAT(refused({.bytes = 1, .most = 9, .multiple_of = 2, .least = 3}), HasSubstr("least"));
  EXPECT_THAT(refused({.bytes = 1, .most = 1, .margin = 1}), HasSubstr("margin"));
  EXPECT_THAT(refused({.bytes = 1, .most = 1, .probes = 0}), HasSubstr("probes"));
}

}  // namespace
}  // namespace muster::memory
