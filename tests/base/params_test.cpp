#include "muster/base/params.h"

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct Options {
  int64_t hidden = 128;
  double dropout = 0.1;
  bool bias = true;
  std::string norm = "batch";
};

constexpr Param kParams[] = {
    param<&Options::hidden>("hidden", "width"),
    param<&Options::dropout>("dropout", "share that is dropped"),
    param<&Options::bias>("bias", "add a bias"),
    param<&Options::norm>("norm", "kind of norm"),
};

std::string params_refusal(const std::string& text) {
  try {
    resolve_params<Options>(kParams, parse_param_values(text), "model mlp");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(Params, FillTheOptionsAndKeepTheDefaults) {
  const auto options = resolve_params<Options>(
      kParams, parse_param_values("hidden=64, bias=no,norm=a=b"), "model mlp");
  EXPECT_EQ(options.hidden, 64);
  EXPECT_EQ(options.dropout, 0.1);
  EXPECT_FALSE(options.bias);
  EXPECT_EQ(options.norm, "a=b");
}

TEST(Params, ShowValuesAsTheyWouldBeTyped) {
  const Options defaults;
  EXPECT_EQ(kParams[0].show(&defaults), "128");
  EXPECT_EQ(kParams[1].show(&defaults), "0.1");
  EXPECT_EQ(kParams[2].show(&defaults), "true");
  EXPECT_EQ(kParams[0].type, "int");
}

struct WiderOptions : Options {
  WiderOptions() { hidden = 256; }
};

TEST(Params, OfABaseWithAnotherDefaultAreRefused) {
  constexpr Param kWider[] = {param<&WiderOptions::hidden>("hidden", "width")};
  ASSERT_EQ(kWider[0].default_value(), "128") << "what a list would show";
  EXPECT_THAT(test::refusal_of([&] { resolve_params<WiderOptions>(kWider, {}, "model wide"); },
                               ErrorKind::kInternal),
              HasSubstr("model wide parameter \"hidden\": its default is that of its struct, 128"));
}

TEST(Params, SuggestTheNearestName) {
  EXPECT_THAT(params_refusal("hiden=3"), HasSubstr("did you mean \"hidden\"?"));
}

TEST(Params, NameOwnerParameterAndValueOfABadOne) {
  EXPECT_EQ(params_refusal("hidden=many"),
            "model mlp parameter \"hidden\": a whole number is needed (got \"many\")");
  EXPECT_THAT(params_refusal("dropout="), HasSubstr("a number is needed"));
  EXPECT_THAT(params_refusal("dropout=1e400"), HasSubstr("a number of at most 1.8e308"));
  EXPECT_THAT(params_refusal("dropout=-1e-400"), HasSubstr("a number of at most 1.8e308"));
  for (const std::string value : {"nan", "inf", "-inf", "1e999"})
    EXPECT_THAT(params_refusal("dropout=" + value), HasSubstr("is needed (got \"" + value));
  EXPECT_THAT(params_refusal("bias=maybe"), HasSubstr("true or false is needed"));
}

TEST(Params, RefuseWhatIsNoNumberOrHasNoPlaceInOne) {
  for (const char* number : {"nan", "-nan", "inf", "-inf"})
    EXPECT_THAT(params_refusal(concat("dropout=", number)), HasSubstr("a finite number is needed"));
  for (const char* number : {"9223372036854775808", "-9223372036854775809", "99999999999999999999"})
    EXPECT_THAT(params_refusal(concat("hidden=", number)),
                HasSubstr("from -9223372036854775808 to 9223372036854775807"));
  EXPECT_EQ(resolve_params<Options>(
                kParams, parse_param_values("hidden=9223372036854775807"), "model mlp")
                .hidden,
            std::numeric_limits<int64_t>::max());
}

TEST(Params, RefuseMalformedLists) {
  EXPECT_THAT(params_refusal("hidden"), HasSubstr("each part is name=value"));
  EXPECT_THAT(params_refusal("=3"), HasSubstr("each part is name=value"));
  EXPECT_THAT(test::error_of([] { parse_param_values("drop=\"a,b\""); }),
              HasSubstr("name=[\"a,b\"]"));
  EXPECT_THAT(params_refusal("hidden=1,hidden=2"), HasSubstr("each name is given once"));
  EXPECT_THAT(params_refusal("name=[a"), HasSubstr("each [ has its ]"));
  EXPECT_THAT(params_refusal("name=a]"), HasSubstr("each [ has its ]"));
}

TEST(Params, NoNameInQuotesEndsInAnotherParameter) {
  const ParamValues values = parse_param_values("b=[\"]x\"],a=[c\"]");
  EXPECT_EQ(values.at("b"), "[\"]x\"]");
  EXPECT_EQ(values.at("a"), "[c\"]") << "a quote within a name is a letter";
  for (const char* text : {"a=[\"c]", "b=[\"]x\"],a=[\"c]", "a=[d, \"c]"})
    EXPECT_THAT(params_refusal(text), HasSubstr("a name that begins with a quote"));
}

struct ListOptions {
  std::vector<double> scale{0.08, 1};
  std::vector<int64_t> size;
  std::string name = "a";
};
constexpr Param kListParams[] = {
    param<&ListOptions::scale>("scale", "least and most"),
    param<&ListOptions::size>("size", "one side, or both"),
    param<&ListOptions::name>("name", "any"),
};

TEST(Params, TakeListsInBrackets) {
  const auto read = [](const char* text) {
    return resolve_params<ListOptions>(kListParams, parse_param_values(text), "transform crop");
  };
  const ListOptions both = read("scale=[0.5, 2],size=[3,-4],name=b");
  EXPECT_THAT(both.scale, ::testing::ElementsAre(0.5, 2));
  EXPECT_THAT(both.size, ::testing::ElementsAre(3, -4));
  EXPECT_EQ(both.name, "b");
  EXPECT_EQ(spec_text("crop", kListParams, both), "crop:scale=[0.5,2],size=[3,-4],name=b");
  EXPECT_THAT(read("size=7").size, ::testing::ElementsAre(7));
  EXPECT_EQ(spec_text("crop", kListParams, read("size=7")), "crop:size=7");
  EXPECT_TRUE(read("scale=none").scale.empty());
  EXPECT_TRUE(read("scale=[]").scale.empty());
  EXPECT_EQ(kListParams[0].default_value(), "[0.08,1]");
  EXPECT_EQ(kListParams[1].default_value(), "none");
  EXPECT_EQ(kListParams[0].type, "floats");
}

TEST(Params, RefuseBracketsAloneAndWhatIsNoNumberInThem) {
  const auto refused = [](const char* text) {
    return test::error_of([&] {
      resolve_params<ListOptions>(kListParams, parse_param_values(text), "transform crop");
    });
  };
  EXPECT_THAT(refused("scale=[1,2"), HasSubstr("each [ has its ], and each ] its ["));
  EXPECT_THAT(refused("scale=1],size=[2"), HasSubstr("each [ has its ]"));
  EXPECT_THAT(refused("scale=[1,,2]"), HasSubstr("parameter \"scale\": a number is needed"));
  EXPECT_THAT(refused("size=[1,2.5]"), HasSubstr("a whole number is needed (got \"2.5\")"));
  const ListOptions comma{.name = "a,b"};
  EXPECT_THAT(test::error_of([&] { spec_text("crop", kListParams, comma); }),
              HasSubstr("no comma outside brackets"));
}

TEST(Params, OfASpecStandBehindItsFirstColon) {
  const Spec spec = parse_spec("mlp:hidden=64,text=a:b");
  EXPECT_EQ(spec.name, "mlp");
  EXPECT_EQ(spec.params, (ParamValues{{"hidden", "64"}, {"text", "a:b"}}));
  EXPECT_EQ(parse_spec("mlp").name, "mlp");
  EXPECT_TRUE(parse_spec("mlp").params.empty());
  EXPECT_EQ(parse_spec("mlp:").name, "mlp");
  EXPECT_THROW(parse_spec("mlp:hidden"), Error);
}

TEST(Params, EmptyTextIsNoParameters) { EXPECT_TRUE(parse_param_values("  ").empty()); }

}  // namespace
}  // namespace muster
