#include "muster/base/text.h"
#include "muster/program/line/shell_word.h"

#include "cli/describe/completion.h"
#include "cli/describe/completion_values.h"

namespace muster::cli {
namespace {

constexpr std::string_view kFishHead =
    R"sh(# fish completion for muster; written by `muster completion fish`.
function __muster_at --description 'the words behind muster begin with these'
    set -l words (commandline -opc)
    test (count $words) -gt (count $argv); or return 1
    for i in (seq (count $argv))
        set -l at (math $i + 1)
        test "$words[$at]" = "$argv[$i]"; or return 1
    end
end
function __muster_before --description 'these words, and the next one is being typed'
    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __muster_at $argv
end
)sh";

/// The list behind `complete -a`, without files, which fish has a flag for.
std::string fish_words(const ValueOffers& offers) {
  std::vector<std::string> parts = offers.words;
  if (!offers.list_kind.empty())
    parts.push_back(concat("(muster list ", offers.list_kind, " --names 2> /dev/null)"));
  if (offers.studies)
    parts.emplace_back("(muster study list (commandline -opc)[4] --names 2> /dev/null)");
  if (offers.folders) parts.emplace_back("(__fish_complete_directories)");
  return join(parts, " ");
}

std::string fish_option(const std::string& name,
                        const program::OptionText& option,
                        std::span<const program::CommandText> commands) {
  std::string out;
  const ValueOffers offers = offers_of(option, commands);
  const std::string words = fish_words(offers);
  const std::string condition = concat("complete -c muster -n '__muster_at ", name, "'");
  std::string values = words.empty() ? "" : " -a " + program::shell_quoted(words);
  if (option.flags.empty()) return words.empty() ? "" : concat(condition, " -f", values, '\n');
  if (!option.value.empty()) values = (offers.files ? " -rF" : " -x") + values;
  for (const std::string& flag : option.flags) {
    const bool is_long = flag.starts_with("--");
    out += concat(condition,
                  is_long ? " -l " : " -s ",
                  flag.substr(is_long ? 2 : 1),
                  values,
                  " -d ",
                  program::shell_quoted(plain_line(option.help)),
                  '\n');
  }
  return out;
}

}  // namespace

std::string fish_completion(std::span<const program::CommandText> commands) {
  std::string out(kFishHead);
  for (const program::CommandText& command : commands) {
    std::vector<std::string> above = words_of(command);
    const std::string name = above.back();
    above.pop_back();
    out += concat("complete -c muster -f -n '__muster_before ",
                  join(above, " "),
                  "' -a ",
                  name,
                  " -d ",
                  program::shell_quoted(plain_line(command.help)),
                  '\n');
    for (const program::OptionText& option : command.options)
      out += fish_option(command.name, option, commands);
  }
  return out;
}

}  // namespace muster::cli
