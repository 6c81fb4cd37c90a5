// Samples as webdataset groups them (tests/golden/tar), their classes, and samples that are none.
#include "muster/formats/tar/tar_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/formats/tar/tar_reader.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/tar_files.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;
using test::TarFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SampleAndPart, GroupsAsWebdatasetDoes) {
  const Json golden = test::read_golden("tar");
  for (const auto& [archive, expected] : golden.items()) {
    Json samples = Json::array();
    for (const Json& file : expected.at("files")) {
      const auto [sample, part] = sample_and_part(file.at("name").get<std::string>());
      if (part.empty()) continue;
      if (samples.empty() || samples.back()[0] != sample)
        samples.push_back(Json::array({sample, Json::array()}));
      samples.back()[1].push_back(part);
    }
    EXPECT_EQ(samples, expected.at("samples")) << archive;
  }
}

TEST(SampleAndPart, EndsASampleAtTheFirstDotOfTheFilesName) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(sample_and_part("a.b/c.D.Jpg"), (Pair{"a.b/c", "d.jpg"}));
  for (const char* none :
       {"", "a", "a.b/c", ".jpg", "a/.b.jpg", "__a__", "__a__/b.jpg", "____/c.jpg", "a."})
    EXPECT_EQ(sample_and_part(none), Pair()) << none;
  EXPECT_EQ(sample_and_part("__a/b.jpg"), (Pair{"__a/b", "jpg"}));
  EXPECT_EQ(sample_and_part("b/__a__.jpg"), (Pair{"b/__a__", "jpg"}));
}

class TarIndexTest : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }
  TarIndex index(const TarFile& file, const TarIndexOptions& options = {}) const {
    file.write(at("a.tar"));
    return index_tar_shards({at("a.tar")}, options);
  }
  static std::vector<std::string> said(const TarIndex& index) {
    std::vector<std::string> out;
    for (const TarImage& image : index.images) out.push_back(image.name + "=" + image.said);
    return out;
  }
  static std::vector<std::string> faults(const TarIndex& index) {
    std::vector<std::string> out;
    for (const BadRow& bad : index.bad)
      out.push_back(concat(bad.place.substr(bad.place.find("a.tar")), ": ", bad.why));
    return out;
  }

  test::Folder folder_;
};

TEST_F(TarIndexTest, FindsImagesAndTheirClasses) {
  TarFile file;
  file.add("x/1.jpg", "one").add("x/1.cls", " 3\n").add("x/1.json", "{").add("x/2.PNG", "three");
  file.add("x/2.txt", "a text").add("x/2.cls", "cat").add("readme.txt", "nothing");
  file.add("x/", "", '5').add("3.json", R"({"label": 12, "target": "dog"})").add("3.jpeg", "");
  const TarIndex found = index(file);
  EXPECT_THAT(said(found), ElementsAre("x/1.jpg=3", "x/2.PNG=cat", "3.jpeg=12"));
  EXPECT_THAT(faults(found), IsEmpty());
  EXPECT_EQ(found.left_aside, 1);
  EXPECT_EQ(found.images[1].size, 5);
  EXPECT_EQ(read_file(at("a.tar")).substr(static_cast<size_t>(found.images[1].offset), 5), "three");
}

TEST_F(TarIndexTest, ReadsTheClassFromWhereItIsSaid) {
  TarFile file;
  file.add("1.jpg", "")
      .add("1.cls", "0")
      .add("1.txt", "a cat")
      .add("1.json", R"({"kind": "c", "id": 4})");
  EXPECT_THAT(said(index(file)), ElementsAre("1.jpg=0"));
  EXPECT_THAT(said(index(file, {.label = "txt"})), ElementsAre("1.jpg=a cat"));
  EXPECT_THAT(said(index(file, {.label = "json.kind"})), ElementsAre("1.jpg=c"));
  EXPECT_THAT(said(index(file, {.label = "json.id"})), ElementsAre("1.jpg=4"));
  EXPECT_THAT(
      faults(index(file, {.label = "json"})),
      ElementsAre("a.tar: member 1.json at offset 2560: a class is its value of label, cls, "
                  "class or target, and it has none"));
  EXPECT_THAT(faults(index(file, {.label = "json.size"})),
              ElementsAre(HasSubstr("its value of size")));
  for (const char* wrong : {"", "jpg", "json."})
    EXPECT_THAT(test::refusal_of([&] { index(file, {.label = wrong}); }),
                HasSubstr("the part of a sample that says its class"));
}

TEST_F(TarIndexTest, SaysWhichSamplesAreNoneAndWhy) {
  TarFile file;
  file.add("1.jpg", "").add("2.cls", "0").add("3.jpg", "").add("3.png", "").add("3.cls", "1");
  file.add("4.jpg", "", '2').add("4.cls", "0").add("5.0.jpg", "").add("5.0.cls", "2");
  file.add("6.jpg", "").add("6.cls", " ").add("7.jpg", "").add("7.cls", std::string(1025, 'a'));
  file.add("8.jpg", "").add("8.json", "[[").add("9.jpg", "").add("9.json", R"({"label": 1.5})");
  file.add("good.jpg", "").add("good.cls", "0");
  const TarIndex found = index(file);
  EXPECT_THAT(said(found), ElementsAre("good.jpg=0"));
  EXPECT_THAT(
      faults(found),
      ElementsAre(
          "a.tar: member 1.jpg at offset 0: its sample has no member that says its class",
          "a.tar: member 2.cls at offset 512: its sample has no jpg, jpeg or png, but cls",
          HasSubstr("member 3.png at offset 2048: its sample has another image, 3.jpg"),
          HasSubstr("4.jpg at offset 3584: it is a link, which is not followed"),
          HasSubstr(
              "no jpg, jpeg or png, but 0.jpg, 0.cls; the name of a sample ends at the first dot"),
          HasSubstr("6.cls at offset 7168: it says no class: it is empty"),
          HasSubstr("7.cls at offset 8704: it says a class in at most 1024 bytes, and has 1025"),
          HasSubstr("8.json at offset 11264: it is not valid JSON: fault at byte 3"),
          HasSubstr("a class is a whole number or a text")));
}

TEST_F(TarIndexTest, RefusesTwoMembersOfAName) {
  TarFile file;
  file.add("1.jpg", "").add("1.cls", "0").add("2.jpg", "").add("1.JPG", "");
  EXPECT_THAT(
      test::refusal_of([&] { index(file); }, ErrorKind::kEnvironment),
      HasSubstr("a.tar: member 1.JPG at offset 2048: a sample has one member of each name (got "
                "another jpg of its sample lies before it)"));
}

TEST_F(TarIndexTest, RefusesShardsWithoutAnImageAndNamesTheFirstBadShard) {
  TarFile().add("readme.txt", "").write(at("b.tar"));
  EXPECT_THAT(test::refusal_of([&] { index_tar_shards({at("b.tar")}); }, ErrorKind::kEnvironment),
              HasSubstr("b.tar: a sample has an image"));
  write_file_atomic(at("c.tar"), "c");
  write_file_atomic(at("d.tar"), "d");
  const std::vector<fs::path> shards{at("b.tar"), at("c.tar"), at("d.tar")};
  for (const int64_t threads : {1, 3})
    EXPECT_THAT(test::refusal_of([&] { index_tar_shards(shards, {.threads = threads}); },
                                 ErrorKind::kEnvironment),
                HasSubstr("c.tar, offset 0"));
}

TEST_F(TarIndexTest, ShardsAreOneBehindTheOtherForAnyNumberOfThreads) {
  std::vector<fs::path> shards;
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) {
    shards.push_back(at(concat(i, ".tar")));
    TarFile().add(concat(i, ".jpg"), "").add(concat(i, ".cls"), "0").write(shards.back());
    names.push_back(concat(i, ".jpg=0"));
  }
  for (const int64_t threads : {1, 4})
    EXPECT_EQ(said(index_tar_shards(shards, {.threads = threads})), names);
}

TEST_F(TarIndexTest, ClassesAreNumbersOrNames) {
  TarFile numbers;
  numbers.add("1.jpg", "").add("1.cls", "4").add("2.jpg", "").add("2.cls", "0");
  TarIndex found = index(numbers);
  const TarClasses five = classes_in(found);
  EXPECT_EQ(five, (TarClasses{.count = 5}));
  number_classes(found, five);
  EXPECT_EQ(found.images[0].label, 4);
  EXPECT_THAT(remarks_of(found), ElementsAre(HasSubstr("3 classes have no sample in")));
  TarFile names;
  names.add("1.jpg", "").add("1.cls", "dog").add("2.jpg", "").add("2.cls", "cat");
  found = index(names);
  EXPECT_EQ(classes_in(found), (TarClasses{.names = {"cat", "dog"}, .count = 2}));
  number_classes(found, {.names = {"dog", "eel"}, .count = 2});
  EXPECT_EQ(found.images.at(0).label, 0);
  EXPECT_THAT(
      faults(found),
      ElementsAre("a.tar: member 2.jpg at offset 1536: its class \"cat\" is none of dog, eel"));
  number_classes(found = index(numbers), {.names = {"dog", "eel"}, .count = 2});
  EXPECT_THAT(faults(found), ElementsAre(HasSubstr("its class \"4\" is none of dog, eel")));
}

TEST_F(TarIndexTest, RefusesClassesOfBothKindsAndNumbersWithoutBound) {
  const auto refusal = [&](const char* one, const char* two) {
    TarFile file;
    file.add("1.jpg", "").add("1.cls", one).add("2.jpg", "").add("2.cls", two);
    return test::refusal_of([&] { classes_in(index(file)); }, ErrorKind::kEnvironment);
  };
  EXPECT_THAT(refusal("0", "cat"),
              AllOf(HasSubstr("all are numbers, or all are names (got \"0\" of "),
                    HasSubstr("\"cat\" of "),
                    HasSubstr("classes=FILE")));
  EXPECT_THAT(refusal("0", "-1"), HasSubstr("numbers of classes are 0 … 99999 (got \"-1\" of "));
  EXPECT_THAT(refusal("0", "100000"), HasSubstr("got \"100000\" of "));
}

TEST_F(TarIndexTest, AClassThatIsNoUtf8IsAFaultOfItsMember) {
  TarFile file;
  file.add("1.jpg", "").add("1.cls", "cat").add("2.jpg", "").add("2.cls", " caf\xE9\n");
  const TarIndex found = index(file);
  EXPECT_THAT(said(found), ElementsAre("1.jpg=cat"));
  EXPECT_THAT(faults(found),
              ElementsAre("a.tar: member 2.cls at offset 2048: the class is not UTF-8 after its 3 "
                          "first bytes"));
}

TEST_F(TarIndexTest, AByteOrderMarkIsNoPartOfAClass) {
  TarFile file;
  file.add("1.jpg", "")
      .add("1.cls",
           "\xEF\xBB\xBF"
           "cat")
      .add("2.jpg", "")
      .add("2.cls", "cat");
  EXPECT_THAT(said(index(file)), ElementsAre("1.jpg=cat", "2.jpg=cat"));
}

TEST_F(TarIndexTest, NamesOfClassesStandInAFile) {
  const auto names = [&](std::string_view text) {
    write_file_atomic(at("names"), text);
    return read_class_names(at("names"));
  };
  EXPECT_EQ(names("cat\n dog \r\n\n"), (TarClasses{.names = {"cat", "dog"}, .count = 2}));
  EXPECT_EQ(names("\xEF\xBB\xBF"
                  "cat\ndog\n")
                .names[0],
            "cat")
      << "a byte order mark";
  const auto refusal = [&](std::string_view text) {
    return test::refusal_of([&] { names(text); }, ErrorKind::kEnvironment);
  };
  EXPECT_THAT(refusal("\n\n"), HasSubstr("it has a name in each line (got none)"));
  EXPECT_THAT(refusal("a\n\nb"), HasSubstr("(got line 2)"));
  EXPECT_THAT(refusal("a\nb\xFF"), HasSubstr("not UTF-8 after its 1 first byte (got line 2)"));
  EXPECT_THAT(refusal("a\nb\na"), HasSubstr("(got \"a\" in lines 1 and 3)"));
  EXPECT_THAT(test::refusal_of([&] { read_class_names(at("none")); }), HasSubstr("none"));
}

TEST_F(TarIndexTest, ImagesAreReadWhereTheyLie) {
  TarFile file;
  file.add("x/1.jpg", "one").add("x/1.cls", "1").add("2.jpg", "").add("2.cls", "0");
  TarIndex found = index(file);
  const TarClasses classes = classes_in(found);
  number_classes(found, classes);
  const TarImages images(std::move(found), classes);
  EXPECT_EQ(images.size(), 2U);
  EXPECT_EQ(images.classes(), 2);
  EXPECT_EQ(images.class_name(1), "1");
  EXPECT_TRUE(images.has_labels());
  EXPECT_EQ(images.name(0), "a.tar:x/1.jpg");
  EXPECT_EQ(images.full_name(0), at("a.tar").string() + ": member x/1.jpg at offset 0");
  EXPECT_EQ(images.read(0), "one");
  EXPECT_EQ(images.read(1), "");
  fs::resize_file(at("a.tar"), 1024);
  EXPECT_THAT(test::refusal_of([&] { images.read(0); }, ErrorKind::kEnvironment),
              HasSubstr("its shard stays as it was"));
}

}  // namespace
}  // namespace muster::formats
