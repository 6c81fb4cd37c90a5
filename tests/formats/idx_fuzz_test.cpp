// Thousands of altered files, the same ones in each run.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/formats/idx.h"

#include "tests/formats/idx_files.h"

namespace muster::formats {
namespace {

constexpr int kFiles = 200'000;
constexpr int64_t kMaxBytes = 1 << 20;

std::vector<ByteVector> seeds() {
  const ByteVector images = idx_file({3, 5, 7});
  const ByteVector labels = idx_file({50}, 10);
  const ByteVector floats = idx_header(13, {2, 3}) + ByteVector(24);
  const std::span<const uint8_t> start(images);
  return {images,
          labels,
          floats,
          gzip(images),
          gzip(labels, 0),
          gzip(floats, 9),
          gzip(start.first(30)) + gzip(start.subspan(30))};
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  ByteVector mutate(ByteVector file, const ByteVector& other) {
    for (size_t changes = 1 + below(4); changes > 0; --changes) change(file, other);
    return file;
  }

  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void change(ByteVector& file, const ByteVector& other) {
    const size_t at = below(file.size());
    const auto place = file.begin() + static_cast<ptrdiff_t>(at);
    const size_t kind = file.empty() ? 0 : below(8);
    if (kind == 0) file.insert(place, static_cast<uint8_t>(random_()));
    if (kind == 1) file[at] ^= static_cast<uint8_t>(1U << below(8));
    if (kind == 2) file[at] = static_cast<uint8_t>(random_());
    if (kind == 3) file.erase(place);
    if (kind == 4) file.resize(at);
    if (kind == 5) put_number(file, at);
    if (kind == 6) file.insert(file.end(), file.begin(), place);
    if (kind == 7) {
      file.insert(
          place, other.begin(), other.begin() + static_cast<ptrdiff_t>(below(other.size())));
    }
  }

  void put_number(ByteVector& file, size_t at) {
    static constexpr uint8_t kNumbers[][4] = {{0, 0, 0, 0},
                                              {0, 0, 0, 1},
                                              {0x7f, 0xff, 0xff, 0xff},
                                              {0x80, 0, 0, 0},
                                              {0xff, 0xff, 0xff, 0xff},
                                              {0, 0x10, 0, 0}};
    if (at + 4 <= file.size()) std::memcpy(&file[at], kNumbers[below(std::size(kNumbers))], 4);
  }

  std::mt19937_64 random_;
};

TEST(IdxFuzz, AnAlteredFileIsReadWithinItsLimitsOrRefused) {
  const std::vector<ByteVector> corpus = seeds();
  Mutator mutator(20240817);
  int read = 0;
  for (int i = 0; i < kFiles; ++i) {
    const ByteVector file =
        mutator.mutate(corpus[mutator.below(corpus.size())], corpus[mutator.below(corpus.size())]);
    try {
      const IdxArray array = parse_idx(file, "fuzz", {.max_bytes = kMaxBytes});
      int64_t bytes = element_bytes(array.type);
      for (const int64_t dim : array.dims) bytes *= dim;
      ASSERT_EQ(static_cast<int64_t>(array.bytes.size()), bytes);
      ASSERT_LE(bytes, kMaxBytes);
      ++read;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kEnvironment) << error.what();
    }
  }
  // Some changes harm nothing (a pixel of a plain file, the time stamp of gzip); most must be
  // noticed.
  EXPECT_GT(read, kFiles / 100);
  EXPECT_LT(read, kFiles / 2);
}

}  // namespace
}  // namespace muster::formats
