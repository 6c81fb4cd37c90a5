#include "muster/tune/space/domain.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

std::string domain_refusal(const std::string& text) {
  return refusal_of([&] { Domain::parse(text, "key \"lr\""); });
}

TEST(Domain, ReadsWhatItWrites) {
  for (const char* text : {"uniform(-1, 2.5)",
                           "loguniform(1e-04, 0.1)",
                           "quniform(0, 1, 0.25)",
                           "qloguniform(1, 5, 1)",
                           "randint(2, 9)",
                           "qrandint(0, 9, 3)",
                           "lograndint(1, 1000)",
                           "qlograndint(16, 1024, 16)",
                           "randn(0, 1)",
                           "qrandn(0, 2, 0.5)",
                           "choice(2, 4.0, true, 'adam')",
                           R"(choice('it\'s', '\x0a'))",
                           "grid_search(1, 2)",
                           "sample_from(2 ** randint(2, 9))",
                           "adam",
                           "'f(x)'"})
    EXPECT_EQ(Domain::parse(text, "test").text(), text);
}

TEST(Domain, TextAndFunctionsMeanTheSame) {
  const auto distribution = [](const char* text) { return Domain::parse(text, "").distribution(); };
  EXPECT_EQ(distribution("randint(2, 9)"), Distribution(IntDistribution{.low = 2, .high = 8}));
  EXPECT_EQ(distribution("randint(2, 9)"), randint(2, 9).distribution());
  EXPECT_EQ(distribution("qrandint(0, 10, 3)"),
            Distribution(IntDistribution{.low = 0, .high = 9, .step = 3}));
  EXPECT_EQ(distribution("qrandint(-7, 8, 3)"), qrandint(-6, 6, 3).distribution());
  EXPECT_EQ(distribution("qrandint(0, 10, 1)"), randint(0, 10).distribution());  // as Ray
  EXPECT_EQ(distribution("qlograndint(5, 100, 10)"),
            Distribution(IntDistribution{.low = 10, .high = 100, .log = true, .step = 10}));
  EXPECT_EQ(distribution("qlograndint(1, 10, 1)"), lograndint(1, 10).distribution());
  EXPECT_EQ(distribution("choice([1, 2])"), choice({1, 2}).distribution());  // Ray's spelling
  EXPECT_EQ(distribution("loguniform(10 ** -4, 1 / 10)"), loguniform(1e-4, 1e-1).distribution());
  EXPECT_EQ(distribution("randn()"), randn().distribution());
  EXPECT_EQ(Domain::parse(" grid_search('a') ", "").kind(), Domain::Kind::kGrid);
  EXPECT_EQ(Domain::parse("sample_from(a + 1)", "").expression(), "a + 1");
}

TEST(Domain, ATextWithoutBracketsOrInQuotesIsAConstant) {
  EXPECT_EQ(Domain::parse("adam", "").constant(), Value("adam"));
  EXPECT_EQ(Domain::parse("3", "").constant(), Value("3"));
  EXPECT_EQ(Domain::parse("'a (b)'", "").constant(), Value("a (b)"));
  EXPECT_EQ(Domain(10).constant(), Value(10));
  EXPECT_EQ(Domain("f(x)").text(), "'f(x)'");
  EXPECT_THAT(domain_refusal("a (b)"), HasSubstr("with quotes of its own"));
}

TEST(Domain, RefusesWhatCannotBeDrawn) {
  EXPECT_THAT(domain_refusal("loguniorm(1, 2)"),
              HasSubstr("key \"lr\": unknown function \"loguniorm\""));
  EXPECT_THAT(domain_refusal("loguniorm(1, 2)"), HasSubstr("did you mean \"loguniform\"?"));
  EXPECT_THAT(domain_refusal("uniform(1)"), HasSubstr("it is uniform(LOW, HIGH)"));
  EXPECT_THAT(domain_refusal("uniform(1, 0)"),
              HasSubstr("key \"lr\": uniform(1, 0): the lower bound comes first"));
  EXPECT_THAT(domain_refusal("uniform(1, 1)"), HasSubstr("hint: a constant is written as itself"));
  EXPECT_THAT(domain_refusal("loguniform(0, 1)"),
              HasSubstr("a logarithm is taken of numbers above 0"));
  EXPECT_THAT(domain_refusal("loguniform(-4, -1)"), HasSubstr("not their logarithms"));
  EXPECT_THAT(domain_refusal("quniform(0, 1, 0.3)"),
              HasSubstr("both bounds are multiples of q; 1 is none"));
  EXPECT_THAT(domain_refusal("quniform(0, 1, -1)"), HasSubstr("quniform(0, 1, -1): q is above 0"));
  EXPECT_THAT(domain_refusal("qloguniform(0.5, 1, 0)"),
              HasSubstr("qloguniform(0.5, 1, 0): q is above 0"));
  EXPECT_THAT(domain_refusal("randint(3, 3)"), HasSubstr("below the upper one"));
  EXPECT_THAT(domain_refusal("randint(0.5, 3)"), HasSubstr("a whole number is needed (got 0.5)"));
  EXPECT_THAT(domain_refusal("qrandint(1, 2, 3)"), HasSubstr("there is a multiple of q"));
  EXPECT_THAT(domain_refusal("randn(0, 0)"), HasSubstr("standard deviation"));
  EXPECT_THAT(domain_refusal("choice()"), HasSubstr("it is choice(A, B, …)"));
  EXPECT_THAT(domain_refusal("choice(adam)"), HasSubstr("a text is written 'adam'"));
  EXPECT_THAT(domain_refusal("uniform(0, 1) * 2"), HasSubstr("sample_from(2 ** randint(2, 9))"));
  EXPECT_THAT(domain_refusal("2 ** randint(2, 9)"), HasSubstr("sample_from(2 ** randint(2, 9))"));
  EXPECT_THAT(domain_refusal("sample_from(2 **)"), HasSubstr("a value is missing"));
  EXPECT_THAT(domain_refusal("randint(0, 2 ** 60)"), HasSubstr("within 2^53"));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(refusal_of([] { uniform(0, kInfinity); }), HasSubstr("finite"));
  EXPECT_THAT(refusal_of([] { uniform(-1.7e308, 1.7e308); }), HasSubstr("width"));
  EXPECT_THAT(refusal_of([] { uniform(std::nan(""), 1); }), HasSubstr("finite"));
  EXPECT_THAT(refusal_of([] { choice({1, kInfinity}); }), HasSubstr("finite"));
  EXPECT_THAT(refusal_of([] { grid_search({}); }), HasSubstr("at least one value"));
  EXPECT_THAT(refusal_of([] { choice({Value()}); }), HasSubstr("not nothing"));
  EXPECT_THAT(refusal_of([] { sample_from(SampleFunction()); }), HasSubstr("a function to call"));
}

}  // namespace
}  // namespace muster::tune
