#include "muster/formats/checkpoint_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::formats {
namespace {

using ::testing::HasSubstr;

CheckpointIndex example() {
  return {.format = kCheckpointFormat,
          .position = {.step = 120, .epoch = 2, .samples = 384},
          .world_size = 2,
          .global_batch = 128,
          .best_step = 60,
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

/// The example without its checksum.
Json fields() {
  Json state = Json::parse(to_state_json(example()));
  state.erase("checksum");
  return state;
}

/// The error after one field of the example was replaced; `path` is a JSON pointer. The checksum is
/// that of the new text.
std::string error_with(const std::string& path, const Json& value) {
  Json state = fields();
  state[Json::json_pointer(path)] = value;
  return error_of(with_checksum(state.dump()));
}

TEST(CheckpointIndex, ReadsBackWhatWasWritten) {
  EXPECT_EQ(parse_checkpoint_index(to_state_json(example()), "x"), example());
}

TEST(CheckpointIndex, GetsAnotherPlanAndStaysElseAsItWas) {
  Json state = fields();
  state["later"] = {1, 2};  // of a later version
  const std::string text = with_checksum(json_text(state, 2));
  EXPECT_EQ(with_plan(text, example().plan, "x"), text);
  CheckpointIndex want = example();
  want.plan = {{"model", "cnn"}, {"lr", 0.5}, {"epochs", 9}};
  const std::string now = with_plan(text, want.plan, "x");
  EXPECT_EQ(parse_checkpoint_index(now, "x"), want);
  EXPECT_THAT(now, HasSubstr("\"later\""));
  std::string damaged = text;
  damaged[damaged.find("120")] = '3';
  EXPECT_THROW(with_plan(damaged, want.plan, "x"), Error);
  const CheckpointIndex older = parse_checkpoint_index(
      with_plan(R"({"format": 2, "step": 3, "epoch": 0, "samples": 12, "world_size": 1,
                    "global_batch": 4, "loop": {}, "plan": {}, "files": {}})",
                want.plan,
                "x"),
      "x");
  EXPECT_EQ(older.format, 2);
  EXPECT_EQ(older.plan, want.plan);
}

TEST(CheckpointIndex, ReadsATextWrittenByHand) {
  const CheckpointIndex index = parse_checkpoint_index(
      R"({"format": 2, "step": 3, "epoch": 0, "samples": 12, "world_size": 1, "global_batch": 4,
          "loop": {}, "plan": {}, "files": {"a.bin": {"bytes": 7, "crc32": 9}}, "later": [1]})",
      "x");
  EXPECT_EQ(index.position, (TrainPosition{.step = 3, .epoch = 0, .samples = 12}));
  EXPECT_EQ(index.global_batch, 4);
  EXPECT_EQ(index.files.at("a.bin"), (CheckpointPart{.bytes = 7, .crc32 = 9}));
  EXPECT_EQ(index.format, 2);
  EXPECT_EQ(index.best_step, -1);
}

// By Python: zlib.crc32 of all that stands before the last line.
TEST(CheckpointIndex, TheChecksumIsThatOfZlib) {
  const std::string before = R"({
  "format": 3,
  "step": 3,
  "epoch": 0,
  "samples": 12,
  "world_size": 1,
  "global_batch": 4,
  "best_step": -1,
  "loop": {},
  "plan": {},
  "files": {
    "a.bin": {
      "bytes": 7,
      "crc32": 9
    }
  })";
  const std::string text = before + ",\n  \"checksum\": \"327c7e1d\"\n}\n";
  EXPECT_EQ(parse_checkpoint_index(text, "x").position.samples, 12);
  CheckpointIndex index{.position = {.step = 3, .samples = 12}, .global_batch = 4};
  index.files["a.bin"] = {.bytes = 7, .crc32 = 9};
  EXPECT_EQ(to_state_json(index), text);
}

TEST(CheckpointIndex, AnyChangedByteIsRefused) {
  const std::string whole = to_state_json(example());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char other : {'0', '1', '7', 'e', ' ', '"', '-'}) {
      if (whole[at] == other) continue;
      std::string altered = whole;
      altered[at] = other;
      EXPECT_NE(error_of(altered), "no error") << "byte " << at << " as " << other;
    }
  }
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(error_of(whole.substr(0, size)), "no error") << size;
  EXPECT_THAT(error_of(whole + "\n"), HasSubstr("was altered"));
}

TEST(CheckpointIndex, AChangedDigitIsSaidToBeDamage) {
  std::string altered = to_state_json(example());
  altered[altered.find("120")] = '3';
  EXPECT_THAT(error_of(altered), HasSubstr("its checksum differs from its content"));
  std::string older = to_state_json(example());
  older[older.find(": 3") + 2] = '2';
  EXPECT_THAT(error_of(older), HasSubstr("format 2 has no checksum"));
}

TEST(CheckpointIndex, EveryFieldIsNeeded) {
  const Json whole = fields();
  for (const auto& [key, value] : whole.items()) {
    Json without = whole;
    without.erase(key);
    EXPECT_THAT(error_of(with_checksum(without.dump())), HasSubstr('"' + key + "\" is missing"));
  }
  EXPECT_THAT(error_of(whole.dump()), HasSubstr("\"checksum\" is missing"));
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
  EXPECT_THAT(error_with("/format", 1),
              HasSubstr("this Muster reads the formats 2 and 3 (got format 1)"));
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
