// A study core that a test drives by hand.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "muster/tune/core/study_core.h"

#include "tests/support/numbers.h"

namespace muster::tune {

using test::kNan;

inline StudySpec spec_with(int64_t samples, const std::string& scheduler = "fifo") {
  StudySpec spec{.name = "test", .metric = "loss", .mode = Mode::kMin};
  spec.space = Space({{"lr", loguniform(1e-4, 1e-1)}, {"l1", sample_from("2 ** randint(2, 9)")}});
  spec.num_samples = samples;
  spec.scheduler = scheduler;
  spec.seed = 7;
  return spec;
}

inline Report loss(double value,
                   std::optional<int64_t> step = {},
                   const std::string& checkpoint = "") {
  return {.step = step, .metrics = {{"loss", value}}, .checkpoint = checkpoint};
}

inline int64_t start(StudyCore& core, double now_s = 0) {
  const auto next = core.next(now_s);
  EXPECT_EQ(next.kind, StudyCore::Next::kStart);
  return next.trial;
}

inline const Trial& trial(const StudyCore& core, int64_t number) {
  return core.trials()[static_cast<size_t>(number)];
}

}  // namespace muster::tune
