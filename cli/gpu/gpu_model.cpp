#include <algorithm>

#include "cli/gpu/gpu_view.h"

namespace muster::cli {

void GpuModel::update(Status status) {
  if (!status) return;
  history_.add(*status);
  last_ = std::move(status);
  if (is_held_ && status_) return;
  status_ = last_;
  if (!is_chosen_) order_ = status_->devices.empty() ? ProcessOrder::kRss : ProcessOrder::kDevice;
  sort();
}

/// The same process on the same device stays selected, while it is there.
void GpuModel::sort() {
  const bool has_any = selected_ < rows_.size();
  const int64_t pid = has_any ? rows_[selected_].pid : -1;
  const std::string device = has_any ? rows_[selected_].device : "";
  rows_ = status_ ? process_rows(*status_, order_) : std::vector<ProcessRow>();
  const auto same = std::ranges::find_if(
      rows_, [&](const ProcessRow& row) { return row.pid == pid && row.device == device; });
  move_to(same != rows_.end() ? same - rows_.begin() : static_cast<int64_t>(selected_));
}

void GpuModel::move_to(int64_t row) {
  const int64_t last = std::max<int64_t>(static_cast<int64_t>(rows_.size()) - 1, 0);
  selected_ = static_cast<size_t>(std::clamp<int64_t>(row, 0, last));
  set_page(page_);
}

void GpuModel::set_page(size_t rows) {
  page_ = std::max<size_t>(rows, 1);
  if (selected_ < top_) top_ = selected_;
  if (selected_ >= top_ + page_) top_ = selected_ + 1 - page_;
  const size_t most = rows_.size() > page_ ? rows_.size() - page_ : 0;
  top_ = std::min(top_, most);
}

bool GpuModel::on_key(const Key& key) {
  if (key.kind == Key::kInterrupt) return false;
  if (help_ && key.kind != Key::kNothing && key.kind != Key::kResized) {
    help_ = false;
    return true;
  }
  const auto at = static_cast<int64_t>(selected_), page = static_cast<int64_t>(page_);
  switch (key.kind) {
    case Key::kUp:
      move_to(at - 1);
      return true;
    case Key::kDown:
      move_to(at + 1);
      return true;
    case Key::kPageUp:
      move_to(at - page);
      return true;
    case Key::kPageDown:
      move_to(at + page);
      return true;
    case Key::kHome:
      move_to(0);
      return true;
    case Key::kEnd:
      move_to(static_cast<int64_t>(rows_.size()));
      return true;
    case Key::kEnter:
      details_ = !details_;
      return true;
    case Key::kEscape:
      details_ = false;
      return true;
    case Key::kLetter:
      break;
    default:
      return true;
  }
  if (key.letter == "q") return false;
  if (key.letter == "?") help_ = true;
  if (key.letter == "j") move_to(at + 1);
  if (key.letter == "k") move_to(at - 1);
  if (key.letter == "g") move_to(0);
  if (key.letter == "G") move_to(static_cast<int64_t>(rows_.size()));
  if (key.letter == "s") {
    order_ = static_cast<ProcessOrder>((static_cast<int>(order_) + 1) % 4);
    is_chosen_ = true;
    sort();
  }
  if (key.letter == " ") {
    is_held_ = !is_held_;
    if (!is_held_ && last_) {
      status_ = last_;
      sort();
    }
  }
  return true;
}

}  // namespace muster::cli
