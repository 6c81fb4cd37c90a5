#include "cli/describe/describe_all.h"

#include <algorithm>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "cli/describe/list_table.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

/// What the command says of itself. Nothing of it is run: kDescribe is looked at before all else.
program::CommandText ask(int (*run)(std::span<const std::string>, program::Console&),
                         std::string name,
                         std::string_view help) {
  std::ostringstream out, err;
  program::Console console(out, err, /*err_is_terminal=*/false, /*colour=*/false);
  const std::vector<std::string> words{std::string(program::kDescribe)};
  if (run(words, console) != kDone)
    throw internal_error({.refused = concat("muster ", name, " does not describe itself")});
  program::CommandText text = program::command_text(parse_json(out.str(), name));
  text.name = std::move(name);
  text.help = help;
  return text;
}

}  // namespace

std::vector<program::CommandText> describe_all(const EntryTable<CommandEntry>& table) {
  std::vector<program::CommandText> all;
  for (const CommandEntry* entry : table) {
    if (entry->name != "study") {
      all.push_back(ask(entry->run, std::string(entry->name), entry->help));
      continue;
    }
    all.push_back({.name = "study",
                   .help = std::string(entry->help),
                   .about = "Look at stored studies, and reach those that run.",
                   .usage = "muster study CMD STORAGE [OPTIONS]"});
    for (const StudyCommand& command : study_commands())
      all.push_back(ask(command.run, concat("study ", command.name), command.help));
  }
  return all;
}

std::string kind_of_names(const program::OptionText& option) {
  constexpr std::string_view kWords = "muster list ";
  const size_t at = option.help.find(kWords);
  if (at == std::string::npos) return "";
  const std::string_view rest = std::string_view(option.help).substr(at + kWords.size());
  const std::string kind(rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz-")));
  const auto kinds = list_kinds();
  return std::ranges::find(kinds, kind, &ListKind::name) != kinds.end() ? kind : "";
}

}  // namespace muster::cli
