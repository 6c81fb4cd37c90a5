#include "cli/doctor/catalogue_page.h"

#include <algorithm>
#include <vector>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::cli {
namespace {

using diagnose::ErrorRow;

/// A pattern as it is shown: "a … b" between backquotes.
std::string pattern_words(std::string_view pattern) {
  std::string text;
  for (const std::string& part : split(std::string(pattern), '*'))
    text += concat(text.empty() ? "" : " … ", trim(part));
  const bool has_quote = pattern.find('`') != std::string_view::npos;
  return has_quote ? "`` " + text + " ``" : "`" + text + "`";
}

/// '*', '_', '<' and the like say nothing here.
std::string markdown_escaped(std::string_view text) {
  std::string out;
  bool in_code = false;
  for (const char letter : text) {
    if (letter == '`') in_code = !in_code;
    if (!in_code && (letter == '*' || letter == '_' || letter == '<' || letter == '[')) out += '\\';
    out += letter;
  }
  return out;
}

/// The patterns of the row that are guesses, or those that are not.
std::string patterns_text(const ErrorRow& row, bool guesses) {
  std::string out;
  for (const diagnose::Pattern& pattern : row.patterns) {
    if ((pattern.depth == diagnose::Depth::kGuess) == guesses)
      out += concat(out.empty() ? "" : ", ", pattern_words(pattern.text));
  }
  return out;
}

std::string row_page(const ErrorRow& row) {
  std::string out =
      concat("### ", row.name, "\n\n", row.number, ". ", markdown_escaped(row.title), ".\n\n");
  out += concat("Said as ", patterns_text(row, false), ".");
  const std::string guesses = patterns_text(row, true);
  if (!guesses.empty()) out += concat(" Guessed from ", guesses, ".");
  out += "\n\n";
  for (const diagnose::Cause& cause : row.causes) {
    out += concat("- ", markdown_escaped(cause.why));
    if (!cause.when.empty()) out += concat(" (If ", pattern_words(cause.when), " is near.)");
    out += concat("\n  **Next step:** ", markdown_escaped(cause.step), '\n');
  }
  out += concat("\nTo prove it: ", markdown_escaped(row.confirm), ".");
  if (!row.checks.empty())
    out += concat(
        " On this machine: `muster doctor --checks ",
        [&] {
          std::string names(row.checks);
          std::erase(names, ' ');
          return names;
        }(),
        "`.");
  if (!row.source.empty()) out += concat(" More: <", row.source, ">.");
  return out + "\n\n";
}

constexpr const char* kPageHead =
    "# Errors, their causes, and what to do next\n\n"
    "<!-- Written by `muster doctor --catalogue`; tests/cli/doctor/doctor_test.cpp compares. "
    "-->\n\n"
    "`muster doctor LOG` looks for these errors in a log, and says which of them came first. What "
    "it\n"
    "recognises each by, why it comes, and the next step stand below, by families. The same table "
    "is\n"
    "`muster::diagnose::error_families()` in C++ (`#include \"muster/diagnose.h\"`), and\n"
    "`muster::diagnose::classify(text)` reads a text with it.\n\n"
    "Of several errors in one log the one nearest to the beginning is the first cause: what says "
    "by\n"
    "itself what is wrong, before errors of a device that later calls report, before how a "
    "process\n"
    "ended, before what ranks say that waited for another one. Where two are equally near, the "
    "earlier\n"
    "line counts. Words in a pattern follow each other on one line; case does not count. What a "
    "row "
    "is\n"
    "guessed from is only asked where a line speaks of a failure and nothing else of this page "
    "fits "
    "it;\n"
    "the finding has low confidence then. Where no line at all is known, the words of the log's "
    "last\n"
    "lines are compared with those of known messages of each row; what is clearly the likest is "
    "named\n"
    "with low confidence, too.\n\n";

}  // namespace

std::string catalogue_page() {
  std::string out = kPageHead;
  for (const diagnose::ErrorFamilyEntry* family : diagnose::error_families()) {
    out += concat("## ", family->name, ": ", family->help, "\n\n");
    std::vector<const ErrorRow*> rows;
    for (const ErrorRow& row : family->rows) rows.push_back(&row);
    std::ranges::sort(rows, {}, &ErrorRow::number);
    for (const ErrorRow* row : rows) out += row_page(*row);
  }
  out +=
      "## Checks of this machine\n\n`muster doctor` without a log runs them all.\n\n"
      "| check | what it looks at |\n|---|---|\n";
  for (const diagnose::CheckEntry* check : diagnose::checks())
    out += concat("| `", check->name, "` | ", markdown_escaped(check->help), " |\n");
  return out;
}

}  // namespace muster::cli
