// The commands of the guide to a user's own texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/process/train/guide_commands.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

using test::GuideCommand;
using ::testing::HasSubstr;

TEST(TextGuide, ItsCommandsGiveWhatItShows) {
  const test::Folder folder;
  const std::vector<GuideCommand> commands =
      test::commands_of_guide("docs/text.md", "text_guide_test.cpp");
  ASSERT_EQ(commands.size(), 5U);
  std::vector<std::string> out;
  for (const GuideCommand& command : commands)
    out.push_back(test::printed_by(command.line, folder.path()));
  EXPECT_EQ(split(out[1], '\n')[0], split(commands[1].shown, '\n')[0]);
  EXPECT_THAT(out[2], HasSubstr("test accuracy 0."));
  EXPECT_THAT(commands[2].shown, HasSubstr("test accuracy 0."));
  constexpr size_t kName = 2;
  EXPECT_EQ(test::column(out[4], kName),
            test::column(commands[4].shown.substr(commands[4].shown.find("index")), kName));
}

}  // namespace
}  // namespace muster
