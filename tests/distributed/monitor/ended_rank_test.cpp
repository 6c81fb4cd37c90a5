// What a rank is told that waits for one which has ended.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/diagnose/record/store_diagnosis.h"
#include "muster/distributed/meet/backend.h"
#include "muster/testing/run_ranks.h"

namespace muster::distributed {
namespace {

using diagnose::Diagnosis;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Its backend says so, and its last heartbeat does.
TEST(EndedRank, IsSaidToHaveEndedOnceAndNoLongerTimeoutIsAdvised) {
  for (const char* backend : {"thread", "shm", "gloo"}) {
    SCOPED_TRACE(backend);
    if (!backends().at(backend).available().empty()) continue;
    const std::vector<std::string> errors =
        testing::rank_errors(2,
                             [](const ProcessGroup& group) {
                               group.all_reduce(torch::ones({3}));
                               if (group.rank() == 0) group.recv(torch::zeros({2}), 1);
                             },
                             {.timeout = std::chrono::seconds(60), .backend = backend});
    EXPECT_THAT(errors[0],
                AllOf(HasSubstr("rank 1 has ended"),
                      Not(ContainsRegex("rank 1 has ended.*rank 1 has ended")),
                      Not(HasSubstr("longer timeout"))));
  }
}

TEST(EndedRank, IsNoSlowOne) {
  EXPECT_THAT(hint_of(Diagnosis::Kind::kEnded), HasSubstr("waiting longer does not help"));
  EXPECT_THAT(hint_of(Diagnosis::Kind::kMissing), HasSubstr("a slow one needs a longer timeout"));
}

}  // namespace
}  // namespace muster::distributed
