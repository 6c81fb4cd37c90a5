#include "muster/tune/space/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Value value_of(const std::string& text, const std::map<std::string, Value>& names = {}) {
  const Expression expression = parse_expression(text, "test");
  std::vector<Value> values;
  for (const std::string& name : expression.names) values.push_back(names.at(name));
  return evaluate(expression, values, {});
}

std::string expression_refusal(const std::string& text) {
  return test::refusal_of([&] { value_of(text); });
}

/// As Python's repr writes it, from tests/golden/tune_space/make_golden.py.
Value python_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = to_int(text)) return *whole;
  return *to_double(text);
}

TEST(Expression, RandomOnesHavePythonsValues) {
  const Json golden = test::read_golden("tune_space");
  std::map<std::string, Value> names;
  for (const auto& [name, value] : golden.at("names").items())
    names[name] = value_from(value, name);
  int refused = 0;
  for (const Json& one : golden.at("expressions")) {
    const std::string text = one.at(0);
    if (one.at(1).is_null()) {
      EXPECT_NE(test::error_of([&] { value_of(text, names); }), test::kNoError) << text;
      ++refused;
    } else {
      EXPECT_EQ(value_of(text, names), python_value(one.at(1))) << text;
    }
  }
  EXPECT_GT(refused, 10);
}

TEST(Expression, PrecedenceIsPythons) {
  EXPECT_EQ(value_of("-2 ** 2"), Value(-4));
  EXPECT_EQ(value_of("2 ** -1"), Value(0.5));
  EXPECT_EQ(value_of("2 ** 3 ** 2"), Value(512));
  EXPECT_EQ(value_of("7 // 2 * 2 + 7 % 2"), Value(7));
  EXPECT_EQ(value_of("-7 // 2"), Value(-4));
  EXPECT_EQ(value_of("-7 % 3"), Value(2));
  EXPECT_EQ(value_of("not 1 == 2 and 1 < 2"), Value(true));
  EXPECT_EQ(value_of("1 == 1.0"), Value(true));
  EXPECT_EQ(value_of("round(2.5) + round(0.125, 2)"), Value(2.12));
  EXPECT_EQ(value_of("max(1, 2.5, -3)"), Value(2.5));
}

TEST(Expression, TextsAreComparedAndLookedUp) {
  EXPECT_EQ(value_of("'a' == \"a\""), Value(true));
  EXPECT_EQ(value_of("'a' < 'b'"), Value(true));
  EXPECT_EQ(value_of("'a' == 1"), Value(false));
  EXPECT_EQ(value_of("x in ('sgd', 'rmsprop')", {{"x", "sgd"}}), Value(true));
  EXPECT_EQ(value_of("x not in ['sgd']", {{"x", "sgd"}}), Value(false));
  EXPECT_EQ(value_of(R"('it\'s \x41\n')"), Value("it's A\n"));
  EXPECT_THAT(expression_refusal("'a' < 1"), HasSubstr("a number is needed (got 'a')"));
  EXPECT_THAT(expression_refusal("'a' + 'b'"), HasSubstr("a number is needed"));
}

TEST(Expression, WhatDoesNotApplySpreads) {
  const Value none;
  EXPECT_EQ(value_of("2 * x", {{"x", none}}), none);
  EXPECT_EQ(value_of("min(1, x)", {{"x", none}}), none);
  EXPECT_EQ(value_of("x > 1 and true", {{"x", none}}), none);
  // The side that is not needed is not looked at.
  EXPECT_EQ(value_of("1 > 2 and x > 1", {{"x", none}}), Value(false));
  EXPECT_EQ(value_of("1 < 2 or x > 1", {{"x", none}}), Value(true));
}

TEST(Expression, WhatHasNoValueSaysWhy) {
  EXPECT_THAT(expression_refusal("1 / 0"), HasSubstr("division by zero"));
  EXPECT_THAT(expression_refusal("1.5 % 0"), HasSubstr("division by zero"));
  EXPECT_THAT(expression_refusal("0 ** -1"), HasSubstr("division by zero"));
  EXPECT_THAT(expression_refusal("(-2) ** 0.5"), HasSubstr("no real number"));
  EXPECT_THAT(expression_refusal("10.0 ** 400"), HasSubstr("too large"));
  EXPECT_THAT(expression_refusal("2 ** 63"), HasSubstr("too large for a whole number of 64 bits"));
  EXPECT_THAT(expression_refusal("round(1.5, -1)"), HasSubstr("0 to 20 digits"));
  EXPECT_THAT(expression_refusal("not 3"), HasSubstr("true or false is needed (got 3)"));
  EXPECT_EQ(value_of("-9223372036854775807 - 1"), Value(INT64_MIN));
  EXPECT_THAT(expression_refusal("(-9223372036854775807 - 1) // -1"), HasSubstr("64 bits"));
  EXPECT_EQ(value_of("(-9223372036854775807 - 1) % -1"), Value(0));
}

TEST(Expression, DrawsAreKeptInOrderWithTheirBounds) {
  const Expression e = parse_expression("x * uniform(0, 2 ** 3) + choice(-1, 'a', True)", "test");
  EXPECT_THAT(e.names, ElementsAre("x"));
  ASSERT_EQ(e.draws.size(), 2U);
  EXPECT_EQ(e.draws[0], Distribution(FloatDistribution{.low = 0, .high = 8}));
  EXPECT_EQ(e.draws[1], Distribution(CategoricalDistribution{{-1, "a", true}}));
}

TEST(Expression, FaultsAreShownWithTheirColumn) {
  EXPECT_THAT(expression_refusal("1 +"),
              HasSubstr("test: a value is missing (got 1 +, at column 4)"));
  EXPECT_THAT(expression_refusal("(1"), HasSubstr("\")\" is missing"));
  EXPECT_THAT(expression_refusal("1 2"),
              HasSubstr("the expression ends here (got 1 2, at column 3)"));
  EXPECT_THAT(expression_refusal("a = 1"), HasSubstr("equal is written =="));
  EXPECT_THAT(expression_refusal("1 < 2 < 3"), HasSubstr("joined by `and`"));
  EXPECT_THAT(expression_refusal("mxa(1, 2)"), HasSubstr("unknown function \"mxa\""));
  EXPECT_THAT(expression_refusal("mxa(1, 2)"), HasSubstr("did you mean \"max\"?"));
  EXPECT_THAT(expression_refusal("max(1)"), HasSubstr("takes two or more"));
  EXPECT_THAT(expression_refusal("uniform(0, a)"),
              HasSubstr("bounds and choices of a draw are constants"));
  EXPECT_THAT(expression_refusal("uniform(0, randint(1, 2))"),
              HasSubstr("stands in no other draw"));
  EXPECT_THAT(expression_refusal("2 * grid_search(1, 2)"), HasSubstr("a parameter's whole domain"));
  EXPECT_THAT(expression_refusal("99999999999999999999"), HasSubstr("a whole number has 64 bits"));
  EXPECT_THAT(expression_refusal("1e999"), HasSubstr("fits into a double"));
  EXPECT_THAT(expression_refusal("'a"), HasSubstr("a quote has an end"));
  EXPECT_THAT(expression_refusal("'\\q'"), HasSubstr("behind a backslash"));
  EXPECT_THAT(expression_refusal("2x"), HasSubstr("followed by no letter"));
  EXPECT_THAT(expression_refusal("2 ^ 3"), HasSubstr("an expression has numbers"));
  EXPECT_THAT(expression_refusal(std::string(100, '(')), HasSubstr("brackets and signs deep"));
  EXPECT_THAT(expression_refusal(std::string(100, '-') + '1'),
              HasSubstr("brackets and signs deep"));
  std::string sum = "1";
  for (int i = 0; i < 3000; ++i) sum += "+1";
  EXPECT_THAT(expression_refusal(sum), HasSubstr("at most 2000 operations"));
  EXPECT_THAT(test::refusal_of([] { parse_condition("randint(0, 2) == 1", "test"); }),
              HasSubstr("a condition draws nothing"));
}

}  // namespace
}  // namespace muster::tune
