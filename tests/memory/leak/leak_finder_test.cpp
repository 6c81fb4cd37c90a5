// What a finding says, and when. Which programs leak and which do not: leak_suite_test.cpp.
#include "muster/memory/leak/leak_finder.h"

#include <string>
#include <vector>

#include "muster/memory/allocator/scope.h"

#include "tests/memory/leak/leak_programs.h"
#include "tests/support/error_of.h"

namespace muster::test {
namespace {

using memory::LeakFinding;
using memory::LeakKind;
using memory::LeakOptions;
using memory::Scope;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 400'000;  // per iteration

LeakStep list_that_grows(LeakWorld&) {
  return [kept = std::vector<at::Tensor>()](int) mutable {
    const Scope scope("list");
    kept.push_back(torch::ones({kBytes / 4}));
  };
}

TEST(LeakFinder, SaysNothingBeforeItsWindowIsFullAndTheRateAfterwards) {
  const LeakRun early = run_under_leak_finder(&list_that_grows, 12, {.warm_up = 3, .window = 10});
  EXPECT_FALSE(early.last.enough);
  EXPECT_EQ(early.last.text(), "too early to tell after 12 iterations");

  const LeakRun run = run_under_leak_finder(&list_that_grows, 13, {.warm_up = 3, .window = 10});
  EXPECT_EQ(run.first_iteration, 13);
  ASSERT_EQ(run.last.findings.size(), 1U);
  const LeakFinding& finding = run.last.findings[0];
  EXPECT_EQ(finding.kind, LeakKind::kTensors);
  EXPECT_DOUBLE_EQ(finding.bytes_per_iteration, kBytes);
  EXPECT_DOUBLE_EQ(finding.blocks_per_iteration, 1);
  EXPECT_EQ(finding.scope, "list");
  EXPECT_EQ(finding.op, "aten::ones");
  EXPECT_TRUE(run.last.leaks());
  EXPECT_THAT(finding.text(),
              HasSubstr("leak: +391 KiB/iteration, held by handles (a list, a cache, a queue, or a "
                        "cycle of shared_ptr), created in scope \"list\" by aten::ones, because"));
  EXPECT_THAT(finding.text(), HasSubstr("; fix: "));
}

TEST(LeakFinder, GrowthBelowTheLeastThatCountsIsNotTold) {
  LeakOptions options{.least_bytes_per_iteration = kBytes + 1};
  EXPECT_EQ(run_under_leak_finder(&list_that_grows, 30, options).first_iteration, 0);
  options.least_bytes_per_iteration = kBytes;
  EXPECT_NE(run_under_leak_finder(&list_that_grows, 30, options).first_iteration, 0);
}

TEST(LeakFinder, AScopeThatGrowsBeyondWhatItSaidIsTold) {
  const auto buffer_of = [](int64_t said) {
    return [said](LeakWorld&) -> LeakStep {
      return [said, kept = std::vector<at::Tensor>()](int) mutable {
        const Scope scope("said_" + std::to_string(said), memory::GrowsTo{said});
        kept.push_back(torch::ones({kBytes / 4}));
      };
    };
  };
  EXPECT_EQ(run_under_leak_finder(buffer_of(40 * kBytes)).first_iteration, 0);
  EXPECT_EQ(run_under_leak_finder(buffer_of(35 * kBytes)).first_iteration, 36);
}

TEST(LeakFinder, FindingsAreRankedByBytes) {
  const auto run = run_under_leak_finder([](LeakWorld&) -> LeakStep {
    return [small = std::vector<at::Tensor>(), big = std::vector<at::Tensor>()](int) mutable {
      {
        const Scope scope("small");
        small.push_back(torch::ones({kBytes / 4}));
      }
      const Scope scope("big");
      big.push_back(torch::ones({kBytes}));
    };
  });
  ASSERT_EQ(run.last.findings.size(), 2U);
  EXPECT_EQ(run.last.findings[0].scope, "big");
  EXPECT_EQ(run.last.findings[1].scope, "small");
}

/// The finding of a program of the suite.
LeakFinding finding_of(const std::string& number) {
  for (const LeakProgram& program : graph_leak_programs()) {
    if (!program.name.starts_with(number + " ")) continue;
    const LeakRun run =
        run_under_leak_finder([&](LeakWorld& world) { return program.make(world, true); });
    EXPECT_FALSE(run.first.findings.empty()) << program.name;
    return run.first.findings.empty() ? LeakFinding{} : run.first.findings[0];
  }
  ADD_FAILURE() << "no program " << number;
  return {};
}

TEST(LeakFinder, NamesWhatTiesGraphsOfIterationsTogether) {
  EXPECT_THAT(finding_of("1a").because, HasSubstr("aten::add in scope \"metrics\" joins"));
  EXPECT_THAT(finding_of("1a").fix, HasSubstr("loss.item()"));
  EXPECT_THAT(finding_of("2").because, HasSubstr("aten::mse_loss in scope \"loss\""));
  EXPECT_THAT(finding_of("3").because, HasSubstr("aten::addmm in scope \"model\""));
  EXPECT_THAT(finding_of("4").because,
              HasSubstr("nodes of earlier iterations (retain_graph=true)"));
  EXPECT_THAT(finding_of("5").because, HasSubstr("create_graph=true"));
  EXPECT_THAT(finding_of("6").because, HasSubstr("custom autograd function"));
  EXPECT_THAT(finding_of("14").because, HasSubstr("in scope \"ema\" joins"));
}

TEST(LeakFinder, NamesTheThreadsThatEvaluateWithGradients) {
  const LeakFinding finding = finding_of("7");
  EXPECT_EQ(finding.kind, LeakKind::kEvaluationGraph);
  EXPECT_GT(finding.nodes_per_iteration, 0);
  EXPECT_THAT(finding.fix, HasSubstr("NoGradGuard"));
  EXPECT_THAT(finding.text(), HasSubstr("waste: "));
}

TEST(LeakFinder, OptionsOutOfRangeAreRefusedByName) {
  LeakWorld world;
  memory::Tracker tracker(*world.net);
  const auto refused = [&tracker](const LeakOptions& options) {
    return muster_error_of([&] { const memory::LeakFinder finder(tracker, options); })
        .text()
        .refused;
  };
  EXPECT_EQ(refused({.warm_up = -1}), "LeakOptions::warm_up");
  EXPECT_EQ(refused({.window = 7}), "LeakOptions::window");
  EXPECT_EQ(refused({.window = 61}), "LeakOptions::window");
  EXPECT_EQ(refused({.rising = 0.5}), "LeakOptions::rising");
  EXPECT_EQ(refused({.least_share = -0.1}), "LeakOptions::least_share");
}

}  // namespace
}  // namespace muster::test
