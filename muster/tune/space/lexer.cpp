#include "muster/tune/space/lexer.h"

#include <array>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

// Not <cctype>: the words do not depend on the locale.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    do {
      tokens.push_back(next());
    } while (tokens.back().kind != Token::kEnd);
    return tokens;
  }

 private:
  [[noreturn]] void refuse(size_t at, std::string rule, std::string hint = "") const {
    refuse_expression(where_, text_, at, std::move(rule), std::move(hint));
  }

  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  Token next() {
    while (at_ < text_.size() && trim(text_.substr(at_, 1)).empty()) ++at_;
    Token token{.at = at_};
    if (at_ == text_.size()) return token;
    const char c = peek();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number(token);
    if (c == '\'' || c == '"') return quoted(token);
    if (is_letter(c)) return name(token);
    return symbol(token);
  }

  Token number(Token token) {
    bool whole = true;
    const auto digits = [&] {
      while (is_digit(peek())) ++at_;
    };
    digits();
    if (peek() == '.') whole = false, ++at_, digits();
    if (peek() == 'e' || peek() == 'E') {
      const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
      if (is_digit(peek(1 + sign))) whole = false, at_ += 1 + sign, digits();
    }
    const std::string_view word = text_.substr(token.at, at_ - token.at);
    if (is_letter(peek()) || peek() == '.') refuse(token.at, "a number is followed by no letter");
    token.kind = Token::kNumber;
    if (const auto value = to_int(word); whole && value) {
      token.value = *value;
    } else if (const auto real = to_double(word); !whole && real && std::isfinite(*real)) {
      token.value = *real;
    } else {
      refuse(token.at, whole ? "a whole number has 64 bits" : "a number fits into a double");
    }
    return token;
  }

  Token quoted(Token token) {
    const char quote = text_[at_++];
    std::string value;
    while (peek() != quote) {
      if (at_ >= text_.size()) refuse(token.at, "a quote has an end");
      const char c = text_[at_++];
      value += c == '\\' ? escaped() : c;
    }
    ++at_;
    token.kind = Token::kText;
    token.value = std::move(value);
    return token;
  }

  /// Behind a backslash.
  char escaped() {
    const char c = peek();
    const size_t from = at_++;
    constexpr std::string_view kHex = "0123456789abcdef";
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '\\':
      case '\'':
      case '"':
        return c;
      case 'x': {
        const size_t high = kHex.find(peek()), low = kHex.find(peek(1));
        if (at_ + 1 < text_.size() && high < 16 && low < 16) {
          at_ += 2;
          return static_cast<char>(high * 16 + low);
        }
        [[fallthrough]];
      }
      default:
        refuse(from, R"(behind a backslash is n, t, r, \, a quote, or x and two of 0-9a-f)");
    }
  }

  Token name(Token token) {
    while (is_letter(peek()) || is_digit(peek()) || (peek() == '.' && is_letter(peek(1)))) ++at_;
    token.kind = Token::kName;
    token.text = text_.substr(token.at, at_ - token.at);
    return token;
  }

  Token symbol(Token token) {
    constexpr std::array<std::string_view, 20> kSymbols = {"**", "//", "==", "!=", "<=", ">=", "+",
                                                           "-",  "*",  "/",  "%",  "<",  ">",  "(",
                                                           ")",  "[",  "]",  ",",  "=",  "#"};
    for (const std::string_view symbol : kSymbols) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      at_ += symbol.size();
      token.kind = Token::kSymbol;
      token.text = symbol;
      return token;
    }
    refuse(at_, "an expression has numbers, texts in quotes, names and + - * / // % ** ( )");
  }

  std::string_view text_, where_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, std::string_view where) {
  return Lexer(text, where).run();
}

void refuse_expression(
    std::string_view where, std::string_view text, size_t at, std::string rule, std::string hint) {
  throw usage_error({.refused = std::string(where),
                     .rule = std::move(rule),
                     .value = concat(text, ", at column ", at + 1),
                     .hint = std::move(hint)});
}

}  // namespace muster::tune
