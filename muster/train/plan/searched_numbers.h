// Options that are a number, or a search for one before the first step. Without LibTorch, as options.h.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace muster::train {

/// Whether the text of a flag asks for a search, well or badly.
inline bool is_lr_search(std::string_view text) { return text.substr(0, 4) == "find"; }

/// A learning rate: a number, none (the optimizer's own), or one that is searched for before the
/// first step; see Note [Learning-rate search].
struct LearningRate {
  LearningRate() = default;
  LearningRate(double rate) : value(rate) {}  // NOLINT(google-explicit-constructor): it is a number

  std::optional<double> value;
  std::string search;    ///< "find", "find:steps=50"; empty: none
  std::string found_by;  ///< of `value`: the search that found it when the run began; empty: none

  /// Takes a text that asks for a search; false for another.
  bool take_word(std::string_view text) {
    if (!is_lr_search(text)) return false;
    value.reset();
    found_by.clear();
    search = text;
    return true;
  }
  const std::string& word() const { return search; }

  /// What is asked for; not how the number came about.
  bool operator==(const LearningRate& o) const { return value == o.value && search == o.search; }
};

/// Samples per batch: a number, or one that is searched for before the first step; see Note [Batch
/// search].
struct BatchSize {
  BatchSize(int64_t samples) : value(samples) {}  // NOLINT(google-explicit-constructor): a number
  operator int64_t() const { return value.value_or(1); }  // NOLINT(google-explicit-constructor)

  std::optional<int64_t> value;  ///< none: it is to be found
  std::string search;            ///< "auto" or "auto:fastest"; empty: none
  std::string found_by;          ///< of `value`: the search that found it when the run began

  /// Takes a text that asks for a search; false for another.
  bool take_word(std::string_view text) {
    if (text.substr(0, 4) != "auto") return false;
    value.reset();
    found_by.clear();
    search = text;
    return true;
  }
  const std::string& word() const { return search; }
};

inline std::ostream& operator<<(std::ostream& out, const BatchSize& size) {
  return size.value ? out << *size.value : out << size.search;
}

}  // namespace muster::train
