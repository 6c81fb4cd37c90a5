// What a rank writes down that fails by itself, outside of any operation.
#include <chrono>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

using distributed::ProcessGroup;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// backend
class FlightRecordOfTheThrower : public ::testing::TestWithParam<std::string> {};

TEST_P(FlightRecordOfTheThrower, IsLeftBesideTheSurvivors) {
  const test::Folder folder;
  const auto rank_main = [](ProcessGroup group) {
    group.all_reduce(torch::ones({4}));
    if (group.rank() == 1) throw std::runtime_error("no batch");
    group.all_reduce(torch::ones({4}));
  };
  EXPECT_EQ(test::error_of([&] {
              testing::run_ranks(2,
                                 rank_main,
                                 {.timeout = std::chrono::minutes(1),
                                  .backend = GetParam(),
                                  .monitor = {.flight_dir = folder.path().string()}});
            }),
            "no batch");
  const auto record = [&](int rank) {
    return parse_json(read_file(folder.path() / ("default-rank-" + std::to_string(rank) + ".json")),
                      "record");
  };
  EXPECT_EQ(record(1).at("verdict"), "rank 1 failed by itself: no batch");
  EXPECT_EQ(record(1).at("operations").size(), 1U);
  EXPECT_EQ(record(1).at("operations").at(0).at("state"), "completed");
  // The survivor's is about the culprit, and passing its error on writes no other.
  EXPECT_THAT(record(0).at("verdict").get<std::string>(),
              AllOf(HasSubstr("rank 1"), Not(HasSubstr("by itself"))));
  EXPECT_EQ(record(0).at("operations").size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         FlightRecordOfTheThrower,
                         ::testing::Values("thread", "shm", "gloo"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace muster
