#include "cli/line/run_flags.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunFlags parsed_run(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  program::Console console(out, err, false, false);
  RunFlags flags;
  EXPECT_EQ(parse_run_flags(args, console, flags), std::nullopt);
  return flags;
}

std::string refusal(const std::vector<std::string>& args) {
  try {
    parsed_run(args);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(RunFlags, EndAtTheProgramWithOrWithoutDashes) {
  for (const auto& args : {std::vector<std::string>{"--nproc-per-node", "2", "--", "./x", "--help"},
                           std::vector<std::string>{"--nproc_per_node=2", "./x", "--help"}}) {
    const RunFlags flags = parsed_run(args);
    EXPECT_EQ(flags.spec.nproc_per_node, 2);
    EXPECT_THAT(flags.spec.argv, ElementsAre("./x", "--help"));
  }
}

TEST(RunFlags, LeaveTheUnderscoresOfTheProgramAlone) {
  EXPECT_THAT(parsed_run({"--no-prefix", "./x", "--a_b"}).spec.argv, ElementsAre("./x", "--a_b"));
}

TEST(RunFlags, ReplaceTheNameOfThisProgramByItsPath) {
  EXPECT_THAT(parsed_run({"--", "muster", "train"}).spec.argv[0], HasSubstr("/cli_tests"));
}

TEST(RunFlags, TakeTheAddressInBothOfTorchrunsForms) {
  const RunFlags a =
      parsed_run({"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "host0:4711", "x"});
  const RunFlags b = parsed_run(
      {"--nnodes=2", "--node-rank=1", "--master-addr", "host0", "--master-port", "4711", "x"});
  for (const RunFlags& flags : {a, b}) {
    EXPECT_EQ(flags.spec.master_addr, "host0");
    EXPECT_EQ(flags.spec.master_port, 4711);
    EXPECT_EQ(flags.spec.node_rank, 1);
  }
}

TEST(RunFlags, RefuseWhatIsNotSupportedYetAndSayWhatIs) {
  EXPECT_THAT(refusal({"--nnodes", "1:4", "x"}), HasSubstr("elastic"));
  EXPECT_THAT(refusal({"--nnodes", "2", "--rdzv-endpoint", "h:1", "x"}),
              HasSubstr("add --node-rank"));
  EXPECT_THAT(refusal({"--rdzv-backend", "etcd", "x"}), HasSubstr("only static"));
}

TEST(RunFlags, SuggestTheNearestFlag) {
  EXPECT_THAT(refusal({"--nproc-per-nod", "2", "x"}), HasSubstr("did you mean --nproc-per-node?"));
  EXPECT_THAT(refusal({"--nproc_per_nod=2", "x"}), HasSubstr("did you mean --nproc-per-node?"));
}

TEST(RunFlags, RefuseBadValues) {
  EXPECT_THAT(refusal({"--nproc-per-node", "many", "x"}), HasSubstr("auto, cpu or gpu"));
  EXPECT_THAT(refusal({"--max-restarts", "x", "x"}), HasSubstr("--max-restarts"));
  EXPECT_THAT(refusal({"--master-port", "0", "x"}), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(refusal({"--local-ranks-filter", "1", "x"}), HasSubstr("local ranks are 0 to 0"));
  EXPECT_THAT(refusal({"--rdzv-endpoint", "h:1", "--master-port", "1", "x"}),
              HasSubstr("the same thing"));
}

TEST(RanksPerNode, CountsDevices) {
  EXPECT_EQ(ranks_per_node("4", 0, 2), 4);
  EXPECT_EQ(ranks_per_node("cpu", 8, 2), 2);
  EXPECT_EQ(ranks_per_node("gpu", 8, 2), 8);
  EXPECT_EQ(ranks_per_node("auto", 8, 2), 8);
  EXPECT_EQ(ranks_per_node("auto", 0, 2), 2);
  EXPECT_THROW(ranks_per_node("gpu", 0, 2), Error);
}

TEST(Endpoint, KnowsIpv6AndTorchrunsPort) {
  using Pair = std::pair<std::string, int64_t>;
  EXPECT_EQ(parse_endpoint("host:1"), (Pair{"host", 1}));
  EXPECT_EQ(parse_endpoint("host"), (Pair{"host", 29500}));
  EXPECT_EQ(parse_endpoint("[::1]:80"), (Pair{"::1", 80}));
  EXPECT_EQ(parse_endpoint("[::1]"), (Pair{"::1", 29500}));
  for (const char* text : {"", ":1", "h:", "h:0", "h:65536", "h:x"})
    EXPECT_THROW(parse_endpoint(text), Error) << text;
}

}  // namespace
}  // namespace muster::cli
