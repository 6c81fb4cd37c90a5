#include "cli/watch/watch_model.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/given_values.h"

namespace muster::cli {
namespace {

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  return words;
}

/// An error on one line.
std::string one_line(const Error& error) { return join(split(error.what(), '\n'), "; "); }

}  // namespace

WatchModel::WatchModel(const WatchedStudy& study, double now_s)
    : study_(study), columns_(trial_columns(study)) {
  refresh(now_s);
  // The newest are what one looks for.
  if (!rows_.empty()) select(rows_.size() - 1);
}

void WatchModel::refresh(double now_s) {
  rows_.clear();
  for (size_t i = 0; i < study_.size(); ++i) {
    if (filter_.empty() || filter_.holds(study_, i, now_s)) rows_.push_back(i);
  }
  const bool is_in_order = columns_[sort_].kind == TrialColumn::kNumber && !reversed_;
  if (!is_in_order) sort_trials(study_, columns_[sort_], reversed_, now_s, rows_);
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (trial_id(study_.history(rows_[row])) == selected_id_) return select(row);
  }
  select(std::min(selected_, rows_.empty() ? 0 : rows_.size() - 1));
}

void WatchModel::select(size_t row) {
  selected_ = row;
  if (row < rows_.size()) selected_id_ = trial_id(study_.history(rows_[row]));
  set_page(page_);
}

void WatchModel::set_page(size_t rows) {
  page_ = std::max<size_t>(rows, 1);
  const size_t last_top = rows_.size() > page_ ? rows_.size() - page_ : 0;
  top_ = std::min(top_, last_top);
  if (selected_ < top_) top_ = selected_;
  if (selected_ >= top_ + page_) top_ = selected_ + 1 - page_;
}

std::optional<size_t> WatchModel::selected() const {
  return selected_ < rows_.size() ? std::optional(rows_[selected_]) : std::nullopt;
}

void WatchModel::say(std::string text, bool is_bad) {
  message_ = std::move(text);
  message_is_bad_ = is_bad;
}

std::optional<WatchRequest> WatchModel::on_key(const Key& key, double now_s) {
  if (key.kind == Key::kInterrupt) return WatchRequest{.kind = WatchRequest::kQuit};
  if (key.kind == Key::kNothing || key.kind == Key::kResized) return {};
  say("");
  switch (mode_) {
    case kTable:
      return on_table_key(key, now_s);
    case kSort:
      on_sort_key(key, now_s);
      return {};
    case kFilter:
      on_filter_key(key, now_s);
      return {};
    case kStop:
      return on_stop_key(key);
    case kAdd:
      return on_add_key(key);
    case kHelp:
      mode_ = kTable;
      return {};
  }
  return {};
}

// ---- The table ----

bool WatchModel::move(const Key& key) {
  const size_t last = rows_.empty() ? 0 : rows_.size() - 1;
  const auto up = [&](size_t rows) { select(selected_ - std::min(selected_, rows)); };
  const auto down = [&](size_t rows) { select(std::min(selected_ + rows, last)); };
  switch (key.kind) {
    case Key::kUp:
      return up(1), true;
    case Key::kDown:
      return down(1), true;
    case Key::kPageUp:
      return up(page_), true;
    case Key::kPageDown:
      return down(page_), true;
    case Key::kHome:
      return select(0), true;
    case Key::kEnd:
      return select(last), true;
    default:
      return false;
  }
}

std::optional<WatchRequest> WatchModel::on_table_key(const Key& key, double now_s) {
  if (move(key)) return {};
  const size_t parameters = study_.facts().parameters.size();
  switch (key.kind) {
    case Key::kLeft:
      first_parameter_ -= std::min<size_t>(first_parameter_, 1);
      return {};
    case Key::kRight:
      if (first_parameter_ + 1 < parameters) ++first_parameter_;
      return {};
    case Key::kEnter:
      details_ = !details_;
      return {};
    case Key::kEscape:
      if (!details_ && !filter_text_.empty()) {
        filter_ = {};
        filter_text_.clear();
        refresh(now_s);
      }
      details_ = false;
      return {};
    case Key::kLetter:
      return on_table_letter(key.letter.size() == 1 ? key.letter[0] : '\0', now_s);
    default:
      return {};
  }
}

std::optional<WatchRequest> WatchModel::on_table_letter(char letter, double now_s) {
  switch (letter) {
    case 'q':
      return WatchRequest{.kind = WatchRequest::kQuit};
    case 'j':
      return move({Key::kDown}), std::nullopt;
    case 'k':
      return move({Key::kUp}), std::nullopt;
    case 'g':
      return move({Key::kHome}), std::nullopt;
    case 'G':
      return move({Key::kEnd}), std::nullopt;
    case 's':
      mode_ = kSort;
      choice_ = sort_;
      return {};
    case 'r':
      reversed_ = !reversed_;
      refresh(now_s);
      return {};
    case '/':
      mode_ = kFilter;
      field_ = TextField(filter_text_);
      return {};
    case '?':
      mode_ = kHelp;
      return {};
    case 'x':
      begin_stop();
      return {};
    case 'p':
      return pause_or_continue();
    case 'a':
      begin_add();
      return {};
    default:
      return {};
  }
}

// ---- Sorting and filtering ----

void WatchModel::on_sort_key(const Key& key, double now_s) {
  const bool down = key.kind == Key::kDown || key.letter == "j" || key.letter == "s";
  const bool up = key.kind == Key::kUp || key.letter == "k";
  if (down) choice_ = (choice_ + 1) % columns_.size();
  if (up) choice_ = (choice_ + columns_.size() - 1) % columns_.size();
  if (down || up) return;
  mode_ = kTable;
  if (key.kind != Key::kEnter) return;
  sort_ = choice_;
  const auto kind = columns_[sort_].kind;
  // The best on top, whichever end of the metric that is.
  reversed_ = (kind == TrialColumn::kResult || kind == TrialColumn::kBest) &&
              study_.facts().mode == tune::Mode::kMax;
  refresh(now_s);
  select(0);
}

void WatchModel::on_filter_key(const Key& key, double now_s) {
  if (key.kind == Key::kEscape) {
    mode_ = kTable;
    return;
  }
  if (key.kind != Key::kEnter) {
    field_.handle_key(key);
    return;
  }
  try {
    filter_ = TrialFilter(study_, field_.text());
    filter_text_ = field_.text();
    mode_ = kTable;
    refresh(now_s);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    say(one_line(error), /*is_bad=*/true);
  }
}

// ---- Orders ----

/// Whether there is a trial of ours to order something for, and somebody to obey.
bool WatchModel::may_order() {
  const auto index = selected();
  if (!study_.tuner()) {
    say("no tuner runs this study: it can only be looked at", true);
  } else if (!index) {
    say("no trial is selected", true);
  } else if (study_.history(*index).foreign) {
    say("this trial is Optuna's own", true);
  } else {
    return true;
  }
  return false;
}

void WatchModel::begin_stop() {
  if (!may_order()) return;
  const tune::TrialHistory& trial = study_.history(*selected());
  if (is_over(trial.state)) return say(concat("trial ", trial.number, " is over"), true);
  asked_ = trial.number;
  mode_ = kStop;
  say(concat("stop trial ", asked_, " for good? y / n"));
}

std::optional<WatchRequest> WatchModel::on_stop_key(const Key& key) {
  mode_ = kTable;
  if (key.letter != "y" && key.letter != "Y") return {};
  return WatchRequest{.kind = WatchRequest::kOrder, .trial = asked_, .action = tune::Action::kStop};
}

std::optional<WatchRequest> WatchModel::pause_or_continue() {
  if (!may_order()) return {};
  const tune::TrialHistory& trial = study_.history(*selected());
  if (is_over(trial.state)) {
    say(concat("trial ", trial.number, " is over"), true);
    return {};
  }
  const bool held = trial.pausing || (trial.state == tune::TrialState::kPaused && trial.by_user);
  return WatchRequest{.kind = WatchRequest::kOrder,
                      .trial = trial.number,
                      .action = held ? tune::Action::kContinue : tune::Action::kPause};
}

/// From the selected trial's values, to be changed.
void WatchModel::begin_add() {
  if (!study_.tuner()) return say("no tuner runs this study: it can only be looked at", true);
  if (!study_.space()) return say("a trial can be added only where the space is a text", true);
  std::string text;
  if (const auto index = selected()) {
    const tune::TrialHistory& trial = study_.history(*index);
    for (size_t i = 0; i < trial.values.size(); ++i) {
      const bool is_constant =
          study_.space()->parameters()[i].domain.kind() == tune::Domain::Kind::kConstant;
      if (trial.values[i].is_none() || is_constant) continue;
      text += concat(text.empty() ? "" : " ",
                     study_.facts().parameters[i].name,
                     '=',
                     tune::value_text(trial.values[i]));
    }
  }
  field_ = TextField(std::move(text));
  mode_ = kAdd;
}

std::optional<WatchRequest> WatchModel::on_add_key(const Key& key) {
  if (key.kind == Key::kEscape) {
    mode_ = kTable;
    return {};
  }
  if (key.kind != Key::kEnter) {
    field_.handle_key(key);
    return {};
  }
  try {
    WatchRequest request{.kind = WatchRequest::kAdd};
    const std::vector<std::string> words = words_in(field_.text());
    request.values = values_of_words(*study_.space(), words);
    study_.space()->point_of(request.values);  // throws
    mode_ = kTable;
    return request;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    say(one_line(error), /*is_bad=*/true);
    return {};
  }
}

}  // namespace muster::cli
