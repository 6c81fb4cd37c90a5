// The commands of the guide to a user's own images in tar shards.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/process/train/guide_commands.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// photos/china and photos/flower, twelve files each.
void put_photos(const fs::path& folder) {
  const char* china[] = {
      "colour_420.jpg", "colour_422.jpg", "colour_444.jpg", "colour_420_q20.jpg"};
  const char* flower[] = {"grey.jpg", "progressive_grey.jpg"};
  for (const char* name : {"china", "flower"}) fs::create_directories(folder / "photos" / name);
  const auto copy = [&](const std::string& from, const char* to, int number) {
    fs::copy_file(test::source_path("tests/golden/images/input/" + from),
                  folder / "photos" / to / concat(number, ".jpg"));
  };
  for (int i = 0; i < 12; ++i) {
    copy(china[i % 4], "china", i);
    copy(flower[i % 2], "flower", i);
  }
}

TEST(DataGuide, ItsCommandsGiveWhatItShows) {
  const test::Folder folder;
  put_photos(folder.path());
  const auto commands = test::commands_of_guide("docs/data.md", "data_guide_test.cpp");
  ASSERT_EQ(commands.size(), 6U);
  std::vector<std::string> out;
  for (const test::GuideCommand& command : commands)
    out.push_back(test::printed_by(command.line, folder.path()));
  EXPECT_EQ(out[2], commands[2].shown);
  EXPECT_THAT(out[3], HasSubstr("test accuracy "));
  EXPECT_THAT(commands[3].shown, HasSubstr("test accuracy "));
  constexpr size_t kName = 2;
  EXPECT_EQ(test::column(out[5], kName), test::column(commands[5].shown, kName));
  EXPECT_THAT(out[5], AllOf(HasSubstr("index,class,name,probability,file\n0,"), HasSubstr("\n1,")));
  constexpr size_t kFile = 4;
  EXPECT_EQ(test::column(out[5], kFile), test::column(commands[5].shown, kFile));
}

}  // namespace
}  // namespace muster
