// Collectives of thread ranks whose tensors are on devices with streams: who waits for whom. The
// devices are fakes, so the operation is one that touches no element.
#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/distributed/thread/thread_exchange.h"
#include "muster/tensor/device/streams.h"

#include "tests/support/fake_devices.h"

namespace muster {
namespace {

using distributed::ThreadExchange;
using tensor::stream_devices;
using test::fake;
using test::journal;
using ::testing::ElementsAre;

/// A tensor that says that it is on a device; nothing may read it.
at::Tensor on(c10::Device device) {
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), 4, c10::DataPtr(nullptr, device), nullptr, false);
  return at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      caffe2::TypeMeta::Make<float>());
}

TEST(DeviceOrder, AMarkIsMadeForEachAcceleratorOnce) {
  EXPECT_THAT(stream_devices({on(fake(1)), at::Tensor(), on(fake(0)), on(fake(1))}),
              ElementsAre(fake(1), fake(0)));
  EXPECT_TRUE(stream_devices({}).empty());
}

TEST(DeviceOrder, TheLastRanksStreamsWaitForAllAndWhoeverWaitsForTheWorkForThem) {
  ThreadExchange exchange(2);
  const auto post = [&](int rank) {
    return exchange.post(
        rank,
        0,
        {.op = c10d::OpType::BARRIER, .inputs = {on(fake(static_cast<int8_t>(rank)))}},
        std::chrono::seconds(10));
  };
  journal.take();
  const auto first = post(0);
  EXPECT_THAT(journal.take(), ElementsAre("record 0 on 0"));
  EXPECT_FALSE(first->isCompleted());
  const auto second = post(1);
  // The last one: marks its own stream, waits for both marks, runs, and marks what it has queued
  // for each Work's tensors.
  EXPECT_THAT(
      journal.take(),
      ElementsAre("record 0 on 1", "wait 0 on 0", "wait 0 on 1", "record 0 on 0", "record 0 on 1"));
  first->wait();
  EXPECT_THAT(journal.take(), ElementsAre("wait 0 on 0"));
  second->wait();
  EXPECT_THAT(journal.take(), ElementsAre("wait 0 on 1"));
}

TEST(DeviceOrder, WhatIsWrittenIsMarkedAsWellAsWhatIsRead) {
  ThreadExchange exchange(1);
  journal.take();
  exchange.post(
      0,
      0,
      {.op = c10d::OpType::BARRIER, .inputs = {on(fake(1))}, .outputs = {on(fake(1)), on(fake(3))}},
      std::chrono::seconds(10));
  const auto told = journal.take();
  ASSERT_GE(told.size(), 2U);
  EXPECT_THAT((std::vector<std::string>{told.begin(), told.begin() + 2}),
              ElementsAre("record 0 on 1", "record 0 on 3"));
}

}  // namespace
}  // namespace muster
