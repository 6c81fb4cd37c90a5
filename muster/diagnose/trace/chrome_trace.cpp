// The ranks' timelines as one file. Source of the format: "Trace Event Format", Google, 2016.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/diagnose/trace/timeline.h"

namespace muster::diagnose {
namespace {

constexpr std::array<std::string_view, 5> kPhases = {
    "data wait", "forward", "backward", "optimizer", "stage wait"};
// Rows of a rank.
constexpr int kStepsRow = 0, kPhasesRow = 1, kCollectivesRow = 2;

[[noreturn]] void refuse_trace(std::string_view what) {
  throw usage_error(
      {.refused = concat("part of a timeline: ", what), .rule = "it is what Timeline::part wrote"});
}

/// A list of `lists`, each of whole numbers and texts as `kinds` says: 'n' or 't'.
const Json& rows(const Json& part, const char* key, std::string_view kinds) {
  const auto found = part.find(key);
  if (found == part.end() || !found->is_array()) refuse_trace(concat("no list ", key));
  for (const Json& row : *found) {
    if (!row.is_array() || row.size() != kinds.size()) refuse_trace(concat("a row of ", key));
    for (size_t i = 0; i < kinds.size(); ++i) {
      const bool fits = kinds[i] == 'n' ? row[i].is_number_integer() : row[i].is_string();
      if (!fits) refuse_trace(concat("a row of ", key));
    }
  }
  return *found;
}

int64_t number(const Json& part, const char* key) {
  const auto found = part.find(key);
  if (found == part.end() || !found->is_number_integer()) refuse_trace(concat("no number ", key));
  return found->get<int64_t>();
}

Json parse_part(std::string_view text) {
  Json part = parse_json(text, "timeline");
  if (!part.is_object() || part.value("format", Json()) != "muster-timeline/1")
    refuse_trace("its format");
  return part;
}

/// The events of one rank as text, each on its line.
class RankEvents {
 public:
  RankEvents(const Json& part, int64_t start_ns)
      : rank_(number(part, "rank")), shift_ns_(number(part, "wall_offset_ns") - start_ns) {}

  const std::string& text() const { return text_; }

  void name(const char* what, int row, const std::string& name) {
    add({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", row}, {"args", {{"name", name}}}});
  }

  void row(int row, const std::string& title) {
    name("thread_name", row, title);
    add({{"ph", "M"},
         {"name", "thread_sort_index"},
         {"pid", rank_},
         {"tid", row},
         {"args", {{"sort_index", row}}}});
  }

  void span(const std::string& name,
            const char* category,
            int row,
            int64_t begin,
            int64_t end,
            Json args) {
    add({{"ph", "X"},
         {"name", name},
         {"cat", category},
         {"pid", rank_},
         {"tid", row},
         {"ts", microseconds(begin + shift_ns_)},
         {"dur", microseconds(std::max<int64_t>(end - begin, 0))},
         {"args", std::move(args)}});
  }

 private:
  static double microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

  void add(const Json& event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += json_text(event);
  }

  std::string text_;
  int64_t rank_;
  int64_t shift_ns_;
};

/// The first row whose operations have all ended by `begin`: on one row, spans must not cross.
size_t free_row(std::vector<int64_t>& rows_end, int64_t begin, int64_t end) {
  size_t row = 0;
  while (row < rows_end.size() && rows_end[row] > begin) ++row;
  if (row == rows_end.size()) rows_end.push_back(0);
  rows_end[row] = end;
  return row;
}

/// Returns how many rows they take.
int add_operations(RankEvents& events, const Json& part) {
  std::vector<int64_t> rows_end;
  for (const Json& operation : rows(part, "operations", "ttnnnn")) {
    const int64_t begin = operation[4].get<int64_t>(), completed = operation[5].get<int64_t>();
    const int64_t bytes = operation[3].get<int64_t>(), end = completed == 0 ? begin : completed;
    const size_t row = free_row(rows_end, begin, end);
    Json args = {{"call", operation[1]}, {"sequence", operation[2]}, {"bytes", bytes}};
    if (completed == 0) args["duration"] = "unknown";
    if (end > begin) args["GB/s"] = static_cast<double>(bytes) / static_cast<double>(end - begin);
    events.span(operation[0].get<std::string>(),
                "communication",
                kCollectivesRow + static_cast<int>(row),
                begin,
                end,
                std::move(args));
  }
  for (size_t row = 0; row < rows_end.size(); ++row)
    events.row(kCollectivesRow + static_cast<int>(row),
               row == 0 ? "collectives" : concat("collectives ", row + 1));
  return static_cast<int>(rows_end.size());
}

void add_device_spans(RankEvents& events, const Json& part, int first_row) {
  std::vector<std::string> titles;
  for (const Json& span : rows(part, "device", "ttnn")) {
    const auto title = span[0].get<std::string>();
    const auto known = std::ranges::find(titles, title);
    const int row = first_row + static_cast<int>(known - titles.begin());
    if (known == titles.end()) {
      titles.push_back(title);
      events.row(row, title);
    }
    events.span(span[1].get<std::string>(),
                "device",
                row,
                span[2].get<int64_t>(),
                span[3].get<int64_t>(),
                Json::object());
  }
}

std::string events_of_rank(const Json& part, int64_t start_ns) {
  RankEvents events(part, start_ns);
  events.name("process_name", 0, concat("rank ", number(part, "rank")));
  events.row(kStepsRow, "steps");
  events.row(kPhasesRow, "training thread");
  for (const Json& step : rows(part, "steps", "nnn"))
    events.span(concat("step ", step[0].get<int64_t>()),
                "step",
                kStepsRow,
                step[1].get<int64_t>(),
                step[2].get<int64_t>(),
                Json::object());
  for (const Json& phase : rows(part, "phases", "nnn")) {
    const int64_t kind = phase[0].get<int64_t>();
    if (kind < 0 || kind >= static_cast<int64_t>(kPhases.size())) refuse_trace("an unknown phase");
    events.span(std::string(kPhases[static_cast<size_t>(kind)]),
                "phase",
                kPhasesRow,
                phase[1].get<int64_t>(),
                phase[2].get<int64_t>(),
                Json::object());
  }
  const int collectives = add_operations(events, part);
  add_device_spans(events, part, kCollectivesRow + collectives);
  return events.text();
}

}  // namespace

std::string_view name_of(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }

TimelineSummary summary_of_part(std::string_view text) {
  const Json part = parse_part(text);
  const auto found = part.find("summary");
  if (found == part.end() || !found->is_array() || found->size() != 10) refuse_trace("its summary");
  for (const Json& value : *found) {
    if (!value.is_number()) refuse_trace("its summary");
  }
  const auto at = [&](size_t i) { return (*found)[i].get<double>(); };
  return {.steps = static_cast<int64_t>(at(0)),
          .total_s = at(1),
          .data_s = at(2),
          .compute_s = at(3),
          .exposed_s = at(4),
          .communication_s = at(5),
          .overlap_s = at(6),
          .bytes = static_cast<int64_t>(at(7)),
          .lost_records = static_cast<int64_t>(at(8)),
          .knows_communication = at(9) != 0};
}

int64_t start_of_part(std::string_view text) { return number(parse_part(text), "start_ns"); }

ChromeTrace::ChromeTrace(int64_t start_ns, std::function<void(std::string_view)> write)
    : start_ns_(start_ns), write_(std::move(write)) {
  write_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
}

void ChromeTrace::add(std::string_view part) {
  const std::string text = events_of_rank(parse_part(part), start_ns_);
  if (std::exchange(has_events_, true)) write_(",\n");
  write_(text);
}

void ChromeTrace::close() { write_("\n]}\n"); }

std::string chrome_trace(std::span<const std::string> parts) {
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const std::string& part : parts) start = std::min(start, start_of_part(part));
  std::string text;
  ChromeTrace trace(start, [&text](std::string_view piece) { text += piece; });
  for (const std::string& part : parts) trace.add(part);
  trace.close();
  return text;
}

}  // namespace muster::diagnose
