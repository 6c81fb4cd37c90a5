// Members as Python's tarfile has them (tests/golden/tar), and archives that are refused.
#include "muster/formats/tar/tar_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/formats/crc32.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/tar_files.h"

namespace muster::formats {
namespace {

using test::tar_end;
using test::tar_header;
using test::tar_member;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<TarMember> members_of(std::string_view bytes) {
  const MemoryBytes source(bytes);
  TarReader reader(source, "x.tar");
  std::vector<TarMember> members;
  for (TarMember member; reader.next(member);) members.push_back(member);
  return members;
}

std::string refusal(std::string_view bytes) {
  return test::refusal_of([&] { members_of(bytes); }, ErrorKind::kEnvironment);
}

TEST(TarReader, HasTheFilesOfPythonsTarfile) {
  const Json golden = test::read_golden("tar");
  ASSERT_EQ(golden.size(), 5U);
  for (const auto& [name, archive] : golden.items()) {
    const std::string bytes =
        read_file(test::source_path(concat("tests/golden/tar/", name, ".tar")));
    Json files = Json::array();
    for (const TarMember& member : members_of(bytes)) {
      if (member.kind != TarKind::kFile) continue;
      const std::string data =
          bytes.substr(static_cast<size_t>(member.offset), static_cast<size_t>(member.size));
      files.push_back({{"name", member.name},
                       {"offset", member.offset},
                       {"size", member.size},
                       {"crc32", crc32_text(crc32_of(data))}});
    }
    EXPECT_EQ(files, archive.at("files")) << name;
  }
}

TEST(TarReader, KnowsLinksFromFilesAndOthers) {
  std::string bytes = tar_header("hard", 700, '1') + tar_header("soft", 0, '2') +
                      tar_header("folder/", 0, '\0') + tar_header("pipe", 0, '6') +
                      tar_member("in one piece", "a", '7') + tar_member("of whom?", "abc", 'Z') +
                      tar_member("old", "b", '\0') + tar_end();
  std::vector<std::pair<std::string, TarKind>> kinds;
  for (const TarMember& member : members_of(bytes)) kinds.emplace_back(member.name, member.kind);
  const std::vector<std::pair<std::string, TarKind>> expected{{"hard", TarKind::kLink},
                                                              {"soft", TarKind::kLink},
                                                              {"folder/", TarKind::kOther},
                                                              {"pipe", TarKind::kOther},
                                                              {"in one piece", TarKind::kFile},
                                                              {"of whom?", TarKind::kOther},
                                                              {"old", TarKind::kFile}};
  EXPECT_EQ(kinds, expected);
}

TEST(TarReader, ReadsContentsOfALimitedSize) {
  const std::string bytes =
      tar_member("a", "first") + tar_member("b", std::string(9000, 'b')) + tar_end();
  const MemoryBytes source(bytes);
  TarReader reader(source, "x.tar");
  TarMember member;
  ASSERT_TRUE(reader.next(member));
  EXPECT_EQ(reader.contents(member, 5), "first");
  EXPECT_THAT(test::refusal_of([&] { reader.contents(member, 4); }, ErrorKind::kEnvironment),
              HasSubstr("x.tar: member a at offset 0: it has at most 4 bytes (got 5)"));
  ASSERT_TRUE(reader.next(member));
  EXPECT_EQ(reader.contents(member, 9000), std::string(9000, 'b'));
  EXPECT_FALSE(reader.next(member));
}

TEST(TarReader, RefusesAnArchiveThatIsCutShort) {
  const std::string whole = tar_member("a.jpg", "aa") + tar_member("b.jpg", std::string(600, 'b'));
  EXPECT_THAT(
      refusal(whole),
      AllOf(HasSubstr("damaged tar archive x.tar, offset 2560: an archive ends with a block "
                      "of zeros (got cut short behind 2 members)"),
            HasSubstr("get it again")));
  EXPECT_THAT(refusal(whole.substr(0, 1124)), HasSubstr("cut short behind 1 member)"));
  EXPECT_THAT(
      refusal(whole.substr(0, 1600)),
      HasSubstr("x.tar: member b.jpg at offset 1024: its contents lie within the archive (got "
                "cut short: 600 bytes, of which the file has 64)"));
  EXPECT_THAT(refusal(""), HasSubstr("an empty file"));
  EXPECT_THAT(refusal(tar_header("././@LongLink", 300, 'L')), HasSubstr("a long name lies within"));
  EXPECT_THAT(refusal(tar_member("", "9 path=a\n", 'x') + tar_end()),
              HasSubstr("a member follows its extended header"));
}

TEST(TarReader, RefusesWrongChecksumsAndWhatIsNoTar) {
  std::string bytes = tar_member("a.jpg", "aa") + tar_member("b.jpg", "bb") + tar_end();
  bytes[1024] = 'c';
  EXPECT_THAT(refusal(bytes), HasSubstr("x.tar, offset 1024: a header's checksum is right"));
  EXPECT_THAT(refusal(std::string(600, 'x')), HasSubstr("a tar archive begins with a header"));
}

TEST(TarReader, RefusesCompressedArchivesByTheirFirstBytes) {
  const std::pair<std::string, const char*> starts[] = {{"\x1f\x8b\x08", "gzip"},
                                                        {"BZh9", "bzip2"},
                                                        {"\xfd"
                                                         "7zXZ",
                                                         "xz"},
                                                        {"\x28\xb5\x2f\xfd", "zstd"},
                                                        {"PK\x03\x04", "zip"}};
  for (const auto& [start, kind] : starts)
    EXPECT_THAT(refusal(start + std::string(600, 'x')),
                AllOf(HasSubstr("tar archive x.tar: it is not compressed"),
                      HasSubstr(kind),
                      HasSubstr("unpack it once")));
}

TEST(TarReader, RefusesSparseMembersAndVolumes) {
  EXPECT_THAT(refusal(tar_member("a", "a", 'S') + tar_end()),
              AllOf(HasSubstr("member a at offset 0: sparse members are not read"),
                    HasSubstr("without tar's --sparse")));
  EXPECT_THAT(
      refusal(tar_member("", "22 GNU.sparse.major=1\n", 'x') + tar_member("a", "a") + tar_end()),
      HasSubstr("sparse members are not read"));
  EXPECT_THAT(refusal(tar_member("a", "a", 'M') + tar_end()), HasSubstr("several volumes"));
}

TEST(TarReader, RefusesAnArchiveBehindTheEndOfAnother) {
  const std::string one = tar_member("a", "a") + tar_end(), two = tar_member("b", "b") + tar_end();
  EXPECT_THAT(refusal(one + two),
              AllOf(HasSubstr("nothing follows its end (got another archive at offset 2048)"),
                    HasSubstr("tar --concatenate")));
  EXPECT_EQ(members_of(one + std::string(10240, '\0')).size(), 1U);
  EXPECT_EQ(members_of(one + "what no tar reads").size(), 1U);
}

TEST(TarReader, SizesOfMoreThanAHeaderHoldsStandInBinaryOrInRecords) {
  std::string binary = tar_header("a", 0);
  binary.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\x02\x58", 12));  // 600
  unsigned sum = 0;
  binary.replace(148, 8, "        ");
  for (const char byte : binary) sum += static_cast<uint8_t>(byte);
  char digits[16];
  std::snprintf(digits, sizeof(digits), "%06o", sum);
  binary.replace(148, 7, std::string(digits, 7));
  EXPECT_EQ(members_of(binary + std::string(1024, 'a') + tar_end()).at(0).size, 600);
  const std::string record = tar_member("", "12 size=600\n", 'x');
  EXPECT_EQ(members_of(record + tar_header("a", 0) + std::string(1024, 'a') + tar_end()).at(0).size,
            600);
  EXPECT_THAT(refusal(tar_member("", "29 size=99999999999999999999\n", 'x') + tar_header("a", 0) +
                      tar_end()),
              HasSubstr("says a size (got \"99999999999999999999\")"));
  EXPECT_THAT(refusal(tar_member("", "28 size=9223372036854775807\n", 'x') + tar_header("a", 0) +
                      tar_end()),
              HasSubstr("cut short: 9223372036854775807 bytes"));
}

TEST(TarReader, ExtendedHeadersAreSmall) {
  EXPECT_THAT(refusal(tar_header("", 1 << 21, 'x') + std::string(1 << 21, ' ')),
              HasSubstr("has at most 1048576 bytes (got 2097152)"));
  for (const char* record :
       {"x", "5", "5 ", "0 a=b\n", "-6 a=b\n", "9 path a\n", "9 path=a ", "99 path=a\n"})
    EXPECT_THAT(refusal(tar_member("", record, 'x') + tar_member("a", "a") + tar_end()),
                HasSubstr("is made of records LENGTH KEY=VALUE"))
        << record;
}

TEST(TarReader, AGlobalHeaderHoldsForAllMembersBehindIt) {
  const std::string bytes = tar_member("",
                                       "15 comment=abc\n"
                                       "10 path=g\n",
                                       'g') +
                            tar_member("a", "a") + tar_member("", "10 path=x\n", 'x') +
                            tar_member("b", "b") + tar_end();
  std::vector<std::string> names;
  for (const TarMember& member : members_of(bytes)) names.push_back(member.name);
  EXPECT_THAT(names, ::testing::ElementsAre("g", "x"));
}

TEST(FileBytes, IsAFileThatIsThere) {
  const test::Folder folder;
  EXPECT_THAT(test::refusal_of([&] { FileBytes(folder.path() / "none.tar"); }),
              HasSubstr("there is no such file"));
  EXPECT_THAT(test::refusal_of([&] { FileBytes{folder.path()}; }, ErrorKind::kEnvironment),
              HasSubstr("(got a folder)"));
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(test::refusal_of([&] { FileBytes(folder.path() / "pipe"); }, ErrorKind::kEnvironment),
              HasSubstr("a pipe"));
  write_file_atomic(folder.path() / "a", "0123456789");
  const FileBytes bytes(folder.path() / "a");
  std::string part(4, ' ');
  bytes.read(3, part);
  EXPECT_EQ(part, "3456");
  std::filesystem::resize_file(folder.path() / "a", 5);
  EXPECT_THAT(test::refusal_of([&] { bytes.read(3, part); }, ErrorKind::kEnvironment),
              HasSubstr("it has become shorter meanwhile"));
}

}  // namespace
}  // namespace muster::formats
