// Random programs over random streams of two devices: the CPU's numbers where all waits are there,
// and where some are missing a race at each operator that has one, and at no other. Who is before
// whom is worked out here from the program alone: by sets of operations, not by clocks.
#include <array>
#include <bitset>
#include <deque>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"

#include "tests/testing/accelerator/fake.h"

namespace muster {
namespace {

using testing::FakeAccelerator;
using testing::FakeRace;
using testing::Races;

constexpr int kSide = 8;  // matrices are so wide and high
constexpr int kMatrices = 4;
constexpr size_t kMostNodes = 64;

struct Rectangle {
  int matrix = 0;
  int64_t row = 0, column = 0, rows = 0, columns = 0;

  at::Tensor of(const std::vector<at::Tensor>& matrices) const {
    return matrices[static_cast<size_t>(matrix)].narrow(0, row, rows).narrow(1, column, columns);
  }
  bool meets(const Rectangle& other) const {
    return matrix == other.matrix && row < other.row + other.rows && other.row < row + rows &&
           column < other.column + other.columns && other.column < column + columns;
  }
};

enum class Kind { kAdd, kMultiply, kFill, kCopy, kHostWaits };

struct Node {
  Kind kind = Kind::kAdd;
  Rectangle to, from;
  size_t stream = 0;  // of two devices: those of the first one come first
  size_t other = 0;   // kCopy between devices: the current stream of the device that it goes to
  std::bitset<kMostNodes> before;  // all that is done when it starts

  bool reads_from() const { return kind == Kind::kAdd || kind == Kind::kCopy; }
  bool races_with(const Node& first) const {
    if (kind == Kind::kHostWaits || first.kind == Kind::kHostWaits) return false;
    return to.meets(first.to) || (reads_from() && from.meets(first.to)) ||
           (first.reads_from() && to.meets(first.from));
  }
};

constexpr size_t kStreams = 6;  // three of each device
int device_of_stream(size_t stream) { return stream < kStreams / 2 ? 0 : 1; }
int device_of_matrix(int matrix) { return matrix % 2; }

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    for (size_t i = 0; i < kMostNodes; ++i) nodes_.push_back(drawn_node());
  }

  /// As written, one after the other.
  std::vector<at::Tensor> on_cpu() const {
    std::vector<at::Tensor> matrices = fresh([](int) { return c10::Device(c10::kCPU); });
    for (const Node& node : nodes_) run(node, matrices);
    return matrices;
  }

  /// On the fake devices; of the waits that are needed so large a share is left out.
  std::vector<at::Tensor> on_streams(FakeAccelerator& fake, double left_out) {
    std::vector<at::Tensor> matrices =
        fresh([](int matrix) { return FakeAccelerator::device(device_of_matrix(matrix)); });
    synchronize();
    std::vector<c10::Stream> streams;
    for (size_t s = 0; s < kStreams; ++s)
      streams.push_back(
          test::fake_guard().getStreamFromGlobalPool(FakeAccelerator::device(device_of_stream(s))));
    for (size_t i = 0; i < nodes_.size(); ++i) {
      wait_and_run(i, matrices, streams, left_out);
      compare(fake.take_races(), i, streams);
    }
    synchronize();
    return matrices;
  }

  static void synchronize() {
    for (const c10::DeviceIndex device : {0, 1}) test::fake_guard().synchronizeDevice(device);
  }

  /// Operations that raced with an earlier one.
  int racing() const { return racing_; }

 private:
  int64_t drawn(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random_);
  }

  Rectangle drawn_rectangle(int matrix, int64_t rows, int64_t columns) {
    return {matrix, drawn(0, kSide - rows), drawn(0, kSide - columns), rows, columns};
  }

  Node drawn_node() {
    Node node;
    const int64_t kind = drawn(0, 19);
    node.kind = kind == 0   ? Kind::kHostWaits
                : kind < 8  ? Kind::kAdd
                : kind < 12 ? Kind::kMultiply
                : kind < 14 ? Kind::kFill
                            : Kind::kCopy;
    const int64_t rows = drawn(1, kSide), columns = drawn(1, kSide);
    const int to = static_cast<int>(drawn(0, kMatrices - 1));
    int from = (to + 2) % kMatrices;  // another one of the same device
    if (node.kind == Kind::kCopy) from = (to + static_cast<int>(drawn(1, 3))) % kMatrices;
    node.to = drawn_rectangle(to, rows, columns);
    node.from = drawn_rectangle(from, rows, columns);
    const int at = node.kind == Kind::kCopy ? device_of_matrix(from) : device_of_matrix(to);
    const auto half = static_cast<int64_t>(kStreams / 2);
    node.stream = static_cast<size_t>(at * half + drawn(0, half - 1));
    node.other = node.stream;
    if (device_of_matrix(to) != at)
      node.other = static_cast<size_t>(device_of_matrix(to) * half + drawn(0, half - 1));
    return node;
  }

  template <class DeviceOf>
  static std::vector<at::Tensor> fresh(const DeviceOf& device_of) {
    std::vector<at::Tensor> matrices;
    for (int m = 0; m < kMatrices; ++m)
      matrices.push_back(torch::sin(torch::arange(kSide * kSide).to(at::kFloat) + m)
                             .view({kSide, kSide})
                             .to(device_of(m)));
    return matrices;
  }

  static void run(const Node& node, const std::vector<at::Tensor>& matrices) {
    switch (node.kind) {
      case Kind::kAdd:
        node.to.of(matrices).add_(node.from.of(matrices), 0.5);
        break;
      case Kind::kMultiply:
        node.to.of(matrices).mul_(0.75);
        break;
      case Kind::kFill:
        node.to.of(matrices).fill_(0.25);
        break;
      case Kind::kCopy:
        node.to.of(matrices).copy_(node.from.of(matrices));
        break;
      case Kind::kHostWaits:
        break;
    }
  }

  /// `node` comes after `first` and all that `first` comes after.
  void put_behind(Node& node, size_t first) const {
    node.before |= nodes_[first].before;
    node.before.set(first);
  }

  void wait_and_run(size_t i,
                    const std::vector<at::Tensor>& matrices,
                    const std::vector<c10::Stream>& streams,
                    double left_out) {
    Node& node = nodes_[i];
    for (const size_t stream : {node.stream, node.other})
      if (last_[stream]) put_behind(node, *last_[stream]);
    for (const size_t wait : host_waits_) put_behind(node, wait);
    if (node.kind == Kind::kHostWaits) {
      streams[node.stream].synchronize();
      host_waits_.push_back(i);
      return;
    }
    for (size_t first = 0; first < i; ++first) {
      if (node.before[first] || !node.races_with(nodes_[first])) continue;
      if (std::bernoulli_distribution(left_out)(random_)) continue;
      events_[first].block(streams[node.stream]);
      put_behind(node, first);
    }
    const c10::StreamGuard other(streams[node.other]);
    const c10::StreamGuard own(streams[node.stream]);
    run(node, matrices);
    for (const size_t stream : {node.stream, node.other}) last_[stream] = i;
    while (events_.size() < i) events_.emplace_back(c10::kPrivateUse1);
    events_.emplace_back(c10::kPrivateUse1).record(streams[node.stream]);
  }

  void compare(const std::vector<FakeRace>& found,
               size_t i,
               const std::vector<c10::Stream>& streams) {
    std::vector<size_t> expected;
    for (size_t first = 0; first < i; ++first)
      if (!nodes_[i].before[first] && nodes_[i].races_with(nodes_[first]))
        expected.push_back(first);
    EXPECT_EQ(found.empty(), expected.empty()) << "operation " << i;
    racing_ += !expected.empty();
    for (const FakeRace& race : found) {
      EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [&](size_t first) {
        const c10::Stream stream = streams[nodes_[first].stream];
        return race.first.stream == stream.id() && race.first.device == stream.device_index();
      })) << race.text();
    }
  }

  std::mt19937 random_;
  std::vector<Node> nodes_;
  std::array<std::optional<size_t>, kStreams> last_;
  std::vector<size_t> host_waits_;
  std::deque<c10::Event>
      events_;  // behind each node; where the host waits, one that was never recorded
  int racing_ = 0;
};

bool same_matrices(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t m = 0; m < a.size(); ++m)
    if (!test::same_bits(a[m], b[m])) return false;
  return true;
}

TEST(RandomGraphs, AThousandThatWaitAsTheyMustRaceNowhereAndHaveTheCpusNumbers) {
  FakeAccelerator fake({.devices = 2, .races = Races::kCollect});
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomProgram program(seed);
    ASSERT_TRUE(same_matrices(program.on_streams(fake, 0), program.on_cpu())) << seed;
    ASSERT_EQ(program.racing(), 0);
    ASSERT_FALSE(HasFailure()) << seed;
  }
}

TEST(RandomGraphs, EachMissingWaitIsFoundWhereItMatters) {
  FakeAccelerator fake({.devices = 2, .races = Races::kCollect});
  int racing = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    RandomProgram program(seed);
    program.on_streams(fake, 0.02 * (seed % 50));
    ASSERT_FALSE(HasFailure()) << seed;
    racing += program.racing();
  }
  EXPECT_GT(racing, 1000);
}

TEST(RandomGraphs, OneMissingWaitIsFound) {
  FakeAccelerator fake({.devices = 2, .races = Races::kThrow});
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomProgram program(seed);
    bool thrown = false;
    try {
      program.on_streams(fake, 0.05);
    } catch (const Error&) {
      thrown = true;
      RandomProgram::synchronize();
    }
    RandomProgram same(seed);
    fake.set_races(Races::kCollect);
    same.on_streams(fake, 0.05);
    fake.set_races(Races::kThrow);
    ASSERT_EQ(thrown, same.racing() > 0) << seed;
  }
}

}  // namespace
}  // namespace muster
