// Columns of a user's table that are empty in every row: they are no features, and no row is bad by them.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/data/dataset.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmptyColumns : public ::testing::Test {
 protected:
  /// Rows "0,CELL,0,a", "1,CELL,1,b", …
  std::string put(const std::string& name, const std::string& cell) {
    std::string table = "x,c,y,kind\n";
    for (int i = 0; i < 20; ++i)
      table += concat(i, ',', cell, ',', i % 7, i % 2 == 0 ? ",a\n" : ",b\n");
    write_file_atomic(folder_.path() / name, table);
    return folder_.path() / name;
  }
  static std::shared_ptr<const Dataset> open(const std::string& path,
                                             const std::string& params,
                                             const std::string& learned = "") {
    ParamValues values = parse_param_values(params);
    values["path"] = path;
    return datasets().at("csv").open({.split = Split::kTrain,
                                      .params = values,
                                      .learned = learned,
                                      .is_other = !learned.empty()});
  }

  test::Folder folder_;
};

TEST_F(EmptyColumns, AreLeftAwayWithARemarkHoweverTheyAreSaid) {
  const auto dropped = open(put("filled.csv", "7"), "target=kind,drop=c");
  for (const char* cell : {"", "  "}) {
    const std::string path = put("empty.csv", cell);
    for (const char* params : {"target=kind", "target=kind,categorical=c"}) {
      const auto rows = open(path, params);
      EXPECT_THAT(rows->spec().sample_shape, ElementsAre(2)) << params;
      EXPECT_EQ(rows->learned(), dropped->learned()) << "as with drop=c";
      EXPECT_THAT(
          rows->remarks(),
          ElementsAre(concat("column \"c\" of ", path, " is empty in every row: it is left away")));
    }
    EXPECT_THAT(open(path, "target=kind,drop=c")->remarks(), ElementsAre()) << "who says it knows";
  }
}

TEST_F(EmptyColumns, OfTheTrainingAreNoneOfWhatIsReadByIt) {
  const auto trained = open(put("empty.csv", ""), "target=kind");
  const auto other = open(put("filled.csv", "words"), "", trained->learned());
  EXPECT_THAT(other->spec().sample_shape, ElementsAre(2));
  EXPECT_EQ(other->size(), 20);
  // What has been learned is not left away: a model wants it.
  const auto with_c = open(put("numbers.csv", "7"), "target=kind");
  EXPECT_THAT(test::error_of([&] { open(folder_.path() / "empty.csv", "", with_c->learned()); }),
              HasSubstr("\"c\" is empty"));
}

TEST_F(EmptyColumns, WithOneCellAreColumnsLikeOthers) {
  std::string table = "x,c,kind\n";
  for (int i = 0; i < 20; ++i)
    table += concat(i, i == 3 ? ",5" : ",", i % 2 == 0 ? ",a\n" : ",b\n");
  write_file_atomic(folder_.path() / "one.csv", table);
  EXPECT_THAT(test::error_of([&] { open(folder_.path() / "one.csv", "target=kind"); }),
              HasSubstr("its \"c\" is empty"));
}

// Each row ends in a comma, as some spreadsheets write it.
TEST_F(EmptyColumns, WithoutANameMayBeSeveral) {
  std::string table = "x,kind,,\n";
  for (int i = 0; i < 20; ++i) table += concat(i, i % 2 == 0 ? ",a,,\n" : ",b,,\n");
  write_file_atomic(folder_.path() / "commas.csv", table);
  EXPECT_THAT(open(folder_.path() / "commas.csv", "target=kind")->spec().sample_shape,
              ElementsAre(1));
}

}  // namespace
}  // namespace muster::data
