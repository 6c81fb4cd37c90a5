#include "muster/train/record/run_files.h"

#include "muster/base/csv.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/metric_text.h"
#include "muster/base/text.h"
#include "muster/track/metrics_reader.h"
#include "muster/track/page/curves.h"
#include "muster/track/page/run_page.h"
#include "muster/train/checkpoints/checkpoint.h"
#include "muster/train/record/lr_search_files.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;

std::string csv_of(const ConfusionMatrix& matrix) {
  std::string out;
  for (std::vector<std::string>& row : matrix.to_rows()) {
    for (std::string& field : row) field = csv_field(field);
    out += join(row, ",") + '\n';
  }
  return out;
}

track::ConfusionMatrix for_page(const ConfusionMatrix& matrix) {
  track::ConfusionMatrix page;
  for (int64_t label = 0; label < matrix.classes(); ++label)
    page.classes.push_back(matrix.name(label));
  const at::Tensor counts = matrix.counts().contiguous();
  const int64_t* first = counts.const_data_ptr<int64_t>();
  page.counts.assign(first, first + counts.numel());
  return page;
}

/// The files of the folder, checkpoints by their step.
std::vector<track::PageLink> links(const fs::path& output) {
  std::vector<track::PageLink> links;
  for (const char* name : {"metrics.csv",
                           "metrics.jsonl",
                           "confusion_matrix.csv",
                           "curves.svg",
                           kLrSearchPlot,
                           kLrSearchTable,
                           "config.json"}) {
    if (fs::exists(output / name)) links.push_back({name, ""});
  }
  const std::vector<int64_t> steps = checkpoint_steps(output);
  // A run that failed may have saved none.
  const fs::path latest =
      fs::exists(output / "latest") ? find_checkpoint(output).filename() : fs::path();
  const fs::path best = best_checkpoint(output).value_or("").filename();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string name = concat("step-", *step);
    std::vector<std::string> notes;
    if (name == latest) notes.emplace_back("latest");
    if (name == best) notes.emplace_back("best");
    links.push_back({"checkpoints/" + name, join(notes, ", ")});
  }
  return links;
}

}  // namespace

std::string text_of(const MemoryFailures& memory) {
  return concat(memory.failures,
                memory.failures == 1 ? " time; " : " times; ",
                memory.micro_batch == 0 ? "whole batches since"
                                        : concat(memory.micro_batch,
                                                 memory.micro_batch == 1 ? " sample" : " samples",
                                                 " of a rank at a time since"));
}

void write_run_page(const FitPlan& plan,
                    const fs::path& output,
                    const RunEnd& end,
                    const std::vector<std::pair<std::string, std::string>>& about) {
  const std::string& title = plan.title;
  track::RunPage page{.title = title, .metrics = track::read_metrics(output)};
  page.subtitle = concat(end.interrupted          ? "interrupted after "
                         : end.why_failed.empty() ? ""
                                                  : "failed after ",
                         end.steps,
                         end.steps == 1 ? " step, " : " steps, ",
                         human_duration(end.seconds),
                         " on ",
                         plan.world_size,
                         plan.world_size == 1 ? " rank" : " ranks",
                         end.why_failed.empty() ? "" : ": " + end.why_failed);
  if (end.test != nullptr) {
    for (const auto& [name, value] : end.test->metrics)
      page.results.emplace_back(concat("test ", name), metric_text(value));
    const TaskReport& report = end.test->report;
    if (report.confusion) {
      page.confusion = for_page(*report.confusion);
      write_file_atomic(output / "confusion_matrix.csv", csv_of(*report.confusion));
    }
    page.results.insert(page.results.end(), report.lines.begin(), report.lines.end());
  }
  page.about = about;
  if (end.memory) page.about.emplace_back("out of memory", text_of(*end.memory));
  page.steps_per_epoch = plan.steps_per_epoch;
  page.plan = plan.record;
  write_file_atomic(
      output / "curves.svg",
      track::render_curves_svg(track::curves_of(page.metrics, title, page.steps_per_epoch)));
  page.files = links(output);
  write_file_atomic(output / "index.html", track::render_run_page(page));
}

}  // namespace muster::train
