#include "muster/text/corpus/text_survey.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "muster/formats/class_balance.h"
#include "muster/text/vocab/counter.h"
#include "muster/text/words/basic_english.h"

namespace muster::text {
namespace {

/// Tokens of each text, as basic_english has them, and how often each comes.
std::vector<int64_t> count_words(const LabelledTexts& texts, Counter& counter) {
  std::vector<int64_t> lengths;
  Words words;
  for (const std::string& text : texts.texts) {
    basic_english(text, words);
    counter.update(words.words);
    lengths.push_back(static_cast<int64_t>(words.words.size()));
  }
  return lengths;
}

/// The same of a tokenizer, special tokens included.
std::vector<int64_t> count_tokens(const LabelledTexts& texts, const LearnOptions& options) {
  LearnOptions uncut = options;
  uncut.max_length = 1 << 30;
  const TextEncoder encoder = learn_encoder({}, uncut);
  std::vector<int64_t> lengths, ids;
  for (const std::string& text : texts.texts) {
    ids.clear();
    encoder.append_ids(text, ids);
    const bool is_empty = ids.size() == 1 && ids[0] == encoder.padding();
    lengths.push_back(is_empty ? 0 : static_cast<int64_t>(ids.size()));
  }
  return lengths;
}

void add_lengths(TextSurvey& survey, std::vector<int64_t> lengths, int64_t max_length) {
  if (lengths.empty()) return;
  std::ranges::sort(lengths);
  survey.least = lengths.front();
  survey.median = lengths[lengths.size() / 2];
  survey.greatest = lengths.back();
  for (const int64_t length : lengths) {
    survey.empty += length == 0;
    survey.longer += length > max_length;
    survey.tokens += length;
  }
}

}  // namespace

double TextSurvey::imbalance() const {
  std::vector<int64_t> samples_of;
  for (const auto& [name, count] : classes) samples_of.push_back(count);
  return formats::class_imbalance(samples_of);
}

TextSurvey survey_texts(const LabelledTexts& texts, const LearnOptions& options, size_t frequent) {
  TextSurvey survey{.samples = static_cast<int64_t>(texts.texts.size())};
  std::map<std::string_view, int64_t> samples_of;
  for (const std::string& target : texts.targets) ++samples_of[target];
  for (std::string& name : classes_of(texts.targets)) {
    const int64_t count = samples_of[name];
    survey.classes.emplace_back(std::move(name), count);
  }
  const std::vector<std::string_view> views(texts.texts.begin(), texts.texts.end());
  const TextEncoder encoder = learn_encoder(views, options);
  survey.vocabulary = encoder.vocabulary();
  if (encoder.words() == nullptr) {
    add_lengths(survey, count_tokens(texts, options), options.max_length);
    return survey;
  }
  Counter counter;
  add_lengths(survey, count_words(texts, counter), options.max_length);
  survey.distinct = static_cast<int64_t>(counter.size());
  for (const auto& [word, count] : counter.items())
    if (!encoder.words()->contains(word)) survey.unknown += count;
  survey.frequent = counter.by_frequency();
  survey.frequent.resize(std::min(survey.frequent.size(), frequent));
  return survey;
}

}  // namespace muster::text
