#include "muster/diagnose/log/likeness.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/base/text.h"
#include "muster/diagnose/log/message_words.h"

namespace muster::diagnose {
namespace {

constexpr double kUnit = 0.1;  // of the numbers in words.txt

struct WordWeights {
  double rarity = 0;                               // inverse document frequency
  std::vector<std::pair<size_t, double>> weights;  // by row
};

struct LearnedModel {
  std::vector<std::string> rows;
  std::vector<double> bias;
  std::unordered_map<std::string, WordWeights> words;
};

double number_of(std::string_view text) {
  return kUnit * static_cast<double>(to_int(text).value_or(0));
}

/// Rows with their bias, an empty line, words with their rarity and (row, weight) pairs.
LearnedModel read_model(std::string_view text) {
  LearnedModel model;
  bool in_rows = true;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> parts = split(line, ' ');
    if (parts.size() < 2) {
      in_rows = in_rows && model.rows.empty();
    } else if (in_rows) {
      model.rows.push_back(parts[0]);
      model.bias.push_back(number_of(parts[1]));
    } else {
      WordWeights& word = model.words[parts[0]];
      word.rarity = number_of(parts[1]);
      for (size_t at = 2; at + 1 < parts.size(); at += 2)
        word.weights.emplace_back(static_cast<size_t>(to_int(parts[at]).value_or(0)),
                                  number_of(parts[at + 1]));
    }
  }
  return model;
}

const LearnedModel& learned_model() {
  static const LearnedModel model = read_model(kLearnedWords);
  return model;
}

/// By row, without the bias.
struct Scores {
  std::vector<double> by_row;
  int known_words = 0;
};
Scores scores_of(const std::set<std::string>& words) {
  const LearnedModel& model = learned_model();
  Scores scores{.by_row = std::vector<double>(model.rows.size())};
  double squares = 0;
  for (const std::string& word : words) {
    const auto known = model.words.find(word);
    if (known == model.words.end()) continue;
    if (word.find('_') == word.npos) ++scores.known_words;  // one of a pair has it
    squares += known->second.rarity * known->second.rarity;
    for (const auto& [row, weight] : known->second.weights)
      scores.by_row[row] += known->second.rarity * weight;
  }
  if (squares > 0) {
    for (double& score : scores.by_row) score /= std::sqrt(squares);
  }
  return scores;
}

}  // namespace

Likeness likeliest_row(const std::set<std::string>& words) {
  auto [scores, known_words] = scores_of(words);
  const LearnedModel& model = learned_model();
  for (size_t row = 0; row < scores.size(); ++row) scores[row] += model.bias[row];
  const auto best = std::ranges::max_element(scores);
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - *best);
  return {.row = model.rows[static_cast<size_t>(best - scores.begin())],
          .probability = 1 / sum,
          .known_words = known_words};
}

double likeness_of_line(std::string_view line, std::string_view row) {
  std::set<std::string> words;
  add_message_words(line, words);
  const auto& rows = learned_model().rows;
  const auto at = static_cast<size_t>(std::ranges::find(rows, row) - rows.begin());
  const std::vector<double> scores = scores_of(words).by_row;
  return at < scores.size() ? scores[at] : 0;
}

}  // namespace muster::diagnose
