#include "muster/base/json.h"

#include <string>

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

std::string error_of(const std::string& text) {
  try {
    parse_json(text, "x");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, RefusesAKeyGivenTwiceInOneObject) {
  EXPECT_EQ(error_of(R"({"a": {"b": 1}, "c": {"b": 1}})"), "no error");
  EXPECT_EQ(error_of(R"({"a": {"b": 1, "b": 2}})"),
            "x is not valid JSON: an object has each key once (got b)");
}

TEST(Json, RefusesWhatWouldEndTheStack) {
  const std::string open(kMaxJsonDepth, '['), close(kMaxJsonDepth, ']');
  EXPECT_EQ(error_of(open + close), "no error");
  EXPECT_EQ(error_of('[' + open + close + ']'),
            "x is not valid JSON: it is nested at most 64 deep and has no zero byte");
  EXPECT_EQ(error_of('"' + std::string(1000, '[') + "\\\"" + std::string(1000, '[') + '"'),
            "no error");
}

TEST(Json, RefusesWhatStandsBehindAZeroByte) {
  EXPECT_NE(error_of(std::string("{}\0garbage", 10)), "no error");
}

TEST(Json, RefusesANumberThatNoDoubleHolds) {
  EXPECT_EQ(error_of("[1e999]"), "x is not valid JSON: its numbers fit into a double");
}

TEST(Json, WritesBytesThatAreNotUtf8WithoutAnException) {
  EXPECT_EQ(json_text(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace muster
