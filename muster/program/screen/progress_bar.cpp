#include "muster/program/screen/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/base/metric_text.h"
#include "muster/base/text.h"

namespace muster::program {
namespace {

using track::ProgressEvent;

constexpr size_t kLeastBar = 5;  // with it, all facts of a long run fit into 80 columns
constexpr size_t kMostBar = 40;

/// Finished share of this epoch and phase, 0 … 1; nothing if the number of steps is not known.
std::optional<double> share(const ProgressEvent& event) {
  if (event.steps <= 0) return std::nullopt;
  return std::clamp(double(event.step) / double(event.steps), 0.0, 1.0);
}

std::string percent(const ProgressEvent& event) {
  const auto done = share(event);
  // Rounded down, so that 100% is said only at the end.
  if (done) return concat(static_cast<int>(std::floor(*done * 100)), "%");
  return concat("step ", event.step);
}

std::string label(const ProgressEvent& event) {
  if (event.epochs <= 0) return event.phase;
  return concat(event.phase, ' ', event.epoch, '/', event.epochs);
}

std::string rate(double samples_per_s) {
  if (samples_per_s >= 10e6) return fixed(samples_per_s / 1e6, 0) + "M samples/s";
  if (samples_per_s >= 10e3) return fixed(samples_per_s / 1e3, 0) + "k samples/s";
  if (samples_per_s >= 1e3) return fixed(samples_per_s / 1e3, 1) + "k samples/s";
  return fixed(samples_per_s, samples_per_s < 10 ? 1 : 0) + " samples/s";
}

/// "1m12s left", "7s left": whole seconds.
std::string left(double eta_s) {
  const double whole = std::ceil(eta_s);
  return (whole < 60 ? fixed(whole, 0) + "s" : human_duration(whole)) + " left";
}

/// In half columns: ━ is a full one, ╸ its left half.
std::string bar(double done, size_t columns, bool colour) {
  const auto halves = static_cast<size_t>(std::floor(done * 2.0 * double(columns)));
  std::string out;
  for (size_t i = 0; i < halves / 2; ++i) out += "━";
  size_t used = halves / 2;
  if (halves % 2 == 1) out += "╸", ++used;
  if (colour) out = "\x1b[32m" + out + "\x1b[0;2m";
  for (; used < columns; ++used) out += "─";
  if (colour) out += "\x1b[0m";
  return out;
}

/// The facts behind the bar in the order shown, and the rank in which each is given up (0 first).
struct Fact {
  std::string text;
  int keep;
};

std::vector<Fact> facts(const ProgressEvent& event) {
  std::vector<Fact> out;
  for (const auto& [name, value] : event.metrics) {
    const bool is_loss = name == "loss";
    out.push_back(
        {concat(name == "accuracy" ? "acc" : name, ' ', metric_text(value, is_loss ? 4 : 3)),
         is_loss ? 2 : 1});
  }
  if (event.samples_per_s) out.push_back({rate(*event.samples_per_s), 0});
  if (event.eta_s) out.push_back({left(*event.eta_s), 3});
  return out;
}

}  // namespace

std::string render_bar(const ProgressEvent& event, size_t width, bool colour) {
  const std::string head = label(event);
  std::string number = percent(event);
  // "100%" is the widest.
  if (share(event)) number.insert(0, 4 - std::min<size_t>(4, number.size()), ' ');
  std::vector<Fact> tail = facts(event);
  // Columns without the bar; each fact takes " · " more.
  const auto needed = [&] {
    size_t columns = display_width(head) + 1 + display_width(number);
    for (const Fact& fact : tail) columns += 3 + display_width(fact.text);
    return columns;
  };
  const size_t bar_needs = share(event) ? kLeastBar + 1 : 0;
  while (!tail.empty() && needed() + bar_needs > width) {
    tail.erase(std::ranges::min_element(tail, {}, &Fact::keep));
  }
  std::string out = head;
  if (share(event) && needed() + bar_needs <= width) {
    out += ' ' + bar(*share(event), std::min(kMostBar, width - needed() - 1), colour);
  }
  out += ' ' + number;
  for (const Fact& fact : tail) out += " · " + fact.text;
  // Only a head that is too long by itself gets here; it is plain ASCII.
  if (display_width(out) > width) out.resize(width);
  return out;
}

std::string render_plain(const ProgressEvent& event) {
  std::string out = event.phase;
  if (event.epochs > 0) out += concat(" epoch ", event.epoch, '/', event.epochs);
  out += ": " + percent(event);
  for (const auto& [name, value] : event.metrics)
    out += concat(", ", name, ' ', metric_text(value, name == "loss" ? 4 : 3));
  if (event.samples_per_s) out += concat(", ", fixed(*event.samples_per_s, 0), " samples/s");
  if (event.eta_s) out += ", " + left(*event.eta_s);
  return out;
}

bool PlainPace::wants(const ProgressEvent& event) {
  const auto done = share(event);
  if (!done) return false;
  const bool ends = event.step >= event.steps;
  if (event.phase != "train" || event.epochs <= 0) return ends;
  const double whole = (double(event.epoch) - 1 + *done) / double(event.epochs);
  const auto tenth = static_cast<int64_t>(std::floor(whole * 10 + 1e-9));
  const bool crossed = tenth > tenth_;
  tenth_ = std::max(tenth, tenth_);
  return ends || crossed;
}

}  // namespace muster::program
