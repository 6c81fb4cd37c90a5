// A run that stops after any batch goes on with exactly those that are left, to the bit, whatever number of
// workers and ranks goes on: files decoded, cut, flipped and jittered by chance.
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/samplers/exact_cover.h"
#include "muster/data/samplers/random.h"
#include "muster/data/sets/image_folder.h"
#include "muster/data/transform/transformed.h"
#include "muster/formats/crc32.h"

#include "tests/support/folder.h"
#include "tests/support/golden.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDrawnChain =
    "random_resized_crop:size=9|random_horizontal_flip|color_jitter:brightness=0.4,saturation=0.3";
constexpr int64_t kEpoch = 3;

uint32_t hash_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return formats::crc32_of({static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
}

class ResumeSweep : public ::testing::Test {
 protected:
  ResumeSweep() {
    const char* files[] = {"colour_420.jpg", "colour_422.jpg", "grey.jpg", "palette8.png"};
    for (int number = 0; number < 22; ++number) {
      const fs::path file = files[number % 4];
      const fs::path to = folder_.path() / (number % 3 == 0 ? "a" : "b") /
                          (std::to_string(number) + file.extension().string());
      fs::create_directories(to.parent_path());
      fs::copy_file(test::source_path("tests/golden/images/input/" + file.string()), to);
    }
    images_ = transformed(std::make_shared<ImageFolder>(folder_.path()), kDrawnChain);
  }

  Loader loader(int64_t workers, int64_t batch_size, std::shared_ptr<const Sampler> sampler) const {
    return {
        images_, {.batch_size = batch_size, .workers = workers, .seed = 11}, std::move(sampler)};
  }
  std::shared_ptr<const Sampler> shuffled() const {
    return std::make_shared<RandomSampler>(images_->size(), RandomSamplerOptions{.seed = 5});
  }

  test::Folder folder_;
  std::shared_ptr<const Dataset> images_;
};

std::vector<uint32_t> hashes(Epoch epoch) {
  std::vector<uint32_t> seen;
  for (const Batch& batch : epoch) seen.push_back(hash_of(batch["data"]));
  return seen;
}

TEST_F(ResumeSweep, EveryNumberOfWorkersGoesOnAfterEveryBatchOfEveryOther) {
  Loader first = loader(0, 3, shuffled());
  const std::vector<uint32_t> whole = hashes(first.epoch(kEpoch));
  ASSERT_EQ(whole.size(), 8U);
  for (const int64_t before : {0, 1, 2, 4}) {
    Loader stopped = loader(before, 3, shuffled());
    for (size_t done = 0; done < whole.size(); ++done) {
      LoaderState state;
      {
        Epoch epoch = stopped.epoch(kEpoch);
        for (size_t i = 0; i < done; ++i) EXPECT_EQ(hash_of((*epoch.next())["data"]), whole[i]);
        state = epoch.state();
      }
      for (const int64_t after : {0, 1, 2, 4}) {
        Loader resumed = loader(after, 3, shuffled());
        EXPECT_EQ(hashes(resumed.epoch(state)),
                  std::vector<uint32_t>(whole.begin() + static_cast<ptrdiff_t>(done), whole.end()))
            << before << " workers, then " << after << ", after " << done << " batches";
      }
    }
  }
}

/// Samples by their number in the dataset, as one world of ranks sees them from `state` on, `batches`
/// each at most; where it is then.
LoaderState seen_by(const std::function<Loader(int64_t rank)>& of_rank,
                    int64_t ranks,
                    const LoaderState& state,
                    int64_t batches,
                    std::multimap<int64_t, uint32_t>& seen) {
  LoaderState end;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Loader loader = of_rank(rank);
    Epoch epoch = loader.epoch(state);
    for (int64_t i = 0; i < batches; ++i) {
      const std::optional<Batch> batch = epoch.next();
      if (!batch) break;
      for (int64_t row = 0; row < batch->size(); ++row)
        seen.emplace(batch->indices[static_cast<size_t>(row)], hash_of((*batch)["data"][row]));
    }
    end = epoch.state();
  }
  return end;
}

TEST_F(ResumeSweep, TwoRanksThenFourThenOneSeeEachSampleOnceAndAlike) {
  const auto of_world = [&](int64_t ranks, int64_t workers) {
    return [this, ranks, workers](int64_t rank) {
      return loader(
          workers,
          4 / ranks,
          std::make_shared<ExactCoverSampler>(
              images_->size(),
              ExactCoverSamplerOptions{.world_size = ranks, .rank = rank, .shuffle = true}));
    };
  };
  std::multimap<int64_t, uint32_t> alone;
  seen_by(of_world(1, 0), 1, {.epoch = kEpoch}, 100, alone);
  ASSERT_EQ(alone.size(), 22U);
  std::multimap<int64_t, uint32_t> seen;
  LoaderState state = seen_by(of_world(2, 1), 2, {.epoch = kEpoch}, 2, seen);
  EXPECT_EQ(state, (LoaderState{kEpoch, 8}));
  state = seen_by(of_world(4, 2), 4, state, 1, seen);
  EXPECT_EQ(state, (LoaderState{kEpoch, 12}));
  seen_by(of_world(1, 4), 1, state, 100, seen);
  EXPECT_EQ(seen, alone);
}

}  // namespace
}  // namespace muster::data
