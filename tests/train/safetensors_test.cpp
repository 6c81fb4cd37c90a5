#include "muster/train/safetensors.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string error_of(const std::string& bytes) {
  try {
    train::parse_safetensors(bytes, "x.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Safetensors, RoundTripKeepsEveryBitOfEveryDtype) {
  train::TensorFile file;
  for (const auto dtype : {torch::kDouble,
                           torch::kFloat,
                           torch::kHalf,
                           torch::kBFloat16,
                           torch::kLong,
                           torch::kInt,
                           torch::kShort,
                           torch::kChar,
                           torch::kByte,
                           torch::kBool}) {
    file.tensors.emplace_back(c10::toString(dtype), torch::randint(0, 2, {3, 5}).to(dtype));
  }
  file.tensors.emplace_back("scalar", torch::tensor(0.1));
  file.tensors.emplace_back("empty", torch::empty({0, 4}));
  file.tensors.emplace_back("transposed", torch::arange(6.0).reshape({2, 3}).t());
  file.metadata["note"] = "caf\u00e9 \"quoted\"";
  const train::TensorFile back = train::parse_safetensors(train::to_safetensors(file), "memory");
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  EXPECT_EQ(back.metadata, file.metadata);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].first, file.tensors[i].first);
    EXPECT_EQ(back.tensors[i].second.scalar_type(), file.tensors[i].second.scalar_type());
    EXPECT_TRUE(torch::equal(back.tensors[i].second, file.tensors[i].second))
        << file.tensors[i].first;
  }
}

// Bytes spelled out from the format's description, not from our writer.
TEST(Safetensors, ReadsAFileWrittenByHand) {
  const std::string header = R"({"w":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})";
  const train::TensorFile file =
      train::parse_safetensors(file_of(header, std::string("\x01\x00\xff\xff", 4)), "hand");
  EXPECT_TRUE(torch::equal(file.at("w"), torch::tensor({1, -1}, torch::kShort)));
}

TEST(Safetensors, RefusesWhatTheFormatForbids) {
  const auto tensor = [](const std::string& fields, const std::string& data) {
    return error_of(file_of("{\"w\":{" + fields + "}}", data));
  };
  EXPECT_THAT(error_of("abc"), HasSubstr("at least 8 bytes"));
  EXPECT_THAT(error_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)),
              HasSubstr("header fits"));
  EXPECT_THAT(error_of(file_of("[1]")), HasSubstr("JSON object"));
  EXPECT_THAT(error_of(file_of("{\"w\":")), HasSubstr("header is JSON"));
  EXPECT_THAT(
      error_of(file_of(
          R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          "a")),
      HasSubstr("given once"));
  EXPECT_THAT(tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,4])", "abcd"),
              HasSubstr("dtype is one that we know"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])", "abcdefgh"),
              HasSubstr("agree with dtype and shape"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", "abcd"),
              HasSubstr("inside the file"));
  EXPECT_THAT(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", "ab"),
              HasSubstr("without gap or overlap"));
  EXPECT_THAT(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])", "ab"),
              HasSubstr("fill the file"));
  EXPECT_THAT(tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", "a"),
              HasSubstr("whole numbers from 0"));
  EXPECT_THAT(tensor(R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,1])", "a"),
              HasSubstr("fits into 64 bits"));
  EXPECT_THAT(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":1)", "a"),
              HasSubstr("has dtype, shape and data_offsets"));
}

TEST(Safetensors, ACutFileIsRefusedAtEveryLength) {
  const std::string whole = train::to_safetensors(
      {{{"a", torch::arange(3.0)}, {"b", torch::ones({2}, torch::kLong)}}, {}});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(error_of(whole.substr(0, length)), "no error") << length;
}

TEST(Safetensors, MutatedFilesAreReadOrRefusedButNeverCrash) {
  const std::string whole = train::to_safetensors(
      {{{"a", torch::arange(3.0)}, {"b", torch::ones({2}, torch::kLong)}}, {{"k", "v"}}});
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int change = 0; change <= round % 4; ++change) {
      const size_t at = random() % bytes.size();
      if (random() % 8 == 0) {
        bytes.erase(at, 1 + random() % 5);
      } else if (random() % 8 == 0) {
        bytes.insert(at, 1 + random() % 5, static_cast<char>(random()));
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    refused += error_of(bytes) != "no error";
  }
  EXPECT_GT(refused, 5000);
}

TEST(Safetensors, NearestNameIsSuggested) {
  const train::TensorFile file{{{"fc1.weight", torch::ones({1})}}, {}};
  EXPECT_THROW(
      {
        try {
          file.at("fc1.wieght");
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("did you mean \"fc1.weight\"?"));
          throw;
        }
      },
      Error);
}

}  // namespace
}  // namespace muster
