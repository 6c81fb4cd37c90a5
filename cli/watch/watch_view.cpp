#include "cli/watch/watch_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/text.h"
#include "muster/base/text_table.h"

#include "cli/watch/watch_head.h"

namespace muster::cli {
namespace {

constexpr size_t kGap = 2, kWidestCell = 24, kLeastReason = 12;

using Line = std::pair<std::string, Look>;

Look look_of(const tune::TrialHistory& trial) {
  if (trial.in_vain) return Look::kBad;
  switch (trial.state) {
    case tune::TrialState::kRunning:
      return trial.pausing ? Look::kWarning : Look::kRunning;
    case tune::TrialState::kPaused:
      return Look::kWarning;
    case tune::TrialState::kComplete:
      return Look::kGood;
    case tune::TrialState::kPruned:
      return Look::kDim;
    case tune::TrialState::kFailed:
      return Look::kBad;
    default:
      return Look::kPlain;
  }
}

std::string digits(double value) { return std::isnan(value) ? "none" : fixed(value, 5); }

// ---- The table ----

struct ShownColumn {
  TrialColumn column;
  std::string header;
  size_t width = 0;
  bool right = true;
};

bool is_text(const TrialColumn& column) {
  return column.kind == TrialColumn::kState || column.kind == TrialColumn::kReason;
}

/// Trial, state, result, step and time; the column that is sorted by; parameters; the reason.
std::vector<TrialColumn> wanted_columns(const WatchModel& model) {
  std::vector<TrialColumn> first, parameters, last;
  for (const TrialColumn& column : model.columns()) {
    const bool is_sorted = column.name == model.sort_column().name;
    if (column.kind == TrialColumn::kParameter) {
      if (column.place >= model.first_parameter()) parameters.push_back(column);
    } else if (column.kind == TrialColumn::kReason) {
      last.push_back(column);
    } else if ((column.kind != TrialColumn::kBest && column.kind != TrialColumn::kAttempts) ||
               is_sorted) {
      first.push_back(column);
    }
  }
  first.insert(first.end(), parameters.begin(), parameters.end());
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

/// Those that fit, as wide as what is in sight of them.
std::vector<ShownColumn> shown_columns(const WatchModel& model,
                                       size_t page,
                                       size_t columns,
                                       double now_s) {
  std::vector<ShownColumn> shown;
  size_t used = 0;
  for (const TrialColumn& column : wanted_columns(model)) {
    ShownColumn one{.column = column, .header = column.name, .right = !is_text(column)};
    if (column.name == model.sort_column().name) one.header += model.is_reversed() ? "▼" : "▲";
    const size_t before = used + (shown.empty() ? 0 : kGap);
    const size_t left = columns > before ? columns - before : 0;
    if (column.kind == TrialColumn::kReason) {
      if (left < kLeastReason) continue;
      one.width = left;
    } else {
      one.width = std::min(columns_of(escaped(one.header)), kWidestCell);
      for (size_t i = model.top(); i < std::min(model.top() + page, model.rows().size()); ++i) {
        const std::string cell = cell_text(model.study(), model.rows()[i], column, now_s);
        one.width = std::max(one.width, std::min(columns_of(escaped(cell)), kWidestCell));
        if (!cell.empty() && column.kind == TrialColumn::kParameter && !to_double(cell))
          one.right = false;
      }
      if (one.width > left) break;
    }
    used = before + one.width;
    shown.push_back(std::move(one));
  }
  return shown;
}

void put_cell(Canvas& canvas,
              size_t row,
              size_t column,
              const ShownColumn& shown,
              const std::string& text,
              Look look) {
  const size_t wide = std::min(columns_of(escaped(text)), shown.width);
  canvas.put(row, column + (shown.right ? shown.width - wide : 0), text, look, shown.width);
}

void draw_table(const WatchModel& model, size_t page, double now_s, Canvas& canvas) {
  const auto shown = shown_columns(model, page, canvas.columns(), now_s);
  const auto each_column = [&](auto draw) {
    size_t column = 0;
    for (const ShownColumn& one : shown) {
      draw(one, column);
      column += one.width + kGap;
    }
  };
  canvas.clear_row(kHeadRows, 0, Look::kHeader);
  each_column([&](const ShownColumn& one, size_t column) {
    put_cell(canvas, kHeadRows, column, one, one.header, Look::kHeader);
  });
  for (size_t i = 0; i < page && model.top() + i < model.rows().size(); ++i) {
    const size_t row = kHeadRows + 1 + i, index = model.rows()[model.top() + i];
    const bool is_selected = model.top() + i == model.selected_row();
    if (is_selected) canvas.clear_row(row, 0, Look::kSelected);
    each_column([&](const ShownColumn& one, size_t column) {
      const Look look = is_selected ? Look::kSelected
                        : one.column.kind == TrialColumn::kState
                            ? look_of(model.study().history(index))
                            : Look::kPlain;
      put_cell(canvas, row, column, one, cell_text(model.study(), index, one.column, now_s), look);
    });
  }
  if (model.rows().empty())
    canvas.put(kHeadRows + 1,
               0,
               model.study().size() == 0 ? "no trial yet" : "no trial is left by the filter",
               Look::kDim);
}

// ---- The details ----

void add_folded(std::vector<Line>& lines, const std::string& text, size_t columns, Look look) {
  for (const std::string& line : split(fold(escaped(text), columns), '\n'))
    if (!line.empty()) lines.emplace_back(line, look);
}

std::string parameters_of(const WatchedStudy& study, const tune::TrialHistory& trial) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(study.facts().parameters.size(), trial.values.size()); ++i) {
    if (!trial.values[i].is_none())
      parts.push_back(
          concat(study.facts().parameters[i].name, '=', tune::value_text(trial.values[i])));
  }
  return join(parts, "  ");
}

std::string curve_of(const WatchedStudy& study, size_t index, size_t columns) {
  const std::vector<double>& values = study.trial(index).values;
  if (values.empty()) return "no report yet";
  const std::string head = concat(study.facts().metric, "  ");
  const std::string tail = concat("  ",
                                  digits(values.back()),
                                  ", best ",
                                  digits(study.history(index).best),
                                  ", ",
                                  values.size(),
                                  values.size() == 1 ? " report" : " reports");
  const size_t taken = columns_of(escaped(head)) + columns_of(tail);
  return head + sparkline(values, columns > taken + 1 ? columns - taken - 1 : 1) + tail;
}

std::vector<Line> details_of(const WatchedStudy& study, size_t index, size_t columns) {
  const tune::TrialHistory& trial = study.history(index);
  std::string title = concat("── trial ", trial_label(trial), "  ", state_word(trial));
  if (trial.attempts > 1) title += concat("  attempt ", trial.attempts);
  if (trial.by_user) title += "  by a user";
  title += ' ';
  while (columns_of(title) < columns) title += "─";
  std::vector<Line> lines = {{title, Look::kTitle}};
  add_folded(lines, parameters_of(study, trial), columns, Look::kPlain);
  lines.emplace_back(curve_of(study, index, columns), Look::kRunning);
  if (trial.pausing) lines.emplace_back("to be paused at its next report", Look::kWarning);
  if (!trial.reason.empty()) add_folded(lines, trial.reason, columns, look_of(trial));
  if (!study.trial(index).checkpoint.empty())
    lines.emplace_back("checkpoint  " + study.trial(index).checkpoint, Look::kDim);
  return lines;
}

void draw_details(const WatchModel& model,
                  const std::vector<std::string>& log,
                  size_t first,
                  size_t rows,
                  Canvas& canvas) {
  const auto index = model.selected();
  if (!index) return;
  std::vector<Line> lines = details_of(model.study(), *index, canvas.columns());
  const size_t left = rows > lines.size() ? rows - lines.size() : 0;
  for (size_t i = log.size() - std::min(log.size(), left); i < log.size(); ++i)
    lines.emplace_back(log[i], Look::kDim);
  for (size_t i = 0; i < std::min(rows, lines.size()); ++i)
    canvas.put(first + i, 0, lines[i].first, lines[i].second);
}

// ---- On top of it ----

/// Lines in a box in the middle.
void draw_box(const std::vector<Line>& lines, Canvas& canvas) {
  size_t width = 0;
  for (const Line& line : lines) width = std::max(width, columns_of(escaped(line.first)));
  width = std::min(width + 4, canvas.columns());
  const size_t height = std::min(lines.size() + 2, canvas.rows());
  const size_t row = (canvas.rows() - height) / 2, column = (canvas.columns() - width) / 2;
  const auto bar = [&](const char* left, const char* right) {
    std::string text = left;
    for (size_t i = 2; i < width; ++i) text += "─";
    return text + right;
  };
  canvas.put(row, column, bar("┌", "┐"));
  canvas.put(row + height - 1, column, bar("└", "┘"));
  for (size_t i = 0; i + 2 < height; ++i) {
    const size_t at = row + 1 + i;
    const std::string blanks(width - 2, ' ');
    canvas.put(at, column, concat("│", blanks, "│"));
    canvas.put(at, column + 2, lines[i].first, lines[i].second, width - 4);
  }
}

void draw_help(Canvas& canvas) {
  std::vector<Line> lines;
  for (const char* line : {"arrows, j k, PgUp PgDn, g G  move; left and right: parameters",
                           "Enter    details of the trial, on and off",
                           "s r      sort by a column, the other way round",
                           "/        filter: state:running lr<0.01 adam; Esc: all",
                           "x        stop the trial for good",
                           "p        pause it at its next report; again: let it go on",
                           "a        add a trial: the values of the selected one, changed",
                           "q        leave; the study goes on"})
    lines.emplace_back(line, Look::kPlain);
  draw_box(lines, canvas);
}

/// Of a long list, a part around the choice.
void draw_sort(const WatchModel& model, Canvas& canvas) {
  const size_t room = canvas.rows() - 4;
  const size_t count = std::min(model.columns().size(), room);
  size_t first = model.choice() >= count ? model.choice() + 1 - count : 0;
  std::vector<Line> lines = {{"sort by", Look::kTitle}};
  for (size_t i = first; i < first + count; ++i)
    lines.emplace_back(model.columns()[i].name,
                       i == model.choice() ? Look::kSelected : Look::kPlain);
  draw_box(lines, canvas);
}

/// The text that is typed, its end or the part before the cursor in sight.
void draw_field(const WatchModel& model, const std::string& head, size_t row, Canvas& canvas) {
  const size_t used = canvas.put(row, 0, head, Look::kTitle);
  const size_t room = canvas.columns() > used + 1 ? canvas.columns() - used - 1 : 1;
  const std::string before = escaped(model.field().before());
  const std::string all = escaped(model.field().text());
  const std::string start = keep_tail(before, room);
  const size_t at = used + canvas.put(row, used, start);
  canvas.put(row, at, concat(all.substr(before.size()), ' '));
  const Canvas::Cell under = canvas.at(row, std::min(at, canvas.columns() - 1));
  canvas.put(row, at, under.letter.empty() ? " " : under.letter, Look::kSelected);
}

void draw_last_row(const WatchModel& model, Canvas& canvas) {
  const size_t row = canvas.rows() - 1;
  const bool types = model.mode() == WatchModel::kFilter || model.mode() == WatchModel::kAdd;
  if (types) {
    canvas.clear_row(row);
    draw_field(model, model.mode() == WatchModel::kFilter ? "/" : "add: ", row, canvas);
    if (model.message().empty()) return;
    canvas.clear_row(row - 1);
    canvas.put(row - 1, 0, model.message(), Look::kBad);
    return;
  }
  if (!model.message().empty()) {
    const Look look = model.message_is_bad()              ? Look::kBad
                      : model.mode() == WatchModel::kStop ? Look::kWarning
                                                          : Look::kGood;
    canvas.put(row, 0, model.message(), look);
    return;
  }
  const char* keys = model.study().tuner()
                         ? "? help  Enter details  s sort  / filter  x stop  p pause  a add  q quit"
                         : "? help  Enter details  s sort  r reverse  / filter  q quit";
  canvas.put(row, 0, keys, Look::kDim);
}

}  // namespace

void draw_watch(WatchModel& model,
                const std::vector<std::string>& log,
                double now_s,
                Canvas& canvas) {
  if (says_too_small(canvas, kLeastColumns, kLeastRows)) return;
  const size_t body = canvas.rows() - kHeadRows - 2;
  const size_t details = !model.has_details() ? 0 : body >= 9 ? body * 3 / 5 : body - 1;
  const size_t page = body - details;
  model.set_page(page);
  draw_watch_head(model, now_s, canvas);
  draw_table(model, page, now_s, canvas);
  if (details > 0) draw_details(model, log, kHeadRows + 1 + page, details, canvas);
  draw_last_row(model, canvas);
  if (model.mode() == WatchModel::kSort) draw_sort(model, canvas);
  if (model.mode() == WatchModel::kHelp) draw_help(canvas);
}

}  // namespace muster::cli
