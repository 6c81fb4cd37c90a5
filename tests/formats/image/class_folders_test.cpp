// The order of torchvision's ImageFolder, written down by tests/golden/image_folder/make_golden.py.
#include "muster/formats/image/class_folders.h"

#include <fstream>

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

TEST(ClassFolders, LinksThatLeadInACircleAreRefused) {
  const test::Folder folder;
  touch(folder.path() / "cat/old/1.jpg");
  fs::create_directory_symlink("..", folder.path() / "cat/old/back");
  EXPECT_THAT(test::refusal_of([&] { list_class_folders(folder.path()); }),
              HasSubstr("cat/old/back: links do not lead back"));
}

}  // namespace
}  // namespace muster::formats
