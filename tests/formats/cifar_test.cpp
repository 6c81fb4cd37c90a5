#include "muster/formats/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/text.h"

#include "tests/support/error_of.h"

namespace muster::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A record as the data sets' home describes it: labels, then 1024 bytes each of red, green and blue.
void add_record(std::vector<uint8_t>& file, std::initializer_list<uint8_t> labels, uint8_t red) {
  file.insert(file.end(), labels);
  for (int plane = 0; plane < 3; ++plane) {
    for (int pixel = 0; pixel < 1024; ++pixel)
      file.push_back(static_cast<uint8_t>(red + plane * 50 + pixel % 7));
  }
}

std::string cifar_refusal(const std::vector<uint8_t>& file, CifarKind kind) {
  return test::refusal_of([&] { parse_cifar(file, "batch.bin", kind); }, ErrorKind::kEnvironment);
}

TEST(Cifar, ReadsLabelsAndPlanes) {
  std::vector<uint8_t> file;
  add_record(file, {3}, 10);
  add_record(file, {9}, 20);
  ASSERT_EQ(file.size(), 2U * 3073);
  const CifarRecords records = parse_cifar(file, "f", CifarKind::kTen);
  EXPECT_THAT(records.labels, ElementsAre(3, 9));
  EXPECT_TRUE(records.coarse_labels.empty());
  ASSERT_EQ(records.pixels.size(), 2U * 3072);
  EXPECT_EQ(records.pixels[0], 10);
  EXPECT_EQ(records.pixels[6], 16);
  EXPECT_EQ(records.pixels[1024], 60);          // green
  EXPECT_EQ(records.pixels[3072 + 2048], 120);  // blue of the second
}

TEST(Cifar, OfAHundredClassesTheFineLabelIsTheSecond) {
  std::vector<uint8_t> file;
  add_record(file, {19, 99}, 1);
  add_record(file, {0, 7}, 2);
  const CifarRecords records = parse_cifar(file, "f", CifarKind::kHundred);
  EXPECT_THAT(records.labels, ElementsAre(99, 7));
  EXPECT_THAT(records.coarse_labels, ElementsAre(19, 0));
}

TEST(Cifar, APartOfARecordIsRefused) {
  std::vector<uint8_t> file;
  add_record(file, {3}, 10);
  EXPECT_THAT(cifar_refusal({}, CifarKind::kTen), HasSubstr("damaged CIFAR file batch.bin"));
  file.pop_back();
  EXPECT_THAT(cifar_refusal(file, CifarKind::kTen),
              HasSubstr("records of 3073 bytes (got 3072 bytes"));
  file.push_back(0);
  EXPECT_THAT(cifar_refusal(file, CifarKind::kHundred), HasSubstr("records of 3074 bytes"));
}

TEST(Cifar, ALabelThatIsNoneIsRefusedWithItsPlace) {
  std::vector<uint8_t> file;
  add_record(file, {3}, 10);
  add_record(file, {10}, 10);
  EXPECT_THAT(cifar_refusal(file, CifarKind::kTen),
              HasSubstr("labels run from 0 to 9 (got 10 in record 1, byte 3073)"));
  file.clear();
  add_record(file, {20, 5}, 10);
  EXPECT_THAT(cifar_refusal(file, CifarKind::kHundred),
              HasSubstr("coarse labels run from 0 to 19"));
  file.clear();
  add_record(file, {19, 100}, 10);
  EXPECT_THAT(cifar_refusal(file, CifarKind::kHundred),
              HasSubstr("fine labels run from 0 to 99 (got 100 in record 0, byte 1)"));
}

}  // namespace
}  // namespace muster::formats
