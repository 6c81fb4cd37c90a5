#include "muster/text/vocab/vocab.h"

#include <algorithm>
#include <set>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

std::string quoted_token(std::string_view token) { return concat('"', token.substr(0, 200), '"'); }

template <class Words>
std::vector<int64_t> indices_of(const Vocab& vocab, const Words& tokens) {
  std::vector<int64_t> out;
  out.reserve(tokens.size());
  for (const auto& token : tokens) out.push_back(vocab[token]);
  return out;
}

}  // namespace

Vocab::Vocab(std::span<const std::string> tokens) {
  tokens_.reserve(tokens.size());
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  ids_.reserve(tokens.size(), bytes);
  for (const std::string& token : tokens) append_token(token);
}

std::optional<int64_t> Vocab::find(std::string_view token) const {
  const uint32_t id = ids_.find(token);
  if (id == TokenTable::kNone) return std::nullopt;
  return id;
}

int64_t Vocab::operator[](std::string_view token) const {
  const uint32_t id = ids_.find(token);
  if (id != TokenTable::kNone) return id;
  if (default_index_) return *default_index_;
  throw usage_error({.refused = "a token",
                     .rule = "it is in the vocabulary, or a default index is set",
                     .value = quoted_token(token),
                     .hint = "vocab.set_default_index(vocab[\"<unk>\"])"});
}

void Vocab::insert_token(std::string_view token, int64_t index) {
  check_utf8(token, "a token of a vocabulary");
  if (contains(token)) {
    throw usage_error({.refused = "a token of a vocabulary",
                       .rule = "each token is there once",
                       .value = concat(quoted_token(token), " has the id ", *find(token))});
  }
  if (index < 0 || index > size()) {
    throw usage_error({.refused = concat("the place of ", quoted_token(token)),
                       .rule = concat("a token is inserted at 0 to ", size()),
                       .value = std::to_string(index)});
  }
  if (size() >= int64_t{UINT32_MAX})
    throw usage_error({.refused = "a vocabulary", .rule = "it has less than 2^32 tokens"});
  if (index == size()) {
    ids_.insert(token, static_cast<uint32_t>(index));
    tokens_.emplace_back(token);
    return;
  }
  tokens_.insert(tokens_.begin() + index, std::string(token));
  ids_ = TokenTable();
  for (size_t id = 0; id < tokens_.size(); ++id)
    ids_.insert(tokens_[id], static_cast<uint32_t>(id));
}

const std::string& Vocab::lookup_token(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw usage_error({.refused = "an id",
                       .rule = concat("the vocabulary has the ids 0 to ", size() - 1),
                       .value = std::to_string(index)});
  }
  return tokens_[static_cast<size_t>(index)];
}

std::vector<std::string> Vocab::lookup_tokens(std::span<const int64_t> indices) const {
  std::vector<std::string> out;
  out.reserve(indices.size());
  for (const int64_t index : indices) out.push_back(lookup_token(index));
  return out;
}

std::vector<int64_t> Vocab::lookup_indices(std::span<const std::string> tokens) const {
  return indices_of(*this, tokens);
}

std::vector<int64_t> Vocab::lookup_indices(std::span<const std::string_view> tokens) const {
  return indices_of(*this, tokens);
}

std::map<std::string, int64_t> Vocab::get_stoi() const {
  std::map<std::string, int64_t> out;
  for (size_t id = 0; id < tokens_.size(); ++id) out[tokens_[id]] = static_cast<int64_t>(id);
  return out;
}

TokenBatch Vocab::encode(std::span<const std::vector<std::string>> rows,
                         const BatchOptions& options) const {
  std::vector<std::vector<int64_t>> ids;
  ids.reserve(rows.size());
  for (const std::vector<std::string>& row : rows) ids.push_back(lookup_indices(row));
  return pad_batch(ids, options);
}

std::vector<std::vector<std::string>> Vocab::decode(const TokenBatch& batch) const {
  std::vector<std::vector<std::string>> out;
  for (int64_t i = 0; i < batch.rows; ++i) out.push_back(lookup_tokens(batch.row(i)));
  return out;
}

Vocab vocab(std::span<const CountedWord> words, const VocabOptions& options) {
  const std::set<std::string_view> specials(options.specials.begin(), options.specials.end());
  std::vector<std::string> tokens;
  if (options.special_first) tokens = options.specials;
  for (const auto& [word, count] : words) {
    if (count >= options.min_freq && !specials.contains(word)) tokens.push_back(word);
  }
  if (!options.special_first)
    tokens.insert(tokens.end(), options.specials.begin(), options.specials.end());
  return Vocab(tokens);
}

Vocab vocab(const Counter& counter, const VocabOptions& options) {
  return vocab(std::span(counter.items()), options);
}

Vocab build_vocab(const Counter& counter,
                  const VocabOptions& options,
                  std::optional<int64_t> max_tokens) {
  std::vector<CountedWord> words = counter.by_frequency();
  if (max_tokens) {
    const auto specials = static_cast<int64_t>(options.specials.size());
    if (specials >= *max_tokens) {
      throw usage_error({.refused = "max_tokens of a vocabulary",
                         .rule = concat("more than the ", specials, " specials"),
                         .value = std::to_string(*max_tokens)});
    }
    words.resize(std::min(words.size(), static_cast<size_t>(*max_tokens - specials)));
  }
  return vocab(std::span<const CountedWord>(words), options);
}

}  // namespace muster::text
