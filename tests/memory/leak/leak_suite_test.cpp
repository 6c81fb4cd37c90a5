// Suite A: programs that leak, their fixed twins, and controls. The targets are the project's.
#include <algorithm>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/text.h"
#include "muster/memory/leak/growth.h"

#include "tests/memory/leak/leak_programs.h"

namespace muster::test {
namespace {

constexpr double kRecall = 0.95, kPrecision = 0.95, kScope = 0.85;
constexpr int kVerdictIterations = 30;

std::vector<LeakProgram> leak_programs() {
  std::vector<LeakProgram> all;
  for (const auto& part : {graph_leak_programs(),
                           other_leak_programs(),
                           outside_leak_programs(),
                           device_leak_programs()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<ControlProgram> all_control_programs() {
  std::vector<ControlProgram> all;
  for (const auto& part :
       {control_programs(), outside_control_programs(), device_control_programs()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Robust, over the iterations that the finder looks at, and above 1 KiB per iteration.
bool grows(std::span<const int64_t> bytes) {
  return bytes.size() >= LeakRun::kLate &&
         memory::median_slope(bytes.subspan(LeakRun::kEarly, LeakRun::kLate - LeakRun::kEarly)) >
             1024;
}

/// A scope and operator of which more blocks live, by one for every second iteration.
bool snapshots_differ(const LeakRun& run) {
  std::map<std::pair<std::string, std::string>, int> more;
  for (const memory::LiveBlock& block : run.late) ++more[{block.scope, block.op}];
  for (const memory::LiveBlock& block : run.early) --more[{block.scope, block.op}];
  return std::any_of(more.begin(), more.end(), [](const auto& one) {
    return one.second >= (LeakRun::kLate - LeakRun::kEarly) / 2;
  });
}

/// What somebody without us looks at.
struct Baseline {
  const char* name;
  bool (*says_leak)(const LeakRun&);
  int found = 0, false_alarms = 0;
};

/// Counts over all programs, and a line for each.
struct Score {
  int leaks = 0, found = 0, false_alarms = 0, silent = 0, right_scope = 0, slowest = 0;
  std::vector<Baseline> baselines = {
      {"the slope of allocated bytes", [](const LeakRun& run) { return grows(run.end_bytes); }},
      {"the slope of a device's counters (what pytorch_memlab shows)",
       [](const LeakRun& run) { return grows(run.device_bytes); }},
      {"the slope of resident memory", [](const LeakRun& run) { return grows(run.resident); }},
      {"the difference of two snapshots", &snapshots_differ}};
  std::string table;

  void add_leak(const LeakProgram& program) {
    const LeakRun run =
        run_under_leak_finder([&program](LeakWorld& world) { return program.make(world, true); });
    ++leaks;
    for (Baseline& one : baselines) one.found += one.says_leak(run) ? 1 : 0;
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
    for (const memory::LeakFinding& one : run.first.findings) {
      if (&one != finding) table += concat("   and  ", one.text(), "\n");
    }
  }

  void add_silent(const std::string& name, const LeakRun& run) {
    for (Baseline& one : baselines) one.false_alarms += one.says_leak(run) ? 1 : 0;
    if (run.first_iteration == 0) {
      ++silent;
      table += concat("silent  ", name, "\n");
    } else {
      ++false_alarms;
      table += concat("ALARM   ", name, "\n        ", run.first.text(), "\n");
    }
  }

  void print() const {
    std::printf("%s", table.c_str());
    for (const Baseline& one : baselines)
      std::printf(
          "%s: %d of %d leaks, %d false alarms\n", one.name, one.found, leaks, one.false_alarms);
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
  for (const ControlProgram& program : all_control_programs())
    score.add_silent("control: " + program.name, run_under_leak_finder(program.make));

  const double recall = static_cast<double>(score.found) / score.leaks;
  const double precision =
      static_cast<double>(score.found) / std::max(1, score.found + score.false_alarms);
  const double scope = static_cast<double>(score.right_scope) / std::max(1, score.found);
  score.print();
  std::printf(
      "%d leaks, %d silent programs: recall %.3f, precision %.3f, right scope %.3f, "
      "slowest verdict in iteration %d\n",
      score.leaks,
      score.silent + score.false_alarms,
      recall,
      precision,
      scope,
      score.slowest);
  EXPECT_GE(recall, kRecall);
  EXPECT_GE(precision, kPrecision);
  EXPECT_GE(scope, kScope);
  EXPECT_LE(score.slowest, kVerdictIterations);
}

}  // namespace
}  // namespace muster::test
