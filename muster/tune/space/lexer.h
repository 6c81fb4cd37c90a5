// Words of an expression. See Note [Expressions].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/tune/space/value.h"

namespace muster::tune {

struct Token {
  enum Kind { kNumber, kText, kName, kSymbol, kEnd } kind = kEnd;
  std::string text;  ///< of a name (dots included) or symbol
  Value value;       ///< of a number or text
  size_t at = 0;     ///< byte of the text at which it begins
};

/// The words, with one of kind kEnd behind the last. Throws a usage error that starts with `where`
/// for a byte that begins no word, a quote without an end, a number that fits into no type.
std::vector<Token> tokens_of(std::string_view text, std::string_view where);

/// The usage error of every fault in an expression: shows the text and the column.
[[noreturn]] void refuse_expression(std::string_view where,
                                    std::string_view text,
                                    size_t at,
                                    std::string rule,
                                    std::string hint = "");

}  // namespace muster::tune
