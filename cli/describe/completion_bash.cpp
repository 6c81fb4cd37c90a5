#include "muster/base/text.h"
#include "muster/program/line/shell_word.h"

#include "cli/describe/completion.h"
#include "cli/describe/completion_values.h"

namespace muster::cli {
namespace {

constexpr std::string_view kBashHead =
    R"sh(# bash completion for muster; by `muster completion bash`.
_muster() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} at=2 i one found= offers=
  local flags= files= folders= names= words= studies= own=
  COMPREPLY=()
  # bash takes --flag=value apart at the sign.
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  # Behind `--` another program has its own words.
  for ((i = 2; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    if declare -F _command_offset > /dev/null; then
      _command_offset $((i + 1))
    else
      compopt -o default
    fi
    return
  done
)sh";

constexpr std::string_view kBashTail = R"sh(  for one in $names; do
    [[ $prev == "${one%%:*}" ]] || continue
    found=1 offers+=" $("${COMP_WORDS[0]}" list "${one##*:}" --names 2> /dev/null)"
  done
  for one in $words; do
    [[ $prev == "${one%%=*}" ]] || continue
    one=${one#*=}
    found=1 offers+=" ${one//,/ }"
  done
  if [[ $found ]]; then COMPREPLY=($(compgen -W "$offers" -- "$cur")); fi
  if [[ " $studies " == *" $prev "* ]]; then
    found=1
    # A name may hold anything, and a list of words would be expanded: each is looked at as it is.
    while IFS= read -r one; do
      [[ $one == "$cur"* ]] && COMPREPLY+=("$(printf %q "$one")")
    done < <("${COMP_WORDS[0]}" study list "${COMP_WORDS[at + 1]}" --names 2> /dev/null)
  fi
  if [[ " $files " == *" $prev "* ]]; then
    found=1
    compopt -o filenames
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
  elif [[ " $folders " == *" $prev "* ]]; then
    found=1
    compopt -o filenames
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
  fi
  if [[ $found ]]; then return; fi
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ $own ]]; then
    COMPREPLY=($(compgen -W "$own" -- "$cur"))
  else
    compopt -o default
  fi
}
complete -F _muster muster
)sh";

/// The flags of one command as shell variables.
std::string bash_flags(const program::CommandText& command,
                       std::span<const program::CommandText> commands) {
  std::vector<std::string> all, files, folders, names, words, studies, own;
  for (const program::OptionText& option : command.options) {
    const ValueOffers offers = offers_of(option, commands);
    if (option.flags.empty()) own.insert(own.end(), offers.words.begin(), offers.words.end());
    for (const std::string& flag : option.flags) {
      all.push_back(flag);
      if (offers.files) files.push_back(flag);
      if (offers.folders) folders.push_back(flag);
      if (offers.studies) studies.push_back(flag);
      if (!offers.list_kind.empty()) names.push_back(concat(flag, ':', offers.list_kind));
      if (!offers.words.empty()) words.push_back(concat(flag, '=', join(offers.words, ",")));
    }
  }
  std::string out = concat("flags=", program::shell_quoted(join(all, " ")));
  const auto add = [&](const char* name, const std::vector<std::string>& values) {
    if (!values.empty())
      out += concat("\n      ", name, '=', program::shell_quoted(join(values, " ")));
  };
  add("files", files);
  add("folders", folders);
  add("names", names);
  add("words", words);
  add("studies", studies);
  add("own", own);
  return out;
}

/// Offers `words` where the word number `place` is typed, and ends.
std::string bash_words_at(const char* place, const std::string& words) {
  return concat("if ((COMP_CWORD == ",
                place,
                ")); then COMPREPLY=($(compgen -W ",
                program::shell_quoted(words),
                " -- \"$cur\")); return; fi\n");
}

}  // namespace

std::string bash_completion(std::span<const program::CommandText> commands) {
  const auto top = command_level(commands, "");
  const std::string names = join(last_words(top), " ");
  std::string out(kBashHead);
  out += "  " + bash_words_at("1", "help " + names + " --help --version");
  out += concat("  if [[ $command == help ]]; then\n    command=${COMP_WORDS[2]} at=3\n    ",
                bash_words_at("2", names),
                "  fi\n");
  for (const program::CommandText* command : top) {
    const auto below = command_level(commands, command->name);
    if (below.empty()) continue;
    out += concat("  if [[ $command == ",
                  command->name,
                  " ]]; then\n    ",
                  bash_words_at("at", join(last_words(below), " ")),
                  "    command+=\" ${COMP_WORDS[at]}\"\n  fi\n");
  }
  out += "  case $command in\n";
  for (const program::CommandText& command : commands) {
    if (command.options.empty()) continue;
    out += concat("    ",
                  program::shell_quoted(command.name),
                  ")\n      ",
                  bash_flags(command, commands),
                  " ;;\n");
  }
  return out + "  esac\n" + std::string(kBashTail);
}

}  // namespace muster::cli
