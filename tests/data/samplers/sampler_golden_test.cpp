// The order of indices against Python's samplers; see tests/golden/sampler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/data/samplers/distributed.h"
#include "muster/data/samplers/random.h"

#include "tests/data/fnv.h"
#include "tests/support/golden.h"

namespace muster::data {
namespace {

const Json& sampler_golden() {
  static const Json json = test::read_golden("sampler");
  return json;
}

using Indices = std::vector<int64_t>;

DistributedSamplerOptions options_of(const Json& config, int64_t rank) {
  return {.world_size = config["world"],
          .rank = rank,
          .seed = config["seed"],
          .shuffle = config.value("shuffle", true),
          .drop_last = config["drop_last"]};
}

TEST(SamplerGolden, DistributedSamplerGivesPythonsListsOnEveryRank) {
  int64_t lists = 0;
  for (const Json& config : sampler_golden()["small"]) {
    for (int64_t rank = 0; rank < config["world"].get<int64_t>(); ++rank) {
      const DistributedSampler sampler(config["n"], options_of(config, rank));
      const auto want = config["ranks"][static_cast<size_t>(rank)].get<Indices>();
      ASSERT_EQ(sampler.indices(config["epoch"]), want) << config.dump() << " rank " << rank;
      ASSERT_EQ(sampler.size(), static_cast<int64_t>(want.size())) << config.dump();
      ++lists;
    }
  }
  EXPECT_GT(lists, 1000);
}

TEST(SamplerGolden, DistributedSamplerGivesPythonsOrderOfLargeDatasets) {
  for (const Json& config : sampler_golden()["large"]) {
    const Indices got = DistributedSampler(config["n"], options_of(config, config["rank"]))
                            .indices(config["epoch"]);
    ASSERT_EQ(got.size(), config["count"].get<size_t>()) << config.dump();
    EXPECT_EQ(Indices(got.begin(), got.begin() + 5), config["first"].get<Indices>());
    EXPECT_EQ(Indices(got.end() - 5, got.end()), config["last"].get<Indices>());
    EXPECT_EQ(fnv(got), config["fnv"].get<std::string>()) << config.dump();
  }
}

TEST(SamplerGolden, RandomSamplerGivesPythonsListsForAGeneratorSeededPerEpoch) {
  for (const Json& config : sampler_golden()["random"]) {
    RandomSamplerOptions options{.seed = config["seed"], .replacement = config["replacement"]};
    if (config["num_samples"] != 0) options.num_samples = config["num_samples"].get<int64_t>();
    const RandomSampler sampler(config["n"], options);
    EXPECT_EQ(sampler.indices(config["epoch"]), config["indices"].get<Indices>()) << config.dump();
    EXPECT_EQ(sampler.size(), static_cast<int64_t>(config["indices"].size())) << config.dump();
  }
}

}  // namespace
}  // namespace muster::data
