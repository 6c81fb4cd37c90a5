#include "muster/text/corpus/text_encoder.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/formats/learned.h"
#include "muster/text/words/basic_english.h"

namespace muster::text {
namespace {

constexpr const char* kPadding = "<pad>";
constexpr const char* kUnknown = "<unk>";
constexpr const char* kBasicEnglish = "basic_english";

void check_least(const char* name, int64_t value, int64_t least) {
  if (value >= least) return;
  throw usage_error({.refused = concat("parameter \"", name, "\" of a text's tokens"),
                     .rule = concat("it is at least ", least),
                     .value = std::to_string(value)});
}

}  // namespace

TextEncoder::TextEncoder(Vocab vocab, int64_t max_length)
    : vocab_(std::move(vocab)), max_length_(max_length), vocabulary_(vocab_.size()) {
  check_least("max_length", max_length, 1);
  if (vocab_.find(kPadding) != 0 || vocab_.find(kUnknown) != 1) {
    throw environment_error(
        {.refused = "a vocabulary for texts", .rule = "it begins with <pad> and <unk>"});
  }
  vocab_.set_default_index(1);
  unknown_ = 1;
}

TextEncoder::TextEncoder(std::string json, const std::string& name, int64_t max_length)
    : tokenizer_(Tokenizer::parse(json, name)), json_(std::move(json)), max_length_(max_length) {
  check_least("max_length", max_length, 1);
  vocabulary_ = static_cast<int64_t>(tokenizer_->vocab_size());
  std::optional<uint32_t> padding;
  if (tokenizer_->padding()) padding = tokenizer_->padding()->pad_id;
  for (const char* token : {"[PAD]", "<pad>"})
    if (!padding) padding = tokenizer_->token_to_id(token);
  padding_ = padding ? static_cast<int64_t>(*padding) : vocabulary_;
  vocabulary_ = std::max(vocabulary_, padding_ + 1);
  Truncation cut = tokenizer_->truncation().value_or(Truncation{});
  const bool is_shorter = tokenizer_->truncation() && cut.max_length < max_length;
  if (!is_shorter) cut.max_length = static_cast<uint32_t>(std::min<int64_t>(max_length, 1 << 30));
  cut.stride = 0;
  tokenizer_->set_truncation(cut);
  tokenizer_->set_padding({});
}

bool TextEncoder::append_ids(std::string_view text, std::vector<int64_t>& ids) const {
  const size_t begin = ids.size(), most = begin + static_cast<size_t>(max_length_);
  bool is_cut = false;
  if (tokenizer_) {
    tokenizer_->append_ids(text, ids);
  } else {
    thread_local Words words;
    basic_english(text, words);
    for (const std::string_view word : words.words) {
      is_cut = ids.size() == most;
      if (is_cut) break;
      const int64_t id = vocab_[word];
      ids.push_back(id == padding_ ? *unknown_ : id);  // a text may have the word <pad>
    }
  }
  if (ids.size() == begin) ids.push_back(padding_);
  return is_cut;
}

Json TextEncoder::to_json() const {
  Json json = Json::object();
  if (tokenizer_) {
    json["tokenizer_json"] = json_;
  } else {
    json["vocabulary"] = vocab_.get_itos();
  }
  json["max_length"] = max_length_;
  return json;
}

TextEncoder TextEncoder::from_json(const Json& json) {
  return formats::read_learned("the run's vocabulary", json, [](const Json& kept) -> TextEncoder {
    const auto max_length = kept.at("max_length").get<int64_t>();
    if (kept.contains("tokenizer_json"))
      return {kept.at("tokenizer_json").get<std::string>(), "the run's tokenizer", max_length};
    return {Vocab(kept.at("vocabulary").get<std::vector<std::string>>()), max_length};
  });
}

TextEncoder learn_encoder(std::span<const std::string_view> texts, const LearnOptions& options) {
  check_least("max_length", options.max_length, 1);
  check_least("min_freq", options.min_freq, 1);
  check_least("max_tokens", options.max_tokens, 0);
  if (options.tokenizer != kBasicEnglish) {
    if (!std::filesystem::is_regular_file(options.tokenizer)) {
      throw usage_error({.refused = "parameter \"tokenizer\"",
                         .rule = "basic_english, or the path of a tokenizer.json",
                         .value = concat('"', options.tokenizer, "\", which is no file")});
    }
    return {read_file(options.tokenizer), options.tokenizer, options.max_length};
  }
  Counter counter;
  Words words;
  for (const std::string_view text : texts) {
    basic_english(text, words);
    counter.update(words.words);
  }
  const std::optional<int64_t> most =
      options.max_tokens > 0 ? std::optional(options.max_tokens) : std::nullopt;
  return {
      build_vocab(counter, {.min_freq = options.min_freq, .specials = {kPadding, kUnknown}}, most),
      options.max_length};
}

}  // namespace muster::text
