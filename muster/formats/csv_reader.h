// Tables in text files: CSV as RFC 4180 has it, and its sisters with tabs or semicolons. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::formats {

struct CsvOptions {
  char delimiter = ',';
  /// A field that begins with " goes on to the next one alone, over delimiters and ends of lines; ""
  /// inside it is a quote. False: a quote is a character like others.
  bool quotes = true;
};

struct CsvRow {
  int64_t line = 0;  ///< of the file, from 1, where the row begins
  std::vector<std::string> fields;
  /// What is wrong with the row, else empty; its fields are not to be used then.
  std::string fault;
  int64_t fault_line = 0, fault_column = 0;  ///< from 1, in bytes
};

/// Reads a table row by row. Lines end in \n, \r\n or \r; those without a byte are passed over; a byte
/// order mark at the start is left out. A quote inside a field that does not begin with one is a
/// character. Source: RFC 4180; the rows of Python's csv.reader(strict=True).
class CsvReader {
 public:
  /// `bytes` outlive it; `name` stands in errors. Throws a usage error for a delimiter that is a quote
  /// or ends a line, and an environment error for UTF-16, gzip and zip.
  CsvReader(std::string_view bytes, std::string name, const CsvOptions& options = {});

  /// False behind the last row. A row with text behind the quote that closes a field has a fault, and
  /// the next one begins on the next line. Throws an environment error for a quote that is never closed:
  /// where the other rows would begin nobody knows.
  bool next(CsvRow& row);

 private:
  bool at_end() const { return at_ == bytes_.size(); }
  bool is_line_end(size_t at) const { return bytes_[at] == '\n' || bytes_[at] == '\r'; }
  void read_field(std::string& field, CsvRow& row);
  void read_quoted(std::string& field, CsvRow& row);
  size_t field_end(size_t from) const;
  void pass_line_end();
  void count_lines(size_t from, size_t end);
  int64_t column_of(size_t at) const { return static_cast<int64_t>(at - line_begin_) + 1; }

  std::string_view bytes_;
  std::string name_;
  CsvOptions options_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  int64_t line_ = 1;
};

}  // namespace muster::formats
