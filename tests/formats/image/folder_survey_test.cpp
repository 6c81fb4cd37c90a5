#include "muster/formats/image/folder_survey.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "muster/base/file.h"

#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FolderSurveyTest : public ::testing::Test {
 protected:
  void put(const fs::path& to, const std::string& input) {
    fs::create_directories((root() / to).parent_path());
    fs::copy_file(test::source_path("tests/golden/images/input/" + input), root() / to);
  }
  /// Ends the JPEG's data in their middle, by the marker of the image's end.
  void damage(const fs::path& file) {
    std::string bytes = read_file(root() / file);
    const size_t data = bytes.find("\xff\xda") + 14;
    bytes[(data + bytes.size()) / 2] = '\xff';
    bytes[(data + bytes.size()) / 2 + 1] = '\xd9';
    write_file_atomic(root() / file, bytes);
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

TEST_F(FolderSurveyTest, CountsKindsSizesAndWhatIsBad) {
  put("cat/0.jpg", "colour_420.jpg");     // 37 x 29
  put("cat/1.jpg", "grey.jpg");           // 37 x 29
  put("cat/2.jpg", "cmyk.jpg");           // 37 x 29
  put("cat/3.jpg", "colour_422.jpg");     // 37 x 29
  put("dog/0.png", "colour_alpha8.png");  // 13 x 11
  put("dog/1.png", "grey16.png");         // 13 x 11
  put("dog/2.png", "palette8.png");       // 13 x 11
  put("dog/3.png", "grey_alpha8.png");    // 13 x 11
  put("dog/4.jpg", "colour_420_90x2.jpg");
  put("dog/5.jpg", "colour_444.jpg");
  damage("cat/3.jpg");
  fs::resize_file(root() / "dog/5.jpg", 300);
  const ClassFolders files = list_class_folders(root());
  // No more threads than files, whatever is said.
  for (const int64_t threads : {int64_t{1}, int64_t{4}, INT64_MAX}) {
    const std::vector<SurveyedFile> each = survey_files(files, threads);
    ASSERT_EQ(each.size(), 10U);
    EXPECT_EQ(each[0].fault + each[0].damage, "");
    EXPECT_THAT(each[3].damage, HasSubstr("premature end"));
    EXPECT_EQ(each[3].fault, "");
    EXPECT_THAT(each[9].fault, HasSubstr("dog/5.jpg"));
    EXPECT_THAT(each[9].fault, HasSubstr("cut short after 300 bytes"));
    const FolderSurvey all = summary_of(files, each);
    EXPECT_EQ(all.files, 10);
    EXPECT_EQ(all.bad, 1);
    EXPECT_EQ(all.damaged, 1);
    EXPECT_EQ(all.jpegs, 5);
    EXPECT_EQ(all.pngs, 4);
    EXPECT_EQ(all.greys, 3);
    EXPECT_EQ(all.cmyks, 1);
    EXPECT_EQ(all.alphas, 2);
    EXPECT_EQ(all.wide_greys, 1);
    EXPECT_EQ(all.classes[0].files, 4);
    EXPECT_EQ(all.classes[0].damaged, 1);
    EXPECT_EQ(all.classes[1].bad, 1);
    EXPECT_EQ(all.width.least, 13);
    EXPECT_EQ(all.width.median, 37);
    EXPECT_EQ(all.width.greatest, 90);
    EXPECT_EQ(all.height.least, 2);
    EXPECT_EQ(all.height.greatest, 29);
    EXPECT_DOUBLE_EQ(all.imbalance(), 5.0 / 4.0);
  }
}

// Of 13370 x 13370 pixels, which would take 511 MiB: T.81 has a bit or more for each of 1672 x 1672 blocks.
TEST_F(FolderSurveyTest, AFileThatClaimsMoreThanItHoldsIsBadAndTakesNoMemory) {
  put("cat/0.jpg", "grey.jpg");
  std::string bytes = read_file(root() / "cat/0.jpg");
  const size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\x34\x3a\x34\x3a");
  write_file_atomic(root() / "cat/0.jpg", bytes);
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const std::vector<SurveyedFile> each = survey_files(list_class_folders(root()), 1);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_THAT(each[0].fault,
              HasSubstr("an image of 13370 x 13370 takes 349448 bytes or more (got "));
  EXPECT_EQ(each[0].damage, "");
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
}

TEST_F(FolderSurveyTest, AClassOfBadFilesAloneHasNoBalance) {
  put("cat/0.jpg", "grey.jpg");
  fs::create_directory(root() / "dog");
  std::ofstream(root() / "dog/0.jpg") << "GIF89a";
  const ClassFolders files = list_class_folders(root());
  const FolderSurvey all = summary_of(files, survey_files(files, 2));
  EXPECT_EQ(all.bad, 1);
  EXPECT_EQ(all.imbalance(), 0);
}

}  // namespace
}  // namespace muster::formats
