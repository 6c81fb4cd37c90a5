#include "muster/train/program/told_words.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/formats/dataset_spec.h"
#include "muster/optim/optimizer.h"
#include "muster/program/line/said.h"
#include "muster/program/line/value.h"
#include "muster/train/checkpoints/kept_plan.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/option_infos.h"

namespace muster::train {
namespace {

namespace fs = std::filesystem;
using SaidWords = std::vector<std::string>;

/// "--lr=0.1", which is of the option "lr".
struct Word {
  std::string option, text;

  explicit Word(const std::string& word) {
    const size_t equals = word.find('=');
    option = program::option_of_flag(word.substr(0, equals));
    if (equals != std::string::npos) text = word.substr(equals + 1);
  }
};

fs::path whole_place(const fs::path& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal();
}

bool says_rate(const std::string& text, const LearningRate& now) {
  if (is_lr_search(text)) return text == now.found_by;
  double rate = 0;
  program::read_value("--lr", text, rate);
  return now.value == rate;
}

bool says_batch(const std::string& text, const BatchSize& now) {
  const auto samples = to_int(text);
  return samples ? now.value == *samples : text == now.found_by;
}

/// Whether what was said of the option is what holds.
template <class Value>
bool says_value(const OptionInfo& info, const std::string& text, const Value& now) try {
  if constexpr (std::is_same_v<Value, bool>) {
    return now;  // a switch that is there is on
  } else if constexpr (std::is_same_v<Value, LearningRate>) {
    return says_rate(text, now);
  } else if constexpr (std::is_same_v<Value, BatchSize>) {
    return says_batch(text, now);
  } else if constexpr (std::is_same_v<Value, fs::path>) {
    return whole_place(text) == whole_place(now);
  } else {
    const std::string flag = program::flag_of_option(info.name);
    Value said{};
    if constexpr (std::is_same_v<Value, double>) {
      if (info.value == "TIME") return program::read_duration(flag, text) == now;
    }
    program::read_value(flag, text, said);
    if constexpr (std::is_same_v<Value, std::string>) {
      if (info.name == "data") return formats::with_whole_path(said) == now;
    }
    return said == now;
  }
} catch (const Error&) {
  return false;  // of another version: it is none of these
}

/// The word that says the value; empty where none does: of a switch that is off.
template <class Value>
std::string word_of(const OptionInfo& info, const Value& now) {
  const std::string flag = program::flag_of_option(info.name);
  std::string text;
  if constexpr (std::is_same_v<Value, bool>) {
    return now ? flag : "";
  } else if constexpr (std::is_same_v<Value, LearningRate>) {
    text = !now.found_by.empty() ? now.found_by : now.value ? program::shown_value(*now.value) : "";
  } else if constexpr (std::is_same_v<Value, fs::path>) {
    text = whole_place(now).string();
  } else if constexpr (!std::is_same_v<Value, BatchSize>) {
    text = program::shown_value(now);
  }
  return text.empty() ? "" : concat(flag, '=', text);
}

bool may_be_told(const OptionInfo& info) {
  return info.on_resume == OnResume::kFree && !is_of_one_place(info.name);
}

/// SaidWords of the options that may be told anew, by their names.
template <class Options>
std::map<std::string, std::string> words_of(const Options& options) {
  std::map<std::string, std::string> words;
  visit_options(options, [&](const OptionInfo& info, const auto& value) {
    if (may_be_told(info)) words[std::string(info.name)] = word_of(info, value);
  });
  return words;
}

/// Whether the word says another value than that which holds, of an option that `counts`.
template <class Options, class Counts>
bool is_stale(const std::string& word, const Options& now, const Counts& counts) {
  const Word said(word);
  bool is_stale = false;
  visit_options(now, [&](const OptionInfo& info, const auto& value) {
    if (info.name == said.option && counts(info)) is_stale = !says_value(info, said.text, value);
  });
  return is_stale;
}

bool tell_of(const SaidWords& words, const std::string& option) {
  return std::ranges::any_of(words,
                             [&](const std::string& word) { return Word(word).option == option; });
}

}  // namespace

template <class Options>
std::vector<std::string> told_words(std::vector<std::string> before,
                                    std::vector<std::string> told,
                                    const Options& now,
                                    const Options& unsaid) {
  const auto is_settled = [](const OptionInfo& info) { return !is_of_one_place(info.name); };
  std::erase_if(told, [&](const auto& word) { return is_stale(word, now, is_settled); });
  std::erase_if(before, [&](const auto& word) {
    const std::string option = Word(word).option;
    return is_of_one_place(option) || tell_of(told, option) || is_stale(word, now, may_be_told);
  });
  std::ranges::move(told, std::back_inserter(before));
  Options usual = unsaid;
  if (!usual.lr.value)
    usual.lr.value = optim::optimizers().at(parse_spec(now.optimizer).name).default_lr;
  const auto unsaid_words = words_of(usual);
  for (const auto& [option, word] : words_of(now)) {
    const bool is_usual = word.empty() || word == unsaid_words.at(option);
    if (!is_usual && !tell_of(before, option)) before.push_back(word);
  }
  return before;
}

template <class Options>
void keep_config(const fs::path& run,
                 bool goes_on,
                 const std::vector<std::string>& told,
                 const Options& now,
                 const Options& unsaid,
                 std::span<const program::ConfigKey> keys,
                 const std::function<void(const std::string&)>& note) {
  const fs::path file = run / kConfigFile, withdrawn = run / kConfigBefore;
  SaidWords words = told;
  if (goes_on) {
    SaidWords before;
    const fs::path& said = fs::exists(file) ? file : withdrawn;
    try {
      if (fs::exists(said)) before = program::config_arguments(said, keys);
    } catch (const Error& error) {
      return note(concat(error.text().refused, ": the file stays as it is"));
    }
    words = told_words(std::move(before), told, now, unsaid);
  }
  program::write_config_toml(file, words, keys);
  std::error_code none;
  fs::remove(withdrawn, none);
}

template SaidWords told_words(SaidWords, SaidWords, const FitOptions&, const FitOptions&);
template SaidWords told_words(SaidWords, SaidWords, const TrainOptions&, const TrainOptions&);
template void keep_config(const fs::path&,
                          bool,
                          const SaidWords&,
                          const FitOptions&,
                          const FitOptions&,
                          std::span<const program::ConfigKey>,
                          const std::function<void(const std::string&)>&);
template void keep_config(const fs::path&,
                          bool,
                          const SaidWords&,
                          const TrainOptions&,
                          const TrainOptions&,
                          std::span<const program::ConfigKey>,
                          const std::function<void(const std::string&)>&);

}  // namespace muster::train
