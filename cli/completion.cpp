#include "cli/completion.h"

#include <algorithm>

#include "muster/base/text.h"

#include "cli/shell_word.h"

namespace muster::cli {
namespace {

/// What stands behind a flag.
enum class ValueKind { kNone, kAny, kFile, kFolder, kNames };

ValueKind value_kind(const OptionText& option) {
  if (option.value.empty()) return ValueKind::kNone;
  if (!kind_of_names(option).empty()) return ValueKind::kNames;
  if (option.value == "DIR") return ValueKind::kFolder;
  const bool file = option.value == "FILE" || option.value == "PATH" || option.value == "STORAGE";
  return file ? ValueKind::kFile : ValueKind::kAny;
}

/// One line, without the brackets and backquotes that shells give a meaning.
std::string plain(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '`') c = ' ';
    if (c == '[') c = '(';
    if (c == ']') c = ')';
  }
  return text;
}

/// "study list" -> {"study", "list"}.
std::vector<std::string> words_of(const CommandText& command) { return split(command.name, ' '); }

/// Commands of a level: {"run", …}, or those behind `study`.
std::vector<const CommandText*> level(std::span<const CommandText> commands,
                                      const std::string& above) {
  std::vector<const CommandText*> out;
  for (const CommandText& command : commands) {
    const std::vector<std::string> words = words_of(command);
    if (above.empty() ? words.size() == 1 : words.size() == 2 && words[0] == above)
      out.push_back(&command);
  }
  return out;
}

std::string names_of(const std::vector<const CommandText*>& commands) {
  std::vector<std::string> names;
  for (const CommandText* command : commands) names.push_back(words_of(*command).back());
  return join(names, " ");
}

std::vector<std::string> flags_of(const CommandText& command, ValueKind kind) {
  std::vector<std::string> flags;
  for (const OptionText& option : command.options) {
    if (value_kind(option) != kind) continue;
    flags.insert(flags.end(), option.flags.begin(), option.flags.end());
  }
  return flags;
}

// --- bash

constexpr std::string_view kBashHead =
    R"sh(# bash completion for muster; by `muster completion bash`.
_muster() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} at=2 i flags= files= folders= names= kind=
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

constexpr std::string_view kBashTail = R"sh(  for kind in $names; do
    [[ $prev == "${kind%%:*}" ]] || continue
    names=$("${COMP_WORDS[0]}" list "${kind##*:}" --names 2> /dev/null)
    COMPREPLY=($(compgen -W "$names" -- "$cur"))
    return
  done
  if [[ " $files " == *" $prev "* ]]; then
    compopt -o filenames
    COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ " $folders " == *" $prev "* ]]; then
    compopt -o filenames
    COMPREPLY=($(compgen -d -- "$cur"))
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  else
    compopt -o default
  fi
}
complete -F _muster muster
)sh";

/// The flags of one command as shell variables.
std::string bash_flags(const CommandText& command) {
  std::vector<std::string> all, names;
  for (const OptionText& option : command.options) {
    all.insert(all.end(), option.flags.begin(), option.flags.end());
    for (const std::string& flag : option.flags) {
      if (value_kind(option) == ValueKind::kNames)
        names.push_back(concat(flag, ':', kind_of_names(option)));
    }
  }
  return concat("flags=",
                shell_quoted(join(all, " ")),
                "\n      files=",
                shell_quoted(join(flags_of(command, ValueKind::kFile), " ")),
                " folders=",
                shell_quoted(join(flags_of(command, ValueKind::kFolder), " ")),
                "\n      names=",
                shell_quoted(join(names, " ")));
}

// --- zsh

/// A description within a spec of _arguments, which ends at a colon.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : plain(text)) out += c == ':' ? std::string("\\:") : std::string(1, c);
  return out;
}

std::string zsh_action(const OptionText& option) {
  switch (value_kind(option)) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    case ValueKind::kNames:
      return concat("{compadd - $(muster list ", kind_of_names(option), " --names 2> /dev/null)}");
    default:
      return "";
  }
}

std::string zsh_arguments(const CommandText& command, const std::string& indent) {
  std::string out = indent + "_arguments";
  for (const OptionText& option : command.options) {
    for (const std::string& flag : option.flags) {
      std::string spec = concat(flag, '[', zsh_text(option.help), ']');
      // "=": as --flag=value and as --flag value.
      if (!option.value.empty())
        spec = concat('*',
                      flag,
                      "=[",
                      zsh_text(option.help),
                      "]:",
                      zsh_text(option.value),
                      ':',
                      zsh_action(option));
      out += concat(" \\\n", indent, "  ", shell_quoted(spec));
    }
  }
  return out + concat(" \\\n", indent, "  ", shell_quoted("*::word:_default"), "\n");
}

std::string zsh_commands(const std::vector<const CommandText*>& commands,
                         const std::string& indent) {
  std::string out = indent + "local -a subcommands=(\n";
  for (const CommandText* command : commands)
    out += concat(
        indent, "  ", shell_quoted(words_of(*command).back() + ':' + plain(command->help)), '\n');
  return out + indent + ")\n" + indent + "_describe command subcommands\n";
}

}  // namespace

std::string bash_completion(std::span<const CommandText> commands) {
  std::string out(kBashHead);
  const auto top = level(commands, "");
  out += concat("  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W ",
                shell_quoted("help " + names_of(top) + " --help --version"),
                " -- \"$cur\"))\n    return\n  fi\n");
  out +=
      "  if [[ $command == help ]]; then\n    command=${COMP_WORDS[2]}; at=3\n"
      "    if ((COMP_CWORD == 2)); then COMPREPLY=($(compgen -W " +
      shell_quoted(names_of(top)) + " -- \"$cur\")); return; fi\n  fi\n";
  for (const CommandText* command : top) {
    const auto below = level(commands, command->name);
    if (below.empty()) continue;
    out += concat("  if [[ $command == ",
                  command->name,
                  " ]]; then\n    if ((COMP_CWORD == at)); then COMPREPLY=($(compgen -W ",
                  shell_quoted(names_of(below)),
                  " -- \"$cur\")); return; fi\n    command+=\" ${COMP_WORDS[at]}\"\n  fi\n");
  }
  out +=
      "  if [[ $command == list && $cur != -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" list --names 2> /dev/null)\" -- "
      "\"$cur\"))\n    return\n  fi\n  case $command in\n";
  for (const CommandText& command : commands) {
    if (!command.options.empty())
      out += concat("    ", shell_quoted(command.name), ")\n      ", bash_flags(command), " ;;\n");
  }
  return out + "  esac\n" + std::string(kBashTail);
}

std::string zsh_completion(std::span<const CommandText> commands) {
  std::string out =
      "#compdef muster\n# zsh completion for muster; written by `muster completion zsh`.\n"
      "_muster() {\n  if ((CURRENT == 2)); then\n";
  const auto top = level(commands, "");
  out += zsh_commands(top, "    ") +
         "    return\n  fi\n  local command=$words[2]\n"
         "  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const CommandText* command : top) {
    out += concat("    ", command->name, ")\n");
    const auto below = level(commands, command->name);
    if (below.empty()) {
      out += zsh_arguments(*command, "      ");
    } else {
      out += "      if ((CURRENT == 2)); then\n" + zsh_commands(below, "        ") +
             "        return\n      fi\n      command=$words[2]\n      shift words\n"
             "      ((CURRENT--))\n      case $command in\n";
      for (const CommandText* inner : below)
        out += concat("        ",
                      words_of(*inner).back(),
                      ")\n",
                      zsh_arguments(*inner, "          "),
                      "          ;;\n");
      out += "      esac\n";
    }
    out += "      ;;\n";
  }
  return out + "  esac\n}\n_muster \"$@\"\n";
}

std::string fish_completion(std::span<const CommandText> commands) {
  std::string out = R"sh(# fish completion for muster; written by `muster completion fish`.
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
  for (const CommandText& command : commands) {
    std::vector<std::string> above = words_of(command);
    const std::string name = above.back();
    above.pop_back();
    out += concat("complete -c muster -f -n '__muster_before ",
                  join(above, " "),
                  "' -a ",
                  name,
                  " -d ",
                  shell_quoted(plain(command.help)),
                  '\n');
    for (const OptionText& option : command.options) {
      for (const std::string& flag : option.flags) {
        const bool is_long = flag.starts_with("--");
        out += concat("complete -c muster -n '__muster_at ",
                      command.name,
                      "' ",
                      is_long ? "-l " : "-s ",
                      flag.substr(is_long ? 2 : 1));
        const ValueKind kind = value_kind(option);
        if (kind == ValueKind::kFile) out += " -rF";
        if (kind == ValueKind::kFolder) out += " -x -a '(__fish_complete_directories)'";
        if (kind == ValueKind::kNames)
          out += concat(" -x -a '(muster list ", kind_of_names(option), " --names 2> /dev/null)'");
        if (kind == ValueKind::kAny) out += " -x";
        out += concat(" -d ", shell_quoted(plain(option.help)), '\n');
      }
    }
  }
  return out + "complete -c muster -f -n '__muster_before list' -a '(muster list --names)'\n";
}

}  // namespace muster::cli
