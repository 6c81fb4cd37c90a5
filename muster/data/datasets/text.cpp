// Your own texts: a table with a column of classes, or a folder of files for each class.
#include "muster/base/text.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/data/sets/row_split.h"
#include "muster/data/sets/token_rows.h"
#include "muster/formats/learned.h"
#include "muster/text/corpus/text_data.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using text::LabelledTexts;
using text::TextDataOptions;

// Note [What a text's training split teaches]
// Ids of words, the names of classes and their order, and where texts are cut come from the training
// split alone, of which muster train's validation samples are a part. They are kept as JSON:
//     {"classes": [...], "columns": {"text": "…", "target": "…"}, "said": {"min_freq": "2", …},
//      "vocabulary": ["<pad>", "<unk>", …], "max_length": 256}
// "said" is what a spec for other files may say again, and not otherwise.
constexpr const char* kTextClasses = "classes";
constexpr const char* kTextColumns = "columns";
constexpr const char* kTextSaid = "said";
constexpr const char* kShapingParams[] = {"tokenizer", "min_freq", "max_tokens", "max_length"};

struct LearnedTexts {
  std::vector<std::string> classes;
  text::TextEncoder encoder;
  std::string json;
};

Json said_json(const TextDataOptions& options) {
  return {{"tokenizer", options.tokenizer},
          {"min_freq", std::to_string(options.min_freq)},
          {"max_tokens", std::to_string(options.max_tokens)},
          {"max_length", std::to_string(options.max_length)}};
}

LearnedTexts learn_texts(const LabelledTexts& texts,
                         std::vector<std::string> classes,
                         const std::vector<int64_t>& rows,
                         const TextDataOptions& options) {
  std::vector<std::string_view> views;
  views.reserve(rows.size());
  for (const int64_t row : rows) views.emplace_back(texts.texts[static_cast<size_t>(row)]);
  text::TextEncoder encoder = text::learn_encoder(views,
                                                  {.tokenizer = options.tokenizer,
                                                   .min_freq = options.min_freq,
                                                   .max_tokens = options.max_tokens,
                                                   .max_length = options.max_length});
  Json json = {{kTextClasses, classes},
               {kTextColumns, {{"text", texts.columns.text}, {"target", texts.columns.target}}},
               {kTextSaid, said_json(options)}};
  json.update(encoder.to_json());
  return {std::move(classes), std::move(encoder), json_text(json)};
}

/// Whether the run's tokenizer lies elsewhere now. One that is nowhere is as it was: the run has it.
bool is_same_tokenizer(std::string_view name,
                       const std::string& now,
                       const std::string& before,
                       const Json& learned) {
  constexpr const char* kContent = "tokenizer_json";  // of TextEncoder::to_json()
  const bool are_files = name == "tokenizer" && now != TextDataOptions().tokenizer &&
                         before != TextDataOptions().tokenizer;
  if (!are_files) return false;
  std::error_code ignored;
  if (!fs::exists(now, ignored)) return true;
  const Json found = text::learn_encoder({}, {.tokenizer = now}).to_json();
  return found.contains(kContent) && learned.contains(kContent) &&
         found.at(kContent) == learned.at(kContent);
}

LearnedTexts learned_before(const DatasetRequest& request, TextDataOptions& options) {
  const auto read = [&](const Json& json) -> LearnedTexts {
    const Json& said = json.at(kTextSaid);
    for (const char* name : kShapingParams) {
      const auto now = request.params.find(name);
      const auto before = said.at(name).get<std::string>();
      if (now == request.params.end() || now->second == before) continue;
      if (is_same_tokenizer(name, now->second, before, json)) continue;
      throw usage_error({.refused = concat(text::kTextDataOwner, " parameter \"", name, '"'),
                         .rule = concat("texts are read as the run has learned: ", before),
                         .value = now->second,
                         .hint = "leave it away"});
    }
    for (auto [name, column] : {std::pair{"text", &options.text}, {"target", &options.target}})
      if (column->empty()) *column = json.at(kTextColumns).at(name).get<std::string>();
    return {json.at(kTextClasses).get<std::vector<std::string>>(),
            text::TextEncoder::from_json(json),
            request.learned};
  };
  return formats::parse_learned("what the run's texts were read by", request.learned, read);
}

/// The classes' numbers. A sample of another class is bad.
std::vector<int64_t> number_targets(LabelledTexts& texts,
                                    const std::vector<std::string>& classes,
                                    const TextDataOptions& options) {
  const auto numbers = text::numbers_of(classes);
  std::vector<int64_t> targets;
  size_t kept = 0;
  for (size_t at = 0; at < texts.targets.size(); ++at) {
    const auto number = numbers.find(texts.targets[at]);
    if (number == numbers.end()) {
      texts.bad.push_back({texts.places[at], text::why_unknown(texts.targets[at], classes)});
      if (options.bad_rows == "raise") formats::refuse_bad_row(texts.bad.back());
      continue;
    }
    targets.push_back(number->second);
    if (kept != at) {
      texts.texts[kept] = std::move(texts.texts[at]);
      texts.places[kept] = std::move(texts.places[at]);
    }
    ++kept;
  }
  if (texts.targets.empty()) return targets;
  texts.texts.resize(kept);
  texts.places.resize(kept);
  return targets;
}

std::vector<std::string> remarks_of(const LabelledTexts& texts, int64_t cut, int64_t most) {
  const std::string path = texts.path.string();
  std::vector<std::string> remarks =
      formats::skipped_remark(texts.bad, texts.texts.size(), "samples", path);
  if (cut > 0)
    remarks.push_back(concat(cut,
                             " of ",
                             texts.texts.size(),
                             " texts in ",
                             path,
                             " are cut to ",
                             most,
                             " tokens (max_length)"));
  return remarks;
}

std::shared_ptr<const Dataset> encoded(LabelledTexts texts,
                                       std::vector<int64_t> targets,
                                       const LearnedTexts& learned) {
  TokenSequences sequences{.targets = std::move(targets)};
  int64_t cut = 0;
  for (const std::string& text : texts.texts) {
    cut += learned.encoder.append_ids(text, sequences.ids) ? 1 : 0;
    sequences.ends.push_back(static_cast<int64_t>(sequences.ids.size()));
  }
  const text::TextEncoder& encoder = learned.encoder;
  return std::make_shared<TokenRows>(
      std::move(sequences),
      DataSpec{.name = "text " + texts.path.string(),
               .sample_shape = {encoder.max_length()},
               .classes = static_cast<int64_t>(learned.classes.size()),
               .class_names = learned.classes,
               .dtype = at::kLong,
               .kind = DataKind::kTokens,
               .vocabulary = encoder.vocabulary(),
               .padding = encoder.padding()},
      learned.json,
      remarks_of(texts, cut, encoder.max_length()));
}

std::vector<int64_t> all_rows(size_t count) {
  std::vector<int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Samples of a run's own kind that it was not trained on: all of a file, or the split of a folder.
std::shared_ptr<const Dataset> open_other_texts(const DatasetRequest& request,
                                                TextDataOptions& options) {
  const LearnedTexts learned = learned_before(request, options);
  const auto [train, test] = text::find_text_splits(options.path, options.test);
  LabelledTexts texts = text::read_texts(options,
                                         request.split == Split::kTest ? test : train,
                                         request.needs_targets,
                                         /*all=*/false,
                                         learned.classes);
  std::vector<int64_t> targets = number_targets(texts, learned.classes, options);
  return encoded(std::move(texts), std::move(targets), learned);
}

std::shared_ptr<const Dataset> open_text(const DatasetRequest& request) {
  TextDataOptions options = text::text_data_options(request.params, request.data_dir);
  if (!request.learned.empty() && request.is_other) return open_other_texts(request, options);
  const auto [train, test] = text::find_text_splits(options.path, options.test);
  std::optional<LearnedTexts> learned;
  if (!request.learned.empty()) learned = learned_before(request, options);
  const bool is_whole = train != test, wants_test = request.split == Split::kTest;

  LabelledTexts texts;
  std::vector<std::string> classes;
  if (learned) classes = learned->classes;
  if (!learned || !is_whole || !wants_test) {
    texts = text::read_texts(options, train, /*needs_target=*/true, /*all=*/false, classes);
    if (!learned) classes = text::classes_of(texts.targets);
  }
  std::vector<int64_t> targets = number_targets(texts, classes, options);
  if (is_whole) {
    if (!learned) learned = learn_texts(texts, classes, all_rows(texts.texts.size()), options);
    if (wants_test) {
      texts =
          text::read_texts(options, test, /*needs_target=*/true, /*all=*/false, learned->classes);
      targets = number_targets(texts, learned->classes, options);
    }
    return encoded(std::move(texts), std::move(targets), *learned);
  }
  const SubsetList parts =
      split_rows(targets, options.test_fraction, options.split_seed, text::kTextDataOwner);
  if (!learned) learned = learn_texts(texts, classes, rows_of(*parts[0]), options);
  return parts[wants_test ? 1 : 0]->over(encoded(std::move(texts), std::move(targets), *learned));
}

}  // namespace

extern constinit const DatasetEntry text_entry{
    .name = "text",
    .help =
        "your own texts: a table with a column of classes, or a folder of .txt files for each "
        "(text:FILE,text=COLUMN)",
    .params = text::kTextDataParams,
    .open = &open_text,
};

}  // namespace muster::data
