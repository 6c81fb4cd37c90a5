// The commands of guides, as they stand there, one after the other in a shell.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/paths.h"

namespace muster::test {

struct GuideCommand {
  std::string line;
  std::string shown;  // below it
};

/// Those of the block behind "<!-- run by tests/process/train/TEST -->".
inline std::vector<GuideCommand> commands_of_guide(std::string_view path, std::string_view test) {
  const std::string page = read_file(source_path(path));
  const size_t mark = page.find(concat("<!-- run by tests/process/train/", test, " -->"));
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
inline std::string printed_by(const std::string& command, const std::string& folder) {
  const std::string line = concat("cd '",
                                  folder,
                                  "' && export PATH='",
                                  program_folder(),
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

/// Of a table with commas, the cells of that column, its header first.
inline std::vector<std::string> column(const std::string& csv, size_t at) {
  std::vector<std::string> cells;
  for (const std::string& line : split(csv, '\n')) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() > at) cells.push_back(fields[at]);
  }
  return cells;
}

}  // namespace muster::test
