// `muster study plot`: what it writes where, and what it refuses.
#include <sstream>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

#include "cli/study/study_commands.h"
#include "tests/support/error_of.h"
#include "tests/support/folder.h"
#include "tests/support/markup.h"
#include "tests/tune/written_study.h"

namespace muster::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class StudyPlot : public testing::Test {
 protected:
  StudyPlot() { write("fashion", 3); }

  void write(const std::string& name, int64_t trials) {
    tune::Space space = test::small_space();
    test::EventMaker make(space);
    std::vector<tune::Event> events;
    for (int64_t i = 0; i < trials; ++i) make.whole(i, 3 + i, events);
    tune::open_storage(file(), space, test::description_of(space, name))->append(events);
  }

  std::filesystem::path file() const { return folder_.path() / "studies.db"; }
  std::filesystem::path at(const char* name) const { return folder_.path() / name; }

  std::string plot(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), file().string());
    std::ostringstream out, err;
    program::Console console(out, err, false, false);
    EXPECT_EQ(study_plot(flags, console), 0);
    return out.str();
  }

  test::Folder folder_;
};

TEST_F(StudyPlot, WritesAPageBesideTheStudyAndSaysWhere) {
  EXPECT_EQ(plot(), at("fashion.html").string() + "\n");
  const std::string page = read_file(at("fashion.html"));
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  test::elements_of(page);
}

TEST_F(StudyPlot, WritesPicturesByTheEndingOfTheirName) {
  plot({"--kind", "history", "--output", at("h.svg").string()});
  const auto svg = test::elements_of(read_file(at("h.svg")));
  EXPECT_EQ(svg[0].name, "svg");
  const auto tips = std::ranges::count_if(svg, [](const auto& element) {
    return element.name == "title" && element.text.starts_with("trial ");
  });
  EXPECT_EQ(tips, 4) << "three trials, and the best once more";
  plot({"--kind", "slice,contour", "--kind", "rungs", "--output", at("s.png").string()});
  EXPECT_THAT(read_file(at("s.png")), StartsWith("\x89PNG"));
}

TEST_F(StudyPlot, TakesParametersInTheirOrder) {
  plot({"--kind", "contour", "--param", "l1,lr", "--output", at("c.svg").string()});
  EXPECT_THAT(read_file(at("c.svg")), HasSubstr("l1 and lr"));
}

TEST_F(StudyPlot, SaysToAScriptWhatItWrote) {
  const Json said = parse_json(plot({"--json", "--kind", "edf"}), "out");
  EXPECT_EQ(said["output"], at("fashion.html").string());
  EXPECT_EQ(said["kinds"], Json::array({"edf"}));
  EXPECT_EQ(said["trials"], 3);
}

TEST_F(StudyPlot, NamesItsFileSoThatItIsOne) {
  write("../a/b:c", 1);
  EXPECT_EQ(plot({"--study", "../a/b:c"}), at("_.._a_b_c.html").string() + "\n");
}

TEST_F(StudyPlot, RefusesWhatItCannotDraw) {
  const auto refusal = [&](std::vector<std::string> flags) {
    return test::refusal_of([&] { plot(flags); });
  };
  EXPECT_THAT(refusal({"--output", "x.pdf"}), HasSubstr(".html, .svg or .png"));
  EXPECT_THAT(refusal({"--kind", "paralel"}), HasSubstr("did you mean \"parallel\"?"));
  EXPECT_THAT(refusal({"--param", "Ir"}), HasSubstr("did you mean \"lr\"?"));
  EXPECT_THAT(refusal({"--study", "other"}), HasSubstr("other"));
}

TEST_F(StudyPlot, LeavesTheStudyAloneAndNeedsNoRightToWriteIt) {
  const std::string before = read_file(file());
  ::chmod(file().c_str(), 0444);
  plot({"--output", at("p.html").string()});
  EXPECT_EQ(read_file(file()), before);
}

TEST_F(StudyPlot, WorksBesideATunerThatHoldsTheStudyAndWritesToIt) {
  tune::Space space = test::small_space();
  const tune::TunerLock lock(file(), "fashion");
  const auto storage = tune::open_storage(file(), space, test::description_of(space));
  test::EventMaker make(space, static_cast<int64_t>(storage->events().size()) + 1);
  std::string said;
  storage->transact([&](std::vector<tune::Event>) -> std::span<const tune::Event> {
    said = plot({"--json"});  // within the tuner's transaction
    return {};
  });
  EXPECT_EQ(parse_json(said, "out")["trials"], 3);
  storage->append({{make.added(3)}});
  EXPECT_EQ(parse_json(plot({"--json"}), "out")["trials"], 4);
}

}  // namespace
}  // namespace muster::cli
