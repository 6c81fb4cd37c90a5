// The examples of docs/trial-protocol.md are trials: each reports steps 1, 2, 3 and ends after the
// stop that it is told at step 3. One that cannot hear it may have written step 4 by then.
#include <algorithm>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/execute/executor.h"

#include "tests/process/tune/local_trials.h"
#include "tests/support/paths.h"

namespace muster::tune {
namespace {

struct Example {
  std::string language, text;
};

std::vector<Example> examples() {
  const std::string page = read_file(test::source_path("docs/trial-protocol.md"));
  const std::regex block("```(sh|python|cpp)\n([^]*?)```\n");
  std::vector<Example> out;
  for (std::sregex_iterator at(page.begin(), page.end(), block), end; at != end; ++at)
    out.push_back({(*at)[1], (*at)[2]});
  return out;
}

/// It hears the answers to its reports.
bool hears(const Example& example) {
  const auto has = [&](const char* text) { return example.text.find(text) != std::string::npos; };
  return !has("[tune-metric]") && !has("MUSTER_REPORT_FILE");
}

std::vector<std::string> command_of(const Example& example) {
  if (example.language == "cpp") return {test::program_path("muster_trial_program")};
  return {example.language == "sh" ? "/bin/sh" : "python3", "-c", literally(example.text)};
}

/// A page's example in C++ is compiled as the program that its trial runs.
TEST(ExamplesOfTheProtocol, TheOneInCppIsTheProgramOfTheTests) {
  const auto all = examples();
  const auto cpp = std::ranges::find(all, "cpp", &Example::language);
  ASSERT_NE(cpp, all.end());
  EXPECT_EQ("// A trial in C++, as docs/trial-protocol.md has it.\n" + cpp->text,
            read_file(test::source_path("tests/process/tune/trial_program.cpp")));
}

TEST(ExamplesOfTheProtocol, AreTrialsAsTheyStand) {
  ASSERT_EQ(examples().size(), 6U);
  EXPECT_EQ(std::ranges::count_if(examples(), hears), 4);
  for (const Example& example : examples()) {
    SCOPED_TRACE(example.text);
    const test::Folder folder;
    StudySpec spec{.name = "doc", .metric = "loss", .space = Space({{"lr", Domain(0.5)}})};
    spec.command = command_of(example);
    spec.working_folder = folder.path();
    spec.environment["PATH"] = concat(test::program_folder(), ":", ::getenv("PATH"));
    spec.environment["PYTHONPATH"] = test::source_path("share/muster");
    const auto executor = executors().at("local").make({.spec = spec, .study = "doc"}, {});
    executor->start(
        {.values = {Value(0.5)}, .checkpoint_folder = folder.path() / "trial" / "checkpoints"});
    std::vector<int64_t> steps;
    int after_stop = 0;
    for (bool ended = false; !ended;) {
      const auto events = executor->wait(20);
      ASSERT_FALSE(events.empty());
      for (const ExecutorEvent& event : events) {
        EXPECT_NE(event.kind, ExecutorEvent::kNote) << event.message;
        if (event.kind == ExecutorEvent::kEnded) {
          EXPECT_EQ(event.failure, Failure::kNone) << event.message;
          ended = true;
        }
        if (event.kind != ExecutorEvent::kReport) continue;
        EXPECT_NE(find_metric(event.report.metrics, "loss"), nullptr);
        if (steps.size() == 3) {
          ++after_stop;
        } else {
          steps.push_back(event.report.step.value_or(-1));
        }
        executor->answer(event.token,
                         {.action = steps.size() == 3 ? Action::kStop : Action::kContinue});
      }
    }
    EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3));
    EXPECT_TRUE(after_stop == 0 || !hears(example)) << after_stop;
  }
}

}  // namespace
}  // namespace muster::tune
