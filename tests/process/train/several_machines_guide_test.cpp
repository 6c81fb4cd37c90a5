// The commands of the guides for several machines, as they stand there; the machines are this one.
#include <algorithm>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/process/train/train_words.h"
#include "tests/support/folder.h"
#include "tests/support/held_port.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using test::Words;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing_process::Launched;

constexpr std::chrono::seconds kGuideLimit{120};

/// The words of each command of the guide that names several machines, without "muster" itself.
/// Only the address, the folder and what "…" stands for are this machine's.
std::vector<Words> commands_of(const std::string& guide,
                               const std::string& output,
                               const test::HeldPort& port) {
  const std::string address = concat("127.0.0.1:", port.number);
  std::vector<Words> commands;
  for (const std::string& line : split(read_file(test::source_path("docs/" + guide)), '\n')) {
    if (!line.starts_with("muster run --nnodes")) continue;
    Words words;
    for (const std::string& word : split(trim(line.substr(0, line.find('#'))), ' ')) {
      if (word.empty() || word == "…") continue;
      words.push_back(word == "host0:29500" ? address : word == "runs/a" ? output : word);
    }
    commands.push_back({words.begin() + 1, words.end()});
  }
  return commands;
}

/// Small and short; without --output the folder is this one, too.
Words shortened(Words words, const std::string& output) {
  words =
      test::joined(words, {"--model", "mlp:hidden=16", "--batch-size", "12", "--max-steps", "3"});
  words = test::joined(words, {"--data", "synthetic:samples=60,test_samples=20,size=8,classes=4"});
  if (std::find(words.begin(), words.end(), "--output") == words.end())
    words = test::joined(words, {"--output", output});
  return words;
}

void expect_to_train(const std::vector<Words>& commands, const std::string& output) {
  std::vector<std::unique_ptr<Launched>> machines;
  for (const Words& words : commands)
    machines.push_back(std::make_unique<Launched>(shortened(words, output)));
  for (const auto& machine : machines)
    EXPECT_EQ(machine->wait(kGuideLimit).code, 0) << machine->err();
  EXPECT_THAT(machines[0]->out(), ::testing::HasSubstr("test accuracy"));
  EXPECT_THAT(machines[0]->err(), ::testing::HasSubstr("ddp on 2 ranks"));
}

TEST(SeveralMachinesGuide, TrainsByTheCommandsOfTheGuideOnTraining) {
  const test::Folder folder;
  const std::string output = (folder.path() / "out").string();
  const test::HeldPort port;
  const auto commands = commands_of("train.md", output, port);
  ASSERT_EQ(commands.size(), 2u);
  expect_to_train(commands, output);
}

TEST(SeveralMachinesGuide, TrainsByTheCommandOfTheGuideOnStrategies) {
  const test::Folder folder;
  const std::string output = (folder.path() / "out").string();
  const test::HeldPort port;
  auto commands = commands_of("choose-a-strategy.md", output, port);
  ASSERT_EQ(commands.size(), 1u);
  commands.push_back(commands[0]);  // the other machine's
  *std::find(commands[1].begin(), commands[1].end(), "0") = "1";
  expect_to_train(commands, output);
}

// One of them has a flag that is not one: it would never come.
TEST(SeveralMachinesGuide, EndsOnBothMachinesWhenOneIsRefused) {
  for (const size_t refused : {0u, 1u}) {
    const test::Folder folder;
    const std::string output = (folder.path() / "out").string();
    const test::HeldPort port;
    std::vector<std::unique_ptr<Launched>> machines;
    for (const Words& words : commands_of("train.md", output, port)) {
      const bool wrong = machines.size() == refused;
      machines.push_back(std::make_unique<Launched>(
          test::joined(shortened(words, output), wrong ? Words{"--bath-size", "3"} : Words{})));
    }
    EXPECT_EQ(machines.at(refused)->wait(kGuideLimit).code, 2) << machines.at(refused)->err();
    EXPECT_EQ(machines.at(1 - refused)->wait(kGuideLimit).code, 2)
        << machines.at(1 - refused)->err();
    EXPECT_THAT(machines[1 - refused]->err(),
                AllOf(HasSubstr(concat("rank ", refused, " (process ")),
                      HasSubstr("ended before the meeting: "),
                      HasSubstr("--bath-size"),
                      Not(HasSubstr("different jobs"))));
  }
}

// Another command of the same program is another program.
TEST(SeveralMachinesGuide, EndsOnBothMachinesWhenTheCommandsDiffer) {
  const test::Folder folder;
  const std::string output = (folder.path() / "out").string();
  const test::HeldPort port;
  const auto commands = commands_of("train.md", output, port);
  Words other = commands.at(1);
  const auto train = std::find(other.begin(), other.end(), "train");
  ASSERT_NE(train, other.end());
  other.erase(train, other.end());
  Launched first(shortened(commands.at(0), output));
  Launched second(test::joined(other, {"evaluate", (folder.path() / "no run").string()}));
  EXPECT_NE(first.wait(kGuideLimit).code, 0);
  EXPECT_NE(second.wait(kGuideLimit).code, 0);
  for (const Launched* machine : {&first, &second})
    EXPECT_THAT(machine->err(),
                AllOf(HasSubstr("the program is "), HasSubstr(" train"), HasSubstr(" evaluate")));
}

// Found out before backends look for each other, and where ranks would wait in what others do not call.
TEST(SeveralMachinesGuide, EndsOnBothMachinesWhenOneAloneHasAFlag) {
  for (const Words& flag : {Words{"--backend", "gloo"}, Words{"--trace", "trace.json"}}) {
    const test::Folder folder;
    const std::string output = (folder.path() / "out").string();
    const test::HeldPort port;
    std::vector<std::unique_ptr<Launched>> machines;
    for (const Words& words : commands_of("train.md", output, port))
      machines.push_back(std::make_unique<Launched>(
          test::joined(shortened(words, output), machines.empty() ? flag : Words{})));
    for (const auto& machine : machines) EXPECT_EQ(machine->wait(kGuideLimit).code, 2);
    for (const auto& machine : machines)
      EXPECT_THAT(
          machine->err(),
          AnyOf(AllOf(HasSubstr("the backend is gloo for rank 0"), HasSubstr("auto for rank 1")),
                HasSubstr("rank 0 has --trace, --trace-steps 100, rank 1 has none")));
  }
}

// Each tells the others that it only explains, and waits no longer than a moment for them.
TEST(SeveralMachinesGuide, ExplainsItsPlanOnAllMachines) {
  const test::Folder folder;
  const std::string output = (folder.path() / "out").string();
  const test::HeldPort port;
  std::vector<std::unique_ptr<Launched>> machines;
  for (const Words& words : commands_of("train.md", output, port))
    machines.push_back(
        std::make_unique<Launched>(test::joined(shortened(words, output), {"--explain"})));
  for (const auto& machine : machines)
    EXPECT_EQ(machine->wait(kGuideLimit).code, 0) << machine->err();
  EXPECT_THAT(machines.at(0)->out(), ::testing::HasSubstr("strategy"));
}

}  // namespace
}  // namespace muster
