// Options that folders and shards of images share, and what a run has learned of its data.
#include "muster/formats/image_params.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/formats/image/folder_data.h"
#include "muster/formats/learned.h"
#include "muster/formats/tar/tar_data.h"

#include "tests/support/error_of.h"

namespace muster::formats {
namespace {

using test::error_of;
using test::refusal_of;
using ::testing::HasSubstr;

const ParamValues kSaid{{"path", "here"},
                        {"size", "32"},
                        {"bad_files", "skip"},
                        {"keep_damaged", "true"},
                        {"decode", "fast"},
                        {"normalize", "none"},
                        {"test_fraction", "0.25"},
                        {"split_seed", "7"}};

void expect_said(const ImageDataOptions& options) {
  EXPECT_EQ(options.size, 32);
  EXPECT_EQ(options.bad_files, "skip");
  EXPECT_TRUE(options.keep_damaged);
  EXPECT_EQ(options.decode, "fast");
  EXPECT_EQ(least_side_of(options), 32);
  EXPECT_EQ(options.normalize, "none");
  EXPECT_EQ(options.test_fraction, 0.25);
  EXPECT_EQ(options.split_seed, 7);
}

TEST(ImageParams, AreSetInOptionsThatDeriveFromThem) {
  const FolderDataOptions folder = folder_data_options(kSaid, {});
  EXPECT_EQ(folder.path, "here");
  expect_said(folder);
  ParamValues said = kSaid;
  said["label"] = "txt";
  const TarDataOptions tar = tar_data_options(said, {});
  EXPECT_EQ(tar.path, "here");
  EXPECT_EQ(tar.label, "txt");
  expect_said(tar);
}

TEST(ImageParams, AreShownFromThemAndHaveTheirDefaults) {
  const TarDataOptions tar = tar_data_options(kSaid, {});
  for (const Param& param : kTarDataParams) {
    const auto said = kSaid.find(param.name);
    if (said != kSaid.end()) {
      EXPECT_EQ(param.show(&tar), said->second) << param.name;
    }
  }
  const auto size = std::ranges::find(kFolderDataParams, "size", &Param::name);
  ASSERT_NE(size, kFolderDataParams.end());
  EXPECT_EQ(size->default_value(), "0");
  const auto decode = std::ranges::find(kFolderDataParams, "decode", &Param::name);
  ASSERT_NE(decode, kFolderDataParams.end());
  EXPECT_EQ(decode->default_value(), "exact");
  EXPECT_EQ(least_side_of(folder_data_options({{"path", "here"}, {"size", "32"}}, {})), 0);
}

TEST(ImageParams, WithoutSenseAreRefusedByTheirOwner) {
  const auto refused = [](const char* name, const char* value) {
    return refusal_of([&] { folder_data_options({{"path", "here"}, {name, value}}, {}); });
  };
  EXPECT_THAT(refused("bad_files", "mend"),
              HasSubstr("dataset folder parameter \"bad_files\": raise, skip or substitute"));
  EXPECT_THAT(refused("normalize", "cifar"), HasSubstr("\"normalize\": imagenet or none"));
  EXPECT_THAT(refused("decode", "quick"), HasSubstr("\"decode\": exact or fast"));
  EXPECT_THAT(refused("decode", "fast"), HasSubstr("\"decode\": fast needs the size"));
  EXPECT_THAT(refused("test_fraction", "1"), HasSubstr("\"test_fraction\": above 0, below 1"));
  EXPECT_THAT(refusal_of([] {
                tar_data_options({{"path", "here"}, {"normalize", "cifar"}}, {});
              }),
              HasSubstr("dataset tar parameter \"normalize\""));
}

TEST(Learned, IsReadOrRefusedByItsName) {
  const auto first = [](const Json& json) { return json.at("classes").at(0).get<std::string>(); };
  EXPECT_EQ(parse_learned("what it was", R"({"classes": ["cat"]})", first), "cat");
  EXPECT_THAT(error_of([&] { parse_learned("what it was", R"({"classes": [1]})", first); }),
              HasSubstr("what it was: it is as a training keeps it"));
  EXPECT_THAT(error_of([&] { read_learned("what it was", Json::object(), first); }),
              HasSubstr("what it was: it is as a training keeps it"));
}

}  // namespace
}  // namespace muster::formats
