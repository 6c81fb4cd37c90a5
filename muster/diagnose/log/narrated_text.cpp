#include "muster/diagnose/log/narrated_text.h"

#include <algorithm>
#include <array>
#include <string>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/fragment_finder.h"
#include "muster/diagnose/log/line_text.h"

namespace muster::diagnose {
namespace {

bool is_small_ascii(char c) { return c >= 'a' && c <= 'z'; }
bool is_ascii_letter(char c) { return is_small_ascii(c) || (c >= 'A' && c <= 'Z'); }

std::string_view without_margin(std::string_view line, std::string_view margin = " \t") {
  const size_t begin = line.find_first_not_of(margin);
  return begin == line.npos ? std::string_view() : line.substr(begin);
}

/// The length of the name of a commit at the beginning, or 0; `sure`: none that may be another number.
size_t commit_name(std::string_view text, bool sure) {
  constexpr size_t kShortest = 7, kLongest = 40;
  const size_t end = std::min(text.find_first_not_of("0123456789abcdef"), text.size());
  if (end < kShortest || end > kLongest) return 0;
  const std::string_view name = text.substr(0, end);
  const bool has_both =
      std::ranges::any_of(name, is_digit) && std::ranges::any_of(name, is_small_ascii);
  return has_both || !sure ? end : 0;
}

/// Whether a program speaks behind an identity of its own: "1a2b3c4 ERROR …", "1a2b3c4 RuntimeError: …", "1a2b3c4 12:30:01 …".
bool is_said_by_a_program(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  if (word.empty() || word[0] == '[' || is_digit(word[0])) return true;
  if (word.ends_with("Error:") || word.ends_with("Exception:")) return true;
  constexpr std::array<std::string_view, 8> kLevels{
      "error", "error:", "fatal", "fatal:", "critical", "e", "warning", "warn"};
  return std::ranges::find(kLevels, small_letters(word)) != kLevels.end();
}

/// "1a2b3c4 subject", as `git log --oneline` and its graph write it.
bool is_of_history(std::string_view line, bool sure) {
  const std::string_view text = without_margin(line, "*|\\/ ");
  const size_t name = commit_name(text, sure);
  if (name == 0 || name + 1 >= text.size() || text[name] != ' ' || text[name + 1] == ' ')
    return false;
  return !is_said_by_a_program(text.substr(name + 1));
}

/// "[main 1a2b3c4] ": what `git commit` answers; its length, or 0.
size_t commit_answer(std::string_view line) {
  const size_t close = line.starts_with('[') ? line.find("] ") : line.npos;
  if (close == line.npos) return 0;
  const std::string_view inside = line.substr(1, close - 1);
  const size_t blank = inside.rfind(' ');
  if (blank == inside.npos) return 0;
  const std::string_view name = inside.substr(blank + 1);
  return commit_name(name, false) == name.size() ? close + 2 : 0;
}

/// A command that writes texts or looks for them, behind a prompt or by itself.
bool is_command_about_texts(std::string_view line) {
  const std::string_view text = without_margin(line, " $+>#%");
  const bool is_prompted = text.size() != without_margin(line).size();
  for (const std::string_view command : {"git commit ", "git log ", "git tag ", "git show "}) {
    if (text.starts_with(command)) return true;
  }
  for (const std::string_view command : {"echo ", "printf ", "grep ", "rg ", "git "}) {
    if (is_prompted && text.starts_with(command)) return true;
  }
  return false;
}

/// "  --name VALUE   what it does", and not "-bash: …".
bool is_of_option(std::string_view line) {
  const std::string_view text = without_margin(line);
  const size_t name = text.find_first_not_of('-');
  if (name == text.npos || name == 0 || name > 2 || !is_ascii_letter(text[name])) return false;
  const auto is_of_name = [](char c) {
    return is_ascii_letter(c) || is_digit(c) || c == '-' || c == '_';
  };
  const auto end = std::ranges::find_if_not(text, is_of_name);
  if (end != text.end() && std::string_view(" =,[").find(*end) == std::string_view::npos)
    return false;
  return text.size() != line.size() || name == 2;
}

size_t indent_of(std::string_view line) { return line.size() - without_margin(line).size(); }

/// Where the help of an option begins on its line, behind two blanks; 0 if it does not.
size_t help_column(std::string_view line) {
  const size_t blanks = line.find("  ", indent_of(line));
  const size_t begin = line.find_first_not_of(' ', std::min(blanks, line.size()));
  return begin == line.npos ? 0 : begin;
}

/// Whether the line is one of a diff's.
bool is_of_diff(std::string_view line) {
  if (line.empty()) return false;
  if (std::string_view("+-@ \\").find(line[0]) != std::string_view::npos) return true;
  for (const std::string_view head : {"diff --git",
                                      "index ",
                                      "new file mode",
                                      "deleted file mode",
                                      "similarity index",
                                      "rename ",
                                      "old mode",
                                      "new mode",
                                      "Binary files"}) {
    if (line.starts_with(head)) return true;
  }
  return false;
}

bool is_commits_header(std::string_view line) {
  for (const std::string_view header :
       {"Author:", "AuthorDate:", "Commit:", "CommitDate:", "Merge:", "Date:"}) {
    if (line.starts_with(header)) return true;
  }
  return false;
}

/// "fix: …", "Fixes #12: …", "- Fixed a …", "bugfix …".
bool begins_with_fix(std::string_view text) {
  const std::string small = small_letters(without_margin(text, " \t-*").substr(0, 16));
  for (const std::string_view word : {"hotfix", "bugfix", "fixes", "fixed", "fixing", "fix"}) {
    if (small.starts_with(word))
      return small.size() > word.size() &&
             std::string_view(" :(#!").find(small[word.size()]) != std::string_view::npos;
  }
  return false;
}

bool ends_well(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t.");
  if (end == text.npos) return false;
  const std::string small = small_letters(text.substr(0, end + 1));
  if (!small.ends_with(" ok") && !small.ends_with("[ok]") && !small.ends_with("(ok)")) return false;
  for (const std::string_view verb : {"not ok", "is ok", "was ok", "be ok", "are ok"}) {
    if (small.ends_with(verb)) return false;
  }
  return true;
}

/// Words in backticks, with prose around them that speaks of no failure.
bool is_in_backticks(std::string_view line, size_t begin, size_t end) {
  std::string outside;
  bool is_inside = false, holds = false;
  for (size_t at = 0; at < line.size();) {
    const size_t tick = std::min(line.find('`', at), line.size());
    if (!is_inside) outside += line.substr(at, tick - at);
    if (is_inside && tick < line.size() && at <= begin && end <= tick) holds = true;
    is_inside = tick < line.size() && !is_inside;
    at = tick + 1;
  }
  if (!holds) return false;
  constexpr auto kFewestLetters = 4;
  return std::ranges::count_if(outside, is_ascii_letter) >= kFewestLetters &&
         !speaks_of_failure(outside);
}

}  // namespace

Narration::Block Narration::next_block(std::string_view line) const {
  const bool is_blank = without_margin(line).empty();
  if (line.starts_with("commit ") && commit_name(line.substr(7), false) >= 7)
    return Block::kCommitHead;
  if (line.starts_with("diff --git ")) return Block::kDiff;
  if (line.starts_with("CMake Warning") || line.starts_with("CMake Deprecation Warning"))
    return Block::kCMakeWarning;
  if (is_of_option(line) && help_column(line) != 0) return Block::kHelp;
  switch (block_) {
    case Block::kCommitHead:
      return is_commits_header(line) ? Block::kCommit : Block::kNone;
    case Block::kCommit:
      return is_blank || line.starts_with("    ") || is_commits_header(line) ? block_
                                                                             : Block::kNone;
    case Block::kDiff:
      return is_of_diff(line) ? block_ : Block::kNone;
    case Block::kHelp:
      return is_of_option(line) || (!is_blank && indent_of(line) == help_column_) ? block_
                                                                                  : Block::kNone;
    case Block::kCMakeWarning:
      return is_blank || line.starts_with("  ") ? block_ : Block::kNone;
    default:
      break;
  }
  // The names of some commits have only digits, as other numbers do.
  return is_of_history(line, block_ != Block::kHistory) ? Block::kHistory : Block::kNone;
}

bool Narration::tells(std::string_view line) {
  block_ = next_block(line);
  const size_t column = block_ == Block::kHelp && is_of_option(line) ? help_column(line) : 0;
  if (column != 0) help_column_ = column;  // a long option has its help on the next line
  return block_ != Block::kNone && block_ != Block::kCommitHead && block_ != Block::kCMakeWarning;
}

std::optional<std::pair<size_t, size_t>> span_of_pattern(std::string_view line,
                                                         std::string_view pattern) {
  const std::string small = small_letters(line);
  size_t begin = small.npos, end = 0;
  for (const std::string& part : split(small_letters(pattern), '*')) {
    const size_t at = small.find(part, end);
    if (at == small.npos) return std::nullopt;
    begin = std::min(begin, at);
    end = at + part.size();
  }
  return std::pair(begin, end);
}

bool is_narrated(std::string_view line, size_t begin, size_t end) {
  const std::string_view text = without_margin(line);
  if (begins_with_fix(text) || begins_with_fix(line.substr(commit_answer(line))) ||
      is_command_about_texts(line))
    return true;
  for (const std::string_view mark : {"ok: ", "ok - ", "OK: ", "PASS: ", "\u2713", "\u2714"}) {
    if (text.starts_with(mark)) return true;
  }
  const std::string small = small_letters(line);
  for (const std::string_view word : {"(ignored)",
                                      "(simulated)",
                                      "expected exception:",
                                      "expected error:",
                                      "caught expected",
                                      "caught simulated",
                                      "simulated failure"}) {
    const size_t at = small.find(word);
    if (at != small.npos && (at < 2 || small.substr(at - 2, 2) != "un")) return true;
  }
  for (const std::string_view word : {"if you see ",
                                      "if you get ",
                                      "if you encounter ",
                                      "if you run into ",
                                      "if you hit ",
                                      "when you see ",
                                      "in case of "}) {
    const size_t at = small.find(word);
    if (at < begin && !speaks_of_failure(line.substr(0, at))) return true;
  }
  return ends_well(line) || is_in_backticks(line, begin, end);
}

bool is_tried_again(std::string_view line) {
  const std::string small = small_letters(line);
  for (const std::string_view word : {"retrying", "will retry", "trying again"}) {
    if (small.find(word) != small.npos && small.find(concat("not ", word)) == small.npos)
      return true;
  }
  return false;
}

bool tells_success(std::string_view line) {
  const std::string small = small_letters(line);
  for (const std::string_view other : {" not ", "n't ", "fail", "error", " but ", "without succ"}) {
    if (small.find(other) != small.npos) return false;
  }
  constexpr std::array<std::string_view, 12> kWords{"successfully installed",
                                                    "successfully built",
                                                    "[100%] built",
                                                    "finished successfully",
                                                    "completed successfully",
                                                    "build files have been written to",
                                                    "build successful",
                                                    "build succeeded",
                                                    "all checks passed",
                                                    "all tests passed",
                                                    "100% tests passed",
                                                    "training finished"};
  return std::ranges::any_of(kWords,
                             [&](std::string_view word) { return small.find(word) != small.npos; });
}

}  // namespace muster::diagnose
