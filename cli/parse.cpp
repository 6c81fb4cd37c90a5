#include "cli/parse.h"

#include <algorithm>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

constexpr size_t kHelpWidth = 80;
constexpr size_t kTextColumn = 28;

/// "  --flag VALUE             text that wraps at 80 columns and stays in its column".
std::string two_columns(const std::string& left, const std::string& text) {
  const std::string out = "  " + left;
  const std::string body = wrap(text, kHelpWidth, std::string(kTextColumn, ' '));
  if (display_width(out) + 2 > kTextColumn) return out + '\n' + body + '\n';
  return out + body.substr(std::min(display_width(out), body.size())) + '\n';
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (usage_.empty()) return CLI::Formatter::make_usage(app, std::move(name));
    return "Usage: " + usage_ + '\n';
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string left = option->get_name(is_positional, !is_positional);
    std::ranges::replace(left, ',', ' ');
    if (is_positional && left.empty()) left = option->get_name(true);
    const std::string value = option->get_type_size() > 0 ? option->get_type_name() : "";
    if (!is_positional && !value.empty()) left += ' ' + value;
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    return two_columns(left, text);
  }

  std::string make_description(const CLI::App* app) const override {
    return wrap(app->get_description(), kHelpWidth) + "\n\n";
  }

  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : footer + '\n';
  }

 private:
  std::string usage_;
};

std::string flag_name(std::string_view word) { return std::string(word.substr(0, word.find('='))); }

/// The option that a word such as "--flag", "--flag=value" or "-f" names, or null.
const CLI::Option* option_named(const CLI::App& app, std::string_view word) {
  const std::string name = flag_name(word);
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() && option->check_name(name)) return option;
  }
  return nullptr;
}

bool is_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !to_double(word);
}

Error unknown_flag(const CLI::App& app, const std::string& word, const std::string& help_hint) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const auto near = nearest(flag_name(word), known);
  return usage_error({.refused = concat("unknown flag ", flag_name(word)),
                      .hint = near ? concat("did you mean ", *near, "?") : help_hint});
}

}  // namespace

std::unique_ptr<CLI::App> make_app(const std::string& name,
                                   const std::string& description,
                                   const std::string& examples,
                                   const std::string& usage) {
  auto app = std::make_unique<CLI::App>(description, "muster " + name);
  app->formatter(std::make_shared<HelpFormatter>(usage));
  app->set_help_flag("-h,--help", "print this help");
  app->footer(examples);
  return app;
}

std::optional<int> parse(CLI::App& app, std::span<const std::string> args, Console& console) {
  const std::string help_hint = "see `" + app.get_name() + " --help`";
  try {
    // CLI11 takes the words last one first.
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    console.out() << app.help() << std::flush;
    return 0;
  } catch (const CLI::ParseError& error) {
    // A flag that we do not know can make CLI11 stumble over its value first, so it is looked for
    // whatever the complaint.
    for (const std::string& word : args) {
      if (word == "--") break;
      if (is_flag(word) && option_named(app, word) == nullptr)
        throw unknown_flag(app, word, help_hint);
    }
    if (!app.remaining().empty()) {
      const std::string word = app.remaining().front();
      throw usage_error(
          {.refused = concat(app.get_name(), " does not take \"", word, "\""), .hint = help_hint});
    }
    throw usage_error({.refused = error.what(), .hint = help_hint});
  }
}

ProgramLine split_program(const CLI::App& app, std::span<const std::string> args) {
  ProgramLine line;
  size_t i = 0;
  for (; i < args.size() && args[i] != "--" && args[i].starts_with("-"); ++i) {
    std::string word = args[i];
    const size_t name_end = std::min(word.find('='), word.size());
    if (word.starts_with("--")) std::replace(word.begin(), word.begin() + long(name_end), '_', '-');
    const CLI::Option* option = option_named(app, word);
    line.flags.push_back(word);
    const bool takes_next =
        option != nullptr && option->get_items_expected_min() > 0 && name_end == word.size();
    if (takes_next && i + 1 < args.size() && args[i + 1] != "--") line.flags.push_back(args[++i]);
  }
  if (i < args.size() && args[i] == "--") ++i;
  line.program.assign(args.begin() + long(i), args.end());
  return line;
}

}  // namespace muster::cli
