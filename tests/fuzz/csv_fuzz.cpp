// A table is refused by one environment error that names its place, or its rows, written in quotes,
// read back as the same; and a row of `Table` has a field for each column.
#include "muster/base/csv.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/table.h"

#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(std::string_view bytes, bool quotes) {
  Rows rows;
  formats::CsvReader reader(bytes, "fuzz", {.quotes = quotes});
  int64_t line = 0;
  for (formats::CsvRow row; reader.next(row); line = row.line) {
    require(row.line > line, "a row begins behind the one before");
    require(row.fault.empty() || (row.fault_line >= row.line && row.fault_column > 0),
            "a fault has a place");
    if (row.fault.empty()) rows.push_back(row.fields);
  }
  return rows;
}

std::string written(const Rows& rows) {
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    for (size_t at = 0; at < row.size(); ++at) {
      const std::string field = csv_field(row[at]);
      out += at > 0 ? "," : "";
      out += row.size() == 1 && field.empty() ? "\"\"" : field;  // not an empty line
    }
    out += "\r\n";
  }
  return out;
}

void check_rows(std::string_view bytes) {
  const Rows rows = rows_of(bytes, /*quotes=*/true);
  // The first bytes of a table may be a mark.
  require(rows_of(concat("x\n", written(rows)), true).size() == rows.size() + 1, "all come back");
  Rows again = rows_of(concat("x\n", written(rows)), true);
  again.erase(again.begin());
  require(again == rows, "what was written reads back");
}

void check_table(std::string_view bytes, bool header) {
  const formats::Table table = formats::parse_table(bytes, "fuzz", {.header = header});
  for (const formats::TableRow& row : table.rows)
    require(row.fields.size() == table.columns.size(), "a field for each column");
  for (const formats::BadRow& row : table.bad)
    require(row.place.starts_with("fuzz:") && !row.why.empty(), "a bad row says where and why");
}

template <class Check>
void refused_well(Check check) {
  try {
    check();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kEnvironment, "a bad file is an environment error");
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::refused_well([&] { fuzz::check_rows(bytes); });
  fuzz::refused_well([&] { fuzz::rows_of(bytes, /*quotes=*/false); });
  fuzz::refused_well([&] { fuzz::check_table(bytes, true); });
  fuzz::refused_well([&] { fuzz::check_table(bytes, false); });
  return 0;
}
