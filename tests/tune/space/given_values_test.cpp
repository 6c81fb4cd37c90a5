#include "muster/tune/space/given_values.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

std::map<std::string, Value> given(const std::vector<std::string>& words) {
  const Space space({{"lr", loguniform(1e-4, 1e-1)},
                     {"size", choice({"16", "32", "a=b"})},
                     {"l1", sample_from("2 ** randint(2, 9)")},
                     {"nesterov", choice({true, false})}});
  return values_of_words(space, words);
}

TEST(GivenValues, AreReadAsTheParameterShowsThem) {
  const auto values = given({"lr=1e-2", "size=16", "l1=8", "nesterov=true"});
  EXPECT_EQ(values.at("lr"), Value(0.01));
  EXPECT_EQ(values.at("size"), Value("16")) << "a choice of texts";
  EXPECT_EQ(values.at("l1"), Value(8));
  EXPECT_EQ(values.at("nesterov"), Value(true));
  EXPECT_EQ(given({"size=a=b"}).at("size"), Value("a=b"));
  EXPECT_EQ(given({"l1#0=3"}).at("l1#0"), Value(3)) << "a draw of an expression";
  EXPECT_EQ(given({}).size(), 0);
}

TEST(GivenValues, RefuseWhatIsNoValueOfTheSpace) {
  EXPECT_THAT(refusal_of([] { given({"lt=1"}); }), HasSubstr("did you mean \"lr\"?"));
  EXPECT_THAT(refusal_of([] { given({"lr"}); }), HasSubstr("PARAMETER=VALUE"));
  EXPECT_THAT(refusal_of([] { given({"lr=1", "lr=2"}); }), HasSubstr("given once"));
}

}  // namespace
}  // namespace muster::tune
