#include "muster/formats/idx.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"

#include "tests/formats/idx_files.h"

namespace muster::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const ByteVector& file, const IdxLimits& limits = {}) {
  try {
    parse_idx(file, "some/file", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_THAT(error.what(), HasSubstr("some/file"));
    EXPECT_FALSE(error.text().hint.empty());
    return error.what();
  }
  return "nothing was thrown";
}

int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPeak:")) return std::stoll(line.substr(7)) * 1024;
  }
  return -1;
}

TEST(Idx, ReadsAPlainArray) {
  const IdxArray array = parse_idx(idx_file({2, 3, 4}), "f");
  EXPECT_EQ(array.type, IdxType::kUint8);
  EXPECT_THAT(array.dims, ElementsAre(2, 3, 4));
  ASSERT_EQ(array.bytes.size(), 24U);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(array.bytes[i], i);
}

TEST(Idx, ReadsTheSameFromGzipAtEveryLevel) {
  const ByteVector plain = idx_file({20, 30, 40});
  const IdxArray want = parse_idx(plain, "f");
  for (const int level : {0, 1, 6, 9}) {
    const IdxArray got = parse_idx(gzip(plain, level), "f");
    EXPECT_EQ(got.dims, want.dims);
    EXPECT_TRUE(std::ranges::equal(got.bytes, want.bytes)) << "level " << level;
  }
}

TEST(Idx, ReadsAGzipFileOfSeveralMembers) {
  const ByteVector plain = idx_file({10, 10});
  const std::span<const uint8_t> all(plain);
  const IdxArray got = parse_idx(gzip(all.first(60)) + gzip(all.subspan(60)), "f");
  EXPECT_TRUE(std::ranges::equal(got.bytes, all.subspan(12)));
}

TEST(Idx, KnowsEveryElementType) {
  const std::pair<uint8_t, size_t> types[] = {{8, 1}, {9, 1}, {11, 2}, {12, 4}, {13, 4}, {14, 8}};
  for (const auto& [code, bytes] : types) {
    const IdxArray array = parse_idx(idx_header(code, {3}) + ByteVector(3 * bytes), "f");
    EXPECT_EQ(static_cast<int>(array.type), code);
    EXPECT_EQ(array.bytes.size(), 3 * bytes);
  }
}

TEST(Idx, TakesAnArrayWithoutElements) {
  EXPECT_THAT(parse_idx(idx_file({0, 28, 28}), "f").dims, ElementsAre(0, 28, 28));
  EXPECT_TRUE(parse_idx(gzip(idx_file({0})), "f").bytes.empty());
}

TEST(Idx, ReadsFromDisk) {
  const auto path =
      std::filesystem::temp_directory_path() / ("muster-idx-" + std::to_string(::getpid()));
  const ByteVector file = gzip(idx_file({4, 5}));
  write_file_atomic(path, {reinterpret_cast<const char*>(file.data()), file.size()});
  EXPECT_THAT(read_idx(path).dims, ElementsAre(4, 5));
  std::filesystem::remove(path);
  try {
    read_idx(path);
    FAIL() << "a missing file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
  }
}

TEST(Idx, RefusesAFileCutAnywhere) {
  const ByteVector plain = idx_file({3, 4, 5});
  for (const ByteVector& whole : {plain, gzip(plain), gzip(plain, 0)}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      const ByteVector cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_THAT(refusal(cut), HasSubstr("damaged IDX file"))
          << "after " << size << " of " << whole.size();
    }
  }
}

TEST(Idx, RefusesBytesBehindTheEnd) {
  const ByteVector plain = idx_file({3, 4});
  EXPECT_THAT(refusal(plain + ByteVector{0}), HasSubstr("behind the end"));
  EXPECT_THAT(refusal(gzip(plain) + ByteVector{0}), HasSubstr("1 bytes behind its end"));
  EXPECT_THAT(refusal(gzip(plain + ByteVector{0})), HasSubstr("holds more"));
  EXPECT_THAT(refusal(gzip(plain) + gzip(plain)), HasSubstr("holds more"));
}

TEST(Idx, RefusesAFileThatIsNoIdx) {
  EXPECT_THAT(refusal({'P', 'K', 3, 4, 0, 0, 0, 0}),
              HasSubstr("begins with two zero bytes (got 80 and 75)"));
  EXPECT_THAT(refusal(gzip(ByteVector{'<', 'h', 't', 'm', 'l', '>'})),
              HasSubstr("begins with two zero bytes"));
  EXPECT_THAT(refusal({}), HasSubstr("has a header (got 0 bytes)"));
}

TEST(Idx, RefusesAnUnknownTypeOrNumberOfDimensions) {
  for (const uint8_t type : {0, 7, 10, 15, 255}) {
    EXPECT_THAT(refusal(idx_header(type, {1}) + ByteVector(16)),
                HasSubstr("the third byte is a type"));
  }
  EXPECT_THAT(refusal({0, 0, 8, 0, 1}), HasSubstr("1 to 8 dimensions (got 0)"));
  EXPECT_THAT(refusal({0, 0, 8, 9}), HasSubstr("1 to 8 dimensions (got 9)"));
  EXPECT_THAT(refusal(ByteVector{0, 0, 8, 255} + ByteVector(2000)),
              HasSubstr("1 to 8 dimensions (got 255)"));
}

TEST(Idx, RefusesAnAlteredChecksumOrLengthOfGzip) {
  const ByteVector whole = gzip(idx_file({30, 30}));
  for (size_t from_end = 1; from_end <= 8; ++from_end) {
    ByteVector bad = whole;
    bad[bad.size() - from_end] ^= 1;
    EXPECT_THAT(refusal(bad), HasSubstr("match its checksum")) << from_end << " bytes from the end";
  }
}

TEST(Idx, RefusesAHeaderThatClaimsTooMuchWithoutTakingTheMemory) {
  const int64_t before = peak_memory_bytes();
  ASSERT_GT(before, 0);
  const ByteVector huge = idx_header(14, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF});
  EXPECT_THAT(refusal(huge), HasSubstr("at most 4"));
  EXPECT_THAT(refusal(gzip(huge)), HasSubstr("at most 4"));
  const ByteVector sixty_bits = idx_header(8, {1U << 30, 1U << 30});
  EXPECT_THAT(refusal(sixty_bits), HasSubstr("in its first 2 dimensions"));
  // Within the limit, but not within the file.
  const ByteVector three_gigabytes = idx_header(8, {3U << 30});
  EXPECT_THAT(refusal(three_gigabytes), HasSubstr("cut short after 8"));
  EXPECT_THAT(refusal(gzip(three_gigabytes)), HasSubstr("which cannot hold them"));
  EXPECT_LT(peak_memory_bytes() - before, 32 << 20);
}

TEST(Idx, RefusesABombAfterTheBytesThatItsHeaderNames) {
  const ByteVector bomb = gzip(idx_header(8, {100}), 9, 200 << 20);
  const int64_t before = peak_memory_bytes();
  EXPECT_THAT(refusal(bomb), HasSubstr("holds more"));
  EXPECT_LT(peak_memory_bytes() - before, 32 << 20);
}

TEST(Idx, KeepsToTheLimitOfItsCaller) {
  EXPECT_THAT(refusal(idx_file({100, 11}), {.max_bytes = 1099}), HasSubstr("claims more"));
  EXPECT_EQ(parse_idx(idx_file({100, 11}), "f", {.max_bytes = 1100}).bytes.size(), 1100U);
}

}  // namespace
}  // namespace muster::formats
