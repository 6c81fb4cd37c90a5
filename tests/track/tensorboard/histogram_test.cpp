#include "muster/track/tensorboard/histogram.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"

#include "tests/support/golden.h"

namespace muster::track {
namespace {

using testing::ElementsAre;

double number(const Json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

void expect_near(double ours, const Json& theirs, double scale) {
  const double expected = number(theirs);
  if (std::isfinite(expected)) {
    EXPECT_NEAR(ours, expected, 1e-13 * scale);
  } else {
    EXPECT_TRUE(ours == expected || (std::isnan(ours) && std::isnan(expected))) << ours;
  }
}

TEST(TensorBoardHistogram, HasTheBucketsOfPyTorch) {
  const Json golden = test::read_golden("tensorboard");
  const auto edges = golden["edges"].get<std::vector<double>>();
  ASSERT_EQ(golden["histograms"].size(), 6u);
  for (const Json& expected : golden["histograms"]) {
    std::vector<double> values;
    for (const Json& value : expected["values"]) values.push_back(number(value));
    const Histogram ours = tensorboard_histogram(values);
    const auto first = edges.begin() + expected["start"].get<int64_t>();
    EXPECT_EQ(ours.bucket_limit, std::vector(first, first + expected["buckets"].get<int64_t>()));
    std::vector<double> bucket(expected["buckets"].get<size_t>(), 0.0);
    for (const Json& pair : expected["counts"]) bucket[pair[0].get<size_t>()] = pair[1];
    EXPECT_EQ(ours.bucket, bucket);
    double scale = 0;
    for (const double value : values) scale += std::abs(value);
    expect_near(ours.min, expected["min"], 0);
    expect_near(ours.max, expected["max"], 0);
    expect_near(ours.num, expected["num"], 0);
    expect_near(ours.sum, expected["sum"], scale);
    expect_near(ours.sum_squares, expected["sum_squares"], ours.sum_squares);
  }
}

TEST(TensorBoardHistogram, OfFloatsCountsTheirExactValues) {
  const std::vector<float> values{0.1f, 0.1f, -7};
  const std::vector<double> wide(values.begin(), values.end());
  EXPECT_EQ(tensorboard_histogram(values).bucket, tensorboard_histogram(wide).bucket);
  EXPECT_EQ(tensorboard_histogram(values).max, double{0.1f});
}

TEST(TensorBoardHistogram, OfZerosIsOneBucketBesideAnEmptyOne) {
  const Histogram zeros = tensorboard_histogram(std::vector<double>{0.0, -0.0});
  EXPECT_THAT(zeros.bucket, ElementsAre(0, 2));
  EXPECT_THAT(zeros.bucket_limit, ElementsAre(0, 1e-12));
}

TEST(TensorBoardHistogram, OfNothingCountableIsRefused) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& values :
       {std::vector<double>{}, {std::nan("")}, {inf, -inf}, {1e21, -1e300}}) {
    EXPECT_THROW(tensorboard_histogram(values), Error);
  }
}

}  // namespace
}  // namespace muster::track
