// Suite A: programs that leak, their fixed twins, and controls. The targets are the project's.
#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "muster/base/text.h"
#include "muster/memory/leak/growth.h"

#include "tests/memory/leak/leak_programs.h"

namespace muster::test {
namespace {

constexpr double kRecall = 0.95, kPrecision = 0.95, kScope = 0.85;
constexpr int kVerdictIterations = 30;

std::vector<LeakProgram> leak_programs() {
  std::vector<LeakProgram> all = graph_leak_programs();
  for (LeakProgram& one : other_leak_programs()) all.push_back(std::move(one));
  return all;
}

/// What a user has without us: the slope of allocated bytes, over the same iterations, robust, and
/// above 1 KiB per iteration.
bool slope_says_leak(const LeakRun& run) {
  constexpr size_t kFirst = 5, kEnd = 25;
  const std::span<const int64_t> bytes(run.end_bytes);
  return memory::median_slope(bytes.subspan(kFirst, kEnd - kFirst)) > 1024;
}

/// Counts over all programs, and a line for each.
struct Score {
  int leaks = 0, found = 0, false_alarms = 0, silent = 0, right_scope = 0, slowest = 0;
  int found_by_slope = 0, false_alarms_by_slope = 0;
  std::string table;

  void add_leak(const LeakProgram& program) {
    const LeakRun run =
        run_under_leak_finder([&program](LeakWorld& world) { return program.make(world, true); });
    ++leaks;
    found_by_slope += slope_says_leak(run) ? 1 : 0;
    const memory::LeakFinding* finding = nullptr;
    for (const memory::LeakFinding& one : run.first.findings) {
      if (one.kind == program.kind && finding == nullptr) finding = &one;
    }
    if (finding == nullptr) {
      table += concat("MISSED  ", program.name, "\n        ", run.last.text(), "\n");
      return;
    }
    ++found;
    const bool scope = finding->scope == program.scope;
    right_scope += scope ? 1 : 0;
    slowest = std::max(slowest, run.first_iteration);
    table += concat("found   ",
                    program.name,
                    ", iteration ",
                    run.first_iteration,
                    scope ? "" : ", WRONG SCOPE",
                    "\n        ",
                    finding->text(),
                    "\n");
  }

  void add_silent(const std::string& name, const LeakRun& run) {
    false_alarms_by_slope += slope_says_leak(run) ? 1 : 0;
    if (run.first_iteration == 0) {
      ++silent;
      table += concat("silent  ", name, "\n");
    } else {
      ++false_alarms;
      table += concat("ALARM   ", name, "\n        ", run.first.text(), "\n");
    }
  }
};

TEST(LeakSuite, RecallPrecisionAndScopesReachTheirTargets) {
  Score score;
  for (const LeakProgram& program : leak_programs()) {
    score.add_leak(program);
    score.add_silent("fixed: " + program.name, run_under_leak_finder([&program](LeakWorld& world) {
                       return program.make(world, false);
                     }));
  }
  for (const ControlProgram& program : control_programs())
    score.add_silent("control: " + program.name, run_under_leak_finder(program.make));
  for (const MissingProgram& program : missing_leak_programs())
    score.table += concat("not run ", program.name, ": ", program.reason, "\n");

  const double recall = static_cast<double>(score.found) / score.leaks;
  const double precision =
      static_cast<double>(score.found) / std::max(1, score.found + score.false_alarms);
  const double scope = static_cast<double>(score.right_scope) / std::max(1, score.found);
  std::printf(
      "%s%d leaks, %d silent programs: recall %.3f, precision %.3f, right scope %.3f, "
      "slowest verdict in iteration %d\n",
      score.table.c_str(),
      score.leaks,
      score.silent + score.false_alarms,
      recall,
      precision,
      scope,
      score.slowest);
  std::printf("the slope of allocated bytes alone: %d of %d leaks, %d false alarms\n",
              score.found_by_slope,
              score.leaks,
              score.false_alarms_by_slope);
  EXPECT_GE(recall, kRecall);
  EXPECT_GE(precision, kPrecision);
  EXPECT_GE(scope, kScope);
  EXPECT_LE(score.slowest, kVerdictIterations);
}

}  // namespace
}  // namespace muster::test
