#include "muster/program/line/parse.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/command_text.h"

namespace muster::program {
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
    if (option->check_name(name)) return option;
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
  // One with less said is nearer than one with another word: --max-epochs is no --min-epochs.
  const std::string flag = flag_name(word);
  const auto tail = std::ranges::find_if(
      known, [&](const std::string& name) { return flag.ends_with(name.substr(1)); });
  const auto near = tail != known.end() ? std::optional(*tail) : nearest(flag, known);
  return usage_error({.refused = concat("unknown flag ", flag),
                      .hint = near ? concat("did you mean ", *near, "?") : help_hint});
}

/// The word behind args[i] if it can be the value of the flag args[i].
const std::string* value_behind(const CLI::App& app, std::span<const std::string> args, size_t i) {
  if (i + 1 == args.size() || args[i + 1] == "--") return nullptr;
  const bool is_next = is_flag(args[i + 1]) && option_named(app, args[i + 1]) != nullptr;
  return is_next ? nullptr : &args[i + 1];
}

/// What is wrong with the flags of a line, one by one: no value, a value for a switch, given twice.
void check_flags(const CLI::App& app,
                 std::span<const std::string> args,
                 const std::string& help_hint) {
  std::map<const CLI::Option*, std::string> said;
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    const CLI::Option* option = is_flag(args[i]) ? option_named(app, args[i]) : nullptr;
    if (option == nullptr) continue;
    const std::string name = flag_name(args[i]);
    const size_t equals = args[i].find('=');
    const bool is_switch = option->get_items_expected_max() == 0;
    if (is_switch && equals != std::string::npos) {
      throw usage_error({.refused = name,
                         .rule = "it takes no value",
                         .value = args[i].substr(equals + 1),
                         .hint = help_hint});
    }
    if (is_switch) continue;
    const std::string* behind = equals == std::string::npos ? value_behind(app, args, i) : nullptr;
    if (equals == std::string::npos && behind == nullptr) {
      throw usage_error({.refused = name,
                         .rule = concat("it needs a value: ", name, ' ', option->get_type_name()),
                         .hint = help_hint});
    }
    const std::string value = behind != nullptr ? *behind : args[i].substr(equals + 1);
    if (behind != nullptr) ++i;
    const auto [before, is_first] = said.emplace(option, value);
    const bool takes_all = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (!is_first && !takes_all && option->get_items_expected_max() == 1) {
      throw usage_error({.refused = name,
                         .rule = "it is given once",
                         .value = concat(before->second, " and ", value),
                         .hint = help_hint});
    }
  }
}

/// Says in our own words what CLI11 has stumbled over.
[[noreturn]] void refuse_line(const CLI::App& app,
                              std::span<const std::string> args,
                              const CLI::ParseError& error) {
  const std::string help_hint = "see `" + app.get_name() + " --help`";
  // A flag that we do not know can make CLI11 stumble over its value first, so it is looked for
  // whatever the complaint.
  for (const std::string& word : args) {
    if (word == "--") break;
    if (is_flag(word) && option_named(app, word) == nullptr)
      throw unknown_flag(app, word, help_hint);
  }
  for (const CLI::Option* option : app.get_options()) {  // a word by itself that may have its flag
    const bool is_both = option->get_positional() && !option->get_lnames().empty();
    if (!is_both || option->get_items_expected_max() != 1 || option->count() < 2) continue;
    throw usage_error({.refused = "--" + option->get_lnames().front(),
                       .rule = "it is given once, with the flag or without",
                       .value = join(option->results(), " and "),
                       .hint = help_hint});
  }
  if (const auto left = app.remaining(); !left.empty()) {
    throw usage_error({.refused = concat(app.get_name(), " does not take \"", left.front(), "\""),
                       .hint = help_hint});
  }
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::string name =
        option->get_positional() ? option->get_type_name() : option->get_name(false, true);
    throw usage_error({.refused = concat(app.get_name(), " without ", name),
                       .rule = concat(name, " is ", option->get_description()),
                       .hint = help_hint});
  }
  throw usage_error({.refused = error.what(), .hint = help_hint});
}

}  // namespace

std::unique_ptr<CLI::App> make_app(const std::string& title,
                                   const std::string& description,
                                   const std::string& examples,
                                   const std::string& usage) {
  auto app = std::make_unique<CLI::App>(description, title);
  app->formatter(std::make_shared<HelpFormatter>(usage));
  app->set_help_flag("-h,--help", "print this help");
  app->footer(examples);
  return app;
}

std::optional<int> parse(CLI::App& app, std::span<const std::string> args, Console& console) {
  if (args.size() == 1 && args[0] == kDescribe) {
    console.out() << json_text(to_json(command_text_of(app))) << '\n' << std::flush;
    return 0;
  }
  // CLI11 would take a flag as the value of the one before it.
  check_flags(app, args, "see `" + app.get_name() + " --help`");
  try {
    // CLI11 takes the words last one first.
    std::vector<std::string> reversed(args.rbegin(), args.rend());
    app.parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    console.out() << app.help() << std::flush;
    return 0;
  } catch (const CLI::ParseError& error) {
    refuse_line(app, args, error);
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

}  // namespace muster::program
