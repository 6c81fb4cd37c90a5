// Rows as Python's csv module has them, and where faults are.
#include "muster/formats/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<std::string>>;

struct ReadRows {
  Rows rows;
  bool is_faulty = false;

  bool operator==(const ReadRows&) const = default;
};

/// Up to the first fault.
ReadRows read_rows(std::string_view text, const CsvOptions& options = {}) {
  ReadRows out;
  CsvReader reader(text, "test", options);
  try {
    for (CsvRow row; reader.next(row);) {
      out.is_faulty = !row.fault.empty();
      if (out.is_faulty) break;
      out.rows.push_back(row.fields);
    }
  } catch (const Error&) {
    out.is_faulty = true;
  }
  return out;
}

TEST(CsvReader, HasTheRowsOfPythonsReader) {
  const Json golden = test::read_golden("csv");
  ASSERT_GT(golden.size(), 300U);
  for (const Json& one : golden) {
    const auto text = one.at("text").get<std::string>();
    const ReadRows expected{one.at("rows").get<Rows>(), one.at("fault").get<bool>()};
    const char delimiter = one.at("delimiter").get<std::string>()[0];
    EXPECT_EQ(read_rows(text, {.delimiter = delimiter}), expected) << one;
  }
}

TEST(CsvReader, KnowsTheLineInWhichARowBegins) {
  const std::string_view text = "a,b\n\n\"1\r\n2\",\"3\n\n4\"\r\n5,6\r7,8";
  CsvReader reader(text, "test");
  std::vector<int64_t> lines;
  for (CsvRow row; reader.next(row);) lines.push_back(row.line);
  EXPECT_THAT(lines, ElementsAre(1, 3, 7, 8));
}

TEST(CsvReader, GoesOnBehindARowWithAFault) {
  CsvReader reader("a,b\n\"x\ny\" z,1\nc,d\n", "test");
  CsvRow row;
  ASSERT_TRUE(reader.next(row));
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(row.fault, HasSubstr("behind the quote that closes a field"));
  EXPECT_EQ(row.fault_line, 3);
  EXPECT_EQ(row.fault_column, 3);
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(row.fields, ElementsAre("c", "d"));
  EXPECT_TRUE(row.fault.empty());
  EXPECT_FALSE(reader.next(row));
}

TEST(CsvReader, RefusesAQuoteThatIsNeverClosedByLineAndColumn) {
  CsvReader reader("a,b\nc, \"d\ne,\"f\ng\n", "rows.csv");
  CsvRow row;
  ASSERT_TRUE(reader.next(row));
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(row.fields, ElementsAre("c", " \"d")) << "a quote inside a field is a character";
  EXPECT_THAT(test::error_of([&] { reader.next(row); }), HasSubstr("rows.csv:3:3"));
}

TEST(CsvReader, LeavesAByteOrderMarkOutAndRefusesUtf16) {
  EXPECT_EQ(read_rows("\xEF\xBB\xBF\"a\",b").rows, (Rows{{"a", "b"}}));
  EXPECT_THAT(test::error_of([] { CsvReader("\xFF\xFE\x61", "rows.csv"); }), HasSubstr("UTF-16"));
}

// Source: RFC 1952, 2.3.1; APPNOTE.TXT, 4.3.7.
TEST(CsvReader, RefusesWhatIsPackedByItsFirstBytes) {
  EXPECT_THAT(test::error_of([] { CsvReader("\x1F\x8B\x08", "rows.csv"); }),
              HasSubstr("rows.csv: a table is UTF-8 (got gzip, by its first bytes)"));
  EXPECT_THAT(test::error_of([] { CsvReader("PK\x03\x04", "rows.xlsx"); }),
              HasSubstr("a zip archive"));
}

TEST(CsvReader, QuotesAreCharactersWhereThatIsSaid) {
  EXPECT_EQ(read_rows("\"a\tb\"\n\"\tc", {.delimiter = '\t', .quotes = false}).rows,
            (Rows{{"\"a", "b\""}, {"\"", "c"}}));
}

TEST(CsvReader, RefusesDelimitersThatEndLines) {
  for (const char delimiter : {'"', '\n', '\r', '\0'})
    EXPECT_THAT(test::refusal_of([&] { CsvReader("a", "x", {.delimiter = delimiter}); }),
                HasSubstr("delimiter of x"));
}

}  // namespace
}  // namespace muster::formats
