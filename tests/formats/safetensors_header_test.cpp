#include "muster/formats/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string error_of(const std::string& bytes) {
  try {
    formats::parse_safetensors_header(bytes, "x.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors is not a valid safetensors file"));
    return error.what();
  }
  return "no error";
}

std::string error_of_tensor(const std::string& fields, const std::string& data) {
  return error_of(file_of("{\"w\":{" + fields + "}}", data));
}

formats::SafetensorsTensor tensor(const std::string& name,
                                  std::string_view dtype,
                                  std::vector<int64_t> shape) {
  return {.name = name, .dtype = formats::find_safetensors_dtype(dtype), .shape = std::move(shape)};
}

// Bytes spelled out from the format's description, not from our writer.
TEST(SafetensorsHeader, ReadsAHeaderWrittenByHandWithTrailingBlanks) {
  const formats::SafetensorsHeader header = formats::parse_safetensors_header(
      file_of(R"({"b":{"dtype":"I16","shape":[2],"data_offsets":[4,8]},)"
              R"("__metadata__":{"k":"v"},"a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}   )",
              "12345678"),
      "x");
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(2));
  EXPECT_EQ(header.tensors[0].begin, 4U);
  EXPECT_EQ(header.tensors[1].dtype->name, "F32");
  EXPECT_EQ(header.metadata.at("k"), "v");
}

TEST(SafetensorsHeader, TakesWhatTheReferenceTakes) {
  EXPECT_EQ(error_of(file_of("{}")), "no error");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":null})")), "no error");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":{}})")), "no error");
  EXPECT_EQ(error_of_tensor(R"("dtype":"F64","shape":[0,7],"data_offsets":[0,0])", ""), "no error");
  EXPECT_EQ(error_of_tensor(R"("dtype":"F4","shape":[3,2],"data_offsets":[0,3])", "abc"),
            "no error");
  EXPECT_EQ(error_of_tensor(R"("dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3])", "abc"),
            "no error");
}

TEST(SafetensorsHeader, KnowsEveryDtypeOfTheFormat) {
  EXPECT_EQ(formats::safetensors_dtypes().size(), 22U);
  for (const formats::SafetensorsDtype& dtype : formats::safetensors_dtypes()) {
    const std::string fields = "\"dtype\":\"" + std::string(dtype.name) +
                               "\",\"shape\":[8],\"data_offsets\":[0," +
                               std::to_string(dtype.bits) + "]";
    EXPECT_EQ(error_of_tensor(fields, std::string(dtype.bits, 'x')), "no error") << dtype.name;
  }
}

TEST(SafetensorsHeader, RefusesALengthThatDoesNotFit) {
  EXPECT_THAT(error_of("abc"), HasSubstr("at least 8 bytes"));
  EXPECT_THAT(error_of(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)),
              HasSubstr("header fits"));
  EXPECT_THAT(error_of(std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("header fits"));
  // 100 MB and one byte of blanks behind an empty object.
  EXPECT_THAT(error_of(file_of("{}" + std::string(99'999'999, ' '))), HasSubstr("100 MB"));
}

TEST(SafetensorsHeader, RefusesWhatIsNoJsonObject) {
  EXPECT_THAT(error_of(file_of("")), HasSubstr("JSON object"));
  EXPECT_THAT(error_of(file_of("[1]")), HasSubstr("JSON object"));
  EXPECT_THAT(error_of(file_of(" {}")), HasSubstr("JSON object"));
  EXPECT_THAT(error_of(file_of("{\"w\":")), HasSubstr("header is JSON"));
  EXPECT_THAT(error_of(file_of("{}x")), HasSubstr("header is JSON"));
  EXPECT_THAT(error_of(file_of(std::string("{}\0", 3))), HasSubstr("a zero byte"));
  EXPECT_THAT(error_of(file_of("{\"\xff\":1}")), HasSubstr("header is JSON"));
}

TEST(SafetensorsHeader, RefusesANameOrFieldGivenTwice) {
  const std::string one = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(error_of(file_of("{\"w\":" + one + ",\"v\":" + one + ",\"w\":" + one + "}")),
              HasSubstr("each name is given once (got w)"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":{},"__metadata__":{}})")),
              HasSubstr("given once"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":{"a":"","a":""}})")), HasSubstr("given once"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0])", ""),
              HasSubstr("fields are given once"));
}

TEST(SafetensorsHeader, RefusesEntriesOfTheWrongForm) {
  for (const char* entry : {"1", "null", "\"a\"", "[]", "true", "1.5", "-1"})
    EXPECT_THAT(error_of(file_of(std::string("{\"w\":") + entry + "}")),
                HasSubstr("each tensor has dtype, shape and data_offsets"))
        << entry;
  for (const char* entry : {"1", "[]", "\"a\"", R"({"a":1})", R"({"a":{}})", R"({"a":null})"})
    EXPECT_THAT(error_of(file_of(std::string("{\"__metadata__\":") + entry + "}")),
                HasSubstr("__metadata__ is an object of texts"))
        << entry;
  EXPECT_THAT(error_of_tensor(R"("dtype":"U8","shape":[0])", ""), HasSubstr("each tensor has"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1)", ""),
              HasSubstr("each tensor has"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,4])", "abcd"),
              HasSubstr("dtype is one that we know"));
  EXPECT_THAT(error_of_tensor(R"("dtype":8,"shape":[1],"data_offsets":[0,4])", "abcd"),
              HasSubstr("dtype has the wrong type"));
  for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[[1]]", "[null]"})
    EXPECT_THAT(error_of_tensor(
                    std::string("\"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":") + shape, "a"),
                HasSubstr("whole numbers from 0"))
        << shape;
  for (const char* offsets : {"[0]", "[]", "[0,1,1]"})
    EXPECT_THAT(error_of_tensor(
                    std::string("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":") + offsets, "a"),
                HasSubstr("data_offsets are two numbers"))
        << offsets;
}

TEST(SafetensorsHeader, RefusesSizesThatDisagreeOrOverflow) {
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])", "abcdefgh"),
              HasSubstr("agree with dtype and shape"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", "abcd"),
              HasSubstr("inside the file"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", "a"),
              HasSubstr("inside the file"));
  for (const char* shape : {"[4294967296,4294967296]", "[0,4294967296,4294967296]"})
    EXPECT_THAT(error_of_tensor(
                    std::string("\"dtype\":\"F64\",\"data_offsets\":[0,0],\"shape\":") + shape, ""),
                HasSubstr("fits into 63 bits"));
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F64","shape":[18446744073709551615],"data_offsets":[0,0])", ""),
      HasSubstr("sizes of 63 bits"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", "a"),
              HasSubstr("whole bytes"));
}

TEST(SafetensorsHeader, RefusesGapsOverlapsAndLooseEnds) {
  EXPECT_THAT(error_of_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", "ab"),
              HasSubstr("without gap or overlap"));
  EXPECT_THAT(error_of_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])", "ab"),
              HasSubstr("1 bytes too many"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                               R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                               "abc")),
              HasSubstr("without gap or overlap"));
}

TEST(SafetensorsHeader, TheWriterOrdersByAlignmentAndNameAndPadsToEight) {
  formats::SafetensorsHeader header{.tensors = {tensor("byte", "U8", {3}),
                                                tensor("b", "F32", {1}),
                                                tensor("long", "I64", {1}),
                                                tensor("a", "F32", {2})},
                                    .metadata = {{"k", "v"}}};
  const std::string head = formats::lay_out_safetensors(header);
  EXPECT_EQ(head.size() % 8, 0U);
  EXPECT_EQ(header.data_begin, head.size());
  const auto begins = [&] {
    std::vector<uint64_t> out;
    for (const auto& entry : header.tensors) out.push_back(entry.begin);
    return out;
  };
  EXPECT_THAT(begins(), ElementsAre(20, 16, 0, 8));
  EXPECT_EQ(formats::parse_safetensors_header(head + std::string(23, 'x'), "x"), header);
}

TEST(SafetensorsHeader, TheWriterRefusesNamesThatNoReaderTakes) {
  const auto refused = [](formats::SafetensorsHeader header) -> std::string {
    try {
      formats::lay_out_safetensors(header);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refused({.tensors = {tensor("a", "U8", {}), tensor("a", "U8", {})}}),
              HasSubstr("each name is given once"));
  EXPECT_THAT(refused({.tensors = {tensor("__metadata__", "U8", {})}}), HasSubstr("the texts"));
  EXPECT_THAT(refused({.tensors = {tensor("\xff", "U8", {})}}), HasSubstr("UTF-8"));
  EXPECT_THAT(refused({.tensors = {tensor("a", "F6_E2M3", {3})}}), HasSubstr("whole bytes"));
}

}  // namespace
}  // namespace muster
