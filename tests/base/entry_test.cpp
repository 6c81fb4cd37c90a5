#include "muster/base/entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

struct FruitEntry {
  static constexpr std::string_view kKind = "fruit";
  std::string_view name;
  std::string_view help;
};

constexpr FruitEntry kApple{"apple", "red"};
constexpr FruitEntry kPear{"pear", "green"};
constexpr const FruitEntry* kAll[] = {&kApple, &kPear};
const EntryTable<FruitEntry> kFruit(kAll);

TEST(EntryTable, FindsByName) {
  EXPECT_EQ(&kFruit.at("pear"), &kPear);
  EXPECT_EQ(kFruit.find("plum"), nullptr);
  EXPECT_THAT(kFruit.names(), ::testing::ElementsAre("apple", "pear"));
}

TEST(EntryTable, NamesKindAndNearestEntryOfAnUnknownOne) {
  try {
    kFruit.at("aple");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "unknown fruit \"aple\"\nhint: did you mean \"apple\"?");
  }
}

TEST(EntryTable, MayBeEmpty) {
  const EntryTable<FruitEntry> none{std::span<const FruitEntry* const>{}};
  EXPECT_EQ(none.size(), 0U);
  EXPECT_THROW(none.at("apple"), Error);
}

}  // namespace
}  // namespace muster
