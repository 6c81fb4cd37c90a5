// The commands of the guide to a user's own texts, as they stand there, one after the other in a shell.
#include <array>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct GuideCommand {
  std::string line;
  std::string shown;  // below it
};

std::vector<GuideCommand> commands_of_guide() {
  const std::string page = read_file(test::source_path("docs/text.md"));
  const size_t mark = page.find("<!-- run by tests/process/train/text_guide_test.cpp -->");
  const size_t begin = page.find("```\n", mark) + 4;
  std::vector<GuideCommand> commands;
  for (const std::string& line : split(page.substr(begin, page.find("```", begin) - begin), '\n')) {
    if (line.starts_with("$ ")) {
      commands.push_back({line.substr(2), ""});
    } else if (!commands.empty()) {
      commands.back().shown += line + '\n';
    }
  }
  return commands;
}

/// stdout of the command in that folder.
std::string printed_by(const std::string& command, const std::string& folder) {
  const std::string line = concat("cd '",
                                  folder,
                                  "' && export PATH='",
                                  test::program_folder(),
                                  ":'\"$PATH\" && ",
                                  command,
                                  " 2>>log");
  FILE* shell = ::popen(line.c_str(), "r");
  std::string out;
  std::array<char, 4096> part{};
  for (size_t got = 0; (got = std::fread(part.data(), 1, part.size(), shell)) > 0;)
    out.append(part.data(), got);
  EXPECT_EQ(::pclose(shell), 0) << command << '\n' << read_file(folder + "/log");
  return out;
}

std::vector<std::string> column(const std::string& csv, size_t at) {
  std::vector<std::string> cells;
  for (const std::string& line : split(csv, '\n')) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() > at) cells.push_back(fields[at]);
  }
  return cells;
}

TEST(TextGuide, ItsCommandsGiveWhatItShows) {
  const test::Folder folder;
  const std::vector<GuideCommand> commands = commands_of_guide();
  ASSERT_EQ(commands.size(), 5U);
  std::vector<std::string> out;
  for (const GuideCommand& command : commands)
    out.push_back(printed_by(command.line, folder.path()));
  EXPECT_EQ(split(out[1], '\n')[0], split(commands[1].shown, '\n')[0]);
  EXPECT_THAT(out[2], HasSubstr("test accuracy 0."));
  EXPECT_THAT(commands[2].shown, HasSubstr("test accuracy 0."));
  constexpr size_t kName = 2;
  EXPECT_EQ(column(out[4], kName),
            column(commands[4].shown.substr(commands[4].shown.find("index")), kName));
}

}  // namespace
}  // namespace muster
