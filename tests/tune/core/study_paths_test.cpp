#include "muster/tune/core/study_paths.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "tests/support/folder.h"

namespace muster::tune {
namespace {

TEST(StudyPaths, APartOfAFilesNameIsOneWhateverTheStudyIsCalled) {
  EXPECT_EQ(file_part("fashion_mnist-2.1"), "fashion_mnist-2.1");
  for (const std::string name : {"", ".", "..", "a/b", "../../etc", "größe", "a\nb"}) {
    const std::string part = file_part(name);
    EXPECT_EQ(std::filesystem::path(part).filename().string(), part) << name;
    EXPECT_NE(part, "");
    EXPECT_FALSE(part.starts_with('.')) << name;
  }
}

TEST(StudyPaths, LongNamesThatBeginAlikeStayApart) {
  const std::string same(400, 'x');
  EXPECT_NE(file_part(same + "1"), file_part(same + "2"));
  EXPECT_EQ(file_part(same + "1"), file_part(same + "1"));
  EXPECT_LT(file_part(same + "1").size(), 200U);  // a name has 255 bytes, with the storage's
}

TEST(StudyPaths, AStorageHasTheSameFilesUnderAllItsNames) {
  const test::Folder folder;
  const auto real = folder.path() / "real";
  std::filesystem::create_directory(real);
  std::filesystem::create_directory_symlink(real, folder.path() / "link");
  EXPECT_EQ(file_of_study(folder.path() / "link" / "a.db", "s", "tuner"),
            file_of_study(real / "." / "a.db", "s", "tuner"));
  EXPECT_EQ(file_of_study(real / "a.db", "s", "lock").filename(), "a.db.s.lock");
  EXPECT_EQ(file_of_study("not-there.db", "s", "lock"),
            std::filesystem::current_path() / "not-there.db.s.lock");
}

}  // namespace
}  // namespace muster::tune
