// `muster study plot`.
#include <algorithm>
#include <array>
#include <chrono>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/program/line/parse.h"
#include "muster/track/picture/picture_png.h"
#include "muster/track/picture/picture_svg.h"
#include "muster/tune/plot/plot.h"
#include "muster/tune/plot/plot_page.h"
#include "muster/tune/storage/parameter_table.h"
#include "muster/tune/views/importance.h"

#include "cli/command.h"
#include "cli/study/study_commands.h"

namespace muster::cli {
namespace {

constexpr std::array<std::string_view, 3> kPlotEndings = {".html", ".svg", ".png"};

/// "a,b" and "c" are a, b and c.
std::vector<std::string> separated(const std::vector<std::string>& lists) {
  std::vector<std::string> out;
  for (const std::string& list : lists) {
    for (const std::string& name : split(list, ',')) out.emplace_back(trim(name));
  }
  return out;
}

/// A parameter whose name has a comma is named as a whole.
std::vector<std::string> parameter_names(const std::vector<std::string>& lists,
                                         const tune::StudyFacts& facts) {
  std::vector<std::string> out;
  for (const std::string& list : lists) {
    const bool whole = std::ranges::any_of(
        facts.parameters, [&](const auto& parameter) { return parameter.name == list; });
    const std::vector<std::string> names =
        whole ? std::vector<std::string>{list} : separated({list});
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

std::string ending_of(const std::filesystem::path& output) {
  const std::string ending = output.extension().string();
  if (std::ranges::find(kPlotEndings, ending) != kPlotEndings.end()) return ending;
  throw usage_error({.refused = concat("--output ", output.string()),
                     .rule = "the ending says what is written: .html, .svg or .png"});
}

/// STUDY.html beside the study's file; what a file name should not hold is "_".
std::filesystem::path beside(const std::filesystem::path& storage, const std::string& study) {
  constexpr size_t kLongest = 200;
  std::string name = study.substr(0, kLongest);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !std::isalnum(byte) &&
        std::string_view("._-+=@ ").find(c) == std::string_view::npos)
      c = '_';
  }
  if (name.empty() || name[0] == '.') name.insert(0, "_");
  return storage.parent_path() / (name + ".html");
}

/// Nothing is said of a study from which nothing can be told.
void add_importance(const StudyFlags& flags,
                    const tune::StudySummary& summary,
                    tune::PlotInput& input) try {
  const auto& objectives = summary.goals.objectives;
  const auto table = tune::read_parameter_table(flags.storage, summary.name, input.objective);
  if (table.values.size() < 2) return;
  const tune::Mode mode = objectives.empty() ? summary.mode : objectives[input.objective].mode;
  input.importance = tune::parameter_importance(table, mode);
  input.importance_of = tune::best_trials(table, mode);
} catch (const Error&) {  // a distribution that cannot be read, say: the other plots need none
}

tune::PlotStudy read_plot_study(const StudyFlags& flags, const std::string& of) {
  StoredStudy stored = read_study(flags);
  const Json& description = stored.summary.description;
  tune::PlotInput input{.facts = std::move(stored.facts), .trials = std::move(stored.trials)};
  if (description.is_object() && description.contains("scheduler") &&
      description["scheduler"].is_string())
    input.scheduler = description["scheduler"].get<std::string>();
  input.objective = objective_named(of, stored.summary.goals, stored.summary.name);
  add_importance(flags, stored.summary, input);
  input.now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return tune::plot_study(std::move(input));
}

std::string drawn(const tune::PlotStudy& study,
                  const std::vector<const tune::PlotEntry*>& kinds,
                  const tune::PlotOptions& options,
                  const std::string& ending) {
  if (ending == ".html") return tune::plot_page(study, kinds, options);
  const track::Picture picture = tune::plots_as_picture(study, kinds, options);
  if (ending == ".png") return track::picture_png(picture);
  return track::picture_svg_document(
      picture, [&](int64_t item) { return tune::trial_words(study, static_cast<size_t>(item)); });
}

std::string kinds_help() {
  std::string out = "\nKinds:\n";
  for (const tune::PlotEntry* entry : tune::ordered_plots())
    out += concat("  ",
                  entry->name,
                  std::string(14 - std::min<size_t>(13, entry->name.size()), ' '),
                  entry->help,
                  '\n');
  return out;
}

}  // namespace

int study_plot(std::span<const std::string> args, program::Console& console) {
  StudyFlags flags;
  const auto app =
      study_app("plot",
                "Draws a study: one page for a browser, or pictures as SVG or PNG.",
                "Examples:\n  muster study plot fashion.db\n"
                "  muster study plot fashion.db --kind contour --param lr,momentum \\\n"
                "    --output contour.png\n"
                "  muster study plot fashion.db --kind history,parallel --output "
                "search.svg\n" +
                    kinds_help(),
                flags);
  std::filesystem::path output;
  std::vector<std::string> kind_lists, param_lists;
  program::add_value(*app,
                     "--output",
                     output,
                     "a page or pictures, by its ending; without it "
                     "STUDY.html beside STORAGE")
      ->type_name("FILE.html|.svg|.png");
  program::add_value(*app, "--kind", kind_lists, "what to draw, see below; all of it without")
      ->type_name("KIND,…");
  program::add_value(*app, "--param", param_lists, "of parallel, slice and contour, in this order")
      ->type_name("NAME,…");
  std::string of;
  program::add_value(
      *app, "--of", of, "which of several objectives kinds of one metric draw [the first]")
      ->type_name("METRIC");
  if (const auto done = program::parse(*app, args, console)) return *done;
  const std::string ending = output.empty() ? ".html" : ending_of(output);
  auto kinds = tune::plots_named(separated(kind_lists));
  const tune::PlotStudy study = read_plot_study(flags, of);
  if (kind_lists.empty()) kinds = tune::plots_named({}, study.facts.goals.several());
  const tune::PlotOptions options{
      .parameters = tune::parameters_named(parameter_names(param_lists, study.facts), study.facts)};
  if (output.empty()) output = beside(flags.storage, study.facts.name);
  write_file_atomic(output, drawn(study, kinds, options, ending));
  if (flags.json) {
    Json names = Json::array();
    for (const tune::PlotEntry* kind : kinds) names.push_back(kind->name);
    console.out() << json_text(Json{{"output", output.string()},
                                    {"kinds", names},
                                    {"trials", study.trials.size()},
                                    {"drawn", study.shown.size()}})
                  << '\n';
  } else {
    console.out() << output.string() << '\n';
  }
  return kDone;
}

}  // namespace muster::cli
