// Texts and classes out of tables and folders.
#include "muster/text/corpus/labelled_texts.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/text/corpus/text_data.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::text {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabelledTextsOf : public ::testing::Test {
 protected:
  fs::path put(const std::string& name, std::string_view bytes) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    write_file_atomic(path, bytes);
    return path;
  }
  LabelledTexts read(std::string_view table, const TextColumns& columns = {}) {
    return read_labelled_texts(put("rows.csv", table), columns);
  }
  std::string refusal(std::string_view table, const TextColumns& columns = {}) {
    return test::refusal_of([&] { read(table, columns); });
  }
  const fs::path& root() const { return folder_.path(); }

  test::Folder folder_;
};

TEST_F(LabelledTextsOf, ColumnsAreFoundByTheirUsualNames) {
  const LabelledTexts texts = read("id,text,label\n1,good,yes\n2,\"bad, very\",no\n");
  EXPECT_THAT(texts.texts, ElementsAre("good", "bad, very"));
  EXPECT_THAT(texts.targets, ElementsAre("yes", "no"));
  EXPECT_EQ(texts.places[1], (root() / "rows.csv").string() + ":3");
  EXPECT_EQ(texts.columns.text, "text");
  EXPECT_THAT(read("class,review\na,b\n").texts, ElementsAre("b")) << "the other one of two";
}

TEST_F(LabelledTextsOf, ColumnsAreThoseThatAreSaid) {
  const TextColumns columns{.text = "review", .target = "stars"};
  EXPECT_THAT(read("stars,text,review\n5,no,yes\n", columns).texts, ElementsAre("yes"));
  EXPECT_THAT(refusal("star,review\n5,a\n", columns), HasSubstr("has the columns star, review"));
  EXPECT_THAT(refusal("a,b,c\n1,2,3\n"), HasSubstr("target=COLUMN"));
  EXPECT_THAT(refusal("label,b,c\n1,2,3\n"), HasSubstr("text=COLUMN"));
  EXPECT_THAT(refusal("text,b\n1,2\n", {.target = "text"}), HasSubstr("two columns"));
  EXPECT_THAT(refusal("text,caf\xE9\n1,2\n", {.target = "caf\xE9"}),
              HasSubstr("its name is not UTF-8 after its 3 first bytes"));
}

TEST_F(LabelledTextsOf, ClassesMayBeMissingWhereNobodyNeedsThem) {
  const LabelledTexts texts = read("text\na\nb\n", {.target = "label", .needs_target = false});
  EXPECT_THAT(texts.texts, ElementsAre("a", "b"));
  EXPECT_TRUE(texts.targets.empty());
}

TEST_F(LabelledTextsOf, WhatIsNoUtf8OrHasNoClassIsBad) {
  const LabelledTexts texts = read("text,label\nok,a\nb\xFFz,a\nc,\nd\n");
  EXPECT_THAT(texts.texts, ElementsAre("ok"));
  ASSERT_EQ(texts.bad.size(), 3U);
  std::string all;
  for (const formats::BadRow& bad : texts.bad) all += bad.place + ' ' + bad.why + '\n';
  EXPECT_THAT(all, HasSubstr("rows.csv:3 the text is not UTF-8 after its 1 first byte"));
  EXPECT_THAT(all, HasSubstr("rows.csv:4 it has no class"));
  EXPECT_THAT(all, HasSubstr("rows.csv:5 it has 1 field, the header 2"));
}

TEST_F(LabelledTextsOf, ABlankClassIsNoneUnlessARunHasLearnedIt) {
  const char* const table = "text,label\nok,a\nb, \nc,\t \nd,\n";
  const LabelledTexts texts = read(table);
  EXPECT_THAT(texts.texts, ElementsAre("ok"));
  ASSERT_EQ(texts.bad.size(), 3U);
  for (const formats::BadRow& bad : texts.bad) EXPECT_EQ(bad.why, "it has no class") << bad.place;
  EXPECT_THAT(read(table, {.learned = {" ", "a"}}).targets, ElementsAre("a", " "));
  EXPECT_EQ(why_unknown(" ", {"a"}), "it has no class");
}

TEST_F(LabelledTextsOf, AFolderTakesFilesInAnyCaseAndSaysWhyALinkIsNone) {
  put("pos/a.TXT", "good");
  put("neg/a.txt", "bad");
  std::filesystem::create_symlink(root() / "nowhere", root() / "neg/b.txt");
  const LabelledTexts texts = read_labelled_texts(root(), {}, {});
  EXPECT_THAT(texts.texts, ::testing::ElementsAre("bad", "good"));
  ASSERT_EQ(texts.bad.size(), 1U);
  EXPECT_EQ(texts.bad[0].why,
            "it cannot be read: no such file: " + (root() / "neg/b.txt").string());
}

// Nobody writes into it: opening it would never end.
TEST_F(LabelledTextsOf, APipeAmongTextsIsBad) {
  put("pos/a.txt", "good");
  put("neg/a.txt", "bad");
  ASSERT_EQ(::mkfifo((root() / "neg/b.txt").c_str(), 0600), 0);
  const LabelledTexts texts = read_labelled_texts(root(), {}, {});
  EXPECT_THAT(texts.texts, ElementsAre("bad", "good"));
  ASSERT_EQ(texts.bad.size(), 1U);
  EXPECT_EQ(texts.bad[0].place, (root() / "neg/b.txt").string());
  EXPECT_EQ(texts.bad[0].why, "it is a pipe, a socket or a device");
}

TEST_F(LabelledTextsOf, AFolderHasAFileForEachSample) {
  put("pos/b.txt", "good");
  put("neg/a.txt", "bad");
  put("neg/more/c.txt", "worse\n");
  put("neg/readme.md", "none");
  const LabelledTexts texts = read_labelled_texts(root(), {});
  EXPECT_THAT(texts.texts, ElementsAre("bad", "worse\n", "good"));
  EXPECT_THAT(texts.targets, ElementsAre("neg", "neg", "pos"));
  EXPECT_EQ(texts.places[2], (root() / "pos/b.txt").string());
}

TEST_F(LabelledTextsOf, AByteOrderMarkIsNoPartOfAText) {
  put("pos/a.txt", "\xEF\xBB\xBFgood");
  put("neg/b.txt", "bad\xEF\xBB\xBF");
  EXPECT_THAT(read_labelled_texts(root(), {}).texts, ElementsAre("bad\xEF\xBB\xBF", "good"));
}

TEST_F(LabelledTextsOf, SplitsAreFilesOrFolders) {
  const fs::path rows = put("rows.tsv", "text\tlabel\na\tb\n");
  EXPECT_EQ(find_text_splits(rows, {}).test, rows);
  EXPECT_EQ(find_text_splits(rows, "/other.tsv").test, "/other.tsv");
  const fs::path train = put("pair/train.csv", "a"), valid = put("pair/valid.csv", "a");
  EXPECT_EQ(find_text_splits(root() / "pair", {}).train, train);
  EXPECT_EQ(find_text_splits(root() / "pair", {}).test, valid);
  put("imdb/train/pos/1.txt", "a");
  put("imdb/test/pos/1.txt", "a");
  EXPECT_EQ(find_text_splits(root() / "imdb", {}).test, root() / "imdb/test");
}

TEST_F(LabelledTextsOf, ClassesAreSortedByTheirBytesOrNumbers) {
  EXPECT_THAT(classes_of({"b", "a", "10", "b"}), ElementsAre("10", "a", "b"));
  EXPECT_THAT(classes_of({"10", "9", "-1", "9"}), ElementsAre("-1", "9", "10"));
}

TEST_F(LabelledTextsOf, BadRowsEndTheRunOrArePassedOver) {
  const fs::path path = put("rows.csv", "text,label\nok,a\nc,\n");
  TextDataOptions options{.path = path.string()};
  EXPECT_THAT(test::error_of([&] { read_texts(options, path, true); }),
              HasSubstr("rows.csv:3: it has no class\nhint: mend or remove it"));
  options.bad_rows = "skip";
  EXPECT_EQ(read_texts(options, path, true).texts.size(), 1U);
  put("rows.csv", "text,label\nc,\n");
  EXPECT_THAT(test::error_of([&] { read_texts(options, path, true); }), HasSubstr("none of 1"));
}

TEST(TextDataOptionsOf, RefuseWhatIsOutOfRange) {
  const auto refusal = [](const char* params) {
    return test::refusal_of([&] { text_data_options(parse_param_values(params), {}); });
  };
  EXPECT_THAT(refusal("path=/a,bad_rows=drop"), HasSubstr("raise or skip"));
  EXPECT_THAT(refusal("path=/a,test_fraction=1"), HasSubstr("above 0, below 1"));
  EXPECT_THAT(refusal("path=/a,min_freq=0"), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("path=/a,max_length=0"), HasSubstr("1 … "));
  EXPECT_THAT(refusal("min_freq=1"), HasSubstr("text:FILE"));
  EXPECT_THAT(refusal("path=~/a"), HasSubstr("$HOME/a"));
}

}  // namespace
}  // namespace muster::text
