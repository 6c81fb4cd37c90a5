#include "muster/tune/space/command_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/tune/files/units.h"

#include "tests/support/error_of.h"

namespace muster::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using Words = std::vector<std::string>;

const Space& space() {
  static const Space made(std::vector<Parameter>{{"optimizer", choice({"sgd", "adam"}), ""},
                                                 {"momentum", 0.9, "optimizer == 'sgd'"},
                                                 {"net.l1", choice({4, 8}), ""}});
  return made;
}

Words expanded(const Words& command, double optimizer) {
  return expand_command(command, space(), space().resolve({optimizer, 1}));
}

TEST(CommandTemplate, PutsValuesInTheirPlaces) {
  EXPECT_THAT(expanded({"./a", "--o={optimizer}", "{net.l1}-{optimizer}", "x"}, 0),
              ElementsAre("./a", "--o=sgd", "8-sgd", "x"));
  EXPECT_THAT(expanded({"./a", "{{{net.l1}}}", "a}b", "{{lr}}"}, 0),
              ElementsAre("./a", "{8}", "a}b", "{lr}"));
  EXPECT_THAT(expanded({"./a", "{@params}"}, 1),
              ElementsAre("./a", R"({"optimizer":"adam","net":{"l1":8}})"));
}

TEST(CommandTemplate, LeavesOutWhatDoesNotApplyWithItsFlag) {
  const Words command = {"./a", "--momentum", "{momentum}", "-m={momentum}", "tail"};
  EXPECT_THAT(expanded(command, 0), ElementsAre("./a", "--momentum", "0.9", "-m=0.9", "tail"));
  EXPECT_THAT(expanded(command, 1), ElementsAre("./a", "tail"));
  EXPECT_THAT(expanded({"sh", "-c", "a {momentum} {optimizer}"}, 1),
              ElementsAre("sh", "-c", "a  adam"));
  EXPECT_THAT(expanded({"a", "word", "{momentum}", "--x", "y"}, 1),
              ElementsAre("a", "word", "--x", "y"));
}

TEST(CommandTemplate, RefusesWhatIsNoParameter) {
  const auto refusal = [](const Words& command) {
    return test::refusal_of([&] { check_command(command, space()); });
  };
  EXPECT_THAT(refusal({"a", "{momentun}"}), HasSubstr("did you mean \"momentum\"?"));
  EXPECT_THAT(refusal({"a", "{}"}), HasSubstr("{} is no parameter"));
  EXPECT_THAT(refusal({"a", "{optimizer"}), HasSubstr("a placeholder has an end"));
  EXPECT_THAT(refusal({"", "x"}), HasSubstr("its first word is a program"));
  EXPECT_THAT(test::refusal_of([] { expanded({"{momentum}"}, 1); }),
              HasSubstr("a program is left"));
}

TEST(Units, AmountsOfBytesAreRead) {
  EXPECT_THAT(bytes_of("512 MiB"), Optional(512U << 20));
  EXPECT_THAT(bytes_of("2G"), Optional(uint64_t{2} << 30));
  EXPECT_THAT(bytes_of("1.5GB"), Optional(1500000000U));
  EXPECT_THAT(bytes_of("64k"), Optional(65536U));
  EXPECT_THAT(bytes_of("17B"), Optional(17U));
  for (const char* bad : {"", "12", "GB", "1 iB", "1 PB", "1 GiBs", "99999999999T", "1 G 2 M"})
    EXPECT_EQ(bytes_of(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace muster::tune
