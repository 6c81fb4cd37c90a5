// A user's rows of numbers: splits, what the training split teaches, and what is refused.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/file.h"
#include "muster/data/dataset.h"
#include "muster/formats/csv_data.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CsvEntry : public ::testing::Test {
 protected:
  std::string put(const std::string& name, std::string_view bytes) {
    write_file_atomic(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  std::string put_rows() {
    std::string table = "x,y,kind\n";
    for (int i = 0; i < 20; ++i)
      table +=
          std::to_string(i) + "," + std::to_string(100 - i * i) + (i % 2 == 0 ? ",a\n" : ",b\n");
    return put("rows.csv", table);
  }
  std::shared_ptr<const Dataset> open(Split split,
                                      const std::string& path,
                                      const std::string& params,
                                      const std::string& learned = "",
                                      bool is_other = false) {
    ParamValues values = parse_param_values(params);
    values["path"] = path;
    return datasets().at("csv").open(
        {.split = split, .params = values, .learned = learned, .is_other = is_other});
  }
  std::string refusal(std::string_view table, const std::string& params) {
    const std::string path = put("bad.csv", table);
    return test::error_of([&] { open(Split::kTrain, path, params); });
  }
  static torch::Tensor all(const Dataset& dataset) {
    std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
    return dataset.get(indices)["data"];
  }

  test::Folder folder_;
};

TEST_F(CsvEntry, TheTrainingSplitHasMeanZeroAndDeviationOne) {
  const std::string path = put_rows();
  const auto train = open(Split::kTrain, path, "target=kind");
  const auto test = open(Split::kTest, path, "target=kind");
  EXPECT_EQ(train->size(), 16);
  EXPECT_EQ(test->size(), 4);
  EXPECT_EQ(train->learned(), test->learned());
  EXPECT_THAT(train->spec().sample_shape, ElementsAre(2));
  EXPECT_THAT(train->spec().class_names, ElementsAre("a", "b"));
  EXPECT_LT(all(*train).mean(0).abs().max().item<float>(), 1e-6);
  EXPECT_LT((all(*train).std(0, /*unbiased=*/false) - 1).abs().max().item<float>(), 1e-6);
  EXPECT_EQ(all(*train).scalar_type(), torch::kFloat);
}

TEST_F(CsvEntry, OtherFilesAreReadAsTheRunHasLearned) {
  const std::string path = put_rows();
  const auto train = open(Split::kTrain, path, "target=kind");
  const std::string other = put("new.csv", "z,y,x\n1,100,0\n1,99,1\n");
  const auto read = open(Split::kTest, other, "", train->learned(), /*is_other=*/true);
  EXPECT_EQ(read->size(), 2);
  EXPECT_FALSE(read->targets().defined());
  const std::string both = put("both.csv", "x,y,kind\n0,100,a\n1,99,b\n");
  const auto labelled = open(Split::kTest, both, "", train->learned(), /*is_other=*/true);
  EXPECT_TRUE(all(*labelled).equal(all(*read)));
  EXPECT_TRUE(labelled->targets().equal(torch::tensor({0, 1}, torch::kLong)));
  const std::string less = put("less.csv", "x,kind\n0,a\n");
  EXPECT_THAT(test::refusal_of([&] { open(Split::kTest, less, "", train->learned(), true); }),
              HasSubstr("a feature of the run: "));
}

TEST_F(CsvEntry, ATestFileIsReadByWhatTheOtherOneTeaches) {
  const std::string path = put_rows();
  const std::string params = "target=kind,test=" + put("test.csv", "kind,y,x\nb,100,0\n");
  EXPECT_EQ(open(Split::kTrain, path, params)->size(), 20);
  EXPECT_NEAR(all(*open(Split::kTest, path, params))[0][0].item<double>(),
              -9.5 / std::sqrt((400.0 - 1) / 12),
              1e-6)
      << "of 0 … 19";
}

TEST_F(CsvEntry, RowsWithoutACategoryAreBad) {
  const std::string params = "target=y,categorical=c,test=" + put("test.csv", "x,c,y\n1,p,a\n");
  const std::string path = put("rows.csv", "x,c,y\n1,p,a\n2,,b\n3,q,a\n4, ,b\n5,p,b\n");
  EXPECT_THAT(test::error_of([&] { open(Split::kTrain, path, params); }),
              HasSubstr("rows.csv:3: its \"c\" is empty"));
  const auto kept = open(Split::kTrain, path, params + ",bad_rows=skip");
  EXPECT_EQ(kept->size(), 3);
  EXPECT_THAT(kept->spec().sample_shape, ElementsAre(3)) << "x, p and q";
  EXPECT_THAT(kept->remarks(), ElementsAre(HasSubstr("2 of 5 rows in ")));
  const std::string asked = put("asked.csv", "x,c\n1,p\n1,\n1,new\n");
  EXPECT_THAT(test::error_of([&] { open(Split::kTest, asked, "", kept->learned(), true); }),
              HasSubstr("asked.csv:3: its \"c\" is empty"));
}

// Once an empty cell was a category of its own, and the runs of then go on.
TEST_F(CsvEntry, ARunThatHasLearnedAnEmptyCategoryKeepsIt) {
  const std::string params = "target=y,categorical=c,test=" + put("test.csv", "x,c,y\n1,p,a\n");
  const std::string path = put("rows.csv", "x,c,y\n1,p,a\n2,p,b\n");
  std::string learned = open(Split::kTrain, path, params)->learned();
  const std::string now = "[\"p\"]";
  const size_t at = learned.find(now);
  ASSERT_NE(at, std::string::npos) << learned;
  learned.replace(at, now.size(), "[\"\",\"p\"]");
  const std::string before = put("before.csv", "x,c,y\n1,p,a\n2,,b\n3,p,b\n");
  EXPECT_EQ(open(Split::kTrain, before, params, learned)->size(), 3);
  EXPECT_EQ(open(Split::kTest, before, "", learned, /*is_other=*/true)->size(), 3);
}

TEST_F(CsvEntry, RowsWhoseClassIsBlankHaveNone) {
  for (const char* delimiter : {",", "\t", ";"}) {
    std::string table = "x,k\n1,a\n2, \n3,\n4,b\n5,a\n";
    for (char& letter : table)
      if (letter == ',') letter = *delimiter;
    const std::string name = *delimiter == '\t' ? "rows.tsv" : "rows.csv";
    const std::string test = put(name.substr(0, 4) + "_test" + name.substr(4),
                                 std::string("x") + delimiter + "k\n1" + delimiter + "a\n");
    const std::string params =
        "target=k,test=" + test + (*delimiter == ';' ? ",delimiter=semicolon" : "");
    const std::string path = put(name, table);
    EXPECT_THAT(test::error_of([&] { open(Split::kTrain, path, params); }),
                HasSubstr(name + ":3: it has no class"));
    const auto kept = open(Split::kTrain, path, params + ",bad_rows=skip");
    EXPECT_THAT(kept->spec().class_names, ElementsAre("a", "b"));
    EXPECT_THAT(kept->remarks(), ElementsAre(HasSubstr("2 of 5 rows in ")));
  }
  const auto learned = open(Split::kTrain, put_rows(), "target=kind")->learned();
  const std::string asked = put("asked.csv", "x,y,kind\n1,1,a\n2,2, \n");
  EXPECT_THAT(test::error_of([&] { open(Split::kTest, asked, "", learned, /*is_other=*/true); }),
              HasSubstr("asked.csv:3: it has no class"));
}

// Once a blank cell was a class of its own.
TEST_F(CsvEntry, ARunThatHasLearnedABlankClassKeepsIt) {
  const std::string params = "target=k,test=" + put("test.csv", "x,k\n1,a\n2, \n");
  const std::string path = put("rows.csv", "x,k\n1,a\n2,b\n3,a\n");
  std::string learned = open(Split::kTrain, path, params)->learned();
  const std::string now = "[\"a\",\"b\"]";
  const size_t at = learned.find(now);
  ASSERT_NE(at, std::string::npos) << learned;
  learned.replace(at, now.size(), "[\" \",\"a\",\"b\"]");
  const std::string before = put("before.csv", "x,k\n1,a\n2, \n3,b\n");
  const auto resumed = open(Split::kTrain, before, params, learned);
  EXPECT_TRUE(resumed->targets().equal(torch::tensor({1, 0, 2}, torch::kLong)));
  EXPECT_EQ(open(Split::kTest, before, params, learned)->size(), 2);
  EXPECT_EQ(open(Split::kTest, before, "", learned, /*is_other=*/true)->size(), 3);
}

TEST_F(CsvEntry, BadRowsAreToldInTheOrderOfTheFile) {
  const std::string table = "x,c,y\n1,p,a\n2,,b\n3,q,\n4,p,a,5\noops,q,b\n6,q,b\n";
  const std::string params = "target=y,categorical=c";
  EXPECT_THAT(refusal(table, params), HasSubstr("bad.csv:3: its \"c\" is empty"));
  EXPECT_THAT(refusal("x,c,y\n1,p,a\n2,q,\noops,q,b\n4,q,b\n", params),
              HasSubstr("bad.csv:3: it has no class"));
  formats::CsvDataOptions options;
  options.target = "y";
  options.categorical = "c";
  std::vector<int64_t> lines;
  for (const formats::BadRow& row :
       formats::read_labelled_rows(options, put("b.csv", table)).table.bad)
    lines.push_back(row.line);
  EXPECT_THAT(lines, ElementsAre(3, 4, 5, 6));
  // The classes that a run has learned are looked for behind its columns.
  const auto learned = open(Split::kTrain, put_rows(), "target=kind")->learned();
  const std::string asked = put("asked.csv", "x,y,kind\n1,1,a\n2,2,none\noops,3,a\n");
  EXPECT_THAT(test::error_of([&] { open(Split::kTest, asked, "", learned, /*is_other=*/true); }),
              HasSubstr("asked.csv:3: "));
}

// What a run learns is kept as JSON, where other bytes would become U+FFFD.
TEST_F(CsvEntry, RefusesNamesThatARunCannotKeep) {
  EXPECT_THAT(refusal("x,y\n1,a\n2,caf\xE9\n", "target=y"),
              HasSubstr("bad.csv:3: the class is not UTF-8 after its 3 first bytes"));
  EXPECT_THAT(refusal("x,c,y\n1,\xE9,a\n2,b,b\n", "target=y,categorical=c"),
              HasSubstr("bad.csv:2: its \"c\" is not UTF-8 after its 0 first bytes"));
  EXPECT_THAT(refusal("x\xE9,y\n1,a\n2,b\n", "target=y"),
              HasSubstr("its name is not UTF-8 after its 1 first byte"));
}

TEST_F(CsvEntry, RefusesWhatIsNoClassification) {
  EXPECT_THAT(refusal("x,y\n1,0.5\n2,1.5\n3,2\n4,1\n", "target=y"),
              HasSubstr("target_kind=number"));
  EXPECT_THAT(refusal("x,y\n1,5\n2,6\n3,7\n4,8\n", "target=y"),
              HasSubstr("each class has some rows (got 4 values in 4 rows)"));
  EXPECT_THAT(refusal("x,y\n1,a\n2,b\n", ""), HasSubstr("which column has the classes"));
  EXPECT_THAT(refusal("x,y\n1,a\noops,b\n", "target=y"), HasSubstr("bad.csv:3: its \"x\""));
  EXPECT_THAT(refusal("x,y\n1,a\n2,\n", "target=y"), HasSubstr("bad.csv:3: it has no class"));
  EXPECT_THAT(refusal("x,y\nred,a\nblue,b\n", "target=y"), HasSubstr("categorical=x"));
}

// A target that is measured stays as it stands in the table; its mean and deviation are learned.
TEST_F(CsvEntry, AMeasuredTargetKeepsItsNumbers) {
  std::string table = "x,price\n";
  for (int i = 0; i < 20; ++i) table += std::to_string(i) + "," + std::to_string(i) + ".1\n";
  const std::string path = put("prices.csv", table), params = "target=price,target_kind=number";
  const auto train = open(Split::kTrain, path, params);
  const auto test = open(Split::kTest, path, params);
  EXPECT_EQ(train->size(), 16);
  EXPECT_EQ(test->size(), 4);
  EXPECT_EQ(train->spec().classes, 0);
  EXPECT_FALSE(train->targets().defined()) << "no classes to go by";
  std::vector<int64_t> indices(16);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  const torch::Tensor target = train->get(indices)["target"];
  EXPECT_EQ(target.scalar_type(), torch::kDouble);
  const auto scale = formats::learned_target_scale(train->learned());
  ASSERT_TRUE(scale.has_value());
  EXPECT_NEAR(scale->mean, target.mean().item<double>(), 1e-12);
  EXPECT_NEAR(scale->deviation, target.std(0, /*unbiased=*/false).item<double>(), 1e-12);
  EXPECT_EQ(test->learned(), train->learned());
  EXPECT_EQ(open(Split::kTrain, path, "target=price,target_kind=number,split_seed=1")->size(), 16);

  const std::string other = put("other.csv", "price,x\n7.25,1\n");
  const auto read = open(Split::kTest, other, "", train->learned(), /*is_other=*/true);
  EXPECT_EQ(read->get(std::vector<int64_t>{0})["target"].item<double>(), 7.25);
  const std::string bare = put("bare.csv", "x\n1\n");
  const auto without = open(Split::kTest, bare, "", train->learned(), /*is_other=*/true);
  EXPECT_EQ(without->get(std::vector<int64_t>{0}).find("target"), nullptr);
}

// Of a file that is only asked about.
TEST_F(CsvEntry, ATargetThatIsEmptyOrLeftAwayIsNone) {
  const std::string prices = put("prices.csv", "x,price\n1,2\n2,4\n3,7\n4,8\n5,9\n");
  const auto numbers = open(Split::kTrain, prices, "target=price,target_kind=number");
  const auto classes = open(Split::kTrain, put_rows(), "target=kind");
  const auto has_target = [&](const Dataset& learned, const char* table, const char* params) {
    const auto read =
        open(Split::kTest, put("asked.csv", table), params, learned.learned(), /*is_other=*/true);
    EXPECT_EQ(read->size(), 2);
    return read->get(std::vector<int64_t>{0}).find("target") != nullptr;
  };
  EXPECT_TRUE(has_target(*numbers, "x,price\n1,2\n2,3\n", ""));
  EXPECT_FALSE(has_target(*numbers, "x,price\n1,\n2, \n", ""));
  EXPECT_FALSE(has_target(*numbers, "x,price\n1,2\n2,oops\n", "drop=price"));
  EXPECT_FALSE(has_target(*classes, "x,y,kind\n1,1,\n2,2,\n", ""));
  EXPECT_FALSE(has_target(*classes, "x,y,kind\n1,1,a\n2,2,c\n", "drop=[kind]"));
  EXPECT_TRUE(has_target(*numbers, "x,price\n1,2\n2,3\n3,\n", "bad_rows=skip"));
  const std::string part = put("part.csv", "x,price\n1,2\n2,\n");
  EXPECT_THAT(test::error_of([&] { open(Split::kTest, part, "", numbers->learned(), true); }),
              HasSubstr("part.csv:3: its \"price\" is empty; drop=price leaves the target away"));
  EXPECT_THAT(
      test::refusal_of([&] { open(Split::kTest, part, "drop=x", numbers->learned(), true); }),
      HasSubstr("\"drop\": what the run's model is given is not left away (got x)"));
}

// A slip of the hand is none of the columns that a file may lack.
TEST_F(CsvEntry, ColumnsThatAreSaidOfOtherFilesAreThere) {
  const auto learned = open(Split::kTrain, put_rows(), "target=kind")->learned();
  const std::string asked = put("asked.csv", "x,y,id\n1,1,7\n");
  const auto opened = [&](const std::string& params) {
    return test::error_of([&] { open(Split::kTest, asked, params, learned, /*is_other=*/true); });
  };
  EXPECT_EQ(opened("drop=[id,kind]"), test::kNoError) << "the run's target may be missing";
  EXPECT_THAT(opened("drop=ids"),
              AllOf(HasSubstr("parameter \"drop\": "), HasSubstr("did you mean \"id\"?")));
  EXPECT_THAT(opened("categorical=z"), HasSubstr("parameter \"categorical\": "));
  EXPECT_THAT(opened("categorical=[id,x]"),
              HasSubstr("\"categorical\": what the run has learned as a number stays one (got x)"));
  const std::string beside = ",test=" + put("test.csv", "x,y\n1,1\n");
  EXPECT_EQ(opened("drop=id" + beside), test::kNoError) << "of the file beside it";
  EXPECT_THAT(opened("drop=ids" + beside), HasSubstr("asked.csv has the columns x, y, id"));
}

TEST_F(CsvEntry, AMissingFeatureIsNoneOfTheOthers) {
  const std::string path = put("wide.csv", "width1,width2,kind\n1,2,a\n2,1,b\n3,1,a\n4,5,b\n");
  const auto learned = open(Split::kTrain, path, "target=kind,test=" + path)->learned();
  const auto opened = [&](const char* table) {
    return test::error_of(
        [&] { open(Split::kTest, put("asked.csv", table), "", learned, /*is_other=*/true); });
  };
  EXPECT_THAT(opened("width1,other\n1,2\n"),
              AllOf(HasSubstr("has the columns width1, other (got \"width2\")"),
                    Not(HasSubstr("did you mean"))));
  EXPECT_THAT(opened("width1,width3\n1,2\n"), HasSubstr("did you mean \"width3\"?"));
}

TEST_F(CsvEntry, AnswersAreMeasuredByATargetThatIsThere) {
  const auto learned = open(Split::kTrain, put_rows(), "target=kind")->learned();
  const auto opened = [&](const char* table, const char* params) {
    ParamValues values = parse_param_values(params);
    values["path"] = put("asked.csv", table);
    return test::error_of([&] {
      datasets().at("csv").open({.split = Split::kTest,
                                 .params = values,
                                 .learned = learned,
                                 .is_other = true,
                                 .needs_targets = true});
    });
  };
  EXPECT_EQ(opened("x,y,kind\n1,1,a\n", ""), test::kNoError);
  EXPECT_THAT(opened("x,y,sort\n1,1,a\n", ""),
              AllOf(HasSubstr("the target \"kind\" of the run"),
                    HasSubstr("asked.csv (got the columns x, y, sort)")));
  EXPECT_EQ(opened("x,y,sort\n1,1,a\n", "target=sort"), test::kNoError);
  EXPECT_THAT(opened("x,y,kind\n1,1,\n", ""), HasSubstr("empty in every row"));
  EXPECT_THAT(opened("x,y,kind\n1,1,a\n", "drop=kind"), HasSubstr("(got drop=kind)"));
}

TEST_F(CsvEntry, NamesWithACommaStandInQuotes) {
  const std::string path = put("commas.csv", "x,\"a,b\",\"c,d\"\n1,p,k\n2,q,l\n3,p,k\n4,q,l\n");
  const std::string test = ",test=" + path;
  const auto width = [&](const std::string& params) {
    return open(Split::kTrain, path, params + test)->spec().sample_shape;
  };
  EXPECT_THAT(width("target=[\"c,d\"],drop=[\"a,b\"]"), ElementsAre(1));
  EXPECT_THAT(width("target=[\"c,d\"],categorical=[\"a,b\"]"), ElementsAre(3));
  EXPECT_THAT(test::error_of([&] { width("target=[\"c,d\"]"); }),
              HasSubstr("drop=[\"a,b\"] leaves it away"));
}

TEST_F(CsvEntry, ATargetIsNoFeatureAndIsNotDropped) {
  for (const char* parameter : {"drop", "categorical"}) {
    EXPECT_THAT(refusal("x,y\n1,a\n2,b\n", "target=y," + std::string(parameter) + "=[y,x]"),
                HasSubstr("\"" + std::string(parameter) +
                          "\": it names other columns than \"target\" (got y)"));
  }
}

// The run's own target may be missing in rows that are only asked about; a name that is given anew is
// meant.
TEST_F(CsvEntry, ATargetThatIsNamedAnewIsAColumn) {
  const std::string prices = put("prices.csv", "x,price\n1,2\n2,4\n3,7\n4,8\n5,9\n");
  const auto learned = open(Split::kTrain, prices, "target=price,target_kind=number")->learned();
  const std::string bare = put("bare.csv", "x,cost\n1,2\n");
  const auto target_with = [&](const char* params) {
    return open(Split::kTest, bare, params, learned, /*is_other=*/true)
        ->get(std::vector<int64_t>{0})
        .find("target");
  };
  EXPECT_EQ(target_with("target=price"), nullptr);
  EXPECT_NE(target_with("target=cost"), nullptr);
  EXPECT_THAT(test::refusal_of([&] { target_with("target=cots"); }),
              HasSubstr("parameter \"target\": "));
  EXPECT_THAT(test::refusal_of([&] { target_with("target=x"); }),
              AllOf(HasSubstr("what the run's model is given is not what it predicts (got \"x\")"),
                    HasSubstr("the run's target is \"price\"")));
}

TEST_F(CsvEntry, AColumnIsNotDroppedAndCategorical) {
  EXPECT_THAT(refusal("x,y,z\n1,a,k\n2,b,l\n", "target=y,drop=z,categorical=[z]"),
              HasSubstr("\"categorical\": it names columns that \"drop\" does not (got z)"));
}

TEST_F(CsvEntry, ATestFileWithoutTheTargetIsRefusedByItsName) {
  const std::string path = put("prices.csv", "x,price\n1,2\n2,4\n");
  const std::string params = "target=price,target_kind=number,test=" + put("bare.csv", "x\n1\n");
  EXPECT_THAT(test::refusal_of([&] { open(Split::kTest, path, params); }),
              AllOf(HasSubstr("parameter \"target\": "),
                    HasSubstr("bare.csv has the columns x (got \"price\")")));
}

TEST_F(CsvEntry, AConstantTargetGetsARemark) {
  const std::string params = "target=y,target_kind=number,test=";
  const std::string test = put("test.csv", "x,y\n1,2\n");
  const std::string same = put("same.csv", "x,y\n1,3.5\n2,3.50\n");
  EXPECT_THAT(open(Split::kTrain, same, params + test)->remarks(),
              ElementsAre(HasSubstr(
                  "same.csv is 3.5 in all samples but the test's: there is nothing to learn")));
  EXPECT_THAT(open(Split::kTest, same, params + test)->remarks(), ElementsAre());
  const std::string other = put("other.csv", "x,y\n1,3.5\n2,4.5\n");
  EXPECT_THAT(open(Split::kTrain, other, params + test)->remarks(), ElementsAre());
}

TEST_F(CsvEntry, RefusesWhatIsNoRegression) {
  const std::string params = "target=y,target_kind=number";
  EXPECT_THAT(refusal("x,y\n1,a\n2,b\n", params),
              HasSubstr("with target_kind=number it is a column of numbers (got \"a\", …)"));
  EXPECT_THAT(refusal("x,y\n1,2\n2,\n", params), HasSubstr("bad.csv:3: its \"y\" is empty"));
  EXPECT_THAT(refusal("x,y\n1,2\n2,1e99\n", params), HasSubstr("too large for float32"));
  EXPECT_THAT(refusal("x,y\n1,2\n2,3\n", "target=y,target_kind=numbr"),
              HasSubstr("did you mean \"number\"?"));
  EXPECT_THAT(refusal("x,y\n1,2\n2,3\n", "target_kind=number"),
              HasSubstr("which column is predicted"));
  const std::string rows = put_rows();
  const auto classes = open(Split::kTrain, rows, "target=kind");
  EXPECT_THAT(test::refusal_of([&] {
                open(Split::kTest, rows, "target_kind=number", classes->learned(), true);
              }),
              HasSubstr("the run tells classes apart"));
}

}  // namespace
}  // namespace muster::data
