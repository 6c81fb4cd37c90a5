#include "muster/base/text.h"
#include "muster/program/line/shell_word.h"

#include "cli/describe/completion.h"
#include "cli/describe/completion_values.h"

namespace muster::cli {
namespace {

/// A description within a spec of _arguments, which ends at a colon.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : plain_line(text)) out += c == ':' ? std::string("\\:") : std::string(1, c);
  return out;
}

/// What _arguments does for a value.
std::string zsh_action(const ValueOffers& offers) {
  std::vector<std::string> actions;
  if (!offers.words.empty()) actions.push_back("compadd - " + join(offers.words, " "));
  if (!offers.list_kind.empty()) {
    actions.push_back(
        concat("compadd - $(muster list ", offers.list_kind, " --names 2> /dev/null)"));
  }
  if (offers.studies) {  // `shift words` has left the command in front
    actions.emplace_back("compadd - ${(f)\"$(muster study list $words[2] --names 2> /dev/null)\"}");
  }
  if (offers.files) actions.emplace_back("_files");
  if (offers.folders) actions.emplace_back("_files -/");
  if (actions.empty()) return "";
  const bool one = actions.size() == 1 && actions[0].starts_with('_');
  return one ? actions[0] : concat('{', join(actions, "; "), '}');
}

std::string zsh_arguments(const program::CommandText& command,
                          std::span<const program::CommandText> commands,
                          const std::string& indent) {
  std::string out = indent + "_arguments";
  int place = 0;
  const auto add = [&](const std::string& spec) {
    out += concat(" \\\n", indent, "  ", program::shell_quoted(spec));
  };
  for (const program::OptionText& option : command.options) {
    const std::string action = zsh_action(offers_of(option, commands));
    const std::string value = concat(zsh_text(option.value), ':', action);
    for (const std::string& flag : option.flags) {
      // "=": as --flag=value and as --flag value.
      const std::string help = concat('[', zsh_text(option.help), ']');
      add(option.value.empty() ? flag + help : concat('*', flag, '=', help, ':', value));
    }
    if (option.flags.empty() && !action.empty()) add(concat(++place, ':', value));
  }
  add("*::word:_default");
  return out + '\n';
}

std::string zsh_commands(const std::vector<const program::CommandText*>& commands,
                         const std::string& indent) {
  std::string out = indent + "local -a subcommands=(\n";
  for (const program::CommandText* command : commands) {
    out +=
        concat(indent,
               "  ",
               program::shell_quoted(words_of(*command).back() + ':' + plain_line(command->help)),
               '\n');
  }
  return out + indent + ")\n" + indent + "_describe command subcommands\n";
}

}  // namespace

std::string zsh_completion(std::span<const program::CommandText> commands) {
  std::string out =
      "#compdef muster\n# zsh completion for muster; written by `muster completion zsh`.\n"
      "_muster() {\n  if ((CURRENT == 2)); then\n";
  const auto top = command_level(commands, "");
  out += zsh_commands(top, "    ") +
         "    return\n  fi\n  local command=$words[2]\n"
         "  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const program::CommandText* command : top) {
    out += concat("    ", command->name, ")\n");
    const auto below = command_level(commands, command->name);
    if (below.empty()) {
      out += zsh_arguments(*command, commands, "      ");
    } else {
      out += "      if ((CURRENT == 2)); then\n" + zsh_commands(below, "        ") +
             "        return\n      fi\n      command=$words[2]\n      shift words\n"
             "      ((CURRENT--))\n      case $command in\n";
      for (const program::CommandText* inner : below) {
        out += concat("        ",
                      words_of(*inner).back(),
                      ")\n",
                      zsh_arguments(*inner, commands, "          "),
                      "          ;;\n");
      }
      out += "      esac\n";
    }
    out += "      ;;\n";
  }
  return out + "  esac\n}\n_muster \"$@\"\n";
}

}  // namespace muster::cli
