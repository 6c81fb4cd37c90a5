// What tells data of the same sizes apart.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/sets/image_dataset.h"
#include "muster/data/sets/subset_dataset.h"
#include "muster/data/sets/tensor_dataset.h"
#include "muster/data/transforms/fit_images.h"

namespace muster::data {
namespace {

constexpr int64_t kPictures = 300;

at::Tensor pictures() {
  return torch::arange(kPictures * 8).remainder(251).to(torch::kUInt8).view({kPictures, 2, 2, 2});
}
at::Tensor kinds() { return torch::arange(kPictures).remainder(3); }

std::shared_ptr<const ImageDataset> as_images(const at::Tensor& images, const at::Tensor& labels) {
  return std::make_shared<ImageDataset>(
      DataSpec{.name = "small", .sample_shape = {2, 2, 2}, .classes = 3}, images, labels);
}

/// As a user's own class: it says nothing of fingerprints.
class OwnDataset final : public Dataset {
 public:
  explicit OwnDataset(at::Tensor rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return rows_.size(0); }
  DataSpec spec() const override { return {.name = "own", .sample_shape = {8}, .classes = 3}; }

 private:
  Batch load(std::span<const int64_t> indices, const SampleContext&) const override {
    const at::Tensor wanted =
        torch::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), torch::kLong);
    return {.tensors = {{"data", rows_.index_select(0, wanted)}, {"target", wanted.remainder(3)}},
            .indices = {indices.begin(), indices.end()}};
  }

  at::Tensor rows_;
};

using Make = std::function<std::shared_ptr<const Dataset>(const at::Tensor&, const at::Tensor&)>;

TEST(Fingerprint, ChangesWithAnySampleOfADatasetInMemory) {
  const std::vector<Make> all{&as_images,
                              [](const at::Tensor& images, const at::Tensor& labels) {
                                return std::make_shared<TensorDataset>(images, labels, 3);
                              },
                              [](const at::Tensor& images, const at::Tensor& labels) {
                                return std::make_shared<SubsetDataset>(
                                    as_images(images, labels), 10, kPictures - 10);
                              },
                              [](const at::Tensor& images, const at::Tensor& labels) {
                                return fit_images(as_images(images, labels), 2, 4, 4);
                              }};
  for (size_t kind = 0; kind < all.size(); ++kind) {
    const Make& make = all[kind];
    const uint32_t whole = make(pictures(), kinds())->fingerprint();
    EXPECT_EQ(make(pictures(), kinds())->fingerprint(), whole) << kind;
    for (const int64_t sample : {int64_t{0}, int64_t{117}, kPictures - 1}) {
      at::Tensor images = pictures(), labels = kinds();
      images[sample][1][0][1] += 1;
      labels[sample] = (labels[sample] + 1) % 3;
      EXPECT_NE(make(images, kinds())->fingerprint(), whole) << kind << ", sample " << sample;
      EXPECT_NE(make(pictures(), labels)->fingerprint(), whole) << kind << ", sample " << sample;
    }
    // The same samples in another order.
    EXPECT_NE(make(pictures().flip(0), kinds().flip(0))->fingerprint(), whole) << kind;
  }
}

TEST(Fingerprint, HasTheShapeInIt) {
  const auto of = [](at::IntArrayRef shape) {
    return TensorDataset(torch::zeros(shape), torch::zeros({4})).fingerprint();
  };
  EXPECT_NE(of({4, 6}), of({4, 2, 3}));
  EXPECT_NE(TensorDataset(torch::zeros({4, 2}), torch::zeros({4})).fingerprint(),
            TensorDataset(torch::zeros({4, 2}, torch::kInt), torch::zeros({4})).fingerprint());
  const auto whole = as_images(pictures(), kinds());
  EXPECT_NE(SubsetDataset(whole, 0, 10).fingerprint(), SubsetDataset(whole, 1, 10).fingerprint());
}

TEST(Fingerprint, OfAnyDatasetIsOverASpreadOfItsSamples) {
  const at::Tensor rows = torch::arange(kPictures * 8, torch::kFloat).view({kPictures, 8});
  const uint32_t whole = OwnDataset(rows).fingerprint();
  EXPECT_EQ(OwnDataset(rows.clone()).fingerprint(), whole);
  EXPECT_NE(OwnDataset(rows + 1).fingerprint(), whole);
  EXPECT_NE(OwnDataset(rows.slice(0, 0, 299)).fingerprint(), whole);
  at::Tensor first = rows.clone();
  first[0][3] += 1;
  EXPECT_NE(OwnDataset(first).fingerprint(), whole);
  // Any 64 in a row that change, change one of those that are looked at.
  for (const int64_t from : {0, 100, 236}) {
    at::Tensor some = rows.clone();
    some.slice(0, from, from + 64) += 1;
    EXPECT_NE(OwnDataset(some).fingerprint(), whole) << from;
  }
  EXPECT_EQ(OwnDataset(torch::zeros({0, 8})).fingerprint(),
            OwnDataset(torch::zeros({0, 8})).fingerprint());
}

TEST(Fingerprint, OfAFewSamplesIsOverAllOfThem) {
  const at::Tensor rows = torch::zeros({5, 8});
  for (int64_t row = 0; row < 5; ++row) {
    at::Tensor other = rows.clone();
    other[row][0] = 1;
    EXPECT_NE(OwnDataset(other).fingerprint(), OwnDataset(rows).fingerprint()) << row;
  }
}

}  // namespace
}  // namespace muster::data
