// The order of torchvision's ImageFolder, written down by tests/golden/image_folder/make_golden.py.
#include "muster/formats/image/class_folders.h"

#include <fstream>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream{file};
}

TEST(ClassFolders, FilesAndClassesAreInTorchvisionsOrder) {
  const Json golden = test::read_golden("image_folder");
  const test::Folder folder;
  for (const Json& file : golden.at("files")) touch(folder.path() / file.get<std::string>());
  for (const auto& [from, to] : golden.at("links").items())
    fs::create_symlink(to.get<std::string>(), folder.path() / from);
  const ClassFolders found = list_class_folders(folder.path());
  EXPECT_EQ(found.classes, golden.at("classes").get<std::vector<std::string>>());
  std::vector<std::string> paths;
  std::vector<int64_t> labels;
  for (const ClassFile& file : found.files) {
    paths.push_back(file.path);
    labels.push_back(file.label);
  }
  EXPECT_EQ(paths, golden.at("samples").get<std::vector<std::string>>());
  EXPECT_EQ(labels, golden.at("labels").get<std::vector<int64_t>>());
  EXPECT_EQ(found.path_of(0), folder.path() / paths[0]);
}

TEST(ClassFolders, WhatIsNoFolderOfClassesIsRefused) {
  const test::Folder folder;
  const auto refusal = [&](const fs::path& root) {
    return test::refusal_of([&] { list_class_folders(root); });
  };
  EXPECT_THAT(refusal(folder.path() / "none"), HasSubstr("there is no such folder"));
  touch(folder.path() / "1.jpg");
  EXPECT_THAT(refusal(folder.path() / "1.jpg"), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("no folder in it"));
  touch(folder.path() / "cat/1.jpg");
  touch(folder.path() / "dog/readme.txt");
  fs::create_directory(folder.path() / "eel");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("none in dog, eel"));
}

// A run keeps the names of its classes as JSON, where other bytes would become U+FFFD.
TEST(ClassFolders, AClassWhoseNameIsNoUtf8IsRefusedByItsFolder) {
  const test::Folder folder;
  touch(folder.path() / "cat/1.jpg");
  touch(folder.path() / "caf\xE9s/1.jpg");
  EXPECT_THAT(test::refusal_of([&] { list_class_folders(folder.path()); }),
              HasSubstr("caf\xE9s: the class is not UTF-8 after its 3 first bytes"));
}

TEST(ClassFolders, FoldersThatAreNearlySplitsAreNoClasses) {
  const std::pair<const char*, const char*> pairs[] = {
      {"Training", "Testing"}, {"train", "Test"}, {"Train", "val"}, {"train", "extra"}};
  for (const auto& [train, other] : pairs) {
    const test::Folder folder;
    for (const char* split : {train, other}) touch(folder.path() / split / "cat/1.jpg");
    const auto find = [&] { return find_split_folders(folder.path()); };
    EXPECT_THAT(test::refusal_of(find),
                HasSubstr("splits are called train, and test, val, valid or validation"))
        << train << ' ' << other;
    touch(folder.path() / train / "1.jpg");
    EXPECT_EQ(find().train, folder.path()) << "a class with an image of its own, " << train;
  }
}

TEST(ClassFolders, ATrainingFolderAloneIsTrainOrRefused) {
  const test::Folder folder;
  touch(folder.path() / "Train/cat/1.jpg");
  EXPECT_THAT(test::refusal_of([&] { find_split_folders(folder.path()); }),
              HasSubstr("(got Train, with folders"));
  fs::rename(folder.path() / "Train", folder.path() / "train");
  EXPECT_EQ(find_split_folders(folder.path()).test, folder.path() / "train");
  touch(folder.path() / "bus/old/1.jpg");
  EXPECT_EQ(find_split_folders(folder.path()).train, folder.path()) << "of vehicles";
}

TEST(ClassFolders, LinksThatLeadInACircleAreRefused) {
  const test::Folder folder;
  touch(folder.path() / "cat/old/1.jpg");
  fs::create_directory_symlink("..", folder.path() / "cat/old/back");
  EXPECT_THAT(test::refusal_of([&] { list_class_folders(folder.path()); }),
              HasSubstr("cat/old/back: links do not lead back"));
}

}  // namespace
}  // namespace muster::formats
