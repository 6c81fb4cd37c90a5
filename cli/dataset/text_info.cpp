#include "cli/dataset/text_info.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/counted.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/text_table.h"
#include "muster/text/corpus/text_data.h"
#include "muster/text/corpus/text_survey.h"

#include "cli/dataset/info_parts.h"

namespace muster::cli {
namespace {

constexpr size_t kFrequentWords = 12;

/// One split.
struct SurveyedTexts {
  std::string name;  ///< "train", "test", or "all"
  text::LabelledTexts texts;
  text::TextSurvey survey;
};

/// Texts of a test split whose class the training split has not are bad.
void move_unknown_texts(text::LabelledTexts& texts, const std::vector<std::string>& known) {
  const auto numbers = text::numbers_of(known);
  text::LabelledTexts kept{.path = texts.path, .columns = texts.columns, .bad = texts.bad};
  for (size_t at = 0; at < texts.targets.size(); ++at) {
    std::string& target = texts.targets[at];
    if (!numbers.contains(target)) {
      kept.bad.push_back({texts.places[at], text::why_unknown(target, known)});
      continue;
    }
    kept.texts.push_back(std::move(texts.texts[at]));
    kept.targets.push_back(std::move(target));
    kept.places.push_back(std::move(texts.places[at]));
  }
  texts = std::move(kept);
}

/// `known`: the classes of the training split; none where this is one.
SurveyedTexts survey_split(std::string name,
                           const std::filesystem::path& path,
                           const text::TextDataOptions& options,
                           const std::vector<std::string>& known) {
  SurveyedTexts out{.name = std::move(name),
                    .texts = text::read_texts(options, path, /*needs_target=*/true, /*all=*/true)};
  if (!known.empty()) move_unknown_texts(out.texts, known);
  out.survey = text::survey_texts(out.texts,
                                  {.tokenizer = options.tokenizer,
                                   .min_freq = options.min_freq,
                                   .max_tokens = options.max_tokens,
                                   .max_length = options.max_length},
                                  kFrequentWords);
  return out;
}

std::vector<SurveyedTexts> survey_splits(const text::TextDataOptions& options) {
  const auto [train, test] = text::find_text_splits(options.path, options.test);
  std::vector<SurveyedTexts> splits;
  splits.push_back(survey_split(train == test ? "all" : "train", train, options, {}));
  if (train != test)
    splits.push_back(
        survey_split("test", test, options, text::classes_of(splits[0].texts.targets)));
  return splits;
}

Json split_json(const SurveyedTexts& split) {
  const text::TextSurvey& survey = split.survey;
  Json classes = Json::array(), frequent = Json::array(), bad = Json::array();
  for (const auto& [name, count] : survey.classes)
    classes.push_back({{"name", name}, {"texts", count}});
  for (const auto& [word, count] : survey.frequent)
    frequent.push_back({{"word", word}, {"count", count}});
  for (const formats::BadRow& row : split.texts.bad)
    bad.push_back({{"place", row.place}, {"fault", row.why}});
  return {{"split", split.name},
          {"path", split.texts.path.string()},
          {"texts", survey.samples},
          {"classes", std::move(classes)},
          {"imbalance", survey.imbalance() == 0 ? Json() : Json(survey.imbalance())},
          {"length",
           {{"least", survey.least}, {"median", survey.median}, {"greatest", survey.greatest}}},
          {"empty", survey.empty},
          {"longer_than_max_length", survey.longer},
          {"tokens", survey.tokens},
          {"distinct_words", survey.distinct},
          {"vocabulary", survey.vocabulary},
          {"unknown", survey.unknown},
          {"frequent", std::move(frequent)},
          {"bad", std::move(bad)}};
}

void print_vocabulary(std::ostream& out,
                      const text::TextSurvey& survey,
                      const text::TextDataOptions& options,
                      size_t width) {
  if (survey.distinct == 0) {
    out << "vocabulary  " << counted(survey.vocabulary, "token") << " of " << options.tokenizer
        << '\n';
    return;
  }
  out << "vocabulary  "
      << concat(survey.vocabulary,
                " tokens: <pad>, <unk>, and words seen ",
                counted(options.min_freq, "time"),
                " or more, of ",
                survey.distinct)
      << '\n'
      << "unknown     " << share_text(survey.unknown, survey.tokens) << " of the running words\n";
  std::vector<std::string> words;
  for (const auto& [word, count] : survey.frequent)
    words.push_back(concat(printable(word), ' ', count));
  out << fold(concat("frequent    ", join(words, ", ")), width, 12);
}

void print_split(std::ostream& out,
                 const SurveyedTexts& split,
                 const text::TextDataOptions& options,
                 const InfoOptions& shown) {
  const text::TextSurvey& survey = split.survey;
  out << split.name << ": " << counted(survey.samples, "text") << " in " << survey.classes.size()
      << (survey.classes.size() == 1 ? " class" : " classes") << " of " << split.texts.path.string()
      << '\n'
      << class_grid(survey.classes, "texts", survey.samples, shown.width);
  const char* token = options.tokenizer == "basic_english" ? "words" : "tokens";
  out << "length      " << survey.least << " to " << survey.greatest << ' ' << token << ", median "
      << survey.median;
  if (survey.longer > 0)
    out << "; " << counted(survey.longer, "text") << " cut to " << options.max_length
        << " (max_length)";
  if (survey.empty > 0) out << "; " << survey.empty << " without any";
  out << '\n';
  if (split.name != "test") print_vocabulary(out, survey, options, shown.width);
  if (survey.classes.size() > 1)
    out << "balance     the largest class has " << fixed(survey.imbalance(), 1)
        << " times the smallest\n";
  const auto bad = static_cast<int64_t>(split.texts.bad.size());
  if (bad == 0) return;
  out << "bad         " << counted(bad, "row") << "; bad_rows=skip trains without\n";
  list_bad(out, split.texts.bad, shown.show);
}

}  // namespace

void show_text_info(std::ostream& out, const InfoOptions& options) {
  const text::TextDataOptions said = text::text_data_options(options.params, options.data_dir);
  const std::vector<SurveyedTexts> splits = survey_splits(said);
  if (options.json) {
    Json json = Json::array();
    for (const SurveyedTexts& split : splits) json.push_back(split_json(split));
    out << json_text({{"splits", std::move(json)}}) << '\n';
    return;
  }
  for (const SurveyedTexts& split : splits) print_split(out, split, said, options);
}

}  // namespace muster::cli
