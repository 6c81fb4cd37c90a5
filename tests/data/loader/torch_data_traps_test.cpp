// What LibTorch's own torch::data does to a program, and that muster::data does not: the first half of each
// test is LibTorch as it is, so that a version that mends it is noticed.
#include <atomic>
#include <fstream>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/data/loader/loader.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/sets/mnist_files.h"

#include "tests/data/loader/loader_fixtures.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::data {
namespace {

namespace torch_data = torch::data;
using ::testing::Each;
using ::testing::HasSubstr;

/// Sample i is i. Counts the intra-op threads that its readers have, and throws for one sample.
class TorchNumbers : public torch_data::Dataset<TorchNumbers> {
 public:
  explicit TorchNumbers(size_t samples, int64_t bad = -1) : samples_(samples), bad_(bad) {}

  torch_data::Example<> get(size_t index) override {
    most_threads = std::max(most_threads.load(), at::get_num_threads());
    if (static_cast<int64_t>(index) == bad_) throw std::runtime_error("rotten");
    return {torch::tensor(static_cast<int64_t>(index)), torch::tensor(0)};
  }
  torch::optional<size_t> size() const override { return samples_; }

  static inline std::atomic<int> most_threads = 0;

 private:
  size_t samples_;
  int64_t bad_;
};

template <class Sampler>
auto torch_loader(size_t samples, size_t workers, Sampler sampler, int64_t bad = -1) {
  return torch_data::make_data_loader(
      TorchNumbers(samples, bad).map(torch_data::transforms::Stack<>()),
      std::move(sampler),
      torch_data::DataLoaderOptions().batch_size(4).workers(workers));
}

template <class TorchLoader>
std::vector<int64_t> order_of(TorchLoader& loader) {
  std::vector<int64_t> order;
  for (const auto& batch : *loader)
    for (int64_t row = 0; row < batch.data.size(0); ++row)
      order.push_back(batch.data[row].template item<int64_t>());
  return order;
}

TEST(TorchDataTraps, AnEpochThatIsLeftEarlyLeavesALoaderWithoutUse) {
  const auto theirs = torch_loader(40, 2, torch_data::samplers::SequentialSampler(40));
  for (const auto& batch : *theirs) {
    EXPECT_EQ(batch.data.size(0), 4);
    break;
  }
  EXPECT_THAT(test::error_of([&] { theirs->begin(); }), HasSubstr("Attempted to get a new"));

  Loader ours(std::make_shared<Numbers>(40), {.batch_size = 4, .workers = 2});
  for (const Batch& batch : ours.epoch(0)) {
    EXPECT_EQ(batch.size(), 4);
    break;
  }
  EXPECT_EQ(drain(ours.epoch(1)).size(), 10U);
}

TEST(TorchDataTraps, WorkersTakeAllCoresEach) {
  at::set_num_threads(3);
  TorchNumbers::most_threads = 0;
  const auto theirs = torch_loader(8, 2, torch_data::samplers::SequentialSampler(8));
  order_of(theirs);
  EXPECT_GT(TorchNumbers::most_threads, 1);

  const auto data = std::make_shared<Gated>(8);
  Loader ours(data, {.batch_size = 4, .workers = 2});
  drain(ours.epoch(0));
  EXPECT_THAT(data->intraop_threads(), Each(1));
}

TEST(TorchDataTraps, AnErrorNamesNeitherSampleNorBatchAndHasATypeOfItsOwnWithoutWorkers) {
  const auto first_error = [](auto& loader) {
    try {
      for (auto batch = loader->begin(); batch != loader->end(); ++batch) {
      }
    } catch (const torch_data::WorkerException& error) {
      return std::string("worker: ") + error.what();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string(test::kNoError);
  };
  const auto alone = torch_loader(12, 0, torch_data::samplers::SequentialSampler(12), 6);
  EXPECT_EQ(first_error(alone), "rotten");
  const auto theirs = torch_loader(12, 2, torch_data::samplers::SequentialSampler(12), 6);
  const std::string told = first_error(theirs);
  EXPECT_THAT(told, HasSubstr("worker: "));
  EXPECT_THAT(told, ::testing::Not(HasSubstr("6")));

  for (const int64_t workers : {0, 2}) {
    Loader ours(std::make_shared<Faulty>(12, std::set<int64_t>{6}),
                {.batch_size = 4, .workers = workers});
    Epoch epoch = ours.epoch(0);
    EXPECT_TRUE(epoch.next());
    EXPECT_THAT(test::muster_error_of([&] { epoch.next(); }).what(),
                HasSubstr("sample 6 in batch 1 of epoch 0: rotten"));
    EXPECT_TRUE(epoch.next()) << "and goes on behind it";
  }
}

TEST(TorchDataTraps, EveryEpochOfADistributedSamplerHasTheSameOrder) {
  torch_data::samplers::DistributedRandomSampler sampler(16, 1, 0, false);
  const auto theirs = torch_loader(16, 0, sampler);
  const std::vector<int64_t> first = order_of(theirs);
  sampler.set_epoch(1);  // the loader has a copy, which nobody can reach
  EXPECT_EQ(order_of(theirs), first);

  const DistributedSampler ours(16, {.world_size = 1, .rank = 0});
  EXPECT_NE(ours.indices(0), ours.indices(1));
}

TEST(TorchDataTraps, AShortFileOfMnistIsReadToItsEndAndBeyond) {
  const test::Folder folder;
  const auto big_endian = [](uint32_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  constexpr uint32_t kSamples = 10'000, kSide = 28;
  std::ofstream(folder.path() / "t10k-images-idx3-ubyte", std::ios::binary)
      << big_endian(2051) << big_endian(kSamples) << big_endian(kSide) << big_endian(kSide)
      << std::string(1000, '\x7f');  // of 7,840,000 bytes
  std::ofstream(folder.path() / "t10k-labels-idx1-ubyte", std::ios::binary)
      << big_endian(2049) << big_endian(kSamples) << std::string(kSamples, '\1');
  const torch_data::datasets::MNIST theirs(folder.path().string(),
                                           torch_data::datasets::MNIST::Mode::kTest);
  EXPECT_EQ(theirs.size().value(), kSamples) << "of which one and a bit are in the file";

  EXPECT_THAT(test::error_of([&] {
                read_mnist_files(folder.path(),
                                 Split::kTest,
                                 {.name = "mnist", .sample_shape = {1, 28, 28}, .classes = 10},
                                 "");
              }),
              HasSubstr("t10k-images-idx3-ubyte"));
}

}  // namespace
}  // namespace muster::data
