#include "muster/tune/space/space.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "muster/tune/space/unit_axis.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using test::refusal_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

std::string space_refusal(std::vector<Parameter> parameters) {
  return refusal_of([&] { Space(std::move(parameters)); });
}

const Space& classic() {
  static const Space space{{"lr", loguniform(1e-4, 1e-1)},
                           {"l1", sample_from("2 ** randint(2, 9)")},
                           {"batch_size", choice({2, 4, 8, 16})},
                           {"epochs", 10}};
  return space;
}

const Space& conditional() {
  static const Space space(std::vector<Parameter>{
      {"optimizer", choice({"sgd", "adam"}), ""},
      {"momentum", uniform(0.8, 0.99), "optimizer == 'sgd'"},
      {"nesterov", choice({true, false}), "momentum > 0.85"},
      {"beta", sample_from("1 - 10 ** -randint(1, 4)"), "optimizer == 'adam'"}});
  return space;
}

TEST(Space, HasADimensionForEachDraw) {
  std::vector<std::string> names;
  for (const Dimension& dimension : classic().dimensions()) names.push_back(dimension.name);
  EXPECT_THAT(names, ElementsAre("lr", "l1#0", "batch_size"));
  EXPECT_EQ(classic().dimensions()[1].distribution,
            Distribution(IntDistribution{.low = 2, .high = 8}));
  EXPECT_THAT(classic().index_of("epochs"), Optional(3));
  EXPECT_EQ(classic().index_of("l1#0"), std::nullopt);
  EXPECT_TRUE(Space().parameters().empty());
}

TEST(Space, APointResolvesToTheValuesThatAProgramSees) {
  EXPECT_THAT(classic().resolve({0.01, 6, 3}), ElementsAre(0.01, 64, 16, 10));
  EXPECT_EQ(json_text(to_json(classic(), classic().resolve({0.5, 2, 0}))),
            R"({"lr":0.5,"l1":4,"batch_size":2,"epochs":10})");
  EXPECT_THAT(refusal_of([] { classic().resolve({0.01, 6}); }), HasSubstr("3 dimensions"));
  EXPECT_THAT(refusal_of([] {
                classic().resolve({0.01, 6, 4});
              }),
              HasSubstr("parameter \"batch_size\": it has 4 choices (got number 4)"));
  EXPECT_THAT(refusal_of([] {
                classic().resolve({0.01, 6.5, 3});
              }),
              HasSubstr("parameter \"l1#0\": a whole number is needed"));
  EXPECT_THAT(refusal_of([] {
                classic().resolve({std::nan(""), 6, 3});
              }),
              HasSubstr("parameter \"lr\": a finite number"));
}

TEST(Space, NestedNamesBecomeNestedObjects) {
  const Space space{{"optimizer.name", "sgd"}, {"optimizer.lr", 0.5}, {"seed", 1}};
  EXPECT_EQ(json_text(to_json(space, space.resolve({}))),
            R"({"optimizer":{"name":"sgd","lr":0.5},"seed":1})");
}

TEST(Space, DrawsDependOnSeedTrialAndNameOnly) {
  const Space more{{"another", randint(0, 5)},
                   {"lr", loguniform(1e-4, 1e-1)},
                   {"batch_size", choice({2, 4, 8, 16})}};
  for (int64_t number : {0, 1, 99, 1000000}) {
    const Point point = classic().draw({}, 5, number);
    EXPECT_EQ(more.draw({}, 5, number)[1], point[0]);
    EXPECT_EQ(more.draw({}, 5, number)[2], point[2]);
    EXPECT_EQ(classic().draw_dimension(0, 5, number), point[0]);
    EXPECT_NE(classic().draw_dimension(0, 5, number, 1), point[0]);
    EXPECT_NE(classic().draw_dimension(0, 6, number), point[0]);
    EXPECT_NE(classic().draw_dimension(0, 5, number + 1), point[0]);
  }
}

TEST(Space, StreamsAreNotCorrelated) {
  const Space space{{"a", uniform(-1, 1)}, {"b", uniform(-1, 1)}};
  constexpr int64_t kTrials = 20000;
  const auto correlation = [&](auto&& x, auto&& y) {
    double sum = 0;
    for (int64_t n = 0; n < kTrials; ++n) sum += x(n) * y(n);
    return 3 * sum / kTrials;  // the variance of uniform(-1, 1) is 1/3
  };
  const auto a = [&](int64_t n) { return space.draw_dimension(0, 1, n); };
  const double limit = 4 / std::sqrt(double(kTrials));
  EXPECT_LT(std::abs(correlation(a, [&](auto n) { return space.draw_dimension(1, 1, n); })), limit);
  EXPECT_LT(std::abs(correlation(a, [&](auto n) { return a(n + 1); })), limit);
  EXPECT_LT(std::abs(correlation(a, [&](auto n) { return space.draw_dimension(0, 2, n); })), limit);
  EXPECT_LT(std::abs(correlation(a, [&](auto n) { return space.draw_dimension(0, 1, n, 1); })),
            limit);
}

TEST(Space, DrawFillsOnlyWhatIsOpenAndNoGrid) {
  const Space space{{"a", grid_search({1, 2})}, {"b", uniform(0, 1)}, {"c", uniform(0, 1)}};
  const Point point = space.draw({std::nan(""), 0.5, std::nan("")}, 1, 0);
  EXPECT_TRUE(std::isnan(point[0]));
  EXPECT_EQ(point[1], 0.5);
  EXPECT_FALSE(std::isnan(point[2]));
  EXPECT_THAT(space.grid_dimensions(), ElementsAre(0));
}

TEST(Space, ConditionsLeaveOutWhatDoesNotApply) {
  const Space& space = conditional();
  EXPECT_THAT(space.resolve({0, 0.9, 1, 2}), ElementsAre("sgd", 0.9, false, Value()));
  EXPECT_THAT(space.resolve({0, 0.82, 1, 2}), ElementsAre("sgd", 0.82, Value(), Value()));
  EXPECT_THAT(space.resolve({1, 0.9, 1, 2}), ElementsAre("adam", Value(), Value(), 0.99));
  // Inactive dimensions are not looked at.
  EXPECT_THAT(space.resolve({1, std::nan(""), 77, 2}), ElementsAre("adam", Value(), Value(), 0.99));
  const Point point = space.with_conditions({1, 0.9, 1, 2});
  EXPECT_TRUE(std::isnan(point[1]) && std::isnan(point[2]) && point[3] == 2);
  EXPECT_EQ(json_text(to_json(space, space.resolve(point))), R"({"optimizer":"adam","beta":0.99})");
}

TEST(Space, OrderOfDeclarationDoesNotMatter) {
  const Space space(std::vector<Parameter>{
      {"b", sample_from("a * 2"), "c == 1"}, {"a", randint(3, 4), ""}, {"c", choice({1}), ""}});
  EXPECT_THAT(space.resolve({3, 0}), ElementsAre(6, 3, 1));
}

TEST(Space, AFunctionSeesWhatIsResolvedAndIsNamedAsOpaque) {
  int calls = 0;
  const SampleFunction twice = [&](const Resolved& config) {
    ++calls;
    return Value(config.at("b").as_int() * 2);
  };
  const Space space{{"a", sample_from(twice)}, {"c", sample_from("a + 1")}, {"b", randint(1, 9)}};
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(space.resolve({4}), ElementsAre(8, 9, 4));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(space.opaque(), ElementsAre("a", "c"));
  EXPECT_EQ(space.with_conditions({4}), Point{4});
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(classic().opaque(), IsEmpty());
  EXPECT_EQ(space.image_of(1), std::nullopt);
  EXPECT_THAT(space_refusal({{"f", sample_from(twice), ""}, {"b", 1, ""}, {"x", 1, "f == 2"}}),
              HasSubstr("a condition depends on no C++ function"));
}

TEST(Space, AFiniteImageIsListed) {
  EXPECT_THAT(classic().image_of(1), Optional(ElementsAre(4, 8, 16, 32, 64, 128, 256)));
  EXPECT_EQ(classic().image_of(0), std::nullopt);
  EXPECT_THAT(classic().image_of(3), Optional(ElementsAre(10)));
  EXPECT_THAT(conditional().image_of(2), Optional(ElementsAre(true, false)));
  EXPECT_THAT(conditional().image_of(3), Optional(ElementsAre(0.9, 0.99, 0.999)));
  const Space space{{"a", randint(0, 64)},
                    {"b", randint(0, 65)},
                    {"c", sample_from("a % 2 + b % 3")},
                    {"d", quniform(0, 0.3, 0.1)},
                    {"e", sample_from("max(a, 60) + 0 * b")}};
  EXPECT_EQ(space.image_of(0)->size(), 64U);
  EXPECT_EQ(space.image_of(1), std::nullopt);
  EXPECT_EQ(space.image_of(2), std::nullopt) << "64 * 65 points are too many to look at";
  EXPECT_THAT(space.image_of(3), Optional(ElementsAre(0.0, 0.1, 0.2, 0.3)));
  EXPECT_THAT(refusal_of([&] { space.image_of(5); }), HasSubstr("the space has 5"));
}

TEST(Space, ValuesGiveTheirPointBack) {
  const auto nan = [](double value) { return std::isnan(value); };
  EXPECT_EQ(classic().point_of({{"lr", 0.01}, {"l1", 64}, {"batch_size", 16}}),
            (Point{0.01, 6, 3}));
  EXPECT_EQ(classic().point_of({{"l1#0", 3}, {"lr", 0.01}, {"batch_size", 16.0}, {"epochs", 10}}),
            (Point{0.01, 3, 3}));
  EXPECT_TRUE(nan(classic().point_of({{"l1", 64}})[0]));
  const auto refused = [](const std::map<std::string, Value>& values) {
    return refusal_of([&] { classic().point_of(values); });
  };
  EXPECT_THAT(refused({{"rl", 0.1}}), HasSubstr("no such parameter\nhint: did you mean \"lr\"?"));
  EXPECT_THAT(refused({{"lr", 0.5}}),
              HasSubstr("the value is none of loguniform(1e-04, 0.1) (got 0.5)"));
  EXPECT_THAT(refused({{"lr", "a"}}), HasSubstr("none of"));
  EXPECT_THAT(refused({{"l1", 65}}), HasSubstr("none of sample_from(2 ** randint(2, 9)) (got 65)"));
  EXPECT_THAT(refused({{"epochs", 11}}), HasSubstr("it is always 10 (got 11)"));
  const Space computed{{"a", uniform(0, 1)},
                       {"b", sample_from("a * 2")},
                       {"c", sample_from("uniform(0, 1) + 1")},
                       {"d", sample_from("a + randint(0, 9)")}};
  EXPECT_EQ(computed.point_of({{"a", 0.5}, {"b", 1.0}, {"d", 3.5}})[2], 3);
  EXPECT_THAT(refusal_of([&] { computed.point_of({{"b", 1}}); }), HasSubstr("hint: give a too"));
  EXPECT_THAT(refusal_of([&] { computed.point_of({{"a", 0.5}, {"b", 2}}); }), HasSubstr("none of"));
  EXPECT_THAT(refusal_of([&] {
                computed.point_of({{"c", 1.5}});
              }),
              HasSubstr("give the draw itself: \"c#0\""));
}

TEST(Space, EveryPointThatIsDrawnComesBack) {
  for (int64_t number = 0; number < 200; ++number) {
    const Space& space = number % 2 ? classic() : conditional();
    const Point point = space.with_conditions(space.draw({}, 3, number));
    const Values values = space.resolve(point);
    std::map<std::string, Value> by_name;
    for (size_t p = 0; p < values.size(); ++p) by_name[space.parameters()[p].name] = values[p];
    const Point again = space.point_of(by_name);
    for (size_t d = 0; d < point.size(); ++d)
      EXPECT_TRUE(again[d] == point[d] || (std::isnan(again[d]) && std::isnan(point[d])));
  }
}

TEST(Space, RefusesNamesThatCannotBe) {
  EXPECT_THAT(space_refusal({{"", 1, ""}}), HasSubstr("parameter \"\": a name"));
  EXPECT_THAT(space_refusal({{"a..b", 1, ""}}), HasSubstr("has a letter"));
  EXPECT_THAT(space_refusal({{"a b", 1, ""}}), HasSubstr("no blanks"));
  EXPECT_THAT(space_refusal({{"a{", 1, ""}}), HasSubstr("no blanks"));
  EXPECT_THAT(space_refusal({{"a", 1, ""}, {"a", 2, ""}}), HasSubstr("given once"));
  EXPECT_THAT(space_refusal({{"a", 1, ""}, {"a-b", 1, ""}, {"a.b", 2, ""}}),
              HasSubstr("a value or a group of others, not both (got a.b)"));
  EXPECT_THAT(space_refusal({{"a", Value(), ""}}), HasSubstr("a constant is"));
  EXPECT_THAT(space_refusal({{"a", std::nan(""), ""}}), HasSubstr("a constant is"));
}

TEST(Space, RefusesWhatCannotBeComputed) {
  EXPECT_THAT(
      space_refusal({{"lr", 1, ""}, {"x", sample_from("rl * 2"), ""}}),
      HasSubstr("parameter \"x\": its sample_from names \"rl\", which is no parameter\nhint: "
                "did you mean \"lr\"?"));
  EXPECT_THAT(space_refusal({{"x", 1, "y == 1"}, {"y", sample_from("z"), ""}, {"z", 2, "x == 1"}}),
              HasSubstr("has an end (got x -> y -> z -> x)"));
  EXPECT_THAT(space_refusal({{"x", 1, "x == 1"}}), HasSubstr("x -> x"));
  EXPECT_THAT(space_refusal({{"x", 1, "y = 1"}}), HasSubstr("equal is written =="));
  EXPECT_THAT(space_refusal({{"y", 1, ""}, {"x", 1, "y"}}), HasSubstr("is true or false (got 1)"));
  // Found at the end of a range that a draw hardly meets.
  EXPECT_THAT(space_refusal({{"x", sample_from("1 / randint(0, 1000000)"), ""}}),
              HasSubstr("has no value: division by zero (got x#0 = 0)"));
  EXPECT_THAT(space_refusal({{"a", choice({"x", 2}), ""}, {"b", sample_from("a * 2"), ""}}),
              HasSubstr("a number is needed ('x') (got a = 'x')"));
}

TEST(Space, IsDescribedAndMadeAgain) {
  for (const Space& space : {classic(), conditional()}) {
    const Json described = parse_json(json_text(space.description()), "test");
    const Space again = Space::from_description(described);
    EXPECT_EQ(again.description(), described);
    EXPECT_EQ(again.draw({}, 1, 2), space.draw({}, 1, 2));
    EXPECT_THAT(again.differences(described), IsEmpty());
  }
  EXPECT_EQ(
      json_text(Space({{"a", "3"}, {"b", 3}, {"c", "f(x)"}}).description()),
      R"([{"name":"a","domain":"3"},{"name":"b","domain":3},{"name":"c","domain":"'f(x)'"}])");
  const Space function{{"f", sample_from([](const Resolved&) { return Value(1); })}};
  EXPECT_THAT(refusal_of([&] { Space::from_description(function.description()); }),
              HasSubstr("a C++ function is not kept"));
  for (const char* bad : {"{}", "[1]", R"([{"name":1,"domain":2}])", R"([{"name":"a"}])"})
    EXPECT_THAT(refusal_of([&] { Space::from_description(parse_json(bad, "")); }),
                HasSubstr("the description of a search space"));
}

TEST(Space, AConditionOnAValueThatIsNoChoiceIsRefusedWithTheNearest) {
  const auto with = [](const std::string& when) {
    return Space(std::vector<Parameter>{{"opt", choice({"adam", "sgd"}), ""},
                                        {"other", choice({"x", "sdg"}), ""},
                                        {"momentum", uniform(0, 1), when}});
  };
  for (const char* when : {"opt == 'sdg'", "'sdg' != opt", "opt in ['sdg', 'adam']"})
    EXPECT_THAT(test::refusal_of([&] { with(when); }), HasSubstr("did you mean \"'sgd'\"?"));
  EXPECT_NO_THROW(with("opt == 'sgd' and other != 'x'"));
  EXPECT_NO_THROW(with("'sdg' in [opt, other]"));
}

TEST(Space, DifferencesAreNamedOneByOne) {
  const Json stored = classic().description();
  const Space changed(std::vector<Parameter>{{"lr", loguniform(1e-4, 1), ""},
                                             {"batch_size", choice({2, 4, 8, 16}), "epochs > 3"},
                                             {"epochs", 10, ""},
                                             {"seed", 1, ""}});
  EXPECT_THAT(
      changed.differences(stored),
      ElementsAre("lr: loguniform(1e-04, 1), was loguniform(1e-04, 0.1)",
                  "batch_size: choice(2, 4, 8, 16) when epochs > 3, was choice(2, 4, 8, 16)",
                  "seed: 1, which the stored study has not",
                  "l1: gone, was sample_from(2 ** randint(2, 9))"));
  const Space a{{"x", 1}, {"y", 2}}, b{{"y", 2}, {"x", 1}};
  EXPECT_THAT(a.differences(b.description()), ElementsAre(HasSubstr("another order")));
  EXPECT_THAT(a.differences(Json(3)), ElementsAre(HasSubstr("not readable")));
}

TEST(Space, SaysWhichDimensionsItsConditionsHangOn) {
  const Space space(std::vector<Parameter>{
      {.name = "lr", .domain = uniform(0, 1)},
      {.name = "optimizer", .domain = choice({"adam", "sgd"})},
      {.name = "depth", .domain = sample_from("2 * randint(1, 5)")},
      {.name = "deep", .domain = sample_from("depth > 4")},
      {.name = "momentum", .domain = uniform(0, 1), .when = "optimizer == 'sgd'"},
      {.name = "skip", .domain = uniform(0, 1), .when = "deep"}});
  EXPECT_EQ(space.deciding_dimensions(), (std::vector<size_t>{1, 2}));
  EXPECT_TRUE(Space({{"lr", uniform(0, 1)}}).deciding_dimensions().empty());
}

TEST(Space, APointHasNoNegativeZero) {
  const Space space({{"x", quniform(0, 1, 0.25)}});
  const double lowest = from_unit(space.dimensions()[0].distribution, 0);
  EXPECT_FALSE(std::signbit(space.with_conditions({lowest})[0]));
  EXPECT_EQ(value_text(space.resolve(space.with_conditions({-0.0}))[0]), "0.0");
}

}  // namespace
}  // namespace muster::tune
