// Expressions of study files: what sample_from computes, and conditions of parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tune/space/domain.h"

namespace muster::tune {

// Note [Expressions]
//
//     or:         and {"or" and}            and:    not {"and" not}         not:   ["not"] compared
//     compared:   sum [(== != < <= > >=) sum | ["not"] "in" list]
//     sum:        term {(+ -) term}         term:   signed {(* / // %) signed}
//     signed:     {- +} power               power:  primary ["**" signed]
//     primary:    number | 'text' | true | false | name | draw | min(…) | max(…)
//                 | round(x [, digits]) | "(" or ")"
//     list:       "[" or {"," or} "]" | "(" or {"," or} ")"
//
// Precedence and arithmetic are Python's, but for whole numbers beyond 64 bits, complex numbers and
// infinities, which are errors. A parameter that does not apply makes what is computed from it not
// apply either; `and` and `or` look at their right side only if they need it.

/// One step of a computation.
struct Node {
  enum class Op {
    kConstant,
    kName,
    kDraw,
    kNegative,
    kNot,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kFloorDivide,
    kModulo,
    kPower,
    kMin,
    kMax,
    kRound,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kAnd,
    kOr,
    kIn
  } op = Op::kConstant;
  Value value;       ///< kConstant
  size_t index = 0;  ///< kName, kDraw: into Expression's lists
  std::vector<Node> children;
};

struct Expression {
  Node root;
  std::vector<std::string> names;   ///< of parameters, each once
  std::vector<Distribution> draws;  ///< in the order of the text
};

/// Throws a usage error that starts with `where` and shows the text: the fault, its column, the
/// nearest function as hint. A condition may have no draws.
Expression parse_expression(std::string_view text, std::string_view where);
Expression parse_condition(std::string_view text, std::string_view where);

/// Reads one draw and nothing behind it: "uniform(0, 2 ** 3)", "grid_search(1, 2)".
struct Draw {
  std::string function;
  Distribution distribution;
};
Draw parse_draw(std::string_view text, std::string_view where);

/// Reads "'a text'" with its quotes and escapes, and nothing behind it.
std::string parse_quoted(std::string_view text, std::string_view where);

/// The value for the values of names and draws; nothing if it does not apply. Throws a usage error
/// with only a rule ("division by zero"), for the caller to say of what.
Value evaluate(const Expression& expression,
               std::span<const Value> names,
               std::span<const Value> draws);
Value evaluate(const Node& node, std::span<const Value> names, std::span<const Value> draws);

}  // namespace muster::tune
