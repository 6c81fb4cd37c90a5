#include "muster/formats/csv_reader.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/formats/utf8.h"

namespace muster::formats {
CsvReader::CsvReader(std::string_view bytes, std::string name, const CsvOptions& options)
    : bytes_(bytes), name_(std::move(name)), options_(options) {
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r' || delimiter == '\0') {
    throw usage_error(
        {.refused = concat("delimiter of ", name_), .rule = "it is no quote, and ends no line"});
  }
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) {
    throw environment_error({.refused = name_,
                             .rule = "a table is UTF-8",
                             .value = "UTF-16, by its first bytes",
                             .hint = "iconv -f utf-16 -t utf-8 makes UTF-8 of it"});
  }
  const bool is_gzip = bytes.starts_with("\x1F\x8B");
  if (is_gzip || bytes.starts_with("PK\x03\x04")) {
    throw environment_error(
        {.refused = name_,
         .rule = "a table is UTF-8",
         .value = is_gzip ? "gzip, by its first bytes" : "a zip archive, by its first bytes",
         .hint = is_gzip ? "gunzip unpacks it" : "a spreadsheet saves its table as CSV"});
  }
  line_begin_ = at_ = bytes.size() - without_utf8_mark(bytes).size();
}

bool CsvReader::next(CsvRow& row) {
  while (!at_end() && is_line_end(at_)) pass_line_end();
  if (at_end()) return false;
  row.line = line_;
  row.fault.clear();
  size_t fields = 0;
  for (bool goes_on = true; goes_on;) {
    if (fields == row.fields.size()) row.fields.emplace_back();
    read_field(row.fields[fields++], row);
    goes_on = row.fault.empty() && !at_end() && bytes_[at_] == options_.delimiter;
    if (goes_on) ++at_;
  }
  row.fields.resize(fields);
  while (!at_end() && !is_line_end(at_)) ++at_;  // the rest of one with a fault
  if (!at_end()) pass_line_end();
  return true;
}

void CsvReader::read_field(std::string& field, CsvRow& row) {
  if (options_.quotes && !at_end() && bytes_[at_] == '"') return read_quoted(field, row);
  const size_t end = field_end(at_);
  field.assign(bytes_.substr(at_, end - at_));
  at_ = end;
}

void CsvReader::read_quoted(std::string& field, CsvRow& row) {
  const int64_t line = line_, column = column_of(at_);
  field.clear();
  for (;;) {
    const size_t begin = at_ + 1, quote = bytes_.find('"', begin);
    if (quote == std::string_view::npos) {
      throw environment_error(
          {.refused = concat(name_, ':', line, ':', column),
           .rule = "a field that begins with a quote ends with one",
           .value = "none up to the end of the file",
           .hint = "mend the line, or read quotes as characters like others: quotes=false"});
    }
    field.append(bytes_.substr(begin, quote - begin));
    count_lines(begin, quote);
    at_ = quote + 1;
    if (at_end() || bytes_[at_] != '"') break;
    field += '"';  // two of them
  }
  if (at_end() || bytes_[at_] == options_.delimiter || is_line_end(at_)) return;
  row.fault =
      "text stands behind the quote that closes a field; quotes=false reads quotes as characters";
  row.fault_line = line_;
  row.fault_column = column_of(at_);
}

size_t CsvReader::field_end(size_t from) const {
  while (from < bytes_.size() && bytes_[from] != options_.delimiter && !is_line_end(from)) ++from;
  return from;
}

void CsvReader::pass_line_end() {
  const bool is_pair = bytes_[at_] == '\r' && at_ + 1 < bytes_.size() && bytes_[at_ + 1] == '\n';
  at_ += is_pair ? 2 : 1;
  line_begin_ = at_;
  ++line_;
}

/// Those that end within a field.
void CsvReader::count_lines(size_t from, size_t end) {
  for (size_t at = from; at < end; ++at) {
    const bool is_first_of_pair = bytes_[at] == '\r' && at + 1 < end && bytes_[at + 1] == '\n';
    if (is_first_of_pair || !is_line_end(at)) continue;
    line_begin_ = at + 1;
    ++line_;
  }
}

}  // namespace muster::formats
