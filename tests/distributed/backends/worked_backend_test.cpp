// The backend of docs/add-a-backend.md: tensors go through the store where the ranks met. Slow, and
// right wherever ranks can meet at all.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/op_queue.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/thread/thread_exchange.h"

#include "tests/support/error_of.h"

namespace muster::distributed {
namespace {

using c10d::OpType;

class StoreBackend final : public PostingBackend {
 public:
  explicit StoreBackend(const BackendRequest& request)
      : PostingBackend("store", request.rank, request.world_size, request.timeout),
        store_(request.store),
        queue_(std::make_shared<OpQueue>([] { return std::string(); })) {}

  ~StoreBackend() override { queue_->close("the group was destroyed"); }

 protected:
  WorkPtr post(uint64_t sequence, Contribution part) override {
    auto work =
        c10::make_intrusive<PendingWork>(getRank(), part.op, sequence, part.results(), queue_);
    const bool now = !part.async;
    queue_->submit(
        work,
        [store = store_, rank = getRank(), world = getSize(), sequence, part = std::move(part)] {
          run(*store, rank, world, sequence, part);
        },
        now);
    return work;
  }

 private:
  /// Gets everybody's inputs and does what thread ranks do: the whole operation, in rank order.
  static void run(
      c10d::Store& store, int rank, int world, uint64_t sequence, const Contribution& part) {
    if (part.op != OpType::ALLREDUCE && part.op != OpType::BROADCAST &&
        part.op != OpType::ALLGATHER && part.op != OpType::BARRIER)
      throw usage_error({.refused = part.describe(), .rule = "the backend store does not know it"});
    std::vector<Contribution> all(static_cast<size_t>(world), part);
    for (int other = 0; other < world; ++other) {
      Contribution& theirs = all[static_cast<size_t>(other)];
      for (at::Tensor& output : theirs.outputs)
        if (other != rank) output = at::empty_like(output);
    }
    store.set(concat(sequence, "/", rank, "/is"), OpSignature::of(part, 0).describe());
    for (size_t i = 0; i < part.inputs.size(); ++i)
      put(store, concat(sequence, "/", rank, "/", i), part.inputs[i]);
    for (int other = 0; other < world; ++other) {
      check_same(store, concat(sequence, "/", other, "/is"), part, other);
      for (size_t i = 0; other != rank && i < part.inputs.size(); ++i)
        all[static_cast<size_t>(other)].inputs[i] =
            get(store, concat(sequence, "/", other, "/", i), part.inputs[i]);
    }
    run_collective(all);
  }

  static void put(c10d::Store& store, const std::string& key, const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    std::vector<uint8_t> bytes(dense.nbytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), dense.data_ptr(), bytes.size());
    store.set(key, bytes);
  }

  static at::Tensor get(c10d::Store& store, const std::string& key, const at::Tensor& like) {
    const std::vector<uint8_t> bytes = store.get(key);
    at::Tensor tensor = at::empty(like.sizes(), like.options());
    if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }

  static void check_same(c10d::Store& store,
                         const std::string& key,
                         const Contribution& part,
                         int other) {
    const auto bytes = store.get(key);
    const std::string theirs(bytes.begin(), bytes.end()),
        ours = OpSignature::of(part, 0).describe();
    if (theirs == ours) return;
    throw usage_error({.refused = "ranks disagree on a collective",
                       .value = concat(ours, "; rank ", other, ": ", theirs)});
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<OpQueue> queue_;
};

c10::intrusive_ptr<c10d::Backend> make(const BackendRequest& request) {
  return c10::make_intrusive<StoreBackend>(request);
}

}  // namespace

extern constinit const BackendEntry store_entry{
    .name = "store",
    .help = "tensors through the store where the ranks met; slow",
    .preference = -1,
    .type = c10d::ProcessGroup::BackendType::CUSTOM,
    .available = [] { return std::string(); },
    .make = &make,
    .moves_cpu = true,
    .moves_cuda = false};

namespace {

/// Two ranks on two threads.
void on_two_ranks(const std::function<void(int, c10d::Backend&)>& rank_main) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = store_entry.make(
          {.store = store, .rank = rank, .world_size = 2, .timeout = std::chrono::seconds(20)});
      rank_main(rank, *backend);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(WorkedBackend, ReducesBroadcastsAndGathers) {
  on_two_ranks([](int rank, c10d::Backend& backend) {
    std::vector<at::Tensor> tensor{torch::full({3}, rank + 1.0F)};
    backend.allreduce(tensor)->wait();
    EXPECT_TRUE(torch::equal(tensor[0], torch::full({3}, 3.0F)));
    std::vector<at::Tensor> mine{torch::full({2}, float(rank))};
    std::vector<std::vector<at::Tensor>> all{{torch::zeros({2}), torch::zeros({2})}};
    backend.allgather(all, mine)->wait();
    EXPECT_TRUE(torch::equal(all[0][1], torch::ones({2})));
    c10d::BroadcastOptions options;
    options.rootRank = 1;
    backend.broadcast(mine, options)->wait();
    EXPECT_TRUE(torch::equal(mine[0], torch::ones({2})));
  });
}

TEST(WorkedBackend, NamesWhatRanksDisagreeOn) {
  on_two_ranks([](int rank, c10d::Backend& backend) {
    std::vector<at::Tensor> tensor{torch::ones({2 + rank})};
    EXPECT_THAT(test::error_of([&] { backend.allreduce(tensor)->wait(); }),
                ::testing::HasSubstr("all_reduce sum float32[3]"));
  });
}

}  // namespace
}  // namespace muster::distributed
