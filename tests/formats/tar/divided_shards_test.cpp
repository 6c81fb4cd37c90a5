// Samples of shards in new shards: whole, byte by byte, drawn as the files of a folder are.
#include "muster/formats/tar/divided_shards.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/crc32.h"
#include "muster/formats/image/divided_folders.h"
#include "muster/formats/tar/tar_reader.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/tar_files.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;
using test::TarFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr int64_t kLarge = int64_t{1} << 40;

/// Name and contents of each file of an archive.
using Files = std::vector<std::pair<std::string, std::string>>;

Files files_in(const fs::path& path) {
  const std::string bytes = read_file(path);
  const MemoryBytes source(bytes);
  TarReader reader(source, path.string());
  Files files;
  for (TarMember member; reader.next(member);) {
    if (member.kind != TarKind::kFile) continue;
    files.emplace_back(
        member.name,
        bytes.substr(static_cast<size_t>(member.offset), static_cast<size_t>(member.size)));
  }
  return files;
}

class DividedShards : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  static TarSamples samples_of(const std::vector<fs::path>& shards,
                               const std::string& bad_files = "raise") {
    TarDataOptions options;
    options.bad_files = bad_files;
    return list_tar_samples(
        find_tar_samples(options, shards, std::nullopt, {.may_lack_labels = true}));
  }

  /// The refusal of a division of these shards.
  static std::string refusal_of(const std::vector<fs::path>& shards) {
    return test::refusal_of([&] { samples_of(shards); }, ErrorKind::kEnvironment);
  }

  /// Two shards: "cat/0" … of ten samples, and five of "dog", of an image, a class and a text each.
  std::vector<fs::path> two_shards() const {
    TarFile first, second;
    for (int i = 0; i < 15; ++i) {
      const std::string name = i < 10 ? concat("cat/", i) : concat("dog/", i - 10);
      TarFile& file = i % 2 == 0 ? first : second;
      file.add(name + ".jpg", std::string(static_cast<size_t>(100 * i), 'j'));
      file.add(name + ".cls", i < 10 ? "cat" : "dog").add(name + ".txt", name);
    }
    first.write(at("a.tar"));
    second.write(at("b.tar"));
    return {at("a.tar"), at("b.tar")};
  }

  std::optional<std::vector<int64_t>> write(const TarSamples& samples,
                                            const std::vector<size_t>& part_of,
                                            const std::string& to = "out",
                                            int64_t most_bytes = kLarge,
                                            const DivisionStops& stops = {}) const {
    return write_divided_shards(samples, part_of, {"train", "val"}, at(to), most_bytes, stops);
  }

  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  test::Folder folder_;
};

TEST_F(DividedShards, HaveTheMembersOfASampleOneBehindTheOther) {
  const TarSamples samples = samples_of(two_shards());
  ASSERT_EQ(samples.samples.size(), 15U);
  EXPECT_THAT(samples.classes, ElementsAre("cat", "dog"));
  EXPECT_TRUE(samples.are_labelled);
  EXPECT_EQ(samples.other_files, 0);
  const std::vector<size_t> part_of = divide_samples(samples, {0.6, 0.4}, 7);
  EXPECT_EQ(write(samples, part_of), (std::vector<int64_t>{1, 1}));
  Files before, after;
  for (const char* name : {"a.tar", "b.tar"})
    for (auto& file : files_in(at(name))) before.push_back(std::move(file));
  const std::pair<const char*, size_t> made[] = {{"out/train-000000.tar", 9},
                                                 {"out/val-000000.tar", 6}};
  for (const auto& [name, count] : made) {
    const Files files = files_in(at(name));
    ASSERT_EQ(files.size(), 3 * count) << name;
    for (size_t i = 0; i < files.size(); i += 3) {
      const std::string key = sample_and_part(files[i].first).first;
      EXPECT_EQ(files[i].first, key + ".jpg");
      EXPECT_EQ(files[i + 1].first, key + ".cls");
      EXPECT_EQ(files[i + 2].first, key + ".txt");
    }
    after.insert(after.end(), files.begin(), files.end());
  }
  EXPECT_THAT(after, UnorderedElementsAreArray(before));
}

// As cat/0.jpg … in class folders.
TEST_F(DividedShards, AreDrawnAsTheFilesOfAFolder) {
  const TarSamples samples = samples_of(two_shards());
  ClassFolders files{.root = "", .classes = {"cat", "dog"}};
  for (int i = 0; i < 15; ++i)
    files.files.push_back(
        {i < 10 ? concat("cat/", i, ".jpg") : concat("dog/", i - 10, ".jpg"), i < 10 ? 0 : 1});
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const auto of_files = divide_files(files, {0.5, 0.3, 0.2}, seed);
    const auto of_samples = divide_samples(samples, {0.5, 0.3, 0.2}, seed);
    std::map<std::string, size_t> expected, found;
    for (size_t i = 0; i < 15; ++i) {
      expected[files.files[i].path] = of_files[i];
      found[samples.samples[i].image] = of_samples[i];
    }
    EXPECT_EQ(found, expected) << seed;
  }
}

TEST_F(DividedShards, AreTheSameFromShardsInAnotherOrder) {
  std::vector<fs::path> shards = two_shards();
  const auto parts = [&] {
    const TarSamples samples = samples_of(shards);
    const auto part_of = divide_samples(samples, {0.5, 0.5}, 3);
    std::map<std::string, size_t> found;
    for (size_t i = 0; i < part_of.size(); ++i) found[samples.samples[i].image] = part_of[i];
    return found;
  };
  const auto first = parts();
  std::ranges::reverse(shards);
  EXPECT_EQ(parts(), first);
}

// Names above 100 bytes and letters that are no ASCII stand in headers in front of the member's own.
TEST_F(DividedShards, HaveTheFilesOfPythonsTarfile) {
  const Json golden = test::read_golden("tar");
  for (const char* name : {"ustar", "gnu", "pax"}) {
    const fs::path shard = test::source_path(concat("tests/golden/tar/", name, ".tar"));
    const TarSamples samples = samples_of({shard}, "skip");
    ASSERT_EQ(samples.samples.size(), 3U) << name;
    EXPECT_EQ(samples.other_files, 0) << "z.jpg has no class: a bad sample, and counted as such";
    ASSERT_TRUE(write(samples, {0, 1, 0}, name));
    std::set<std::pair<std::string, std::string>> expected, found;
    for (const Json& file : golden.at(name).at("files"))
      if (file.at("name") != "z.jpg")
        expected.emplace(file.at("name").get<std::string>(), file.at("crc32").get<std::string>());
    for (const char* part : {"/train-000000.tar", "/val-000000.tar"})
      for (const auto& [member, data] : files_in(at(name + std::string(part))))
        found.emplace(member, crc32_text(crc32_of(data)));
    EXPECT_EQ(found, expected) << name;
  }
}

// Headers, too: owner, mode and time.
TEST_F(DividedShards, OfAllSamplesInOrderAreTheShardItself) {
  TarFile file;
  file.add("a.jpg", "one").add("a.cls", "0").add("b.png", std::string(600, 'b')).add("b.cls", "1");
  file.write(at("x.tar"));
  ASSERT_TRUE(write(samples_of({at("x.tar")}), {0, 0}));
  EXPECT_EQ(read_file(at("out/train-000000.tar")), file.bytes());
  EXPECT_FALSE(fs::exists(at("out/val-000000.tar"))) << "nothing is in it";
}

TEST_F(DividedShards, AreNoLargerThanSaid) {
  TarFile file;
  for (int i = 0; i < 5; ++i)  // 2,048 bytes each: two headers, two blocks
    file.add(concat(i, ".jpg"), "image").add(concat(i, ".cls"), "0");
  file.write(at("x.tar"));
  const TarSamples samples = samples_of({at("x.tar")});
  const std::vector<size_t> all_train(5, 0);
  EXPECT_EQ(write(samples, all_train, "two", 2 * 2048 + kTarEndBytes),
            (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(fs::file_size(at("two/train-000000.tar")), 2U * 2048 + 1024);
  EXPECT_EQ(fs::file_size(at("two/train-000002.tar")), 2048U + 1024);
  EXPECT_EQ(files_in(at("two/train-000001.tar"))[0].first, "2.jpg");
  EXPECT_EQ(write(samples, all_train, "one", 2 * 2048 + kTarEndBytes - 1),
            (std::vector<int64_t>{5, 0}));
  EXPECT_THAT(test::refusal_of([&] { write(samples, all_train, "none", 3071); }),
              HasSubstr("shards of at most 3071 bytes: each sample fits into one"));
  EXPECT_FALSE(fs::exists(at("none")));
}

TEST_F(DividedShards, OfSamplesWithoutClassesAreDrawnFromAll) {
  TarFile file;
  for (int i = 0; i < 10; ++i) file.add(concat(i, ".png"), "x");
  file.add("README", "none").write(at("x.tar"));
  const TarSamples samples = samples_of({at("x.tar")});
  EXPECT_FALSE(samples.are_labelled);
  EXPECT_THAT(samples.classes, ElementsAre(""));
  EXPECT_EQ(samples.other_files, 1);
  const auto part_of = divide_samples(samples, {0.7, 0.3}, 0);
  EXPECT_EQ(std::ranges::count(part_of, 1U), 3);
}

// The index has counted a sample without a class, which is bad, and one without image and class.
TEST_F(DividedShards, CountFilesOfNoSampleAndNotThoseOfBadOnes) {
  TarFile file;
  file.add("a.jpg", "1").add("a.cls", "0").add("b.jpg", "2").add("b.txt", "no class");
  file.add("c.txt", "neither").add("README", "of whom?").add(".hidden", "").write(at("x.tar"));
  const TarSamples samples = samples_of({at("x.tar")}, "skip");
  EXPECT_EQ(samples.samples.size(), 1U);
  EXPECT_EQ(samples.other_files, 2);
}

TEST_F(DividedShards, RefuseSamplesThatWouldBeMixedUp) {
  TarFile().add("a.jpg", "1").add("a.cls", "0").write(at("x.tar"));
  TarFile().add("a.png", "2").add("a.cls", "0").write(at("y.tar"));
  const std::string refusal = refusal_of({at("x.tar"), at("y.tar")});
  EXPECT_THAT(refusal, HasSubstr("y.tar: member a.png at offset 0: samples that are divided have"));
  EXPECT_THAT(refusal, HasSubstr("x.tar: member a.jpg at offset 0"));
  TarFile().add("a.jpg", "1").add("a.jpg", "2").write(at("twice.tar"));
  EXPECT_THAT(refusal_of({at("twice.tar")}), HasSubstr("a sample has one member of each name"));
}

TEST_F(DividedShards, RefuseWhatAnotherShardWouldTurnIntoSomethingElse) {
  TarFile().add("a.jpg", "1").add("a.cls", "0").add("a.txt", "", '1').write(at("link.tar"));
  EXPECT_THAT(refusal_of({at("link.tar")}), HasSubstr("member a.txt at offset 2048"));
  const auto with_global = [&](const std::string& records) {
    TarFile().add("g", records, 'g').add("a.jpg", "1").add("a.cls", "0").write(at("global.tar"));
  };
  with_global("20 mtime=1234567890\n");
  EXPECT_THAT(refusal_of({at("global.tar")}),
              HasSubstr("a global header in front, with more than a comment"));
  with_global("19 comment=deadbee\n");  // as git archive writes
  const TarSamples samples = samples_of({at("global.tar")});
  ASSERT_TRUE(write(samples, {0}));
  EXPECT_EQ(read_file(at("out/train-000000.tar")),
            TarFile().add("a.jpg", "1").add("a.cls", "0").bytes());
}

TEST_F(DividedShards, RefuseDamagedAndChangedShards) {
  const std::vector<fs::path> shards = two_shards();
  const TarSamples samples = samples_of(shards);
  fs::resize_file(shards[1], fs::file_size(shards[1]) - 1100);
  EXPECT_THAT(refusal_of(shards), HasSubstr("b.tar"));
  EXPECT_THAT(test::refusal_of([&] { write(samples, std::vector<size_t>(15, 0)); },
                               ErrorKind::kEnvironment),
              HasSubstr("b.tar: it stays as it was"));
  EXPECT_EQ(entries(), 2U) << "nothing is left";
}

TEST_F(DividedShards, AreThereAsAWholeOrNotAtAll) {
  const TarSamples samples = samples_of(two_shards());
  const std::vector<size_t> part_of = divide_samples(samples, {0.5, 0.5}, 0);
  int asked = 0;
  EXPECT_FALSE(write(samples, part_of, "out", 8192, [&] { return ++asked == 9; }));
  EXPECT_EQ(entries(), 2U) << "nothing is left";
  fs::create_directory(at("out"));
  EXPECT_THAT(test::refusal_of([&] { write(samples, part_of); }),
              HasSubstr("nothing is overwritten"));
  EXPECT_TRUE(fs::is_empty(at("out")));
  EXPECT_THAT(test::refusal_of([&] { write(samples, part_of, "a.tar"); }), HasSubstr("are apart"));
}

}  // namespace
}  // namespace muster::formats
