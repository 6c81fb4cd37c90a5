// Names of columns, and rows that are none.
#include "muster/formats/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Table, TheFirstRowNamesTheColumns) {
  const Table table = parse_table("label,text\nspam,\"a, b\"\nham,c\n", "rows.csv");
  EXPECT_THAT(table.columns, ElementsAre("label", "text"));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_THAT(table.rows[0].fields, ElementsAre("spam", "a, b"));
  EXPECT_EQ(table.rows[1].line, 3);
  EXPECT_EQ(column_named(table, "text", "x"), 1U);
}

TEST(Table, WithoutAHeaderColumnsAreNumbers) {
  const Table table = parse_table("spam,a\nham,c\n", "rows.csv", {.header = false});
  EXPECT_THAT(table.columns, ElementsAre("0", "1"));
  EXPECT_EQ(table.rows.size(), 2U);
}

TEST(Table, TheEndingOfTheFileSaysItsDelimiter) {
  EXPECT_THAT(parse_table("a\tb\n1\t2\n", "rows.tsv").columns, ElementsAre("a", "b"));
  EXPECT_THAT(parse_table("a\tb\n1\t2\n", "rows.txt").columns, ElementsAre("a\tb"));
  const auto with = [](const char* delimiter) {
    return parse_table("a;b\n1;2\n", "rows.csv", {.delimiter = delimiter}).columns.size();
  };
  EXPECT_EQ(with("semicolon"), 2U);
  EXPECT_EQ(with(";"), 2U);
  EXPECT_EQ(with("pipe"), 1U);
  EXPECT_THAT(test::refusal_of([&] { with("colons"); }), HasSubstr("or one character"));
}

TEST(Table, RowsOfOtherSizesAndBrokenQuotesAreBad) {
  const Table table = parse_table("a,b\n1\n1,2,3\n\"1\" x,2\n1,2\n", "rows.csv");
  EXPECT_EQ(table.rows.size(), 1U);
  ASSERT_EQ(table.bad.size(), 3U);
  EXPECT_EQ(table.bad[0].place, "rows.csv:2");
  EXPECT_EQ(table.bad[0].why, "it has 1 field, the header 2");
  EXPECT_EQ(table.bad[1].place, "rows.csv:3");
  EXPECT_EQ(table.bad[2].place, "rows.csv:4:4");
  EXPECT_THAT(test::error_of([&] { refuse_bad_row(table.bad[0]); }),
              HasSubstr("rows.csv:2: it has 1 field"));
}

TEST(Table, RefusesFilesWithoutARow) {
  EXPECT_THAT(test::error_of([] { parse_table("", "rows.csv"); }), HasSubstr("an empty file"));
  EXPECT_THAT(test::error_of([] { parse_table("a,b\n", "rows.csv"); }),
              HasSubstr("a header alone"));
  EXPECT_THAT(test::error_of([] { parse_table("\"a\" b,c\n1,2\n", "rows.csv"); }),
              HasSubstr("rows.csv:1:4"));
  EXPECT_THAT(test::refusal_of([] { read_table("/nowhere/rows.csv"); }),
              HasSubstr("/nowhere/rows.csv"));
}

TEST(Table, RefusesColumnsThatAreNotThereOrTwice) {
  const Table table = parse_table("label,text,text\n1,2,3\n", "rows.csv");
  EXPECT_THAT(test::refusal_of([&] { column_named(table, "labels", "parameter \"target\""); }),
              HasSubstr("rows.csv has the columns label, text, text"));
  EXPECT_THAT(test::refusal_of([&] { column_named(table, "text", "parameter \"text\""); }),
              HasSubstr("two are called"));
}

TEST(Table, SaysItsColumnsAsTheyAreGivenAndOfManyTheFirst) {
  Table table = parse_table("x,\"a,b\",\"[c\"\n1,2,3\n", "rows.csv");
  EXPECT_EQ(columns_text(table), "x, [\"a,b\"], [\"[c\"]");
  table.columns.assign(784, "pixel");
  EXPECT_TRUE(columns_text(table).ends_with("pixel, pixel and 764 more"));
}

TEST(Table, ProposesNoColumnThatIsTaken) {
  const Table table = parse_table("width1,width2,widths\n1,2,3\n", "rows.csv");
  const auto refusal = [&](const std::vector<std::string>& taken) {
    return test::error_of([&] { column_named(table, "width", "a feature", taken); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("did you mean \"width1\"?"));
  EXPECT_THAT(refusal({"width1", "width2"}), HasSubstr("did you mean \"widths\"?"));
  EXPECT_THAT(refusal({"width1", "width2", "widths"}), Not(HasSubstr("hint")));
}

}  // namespace
}  // namespace muster::formats
