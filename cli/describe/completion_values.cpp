#include "cli/describe/completion_values.h"

#include <algorithm>

#include "muster/base/text.h"

#include "cli/describe/list_table.h"

namespace muster::cli {
namespace {

bool stands_for_itself(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

}  // namespace

ValueOffers offers_of(const program::OptionText& option,
                      std::span<const program::CommandText> commands) {
  ValueOffers offers;
  if (option.value.empty()) return offers;
  offers.list_kind = kind_of_names(option);
  for (const std::string& value : split(option.value, '|')) {
    if (stands_for_itself(value)) offers.words.push_back(value);
    offers.files |= value == "FILE" || value == "PATH" || value == "STORAGE";
    offers.folders |= value == "DIR";
    offers.studies |= value == "STUDY";
    if (value == "COMMAND") offers.words = last_words(command_level(commands, ""));
    if (value != "KIND") continue;
    for (const ListKind& kind : list_kinds()) offers.words.emplace_back(kind.name);
  }
  return offers;
}

std::vector<std::string> words_of(const program::CommandText& command) {
  return split(command.name, ' ');
}

std::vector<const program::CommandText*> command_level(
    std::span<const program::CommandText> commands, const std::string& above) {
  std::vector<const program::CommandText*> out;
  for (const program::CommandText& command : commands) {
    const std::vector<std::string> words = words_of(command);
    if (above.empty() ? words.size() == 1 : words.size() == 2 && words[0] == above)
      out.push_back(&command);
  }
  return out;
}

std::vector<std::string> last_words(const std::vector<const program::CommandText*>& commands) {
  std::vector<std::string> names;
  for (const program::CommandText* command : commands) names.push_back(words_of(*command).back());
  return names;
}

std::string plain_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '`') c = ' ';
    if (c == '[') c = '(';
    if (c == ']') c = ')';
  }
  return text;
}

}  // namespace muster::cli
