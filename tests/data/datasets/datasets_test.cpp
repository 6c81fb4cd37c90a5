// What every dataset of the table must do, and the entries one by one.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/kernel_file.h"
#include "muster/base/text.h"
#include "muster/data/datasets/synthetic.h"

#include "tests/support/error_of.h"

namespace muster::data {
namespace {

using test::refusal_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr int64_t kMib = int64_t{1} << 20;

/// While it lives, `ulimit -v` lets this process map so much more than it has mapped.
class FewAddresses {
 public:
  explicit FewAddresses(int64_t more) {
    const std::string statm = read_kernel_file("/proc/self/statm").value_or("");
    const int64_t pages = to_int(statm.substr(0, statm.find(' '))).value_or(0);
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more),
                       before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~FewAddresses() { ::setrlimit(RLIMIT_AS, &before_); }
  FewAddresses(const FewAddresses&) = delete;
  FewAddresses& operator=(const FewAddresses&) = delete;

 private:
  rlimit before_{};
};

TEST(Datasets, AreListedWithHelp) {
  EXPECT_THAT(datasets().names(), IsSupersetOf({"cifar10", "folder", "mnist", "tar", "text"}));
  for (const DatasetEntry* entry : datasets()) EXPECT_FALSE(entry->help.empty());
}

TEST(Datasets, RefuseUnknownParametersAndMissingFolders) {
  for (const DatasetEntry* entry : datasets()) {
    EXPECT_THAT(refusal_of([&] {
                  entry->open({.params = {{"no-such", "1"}}});
                }),
                HasSubstr("has no parameter \"no-such\""))
        << entry->name;
  }
  for (const char* name : {"fashion-mnist", "mnist"}) {
    EXPECT_THAT(refusal_of([&] { datasets().at(name).open({.data_dir = "/nowhere"}); }),
                HasSubstr("/nowhere/train-images"))
        << name;
  }
}

TEST(Datasets, SayWhereToGetMnist) {
  EXPECT_THAT(refusal_of([] { datasets().at("mnist").open({}); }), HasSubstr("--data-dir"));
}

TEST(Datasets, TheFirstParameterMayBeAPathAlone) {
  const auto params_of = [](std::string_view text) { return parse_dataset_spec(text).params; };
  using Values = ParamValues;
  EXPECT_EQ(parse_dataset_spec("folder:/a/b").name, "folder");
  EXPECT_EQ(params_of("folder:/a/b"), (Values{{"path", "/a/b"}}));
  EXPECT_EQ(params_of("folder:/a:b,size=224"), (Values{{"path", "/a:b"}, {"size", "224"}}));
  EXPECT_EQ(params_of("folder:size=224,path=/a"), (Values{{"path", "/a"}, {"size", "224"}}));
  EXPECT_EQ(params_of("folder:"), Values{});
  EXPECT_EQ(params_of("folder"), Values{});
  EXPECT_THAT(refusal_of([&] { params_of("folder:/a,/b"); }), HasSubstr("each part is name=value"));
}

TEST(Synthetic, IsTheSameForTheSameSeed) {
  const auto a = make_synthetic({.samples = 40, .seed = 5}, Split::kTrain);
  EXPECT_TRUE(
      a->images().equal(make_synthetic({.samples = 40, .seed = 5}, Split::kTrain)->images()));
  EXPECT_FALSE(
      a->images().equal(make_synthetic({.samples = 40, .seed = 6}, Split::kTrain)->images()));
  EXPECT_FALSE(
      a->images().equal(make_synthetic({.test_samples = 40, .seed = 5}, Split::kTest)->images()));
}

TEST(Synthetic, HasTheShapeThatItsParametersAskFor) {
  const auto data =
      datasets()
          .at("synthetic")
          .open({.split = Split::kTest,
                 .params = parse_param_values("test_samples=12,channels=3,size=9,classes=5")});
  EXPECT_EQ(data->size(), 12);
  EXPECT_THAT(data->spec().sample_shape, ElementsAre(3, 9, 9));
  const std::array<int64_t, 2> indices{4, 11};
  const Batch batch = data->get(indices);
  EXPECT_THAT(batch["data"].sizes(), ElementsAre(2, 3, 9, 9));
  EXPECT_EQ(batch["target"][0].item<int64_t>(), 4);
  EXPECT_EQ(batch["target"][1].item<int64_t>(), 1);
}

TEST(Synthetic, CanBeLearnedFromTheTrainingSplitForTheTestSplit) {
  // The nearest class mean of the training split names the class of every test image.
  const auto train = make_synthetic({}, Split::kTrain);
  const auto test = make_synthetic({}, Split::kTest);
  std::vector<at::Tensor> means;
  for (int64_t label = 0; label < 10; ++label) {
    means.push_back(
        train->images().index({train->labels() == label}).to(torch::kFloat).mean(0).flatten());
  }
  const at::Tensor distance =
      torch::cdist(test->images().to(torch::kFloat).flatten(1), torch::stack(means));
  EXPECT_TRUE(distance.argmin(1).equal(test->labels()));
}

// 143 TiB, and more bytes than 64 bits count: said before the allocator is asked.
TEST(Synthetic, RefusesASplitThatMemoryHasNoRoomFor) {
  EXPECT_THAT(
      refusal_of([] { make_synthetic({.samples = 2'000'000'000, .size = 280}, Split::kTrain); }),
      AllOf(HasSubstr("parameter \"samples\": its samples of 78408 bytes lie in memory, of which "),
            HasSubstr(" is free, and so many need 143 TiB (got 2000000000)"),
            HasSubstr("hint: take "),
            HasSubstr(" at most, or smaller images")));
  EXPECT_THAT(refusal_of([] {
                make_synthetic({.test_samples = int64_t{1} << 31, .channels = 1024, .size = 4096},
                               Split::kTest);
              }),
              AllOf(HasSubstr("\"test_samples\""), HasSubstr("need more than 16384 PiB")));
  EXPECT_EQ(make_synthetic({.samples = 2'000'000'000, .test_samples = 3}, Split::kTest)->size(), 3);
}

// The machine has the memory.
TEST(Synthetic, RefusesASplitThatTheLimitOfAddressesHasNoRoomFor) {
  const FewAddresses limit(64 * kMib);
  EXPECT_THAT(
      refusal_of([] { make_synthetic({.samples = 256 * kMib / 1032, .size = 32}, Split::kTrain); }),
      AllOf(HasSubstr("samples of 1032 bytes lie in memory, of which "),
            HasSubstr(" is free, and so many need 256 MiB")));
}

TEST(Synthetic, RefusesSizesThatMakeNoSense) {
  EXPECT_THAT(refusal_of([] { make_synthetic({.samples = 0}, Split::kTrain); }),
              HasSubstr("parameter \"samples\": it is at least 1 (got 0)"));
  EXPECT_THAT(refusal_of([] { make_synthetic({.classes = 257}, Split::kTrain); }),
              HasSubstr("at most 256"));
  EXPECT_THAT(refusal_of([] { make_synthetic({.noise = 1.5}, Split::kTrain); }),
              HasSubstr("0 … 1 (got 1.5)"));
}

}  // namespace
}  // namespace muster::data
