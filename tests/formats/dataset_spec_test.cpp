// Datasets as users name them, and their paths.
#include "muster/formats/dataset_spec.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::formats {
namespace {

TEST(DatasetSpec, WhatComesFirstIsThePath) {
  EXPECT_EQ(parse_dataset_spec("folder:/a/b,size=8").params,
            (ParamValues{{"path", "/a/b"}, {"size", "8"}}));
  EXPECT_EQ(parse_dataset_spec("folder:size=8").params, (ParamValues{{"size", "8"}}));
  EXPECT_EQ(parse_dataset_spec("mnist").params, ParamValues());
}

TEST(DatasetSpec, AListInBracesIsRefusedWithWhatIsPossible) {
  const auto refusal = [](const char* spec) {
    return test::error_of([&] { parse_dataset_spec(spec); });
  };
  EXPECT_THAT(refusal("tar:train-{a,b}.tar"),
              ::testing::AllOf(::testing::HasSubstr("(got \"b}.tar\")"),
                               ::testing::HasSubstr("a-{0..9}.tar, a-*.tar")));
  EXPECT_THAT(refusal("folder:a,b"), ::testing::Not(::testing::HasSubstr("braces")));
  EXPECT_EQ(parse_dataset_spec("tar:a-{0..3}.tar,size=8").params,
            (ParamValues{{"path", "a-{0..3}.tar"}, {"size", "8"}}));
}

TEST(DatasetSpec, APathIsMadeWhole) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(with_whole_path("folder:pets,size=8"), concat("folder:", here, "/pets,size=8"));
  EXPECT_EQ(with_whole_path("folder:size=8,path=./pets"),
            concat("folder:size=8,path=", here, "/pets"));
  EXPECT_EQ(with_whole_path("folder:/a/../b"), "folder:/b");
  EXPECT_EQ(
      with_whole_path("text:a.csv,tokenizer=t.json,text=b,test=c.csv"),
      concat("text:", here, "/a.csv,tokenizer=", here, "/t.json,text=b,test=", here, "/c.csv"));
  EXPECT_EQ(with_whole_path("text:/a.csv,tokenizer=basic_english"),
            "text:/a.csv,tokenizer=basic_english");
  EXPECT_EQ(with_whole_path("tar:a-{0..3}.tar,classes=names.txt"),
            concat("tar:", here, "/a-{0..3}.tar,classes=", here, "/names.txt"));
  for (const char* same : {"mnist",
                           "synthetic:samples=8,classes=5",
                           "folder:",
                           "folder:size=8",
                           "folder:path=",
                           "folder:~/pets",
                           ""})
    EXPECT_EQ(with_whole_path(same), same);
}

TEST(DatasetSpec, DataThatHaveMovedDifferInPlacesAlone) {
  const std::string before = "tar:/a/t.tar,size=8,test=/a/h.tar,classes=/a/k.txt";
  EXPECT_TRUE(differ_in_places_alone(before, before));
  EXPECT_TRUE(
      differ_in_places_alone(before, "tar:size=8,path=/b/t.tar,test=/c/h.tar,classes=/b/k.txt"));
  EXPECT_TRUE(differ_in_places_alone(before, "tar:size=8,test=/c/h.tar,classes=/b/k.txt"));
  for (const char* other : {"tar:/a/t.tar,size=9,test=/a/h.tar,classes=/a/k.txt",
                            "tar:/a/t.tar,size=8,classes=/a/k.txt",
                            "tar:/a/t.tar,test=/a/h.tar,classes=/a/k.txt",
                            "folder:/a/t.tar,size=8,test=/a/h.tar,classes=/a/k.txt"})
    EXPECT_FALSE(differ_in_places_alone(before, other)) << other;
  EXPECT_FALSE(differ_in_places_alone("text:a,tokenizer=basic_english", "text:a,tokenizer=t.json"));
  EXPECT_FALSE(differ_in_places_alone("synthetic:classes=3", "synthetic:classes=4"));
}

TEST(DatasetSpec, FilesThatAreGoneAreLookedForBesideThePathThatIsNow) {
  const test::Folder folder;
  const std::string root = folder.path();
  std::filesystem::create_directories(folder.path() / "new/lists");
  for (const char* file : {"held-0.tar", "lists/k.txt", "t.json", "in.csv"})
    write_file_atomic(folder.path() / "new" / file, "");
  ParamValues params{{"path", root + "/old/train.tar"},
                     {"test", root + "/old/held-{0..3}.tar"},
                     {"classes", root + "/old/lists/k.txt"},
                     {"tokenizer", root + "/elsewhere/t.json"}};
  EXPECT_EQ(missing_test(params), root + "/old/held-{0..3}.tar");
  look_beside(root + "/new/train.tar", params);
  EXPECT_EQ(params.at("path"), root + "/old/train.tar") << "which the folder stands for";
  EXPECT_EQ(params.at("test"), root + "/new/held-{0..3}.tar");
  EXPECT_EQ(params.at("classes"), root + "/new/lists/k.txt");
  EXPECT_EQ(params.at("tokenizer"), root + "/new/t.json") << "by its name";
  EXPECT_EQ(missing_test(params), "");

  ParamValues below{{"path", root + "/old"}, {"test", root + "/old/in.csv"}, {"classes", "3"}};
  look_beside(root + "/new/", below);
  EXPECT_EQ(below.at("test"), root + "/new/in.csv");
  EXPECT_EQ(below.at("classes"), "3");

  ParamValues there{{"path", root + "/old"}, {"test", root + "/new/in.csv"}};
  look_beside(root, there);
  EXPECT_EQ(there.at("test"), root + "/new/in.csv") << "it is where it was";
  ParamValues gone{{"tokenizer", root + "/u.json"}, {"test", "basic_english"}};
  look_beside(root, gone);
  EXPECT_THAT(missing_taught(gone), ::testing::ElementsAre(root + "/u.json"));
}

}  // namespace
}  // namespace muster::formats
