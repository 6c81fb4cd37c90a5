#include "muster/tune/execute/last_words.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr size_t kLongestWords = 500;  // bytes
constexpr std::string_view kOwnHead = "muster: error: ", kErrorMark = "error: ";
constexpr std::array<std::string_view, 3> kAdvice = {"hint: ", "note: ", "log: "};

/// Without "[3] " or "  | " before it; blanks behind those stay.
std::string_view undecorated(std::string_view line) {
  if (line.starts_with('[')) {
    const size_t end = line.find("] ");
    const std::string_view rank = end == line.npos ? "" : line.substr(1, end - 1);
    const bool is_rank = !rank.empty() && std::ranges::all_of(rank, [](unsigned char c) {
      return c == ' ' || std::isdigit(c) != 0;
    });
    if (is_rank) line.remove_prefix(end + 2);
  }
  const size_t bar = line.find_first_not_of(' ');
  if (bar != line.npos && line.substr(bar).starts_with("| ")) line.remove_prefix(bar + 2);
  return line;
}

/// "error: WHAT" or "NAME: error: WHAT".
bool is_error_head(std::string_view text) {
  if (text.starts_with(kErrorMark)) return true;
  const size_t at = text.find(": error: ");
  return at != text.npos && at > 0 && text.substr(0, at).find(' ') == text.npos;
}

/// What --json says of an error; empty if the line is none.
std::string error_of_json(std::string_view text) {
  if (!text.starts_with(R"({"error":)")) return "";
  try {
    const Json json = parse_json(text, "an error");
    const Json& error = json.at("error");
    if (!error.is_object() || !error.contains("text") || !error["text"].is_string()) return "";
    const auto words = error["text"].get<std::string>();
    return first_line(words);
  } catch (const Error&) {
    return "";
  }
}

std::string_view shortened(std::string_view text) { return text.substr(0, kLongestWords); }

}  // namespace

void LastWords::begin(std::string_view error, bool advises) {
  error_ = shortened(error);
  advises_ = advises;
  has_advised_ = awaits_exception_ = false;
}

void LastWords::add(std::string_view line) {
  line = undecorated(line);
  const std::string_view text = trim(line);
  if (text.empty()) return;
  const bool is_indented = line.front() == ' ' || line.front() == '\t';
  if (text == "Traceback (most recent call last):") {
    awaits_exception_ = true;
  } else if (awaits_exception_) {
    if (!is_indented) begin(text, /*advises=*/false);
  } else if (text.starts_with("what():")) {
    begin(text, /*advises=*/false);
  } else if (is_error_head(text)) {
    begin(text.starts_with(kOwnHead) ? text.substr(kOwnHead.size()) : text, /*advises=*/true);
  } else if (const std::string error = error_of_json(text); !error.empty()) {
    begin(error, /*advises=*/true);
  } else if (std::ranges::any_of(kAdvice, [&](auto word) { return text.starts_with(word); })) {
    advice_ = shortened(text);
    has_advised_ = true;
  } else if (!(is_indented && has_advised_)) {
    if (advises_ && has_advised_) error_.clear();  // it was borne: this is another matter
    words_ = shortened(text);
  }
}

std::string_view LastWords::text() const {
  if (!error_.empty()) return error_;
  return words_.empty() ? advice_ : words_;
}

}  // namespace muster::tune
