// A process that is killed is named by those who wait for it in a group of some ranks, or for its
// message, and the other groups go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/folder.h"
#include "tests/support/launched.h"
#include "tests/support/paths.h"

namespace muster::testing_process {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct KilledIn {
  std::string backend, where;
};

class KilledRankOfAGroup : public ::testing::TestWithParam<KilledIn> {};

TEST_P(KilledRankOfAGroup, IsNamedToWhoNeedsItAndHarmsNobodyElse) {
  const test::Folder folder;
  Launched job({"run",
                "--nproc-per-node",
                "4",
                "--shutdown-timeout",
                "60",
                "--",
                test::program_path("muster_grouped_rank"),
                GetParam().backend,
                GetParam().where,
                (folder.path() / "told").string()},
               {.environment = {"MUSTER_FLIGHT_DIR=" + folder.path().string()}});
  EXPECT_EQ(job.wait(std::chrono::seconds(120)).code, 1) << job.err();
  const std::string said = job.out() + job.err();
  const size_t error = said.find("[1] error: ");
  ASSERT_NE(error, std::string::npos) << said;
  const std::string told = said.substr(error, said.find('\n', error) - error);
  if (GetParam().where == "group") {
    EXPECT_THAT(told, HasSubstr("rank 1 of group stages is rank 3 of the world"));
    // Records are by the rank in the world: two groups are called "stages".
    EXPECT_THAT(read_file(folder.path() / "stages-rank-1.json"), HasSubstr("\"world_ranks\""));
  } else {
    EXPECT_THAT(told, HasSubstr("of rank 1 from rank 3: rank 3"));
  }
  EXPECT_THAT(said, HasSubstr("[0] done"));
  EXPECT_THAT(said, HasSubstr("[2] done"));
  EXPECT_THAT(said, Not(HasSubstr("[0] error")));
  EXPECT_TRUE(job.nothing_left());
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         KilledRankOfAGroup,
                         ::testing::Values(KilledIn{"shm", "group"},
                                           KilledIn{"shm", "recv"},
                                           KilledIn{"gloo", "group"},
                                           KilledIn{"gloo", "recv"}),
                         [](const auto& info) {
                           return concat(info.param.backend, "_", info.param.where);
                         });

}  // namespace
}  // namespace muster::testing_process
