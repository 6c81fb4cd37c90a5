// What docs/tune-space.md shows is read by the program as it stands.
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/files/study_file.h"
#include "muster/tune/files/sweep_yaml.h"

#include "tests/support/error_of.h"
#include "tests/support/paths.h"

namespace muster::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string& page() {
  static const std::string text = read_file(test::source_path("docs/tune-space.md"));
  return text;
}

std::vector<std::string> blocks(const std::string& language) {
  std::vector<std::string> out;
  const std::string begin = "```" + language + "\n", end = "```";
  for (size_t at = page().find(begin); at != std::string::npos; at = page().find(begin, at)) {
    at += begin.size();
    out.push_back(page().substr(at, page().find(end, at) - at));
  }
  return out;
}

/// What stands in the first column of the tables, between backquotes.
std::vector<std::string> first_cells(const std::string& heading) {
  const size_t from = page().find("\n## " + heading), to = page().find("\n## ", from + 4);
  const std::string section = page().substr(from, to - from);
  const std::regex cell(R"(\n\| ([^|]*) \|)"), word("`([^`]+)`");
  std::vector<std::string> out;
  for (std::sregex_iterator row(section.begin(), section.end(), cell), end; row != end; ++row) {
    const std::string text = (*row)[1];
    for (std::sregex_iterator one(text.begin(), text.end(), word); one != end; ++one)
      out.push_back((*one)[1]);
  }
  return out;
}

TEST(SpacePage, EveryExampleIsRead) {
  ASSERT_GE(blocks("toml").size(), 4U);
  for (const std::string& block : blocks("toml"))
    EXPECT_FALSE(parse_study(block, "page.toml").space.parameters().empty()) << block;
  ASSERT_EQ(blocks("yaml").size(), 1U);
  EXPECT_EQ(parse_sweep(blocks("yaml")[0], "page.yaml").num_samples, 30);
}

TEST(SpacePage, EveryDomainIsThere) {
  const auto domains = first_cells("Domains");
  EXPECT_EQ(domains.size(), 13U);
  for (const std::string& domain : domains) {
    const Space space({{"x", Domain::parse(domain, "page")}});
    EXPECT_EQ(space.dimensions().size(), 1U) << domain;
  }
}

TEST(SpacePage, EveryKeyIsKnown) {
  const auto keys = first_cells("Keys");
  EXPECT_GT(keys.size(), 25U);
  for (const std::string& key : keys) {
    const bool is_table = key.starts_with('[');
    const std::string name = is_table ? key.substr(1, key.size() - 2) : key;
    const std::string text = is_table ? key + "\nno_such_key = 1" : key + " = 1979-05-27";
    const std::string refused = test::error_of([&] { parse_study(text, "page.toml"); });
    EXPECT_THAT(refused, Not(HasSubstr(concat("unknown key \"", name, '"')))) << key;
    // A searcher's and a scheduler's parameters are looked at when it is made; an environment has
    // any names.
    const bool takes_any =
        name == "executor" || name == "searcher" || name == "scheduler" || name == "environment";
    EXPECT_TRUE(takes_any || refused != test::kNoError) << key;
  }
}

}  // namespace
}  // namespace muster::tune
