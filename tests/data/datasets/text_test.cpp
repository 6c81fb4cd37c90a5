// A user's texts: which samples are which split, what the training split teaches, and what is refused.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/data/dataset.h"
#include "muster/data/sets/split.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class TextEntry : public ::testing::Test {
 protected:
  std::string put(const std::string& name, std::string_view bytes) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    write_file_atomic(path, bytes);
    return path.string();
  }
  /// 10 of each class; row i has the words "common" and "wi", twice.
  std::string put_rows() {
    std::string table = "text,label\n";
    for (int i = 0; i < 20; ++i)
      table += "common w" + std::to_string(i) + " w" + std::to_string(i) +
               (i % 2 == 0 ? ",even\n" : ",odd\n");
    return put("rows.csv", table);
  }
  std::shared_ptr<const Dataset> open(Split split,
                                      const std::string& path,
                                      const std::string& params = "",
                                      const std::string& learned = "",
                                      bool is_other = false) {
    ParamValues values = parse_param_values(params);
    values["path"] = path;
    return datasets().at("text").open(
        {.split = split, .params = values, .learned = learned, .is_other = is_other});
  }
  std::string error(const std::string& path, const std::string& params = "") {
    return test::error_of([&] { open(Split::kTrain, path, params); });
  }
  static std::vector<std::string> vocabulary(const Dataset& dataset) {
    return parse_json(dataset.learned(), "learned").at("vocabulary");
  }
  static torch::Tensor all(const Dataset& dataset) {
    std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
    return dataset.get(indices)["data"];
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

// Once a blank cell was a class of its own.
TEST_F(TextEntry, ARunThatHasLearnedABlankClassKeepsIt) {
  const std::string test = put("test.csv", "text,label\na,x\nb, \n");
  const std::string path = put("rows.csv", "text,label\na,x\nb,y\n");
  std::string learned =
      open(Split::kTrain, path, "test=" + put("t.csv", "text,label\na,x\n"))->learned();
  const std::string now = "[\"x\",\"y\"]";
  const size_t at = learned.find(now);
  ASSERT_NE(at, std::string::npos) << learned;
  learned.replace(at, now.size(), "[\" \",\"x\",\"y\"]");
  const std::string before = put("before.csv", "text,label\na,x\nb, \nc,y\n");
  EXPECT_THAT(error(before), HasSubstr("before.csv:3: it has no class"));
  EXPECT_EQ(open(Split::kTrain, before, "test=" + test, learned)->size(), 3);
  EXPECT_EQ(open(Split::kTest, before, "test=" + test, learned)->size(), 2);
  EXPECT_EQ(open(Split::kTest, before, "", learned, /*is_other=*/true)->size(), 3);
}

TEST_F(TextEntry, APartOfEachClassIsHeldOutAndTeachesNothing) {
  const std::string path = put_rows();
  const auto train = open(Split::kTrain, path), test = open(Split::kTest, path);
  EXPECT_EQ(train->size(), 16);
  EXPECT_EQ(test->size(), 4);
  EXPECT_EQ(test->targets().sum().item<int64_t>(), 2) << "two of each class";
  EXPECT_EQ(train->learned(), test->learned());
  EXPECT_EQ(vocabulary(*train).size(), 2U + 1 + 16) << "the words of the four are not there";
  EXPECT_TRUE(all(*test).eq(1).sum(1).eq(2).all().item<bool>()) << "both are unknown words";
  EXPECT_FALSE(all(*train).eq(1).any().item<bool>());
  const DataSpec spec = train->spec();
  EXPECT_TRUE(spec.is_tokens());
  EXPECT_THAT(spec.class_names, ElementsAre("even", "odd"));
  EXPECT_EQ(spec.vocabulary, 19);
  EXPECT_EQ(spec.padding, 0);
}

TEST_F(TextEntry, TheHeldOutPartIsThatOfStratifiedSplit) {
  const std::string path = put_rows();
  const auto test = open(Split::kTest, path, "split_seed=3,test_fraction=0.5,min_freq=1");
  const auto train = open(Split::kTrain, path, "split_seed=3,test_fraction=0.5,min_freq=1");
  const torch::Tensor targets = torch::arange(20).remainder(2);
  const auto whole = std::dynamic_pointer_cast<const SubsetDataset>(test)->whole();
  const SubsetList parts = stratified_split(whole, targets, 0.5, 3);
  EXPECT_TRUE(all(*test).equal(all(*parts[1])));
  EXPECT_TRUE(all(*train).equal(all(*parts[0])));
}

TEST_F(TextEntry, ATestFileMayBeSaid) {
  const std::string path = put_rows(),
                    other = put("t.csv", "label,text\nodd,common w1 new\nodd,w3\n");
  const auto test = open(Split::kTest, path, "test=" + other);
  EXPECT_EQ(open(Split::kTrain, path, "test=" + other)->size(), 20);
  EXPECT_EQ(test->size(), 2);
  EXPECT_TRUE(test->targets().equal(torch::ones({2}, torch::kLong)));
  EXPECT_EQ(all(*test)[0][2].item<int64_t>(), 1) << "new";
  put("t.csv", "label,text\nprime,common\nodd,w3\n");
  EXPECT_THAT(test::error_of([&] { open(Split::kTest, path, "test=" + other); }),
              HasSubstr("t.csv:2: its class \"prime\" is none of the training split's: even, odd"));
  EXPECT_EQ(open(Split::kTest, path, "bad_rows=skip,test=" + other)->size(), 1);
}

TEST_F(TextEntry, FoldersOfTextsAreReadLikeFoldersOfImages) {
  for (const char* split : {"train", "test"}) {
    for (const char* name : {"neg/0.txt", "neg/1.txt", "pos/0.txt"})
      put(std::string(split) + "/" + name, std::string("a a ") + split);
  }
  const auto test = open(Split::kTest, root().string());
  EXPECT_EQ(open(Split::kTrain, root().string())->size(), 3);
  EXPECT_THAT(test->spec().class_names, ElementsAre("neg", "pos"));
  EXPECT_THAT(vocabulary(*test), Not(Contains("test")));
  EXPECT_THAT(vocabulary(*test), IsSupersetOf({"a", "train"}));
}

TEST_F(TextEntry, OtherFilesAreReadAsTheRunHasLearned) {
  const auto train = open(Split::kTrain, put_rows(), "max_length=2");
  const std::string other = put("new.csv", "text\nw0 common w0 w0\nnothing\n");
  const auto read = open(Split::kTest, other, "", train->learned(), /*is_other=*/true);
  EXPECT_EQ(read->size(), 2) << "nothing is held out";
  EXPECT_FALSE(read->targets().defined());
  EXPECT_EQ(read->learned(), train->learned());
  const std::vector<std::string> words = vocabulary(*train);
  const auto word = [&](int64_t row, int64_t at) {
    return words[static_cast<size_t>(all(*read)[row][at].item<int64_t>())];
  };
  EXPECT_EQ(word(0, 1), "common");
  EXPECT_EQ(word(1, 0), "<unk>");
  EXPECT_EQ(word(1, 1), "<pad>");
  EXPECT_THAT(read->remarks(), Contains(HasSubstr("1 of 2 texts")));
  EXPECT_THAT(
      test::refusal_of([&] { open(Split::kTest, other, "max_length=3", train->learned(), true); }),
      HasSubstr("texts are read as the run has learned: 2 (got 3)"));
}

TEST_F(TextEntry, WhatWasLearnedHoldsForTheRunsOwnFiles) {
  const std::string path = put_rows();
  const auto train = open(Split::kTrain, path);
  const auto again = open(Split::kTest, path, "", train->learned());
  EXPECT_EQ(again->size(), 4);
  EXPECT_EQ(again->fingerprint(), open(Split::kTest, path)->fingerprint());
}

TEST_F(TextEntry, BadRowsEndTheRunOrAreNoSamples) {
  const std::string path =
      put("rows.csv", "text,label\na b,x\na c,y\nd\na b,x\na c,y\nd e,x\nd e,y\n");
  EXPECT_THAT(error(path), HasSubstr("rows.csv:4: it has 1 field, the header 2"));
  const auto train = open(Split::kTrain, path, "bad_rows=skip,test_fraction=0.34");
  EXPECT_EQ(train->size(), 4);
  EXPECT_THAT(train->remarks(), ElementsAre(HasSubstr("1 of 7 samples in ")));
}

TEST_F(TextEntry, RefusesAPartOfNothing) {
  const std::string path = put("rows.csv", "text,label\na,x\nb,y\n");
  EXPECT_THAT(error(path), HasSubstr("parameter \"test_fraction\""));
  EXPECT_THAT(error((root() / "none.csv").string()), HasSubstr("none.csv"));
}

}  // namespace
}  // namespace muster::data
