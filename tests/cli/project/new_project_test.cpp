// `muster new`: what it writes and what it refuses. That the projects build and train is shown by
// tests/consume/new_projects.py.
#include "cli/project/new_project.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

size_t entries_in(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(NewProject, HasItsNameInEveryFileAndNothingElseBesideIt) {
  const test::Folder folder;
  for (const std::string& task : project_tasks()) {
    const fs::path project =
        folder.path() / "deep" / ("my_" + task) / "";  // as a shell completes it
    write_project(project, task);
    EXPECT_EQ(entries_in(project), 4U);
    for (const char* file : {"CMakeLists.txt", "README.md", "main.cpp"}) {
      EXPECT_THAT(read_file(project / file), HasSubstr("my_" + task)) << file;
      EXPECT_THAT(read_file(project / file), Not(HasSubstr("PROJECT_"))) << file;
    }
    EXPECT_LE(split(trim(read_file(project / "main.cpp")), '\n').size(), 80U) << task;
  }
  EXPECT_EQ(entries_in(folder.path() / "deep"), project_tasks().size());
}

TEST(NewProject, TakesAnEmptyFolder) {
  const test::Folder folder;
  const fs::path project = folder.path() / "empty";
  fs::create_directory(project);
  write_project(project, "own");
  EXPECT_TRUE(fs::exists(project / "main.cpp"));
}

TEST(NewProject, RefusesAndWritesNothing) {
  const test::Folder folder;
  const auto refusal = [&](const std::string& name, const std::string& task) {
    return test::refusal_of([&] { write_project(folder.path() / name, task); });
  };
  EXPECT_THAT(refusal("a", "clasify"), HasSubstr("did you mean \"classify\"?"));
  EXPECT_THAT(refusal("2a", "own"), HasSubstr("a letter first (got 2a)"));
  EXPECT_THAT(refusal("a b", "own"), HasSubstr("letters, digits, _ and -"));
  EXPECT_THAT(refusal("test", "own"), HasSubstr("no target of CMake's"));
  EXPECT_THAT(refusal("torch", "own"), HasSubstr("no target of CMake's"));
  EXPECT_EQ(entries_in(folder.path()), 0U);
  std::ofstream(folder.path() / "file") << "mine";
  EXPECT_THAT(refusal("file", "own"), HasSubstr("there is a file of that name"));
  write_project(folder.path() / "a", "own");
  EXPECT_THAT(refusal("a", "own"), HasSubstr("the folder is there and not empty"));
  EXPECT_EQ(entries_in(folder.path()), 2U);
  const std::string text =
      test::error_of([&] { write_project(folder.path() / "file" / "a", "own"); });
  EXPECT_THAT(text, HasSubstr("cannot create a folder in"));
}

}  // namespace
}  // namespace muster::cli
