// Datasets as users name them, and their paths.
#include "muster/formats/dataset_spec.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "muster/base/text.h"

namespace muster::formats {
namespace {

TEST(DatasetSpec, WhatComesFirstIsThePath) {
  EXPECT_EQ(parse_dataset_spec("folder:/a/b,size=8").params,
            (ParamValues{{"path", "/a/b"}, {"size", "8"}}));
  EXPECT_EQ(parse_dataset_spec("folder:size=8").params, (ParamValues{{"size", "8"}}));
  EXPECT_EQ(parse_dataset_spec("mnist").params, ParamValues());
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

}  // namespace
}  // namespace muster::formats
