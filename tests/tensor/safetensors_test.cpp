#include "muster/tensor/safetensors.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/mapped_file.h"

#include "tests/support/folder.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string error_of(const std::function<void()>& callable) {
  try {
    callable();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

std::string error_of(const std::string& bytes) {
  return error_of([&] { tensor::parse_safetensors(bytes, "x.safetensors"); });
}

/// Bits as bytes, so that float8 and NaN compare like the rest.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// A tensor of each dtype with random bits, and awkward shapes.
tensor::TensorFile one_of_each() {
  tensor::TensorFile file;
  for (const auto dtype : {torch::kDouble,
                           torch::kFloat,
                           torch::kHalf,
                           torch::kBFloat16,
                           torch::kLong,
                           torch::kInt,
                           torch::kShort,
                           torch::kChar,
                           torch::kByte,
                           torch::kBool,
                           torch::kUInt16,
                           torch::kUInt32,
                           torch::kUInt64,
                           torch::kComplexFloat,
                           torch::kFloat8_e5m2,
                           torch::kFloat8_e4m3fn,
                           torch::kFloat8_e8m0fnu,
                           torch::kFloat8_e5m2fnuz,
                           torch::kFloat8_e4m3fnuz,
                           at::ScalarType::Float4_e2m1fn_x2}) {
    const int64_t high = dtype == torch::kBool ? 2 : 256;
    const auto bits =
        torch::randint(0, high, {3, 5 * int64_t(c10::elementSize(dtype))}, torch::kByte);
    file.tensors.emplace_back(c10::toString(dtype), bits.view(dtype));
  }
  file.tensors.emplace_back("scalar", torch::tensor(0.1));
  file.tensors.emplace_back("empty", torch::empty({0, 4}));
  file.tensors.emplace_back("transposed", torch::arange(6.0).reshape({2, 3}).t());
  file.tensors.emplace_back("conjugate",
                            torch::conj(torch::complex(torch::ones({2}), torch::ones({2}))));
  file.metadata = {{"note", "caf\u00e9 \"quoted\""}, {"", "a\n"}};
  return file;
}

void expect_same(const tensor::TensorFile& back, const tensor::TensorFile& file) {
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  EXPECT_EQ(back.metadata, file.metadata);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].first, file.tensors[i].first);
    EXPECT_TRUE(same_bits(back.tensors[i].second, file.tensors[i].second.resolve_conj()))
        << file.tensors[i].first;
  }
}

TEST(Safetensors, RoundTripKeepsEveryBitOfEveryDtypeAndTheOrderOfNames) {
  const test::Folder folder;
  const auto path = folder.path() / "a.safetensors";
  const tensor::TensorFile file = one_of_each();
  expect_same(tensor::parse_safetensors(tensor::to_safetensors(file), "memory"), file);
  std::string seen;
  tensor::write_safetensors(
      path, file, {.sync = false, .on_bytes = [&](std::string_view bytes) { seen += bytes; }});
  EXPECT_EQ(seen, read_file(path));
  EXPECT_EQ(seen, tensor::to_safetensors(file));
  expect_same(tensor::read_safetensors(path), file);
  expect_same(tensor::read_safetensors(path, tensor::TensorMemory::kOwned), file);
}

// Bytes spelled out from the format's description, not from our writer.
TEST(Safetensors, ReadsAFileWrittenByHand) {
  const std::string header = R"({"w":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})";
  const tensor::TensorFile file =
      tensor::parse_safetensors(file_of(header, std::string("\x01\x00\xff\xff", 4)), "hand");
  EXPECT_TRUE(torch::equal(file.at("w"), torch::tensor({1, -1}, torch::kShort)));
}

TEST(Safetensors, MappedTensorsMayBeWrittenToAndOutliveTheFile) {
  const test::Folder folder;
  const auto path = folder.path() / "a.safetensors";
  tensor::write_safetensors(path, {{{"w", torch::arange(4.0)}}, {}});
  const std::string before = read_file(path);
  at::Tensor tensor = tensor::read_safetensors(path).at("w");
  tensor.add_(1);
  EXPECT_EQ(read_file(path), before);
  tensor::write_safetensors(path, {{{"w", torch::zeros({4})}}, {}});
  std::filesystem::remove(path);
  EXPECT_TRUE(torch::equal(tensor, torch::arange(4.0) + 1));
}

TEST(Safetensors, AMappedTensorIsAViewAndAnUnalignedOneACopy) {
  const test::Folder folder;
  // One blank more or less in the header moves the data off every alignment.
  for (const size_t blanks : {0, 1, 2, 3, 4, 5, 6, 7}) {
    std::string header = R"({"w":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})";
    header += std::string(blanks, ' ');
    const double values[] = {1.5, -2.5};
    const auto path = folder.path() / std::to_string(blanks);
    write_file_atomic(
        path, file_of(header, std::string(reinterpret_cast<const char*>(values), sizeof values)));
    const auto map = MappedFile::open(path);
    const at::Tensor tensor = tensor::read_safetensors(map, "x").at("w");
    const char* data = static_cast<const char*>(tensor.const_data_ptr());
    const bool inside = data >= map->data() && data < map->data() + map->bytes().size();
    EXPECT_EQ(inside, (8 + header.size()) % 8 == 0) << blanks;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 8, 0U);
    EXPECT_TRUE(torch::equal(tensor, torch::tensor({1.5, -2.5}, torch::kDouble)));
  }
}

TEST(Safetensors, RefusesWhatLibTorchCannotHold) {
  EXPECT_THAT(
      error_of(file_of(R"({"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", "abc")),
      HasSubstr("one that LibTorch has (got F6_E2M3)"));
  EXPECT_THAT(error_of(file_of(R"({"w":{"dtype":"F4","shape":[2,1],"data_offsets":[0,1]}})", "a")),
              HasSubstr("its last size is even"));
  EXPECT_THAT(error_of([] {
                tensor::to_safetensors({{{"w", torch::ones({1}, torch::kComplexDouble)}}, {}});
              }),
              HasSubstr("no name in safetensors (got complex128)"));
  EXPECT_THAT(error_of([] {
                tensor::to_safetensors({{{"w", torch::ones({1})}, {"w", torch::ones({1})}}, {}});
              }),
              HasSubstr("given once"));
}

TEST(Safetensors, ACutFileIsRefusedAtEveryLength) {
  const std::string whole = tensor::to_safetensors(
      {{{"a", torch::arange(3.0)}, {"b", torch::ones({2}, torch::kLong)}}, {}});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(error_of(whole.substr(0, length)), "no error") << length;
}

TEST(Safetensors, MutatedFilesAreReadOrRefusedButNeverCrash) {
  const std::string whole = tensor::to_safetensors(
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
  const tensor::TensorFile file{{{"fc1.weight", torch::ones({1})}}, {}};
  EXPECT_THAT(error_of([&] { file.at("fc1.wieght"); }), HasSubstr("did you mean \"fc1.weight\"?"));
}

}  // namespace
}  // namespace muster
