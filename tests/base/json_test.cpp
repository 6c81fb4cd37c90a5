#include "muster/base/json.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(Json, KeepsKeysInTheOrderWritten) {
  EXPECT_EQ(parse_json(R"({"z": 1, "a": 2})", "test").dump(), R"({"z":1,"a":2})");
}

TEST(Json, NamesTheSourceAndThePlaceOfAFault) {
  try {
    parse_json("{\"a\": 1,}", "config.json");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "config.json is not valid JSON: fault at byte 9");
  }
}

}  // namespace
}  // namespace muster
