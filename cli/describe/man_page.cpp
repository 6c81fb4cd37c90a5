#include "cli/describe/man_page.h"

#include "muster/base/text.h"

namespace muster::cli {
namespace {

/// Text within a line of roff.
std::string roff_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

/// Lines of text: one that begins with a point or a quote would be a request.
std::string roff_lines(std::string_view text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with('.') || line.starts_with('\'')) out += "\\&";
    out += roff_text(line) + '\n';
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string head(const std::string& name, std::string_view version, std::string_view help) {
  return concat(".\\\" Written by `muster man`.\n.TH ",
                upper(name),
                " 1 \"\" \"muster ",
                version,
                "\" \"Muster\"\n.SH NAME\n",
                roff_text(name),
                " \\- ",
                roff_text(help),
                '\n');
}

std::string option_item(const program::OptionText& option) {
  std::vector<std::string> names;
  for (const std::string& flag : option.flags) names.push_back("\\fB" + roff_text(flag) + "\\fR");
  std::string item = join(names, ", ");
  if (!option.value.empty())
    item += concat(item.empty() ? "" : " ", "\\fI", roff_text(option.value), "\\fR");
  return concat(".TP\n", item, '\n', roff_lines(option.help));
}

std::string preformatted(std::string_view text) {
  return text.empty() ? "" : ".nf\n" + roff_lines(trim(text)) + ".fi\n";
}

/// Usage, description, options, examples, each with the heading `request` of roff.
std::string body(const program::CommandText& command, const std::string& request) {
  std::string out = concat(request, " SYNOPSIS\n.nf\n", roff_lines(command.usage), ".fi\n");
  out += concat(request, " DESCRIPTION\n", roff_lines(command.about));
  if (!command.options.empty()) out += request + " OPTIONS\n";
  for (const program::OptionText& option : command.options) out += option_item(option);
  constexpr std::string_view kExamples = "Examples:\n";
  const bool has_examples = command.footer.starts_with(kExamples);
  const std::string_view rest =
      std::string_view(command.footer).substr(has_examples ? kExamples.size() : 0);
  if (!rest.empty())
    out += concat(request, has_examples ? " EXAMPLES\n" : " NOTES\n", preformatted(rest));
  return out;
}

ManPage overview(std::span<const program::CommandText> commands,
                 std::string_view version,
                 std::string_view examples) {
  std::string out = head("muster", version, "train one model on many devices");
  out += ".SH SYNOPSIS\n.B muster\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const program::CommandText& command : commands) {
    if (command.name.find(' ') != std::string::npos) continue;
    out += concat(
        ".TP\n\\fBmuster\\-", roff_text(command.name), "\\fR(1)\n", roff_lines(command.help));
  }
  return {"muster", out + ".SH NOTES\n" + preformatted(examples)};
}

}  // namespace

std::vector<ManPage> man_pages(std::span<const program::CommandText> commands,
                               std::string_view version,
                               std::string_view examples) {
  std::vector<ManPage> pages{overview(commands, version, examples)};
  for (const program::CommandText& command : commands) {
    const std::vector<std::string> words = split(command.name, ' ');
    if (words.size() == 1) {
      const std::string name = "muster-" + command.name;
      pages.push_back({name, head(name, version, command.help) + body(command, ".SH")});
    } else {  // behind `study`, whose page is the last one
      pages.back().roff += concat(".SH ",
                                  upper("muster " + command.name),
                                  '\n',
                                  roff_lines(command.help),
                                  body(command, ".SS"));
    }
  }
  for (ManPage& page : pages) {
    if (page.name != "muster") page.roff += ".SH SEE ALSO\n.BR muster (1)\n";
  }
  return pages;
}

}  // namespace muster::cli
