// The lines that other processes send us: progress of a rank, and the metrics.jsonl that a resumed
// run takes over. Any bytes are a line or are passed over; nothing throws. What is a line is
// written and read back as the same.
#include <string>

#include "muster/track/metrics_log.h"
#include "muster/track/progress.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto event = track::parse_progress_line(text)) {
    const std::string line = track::to_json_line(*event);
    fuzz::require(line.find('\n') == line.size() - 1, "an event is one line");
    fuzz::require(track::parse_progress_line(line) == event, "what was written reads back");
  }
  for (const auto rows_until : {track::metrics_rows_until, track::csv_rows_until}) {
    const std::string header =
        rows_until == track::csv_rows_until ? "step,epoch,phase,loss,lr\n" : "";
    for (const auto end : {track::EndRows{}, track::EndRows{.train = true, .validate = true}}) {
      const track::KeptRows kept = rows_until(header + std::string(text), 100, "fuzz", end);
      fuzz::require(kept.text.size() <= text.size(), "rows are kept or dropped");
      const track::KeptRows again = rows_until(header + kept.text, 100, "fuzz", end);
      fuzz::require(again.text == kept.text && again.faults.empty(), "kept rows are kept again");
    }
  }
  // Any bytes may be a phase: a row is a line all the same, and one that a resumed run keeps.
  const std::string row =
      track::to_json_line(track::MetricsRow{.step = 7, .phase = std::string(text)});
  fuzz::require(row.find('\n') == row.size() - 1, "a row is one line");
  fuzz::require(
      text.empty() || text == "test" || track::metrics_rows_until(row, 7, "fuzz").text == row,
      "a row of ours is kept");
  return 0;
}
