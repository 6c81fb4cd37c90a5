// What a shell may offer behind a flag or in place of a word: read off the option's own text. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/describe/describe_all.h"

namespace muster::cli {

/// The values of an option. Its VALUE says them, alternatives parted by `|`: words in small letters
/// or digits stand for themselves ("max|min", "DIR|auto"), FILE, PATH and STORAGE are files, DIR a
/// folder, STUDY a study of the STORAGE that the command names first, COMMAND a command of ours,
/// KIND a kind of `muster list`; any other is the user's to know.
struct ValueOffers {
  std::vector<std::string> words;
  std::string list_kind;  ///< names that `muster list KIND --names` prints; empty: none
  bool files = false;
  bool folders = false;
  bool studies = false;

  bool any() const { return !words.empty() || !list_kind.empty() || files || folders || studies; }
};

/// `commands` are all of the program, for COMMAND.
ValueOffers offers_of(const program::OptionText& option,
                      std::span<const program::CommandText> commands);

/// "study list" -> {"study", "list"}.
std::vector<std::string> words_of(const program::CommandText& command);

/// Commands of a level: {"run", …}, or those behind `study`.
std::vector<const program::CommandText*> command_level(
    std::span<const program::CommandText> commands, const std::string& above);

/// The last word of each.
std::vector<std::string> last_words(const std::vector<const program::CommandText*>& commands);

/// One line, without the brackets and backquotes that shells give a meaning.
std::string plain_line(std::string text);

}  // namespace muster::cli
