#include "muster/tune/space/command_template.h"

#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr std::string_view kAllParameters = "@params";

/// A word cut at its placeholders: text, placeholder, text, …
struct Piece {
  std::string text;  ///< as it stands, or the name
  bool placeholder = false;
};

[[noreturn]] void refuse_word(std::string_view word, std::string rule, std::string hint) {
  throw usage_error({.refused = "the command of the study",
                     .rule = std::move(rule),
                     .value = concat('"', word, '"'),
                     .hint = std::move(hint)});
}

void check_name(std::string_view name, std::string_view word, const Space& space) {
  if (name == kAllParameters || space.index_of(name)) return;
  std::vector<std::string> known;
  for (const Parameter& parameter : space.parameters()) known.push_back(parameter.name);
  refuse_word(word,
              concat('{', name, "} is no parameter of the space"),
              concat(known.empty() ? "the space has no parameters" : suggestion(name, known),
                     "; a brace itself is written {{"));
}

std::vector<Piece> pieces_of(std::string_view word, const Space& space) {
  std::vector<Piece> pieces;
  std::string text;
  for (size_t at = 0; at < word.size(); ++at) {
    const char c = word[at];
    if ((c == '{' || c == '}') && at + 1 < word.size() && word[at + 1] == c) {
      text += word[at++];
    } else if (c == '{') {
      const size_t end = word.find('}', at);
      if (end == std::string_view::npos)
        refuse_word(word, "a placeholder has an end: {name}", "a brace itself is written {{");
      const std::string_view name = word.substr(at + 1, end - at - 1);
      check_name(name, word, space);
      if (!text.empty()) pieces.push_back({std::exchange(text, "")});
      pieces.push_back({std::string(name), true});
      at = end;
    } else {
      text += c;
    }
  }
  if (!text.empty()) pieces.push_back({std::move(text)});
  return pieces;
}

/// Nothing if the parameter does not apply.
std::optional<std::string> piece_text(const Piece& piece,
                                      const Space& space,
                                      const Values& values) {
  if (!piece.placeholder) return piece.text;
  if (piece.text == kAllParameters) return json_text(to_json(space, values));
  const Value& value = values.at(*space.index_of(piece.text));
  return value.is_none() ? std::nullopt : std::optional(value_text(value));
}

bool is_flag(std::span<const Piece> pieces) {
  return pieces.size() == 1 && !pieces[0].placeholder && pieces[0].text.starts_with('-');
}

/// "{momentum}"
bool is_lone(std::span<const Piece> pieces) { return pieces.size() == 1 && pieces[0].placeholder; }

/// "--momentum={momentum}"
bool is_assigned(std::span<const Piece> pieces) {
  return pieces.size() == 2 && pieces[1].placeholder && pieces[0].text.starts_with('-') &&
         pieces[0].text.ends_with('=');
}

}  // namespace

void check_command(std::span<const std::string> command, const Space& space) {
  for (const std::string& word : command) pieces_of(word, space);
  if (!command.empty() && command[0].empty())
    refuse_word(
        "", "its first word is a program", "command = [\"./train.sh\", \"--lr\", \"{lr}\"]");
}

std::vector<std::string> expand_command(std::span<const std::string> command,
                                        const Space& space,
                                        const Values& values) {
  check_command(command, space);
  std::vector<std::string> out;
  bool flag_before = false;
  for (const std::string& word : command) {
    const std::vector<Piece> pieces = pieces_of(word, space);
    std::string text;
    bool applies = true;
    for (const Piece& piece : pieces) {
      const auto part = piece_text(piece, space, values);
      applies &= part.has_value();
      text += part.value_or("");
    }
    if (!applies && (is_lone(pieces) || is_assigned(pieces))) {
      if (is_lone(pieces) && flag_before) out.pop_back();
      flag_before = false;
      continue;
    }
    flag_before = is_flag(pieces);
    out.push_back(std::move(text));
  }
  if (out.empty())
    refuse_word(
        join(std::vector(command.begin(), command.end()), " "), "a program is left to run", "");
  return out;
}

}  // namespace muster::tune
