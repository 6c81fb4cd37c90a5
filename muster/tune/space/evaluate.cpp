// Values of expressions, with Python's arithmetic. See Note [Expressions].
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/distribution.h"
#include "muster/tune/space/expression.h"

namespace muster::tune {
namespace {

using Op = Node::Op;

[[noreturn]] void refuse_operation(std::string rule, const std::string& value = "") {
  throw usage_error({.rule = std::move(rule), .value = value});
}

double finite(double value) {
  if (std::isnan(value)) refuse_operation("the result is no real number");
  if (std::isinf(value)) refuse_operation("the result is too large");
  return value;
}

void check_overflow(bool overflow) {
  if (overflow) refuse_operation("the result is too large for a whole number of 64 bits");
}

/// True and false count as 1 and 0.
Value number(const Value& value) {
  if (value.is_bool()) return value.as_bool() ? 1 : 0;
  if (!value.is_number()) refuse_operation("a number is needed", literal(value));
  return value;
}

bool truth(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  refuse_operation("true or false is needed", literal(value));
}

int64_t whole_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) check_overflow(__builtin_mul_overflow(result, base, &result));
    exponent /= 2;
    if (exponent > 0) check_overflow(__builtin_mul_overflow(base, base, &base));
  }
  return result;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) {
    check_overflow(a == INT64_MIN);
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Value whole_arithmetic(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Op::kAdd:
      check_overflow(__builtin_add_overflow(a, b, &out));
      return out;
    case Op::kSubtract:
      check_overflow(__builtin_sub_overflow(a, b, &out));
      return out;
    case Op::kMultiply:
      check_overflow(__builtin_mul_overflow(a, b, &out));
      return out;
    case Op::kDivide:
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Op::kFloorDivide:
      return floor_quotient(a, b);
    case Op::kModulo:
      return b == -1 ? 0 : a - floor_quotient(a, b) * b;
    default:
      if (b < 0) return finite(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return whole_power(a, b);
  }
}

/// The remainder has the sign of the divisor, and quotient · b + remainder is a as nearly as can
/// be.
struct FloorDivision {
  double quotient, remainder;
};
FloorDivision floor_division(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  const double below = std::floor(quotient);
  return {quotient - below > 0.5 ? below + 1 : below, remainder};
}

Value real_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return finite(a + b);
    case Op::kSubtract:
      return finite(a - b);
    case Op::kMultiply:
      return finite(a * b);
    case Op::kDivide:
      return finite(a / b);
    case Op::kFloorDivide:
      return finite(floor_division(a, b).quotient);
    case Op::kModulo:
      return floor_division(a, b).remainder;
    default:
      return finite(std::pow(a, b));
  }
}

Value arithmetic(Op op, const Value& left, const Value& right) {
  const Value a = number(left), b = number(right);
  const bool divides = op == Op::kDivide || op == Op::kFloorDivide || op == Op::kModulo;
  if ((divides && b.as_double() == 0) ||
      (op == Op::kPower && a.as_double() == 0 && b.as_double() < 0))
    refuse_operation("division by zero");
  if (a.is_int() && b.is_int()) return whole_arithmetic(op, a.as_int(), b.as_int());
  return real_arithmetic(op, a.as_double(), b.as_double());
}

/// Below, at or above zero as `a` is below, equal to or above `b`.
int order(const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return a.as_text().compare(b.as_text());
  const Value x = number(a), y = number(b);
  if (same_value(x, y)) return 0;
  const auto wide = [](const Value& value) {
    return value.is_int() ? static_cast<long double>(value.as_int()) : value.as_double();
  };
  return wide(x) < wide(y) ? -1 : 1;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_text() || b.is_text()) return a == b;
  return order(a, b) == 0;
}

bool compare(Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEqual:
      return equal(a, b);
    case Op::kNotEqual:
      return !equal(a, b);
    case Op::kLess:
      return order(a, b) < 0;
    case Op::kLessEqual:
      return order(a, b) <= 0;
    case Op::kGreater:
      return order(a, b) > 0;
    default:
      return order(a, b) >= 0;
  }
}

/// To the nearest, a tie to the even one. With digits: the nearest decimal to the exact value,
/// which is how Python (and printf) rounds.
Value rounded(const Value& value, std::optional<int64_t> digits) {
  const Value x = number(value);
  if (digits && (*digits < 0 || *digits > 20))
    refuse_operation("round takes 0 to 20 digits", std::to_string(*digits));
  if (x.is_int()) return x;
  if (digits) {
    const std::string text = fixed(x.as_double(), static_cast<int>(*digits));
    // From 2^53 on a double is whole. (And fixed() cuts what is longer than its buffer.)
    return std::abs(x.as_double()) < 0x1p53 ? std::strtod(text.c_str(), nullptr) : x.as_double();
  }
  const double whole = std::nearbyint(x.as_double());
  if (whole < -0x1p63 || whole >= 0x1p63) check_overflow(true);
  return static_cast<int64_t>(whole);
}

class Evaluator {
 public:
  Evaluator(std::span<const Value> names, std::span<const Value> draws)
      : names_(names), draws_(draws) {}

  Value operator()(const Node& node) const {
    switch (node.op) {
      case Op::kConstant:
        return node.value;
      case Op::kName:
        return names_[node.index];
      case Op::kDraw:
        return draws_[node.index];
      case Op::kAnd:
      case Op::kOr:
        return connective(node);
      default:
        return operation(node);
    }
  }

 private:
  Value connective(const Node& node) const {
    const Value left = (*this)(node.children[0]);
    if (left.is_none() || truth(left) == (node.op == Op::kOr)) return left;
    const Value right = (*this)(node.children[1]);
    return right.is_none() ? right : Value(truth(right));
  }

  Value operation(const Node& node) const {
    std::vector<Value> values;
    for (const Node& child : node.children) {
      values.push_back((*this)(child));
      if (values.back().is_none()) return {};
    }
    switch (node.op) {
      case Op::kNegative:
        return arithmetic(Op::kSubtract, values[0].is_double() ? Value(-0.0) : Value(0), values[0]);
      case Op::kNot:
        return !truth(values[0]);
      case Op::kMin:
        return *std::min_element(values.begin(), values.end(), less);
      case Op::kMax:
        return *std::max_element(values.begin(), values.end(), less);
      case Op::kRound:
        return rounded(values[0],
                       values.size() > 1 ? std::optional(values[1].as_int()) : std::nullopt);
      case Op::kIn:
        return std::any_of(values.begin() + 1, values.end(), [&](const Value& one) {
          return equal(values[0], one);
        });
      default:
        return node.op >= Op::kEqual ? Value(compare(node.op, values[0], values[1]))
                                     : arithmetic(node.op, values[0], values[1]);
    }
  }

  static bool less(const Value& a, const Value& b) { return order(a, b) < 0; }

  std::span<const Value> names_, draws_;
};

}  // namespace

Value evaluate(const Node& node, std::span<const Value> names, std::span<const Value> draws) {
  return Evaluator(names, draws)(node);
}

Value evaluate(const Expression& expression,
               std::span<const Value> names,
               std::span<const Value> draws) {
  return evaluate(expression.root, names, draws);
}

}  // namespace muster::tune
