#include "muster/text/subword/tokenizer.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/text/subword/tokenizer_parts.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

void check_text(std::string_view text) {
  if (text.size() >= UINT32_MAX) {
    throw usage_error({.refused = "a text to encode",
                       .rule = "it has less than 4 GiB",
                       .value = human_bytes(text.size()),
                       .hint = "encode it in parts"});
  }
  check_utf8(text, "a text to encode");
}

/// Byte offsets that mostly grow, as code points: counts from the last one.
class CodePointCounter {
 public:
  explicit CodePointCounter(std::string_view text) : text_(text) {}

  uint32_t operator()(uint32_t byte) {
    while (at_ < byte) count_ += starts_code_point(text_[at_++]) ? 1 : 0;
    while (at_ > byte) count_ -= starts_code_point(text_[--at_]) ? 1 : 0;
    return count_;
  }

 private:
  std::string_view text_;
  uint32_t at_ = 0, count_ = 0;
};

void count_in_code_points(CodePointCounter& count, Encoding& encoding) {
  for (TextSpan& span : encoding.offsets) {
    const uint32_t begin = count(span.begin);
    span = {begin, count(span.end)};
  }
  for (Encoding& part : encoding.overflowing) count_in_code_points(count, part);
}

[[noreturn]] void refuse_truncation(std::string rule, const Truncation& truncation) {
  throw usage_error({.refused = "truncation of a text",
                     .rule = std::move(rule),
                     .value = concat("max_length ", truncation.max_length),
                     .hint = {}});
}

/// How long each of two texts stays. Source: `tokenizers`, longest first.
std::pair<uint32_t, uint32_t> longest_first(uint32_t a, uint32_t b, uint32_t length) {
  const bool swapped = a > b;
  if (swapped) std::swap(a, b);
  b = a > length ? a : std::max(a, length - a);
  if (a + b > length) {
    a = length / 2;
    b = a + length % 2;
  }
  return swapped ? std::pair{b, a} : std::pair{a, b};
}

void truncate(std::vector<Encoding>& texts, const Truncation& how, uint32_t length) {
  const auto cut = [&](Encoding& text, uint32_t left) {
    truncate_encoding(text, left, how.stride, how.side);
  };
  uint64_t total = 0;
  for (const Encoding& text : texts) total += text.size();
  if (length == 0) {
    for (Encoding& text : texts) cut(text, 0);
    return;
  }
  if (total <= length) return;
  if (how.strategy == TruncationStrategy::kLongestFirst) {
    if (texts.size() == 1) return cut(texts[0], length);
    const auto [a, b] = longest_first(
        static_cast<uint32_t>(texts[0].size()), static_cast<uint32_t>(texts[1].size()), length);
    cut(texts[0], a), cut(texts[1], b);
    return;
  }
  const size_t which = how.strategy == TruncationStrategy::kOnlyFirst ? 0 : 1;
  if (which >= texts.size())
    refuse_truncation("only the second text is cut, and there is none", how);
  const uint64_t surplus = total - length;
  if (texts[which].size() <= surplus)
    refuse_truncation("what is left of the text that is cut has at least a token", how);
  cut(texts[which], static_cast<uint32_t>(texts[which].size() - surplus));
}

}  // namespace

void Tokenizer::set_truncation(std::optional<Truncation> truncation) {
  if (truncation) {
    const uint32_t special = parts_->post_processor.added(false);
    if (truncation->max_length > 0 && truncation->max_length < special)
      refuse_truncation(concat("at least the ", special, " special tokens"), *truncation);
    const uint32_t left = truncation->max_length - std::min(truncation->max_length, special);
    if (left > 0 && truncation->stride >= left)
      refuse_truncation(
          concat("the stride, ", truncation->stride, ", is less than what is left of a text"),
          *truncation);
  }
  truncation_ = truncation;
}

void Tokenizer::set_padding(std::optional<Padding> padding) { padding_ = padding; }

Encoding Tokenizer::encode_unpadded(std::span<const std::string_view> texts,
                                    const EncodeOptions& options) const {
  std::vector<Encoding> encodings;
  for (size_t i = 0; i < texts.size(); ++i) {
    check_text(texts[i]);
    encodings.push_back(parts_->encode(texts[i], static_cast<uint32_t>(i)));
  }
  if (truncation_) {
    const uint32_t special =
        options.add_special_tokens ? parts_->post_processor.added(texts.size() > 1) : 0;
    if (truncation_->max_length < special)
      refuse_truncation(concat("at least the ", special, " special tokens"), *truncation_);
    truncate(encodings, *truncation_, truncation_->max_length - special);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (parts_->post_processor.trim) parts_->trim_offsets(texts[i], encodings[i]);
    if (options.offsets == OffsetUnit::kCodePoints && ascii_prefix(texts[i]) < texts[i].size()) {
      CodePointCounter count(texts[i]);
      count_in_code_points(count, encodings[i]);
    }
  }
  return parts_->post_processor.process(std::move(encodings), options.add_special_tokens);
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding out = encode_unpadded({&text, 1}, options);
  if (padding_) pad_encodings({&out, 1}, *padding_);
  return out;
}

Encoding Tokenizer::encode_pair(std::string_view first,
                                std::string_view second,
                                const EncodeOptions& options) const {
  const std::string_view texts[] = {first, second};
  Encoding out = encode_unpadded(texts, options);
  if (padding_) pad_encodings({&out, 1}, *padding_);
  return out;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                              const EncodeOptions& options) const {
  std::vector<Encoding> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) {
    const std::string_view view = text;
    out.push_back(encode_unpadded({&view, 1}, options));
  }
  if (padding_) pad_encodings(out, *padding_);
  return out;
}

void Tokenizer::append_ids(std::string_view text,
                           std::vector<int64_t>& ids,
                           bool add_special_tokens) const {
  if (truncation_) {  // which may cut at the left
    const Encoding encoding =
        encode_unpadded({&text, 1}, {.add_special_tokens = add_special_tokens});
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    return;
  }
  check_text(text);
  std::unique_ptr<EncodeRoom> room = parts_->rooms.acquire();
  parts_->find_words(text, *room);
  for (const TemplatePart& part : parts_->post_processor.single) {
    if (part.text < 0) {
      if (add_special_tokens) ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      continue;
    }
    parts_->for_each_word(*room, [&](const Piece&, std::span<const ModelToken> tokens) {
      for (const ModelToken& token : tokens) ids.push_back(token.id);
    });
  }
  parts_->rooms.give(std::move(room));
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const uint32_t id : ids) {
    const AddedToken* added = parts_->added.token(id);
    if (added != nullptr && added->special && skip_special_tokens) continue;
    if (const std::optional<std::string> token = id_to_token(id)) tokens.push_back(*token);
  }
  if (parts_->decoders.empty()) return join(tokens, " ");
  for (const auto& step : parts_->decoders) step->apply(tokens);
  return join(tokens, "");
}

std::optional<uint32_t> Tokenizer::token_to_id(std::string_view token) const {
  if (const AddedToken* added = parts_->added.find(token)) return added->id;
  const uint32_t id = parts_->model->table().find(token);
  if (id == TokenTable::kNone) return std::nullopt;
  return id;
}

std::optional<std::string> Tokenizer::id_to_token(uint32_t id) const {
  if (const AddedToken* added = parts_->added.token(id)) return added->content;
  if (const std::string* token = parts_->model->table().token(id)) return *token;
  return std::nullopt;
}

size_t Tokenizer::vocab_size() const {
  size_t size = parts_->model->table().size();
  for (const auto& [id, token] : parts_->added.tokens())
    size += parts_->model->table().token(id) == nullptr ? 1 : 0;
  return size;
}

}  // namespace muster::text
