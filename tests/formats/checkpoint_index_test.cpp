#include "muster/formats/checkpoint_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::formats {
namespace {

using ::testing::HasSubstr;

CheckpointIndex example() {
  return {.position = {.step = 120, .epoch = 2, .samples = 384},
          .world_size = 2,
          .global_batch = 128,
          .plan = {{"model", "cnn"}, {"lr", 0.1}},
          .loop = {{"epoch", {{"loss_sum", 0.25}}}},
          .files = {{"model.safetensors", {.bytes = uint64_t{5} << 32, .crc32 = 0xFFFFFFFF}}}};
}

std::string error_of(const std::string& text) {
  try {
    parse_checkpoint_index(text, "run/step-1/state.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("run/step-1/state.json"));
    return error.what();
  }
  return "no error";
}

/// The error after one field of the example was replaced; `path` is a JSON pointer.
std::string error_with(const std::string& path, const Json& value) {
  Json state = Json::parse(to_state_json(example()));
  state[Json::json_pointer(path)] = value;
  return error_of(state.dump());
}

TEST(CheckpointIndex, ReadsBackWhatWasWritten) {
  EXPECT_EQ(parse_checkpoint_index(to_state_json(example()), "x"), example());
}

TEST(CheckpointIndex, ReadsATextWrittenByHand) {
  const CheckpointIndex index = parse_checkpoint_index(
      R"({"format": 2, "step": 3, "epoch": 0, "samples": 12, "world_size": 1, "global_batch": 4,
          "loop": {}, "plan": {}, "files": {"a.bin": {"bytes": 7, "crc32": 9}}, "later": [1]})",
      "x");
  EXPECT_EQ(index.position, (TrainPosition{.step = 3, .epoch = 0, .samples = 12}));
  EXPECT_EQ(index.global_batch, 4);
  EXPECT_EQ(index.files.at("a.bin"), (CheckpointPart{.bytes = 7, .crc32 = 9}));
}

TEST(CheckpointIndex, EveryFieldIsNeeded) {
  const Json whole = Json::parse(to_state_json(example()));
  for (const auto& [key, value] : whole.items()) {
    Json without = whole;
    without.erase(key);
    EXPECT_THAT(error_of(without.dump()), HasSubstr('"' + key + "\" is missing"));
  }
  EXPECT_THAT(error_with("/files/a", Json::object()), HasSubstr("\"files.a.bytes\" is missing"));
  EXPECT_THAT(error_with("/files/a", 3), HasSubstr("\"files.a.bytes\" is missing"));
}

TEST(CheckpointIndex, NumbersAreWholeAndInRange) {
  for (const char* key : {"/step", "/epoch", "/samples"})
    EXPECT_THAT(error_with(key, -1), HasSubstr("is from 0 to 9223372036854775807 (got -1)"));
  for (const char* key : {"/world_size", "/global_batch"})
    EXPECT_THAT(error_with(key, 0), HasSubstr("is from 1 to 9223372036854775807 (got 0)"));
  for (const Json& value : {Json(1.5), Json("1"), Json(true), Json(nullptr), Json::array({1})})
    EXPECT_THAT(error_with("/step", value), HasSubstr("\"step\" has the wrong type"));
  EXPECT_THAT(error_with("/step", uint64_t{1} << 63), HasSubstr("(got 9223372036854775808)"));
  EXPECT_THAT(error_with("/files/model.safetensors/crc32", int64_t{1} << 32),
              HasSubstr("\"files.model.safetensors.crc32\" is from 0 to 4294967295"));
}

TEST(CheckpointIndex, AnotherFormatIsRefusedByNumber) {
  EXPECT_THAT(error_with("/format", 1), HasSubstr("this Muster reads format 2 (got format 1)"));
}

TEST(CheckpointIndex, FileNamesStayInTheFolder) {
  for (const std::string name : {"", ".", "..", "a~1b", "~1etc~1passwd"})
    EXPECT_THAT(error_with("/files/" + name, {{"bytes", 1}, {"crc32", 1}}),
                HasSubstr("names within the checkpoint's folder"))
        << name;
}

TEST(CheckpointIndex, WhatIsNoObjectIsRefused) {
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("it is a JSON object (got [])"));
  EXPECT_THAT(error_with("/plan", "cnn"), HasSubstr("\"plan\" has the wrong type"));
  EXPECT_THAT(error_with("/files", Json::array()), HasSubstr("\"files\" has the wrong type"));
}

}  // namespace
}  // namespace muster::formats
