// Failures of CUDA's allocator, by their texts: on a machine without a GPU the arithmetic of the step
// that is named stands for doing it.
#pragma once

#include <string>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"
#include "muster/memory/report/explain.h"

#include "tests/memory/report/made_up_machine.h"

namespace muster::test {

/// What came of one seeded failure.
struct Outcome {
  memory::OomReport report;
  std::string top;  ///< scope that holds most, of those that it is about; "": nobody is to blame
  bool mended = false;  ///< what the report says was done, and the same request passed
};

/// In the sentences of LibTorch's CUDACachingAllocator.cpp.
inline std::string cuda_text(int64_t asked,
                             int64_t total,
                             int64_t free,
                             const std::string& processes,
                             int64_t allocated,
                             const std::string& pools,
                             int64_t idle) {
  const auto gib = [](int64_t bytes) {
    return fixed(static_cast<double>(bytes) / static_cast<double>(kGib), 2) + " GiB";
  };
  return concat("CUDA out of memory. Tried to allocate ",
                gib(asked),
                ". GPU 0 has a total capacity of ",
                gib(total),
                " of which ",
                gib(free),
                " is free. ",
                processes,
                "Of the allocated memory ",
                gib(allocated),
                " is allocated by PyTorch, ",
                pools,
                "and ",
                gib(idle),
                " is reserved by PyTorch but unallocated.");
}

inline memory::OomFacts facts_of(const std::string& text) {
  memory::ExplainOptions options;
  options.processes = 0;
  return memory::explain(
             std::make_exception_ptr(c10::OutOfMemoryError({__func__, __FILE__, 1}, text)),
             c10::Device(c10::kCUDA, 0),
             options)
      .facts;
}

/// The facts, and whether the request passes when `bytes` of them are free.
inline Outcome by_arithmetic(const memory::OomFacts& facts, int64_t bytes) {
  Outcome outcome{.report = {.facts = facts, .cause = memory::classify(facts)}};
  memory::OomFacts after = facts;
  after.free = *facts.free + bytes;
  outcome.mended =
      memory::classify(after).kind == memory::OomClass::kSpurious;  // there would have been room
  return outcome;
}

inline Outcome other_process(int64_t gib) {
  const memory::OomFacts facts =
      facts_of(cuda_text(3 * gib * kGib,
                         24 * gib * kGib,
                         gib * kGib,
                         concat("Process 4711 has ",
                                16 * gib,
                                ".00 GiB memory in use. Including non-PyTorch "
                                "memory, this process has ",
                                7 * gib,
                                ".00 GiB memory in use. "),
                         6 * gib * kGib,
                         "",
                         gib * kGib / 2));
  EXPECT_EQ(facts.processes.at(0).pid, 4711);
  return by_arithmetic(facts, *facts.others);
}

inline Outcome graph_pools(int64_t gib) {
  memory::OomFacts facts =
      facts_of(cuda_text(3 * gib * kGib,
                         24 * gib * kGib,
                         gib * kGib,
                         "",
                         14 * gib * kGib,
                         "with 2.00 GiB allocated in private pools (e.g., CUDA Graphs), ",
                         8 * gib * kGib));
  facts.in_pools = 7 * gib * kGib;  // of the allocator's counters
  return by_arithmetic(facts, *facts.in_pools);
}

inline Outcome contexts(int64_t gib) {
  const memory::OomFacts facts = facts_of(cuda_text(
      3 * gib * kGib,
      24 * gib * kGib,
      gib * kGib,
      concat(
          "Including non-PyTorch memory, this process has ", 23 * gib, ".00 GiB memory in use. "),
      4 * gib * kGib,
      "",
      gib * kGib / 2));
  return by_arithmetic(facts, *facts.outside / 2);
}

}  // namespace muster::test
