#include "muster/text/subword/train_bpe.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/text/subword/byte_alphabet.h"
#include "muster/text/subword/splitter.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

using IdPair = std::pair<uint32_t, uint32_t>;

struct TrainingWord {
  std::vector<uint32_t> ids;
  int64_t count = 0;
};

/// A pair that may be merged next, and the words that had it when it was put here.
struct Candidate {
  int64_t count = 0;
  IdPair pair;
  std::vector<uint32_t> words;

  bool operator<(const Candidate& other) const {  // the greatest goes first
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairHash {
  size_t operator()(const IdPair& pair) const {
    const uint64_t key = (uint64_t{pair.first} << 32 | pair.second) * 0x9E3779B97F4A7C15U;
    return key ^ key >> 32;
  }
};

class Learning {
 public:
  Learning(const BpeTraining& options, const Counter& words) : options_(options) {
    for (const std::string& token : options.special_tokens) id_of(token);
    // Letters in the order of their code points, as the peer has them.
    std::vector<char32_t> letters(kByteLetters.begin(), kByteLetters.end());
    std::sort(letters.begin(), letters.end());
    for (const char32_t letter : letters) {
      std::string token;
      append_utf8(token, letter);
      id_of(token);
    }
    for (const auto& [word, count] : words.items()) {
      TrainingWord& added = words_.emplace_back();
      added.count = count;
      for (const char byte : word) added.ids.push_back(id_of(byte_letters({&byte, 1})));
    }
  }

  void run() {
    for (uint32_t i = 0; i < words_.size(); ++i) {
      const std::vector<uint32_t>& ids = words_[i].ids;
      for (size_t at = 0; at + 1 < ids.size(); ++at)
        count_pair({ids[at], ids[at + 1]}, words_[i].count, i);
    }
    queue_new_pairs();
    while (static_cast<int64_t>(tokens_.size()) < options_.vocab_size && !queue_.empty()) {
      Candidate next = queue_.top();
      queue_.pop();
      const int64_t count = counts_[next.pair];
      if (count != next.count) {  // other merges took some of it, or added to it
        next.count = count;
        queue_.push(std::move(next));
        continue;
      }
      if (count < 1 || options_.min_frequency > count) break;
      const uint32_t id = id_of(tokens_[next.pair.first] + tokens_[next.pair.second]);
      merges_.push_back(next.pair);
      for (const uint32_t word : next.words) merge_in(word, next.pair, id);
      queue_new_pairs();
    }
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<IdPair>& merges() const { return merges_; }

 private:
  uint32_t id_of(const std::string& token) {
    const auto [at, added] = ids_.try_emplace(token, static_cast<uint32_t>(tokens_.size()));
    if (added) tokens_.push_back(token);
    return at->second;
  }

  void count_pair(IdPair pair, int64_t count, uint32_t word) {
    counts_[pair] += count;
    std::vector<uint32_t>& words = new_pairs_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void merge_in(uint32_t index, IdPair pair, uint32_t id) {
    TrainingWord& word = words_[index];
    std::vector<uint32_t>& ids = word.ids;
    size_t size = 0;  // of what is written
    for (size_t at = 0; at < ids.size(); ++at) {
      if (at + 1 >= ids.size() || ids[at] != pair.first || ids[at + 1] != pair.second) {
        ids[size++] = ids[at];
        continue;
      }
      if (size > 0) {
        counts_[{ids[size - 1], pair.first}] -= word.count;
        count_pair({ids[size - 1], id}, word.count, index);
      }
      if (at + 2 < ids.size()) {
        counts_[{pair.second, ids[at + 2]}] -= word.count;
        count_pair({id, ids[at + 2]}, word.count, index);
      }
      ids[size++] = id;
      ++at;
    }
    ids.resize(size);
  }

  void queue_new_pairs() {
    for (auto& [pair, words] : new_pairs_) {
      const int64_t count = counts_[pair];
      if (count > 0) queue_.push({count, pair, std::move(words)});
    }
    new_pairs_.clear();
  }

  const BpeTraining& options_;
  std::vector<TrainingWord> words_;
  std::vector<std::string> tokens_;  // by id
  std::unordered_map<std::string, uint32_t> ids_;
  std::unordered_map<IdPair, int64_t, PairHash> counts_;
  std::unordered_map<IdPair, std::vector<uint32_t>, PairHash> new_pairs_;  // and who has them
  std::priority_queue<Candidate> queue_;
  std::vector<IdPair> merges_;
};

Json byte_level(bool add_prefix_space, bool trim_offsets) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", true}};
}

/// A vocabulary is too large for Json, which looks for each key from the first on.
std::string vocab_object(const std::vector<std::string>& tokens) {
  std::string out = "{";
  for (size_t id = 0; id < tokens.size(); ++id)
    out += concat(id > 0 ? ",\n" : "\n", json_text(Json(tokens[id])), ": ", id);
  return out + "\n}";
}

}  // namespace

BpeTrainer::BpeTrainer(BpeTraining options) : options_(std::move(options)) {
  std::set<std::string_view> seen;
  for (const std::string& token : options_.special_tokens) {
    check_utf8(token, "a special token");
    if (token.empty() || !seen.insert(token).second) {
      throw usage_error({.refused = "a special token",
                         .rule = "it is not empty, and there once",
                         .value = concat('"', token, '"'),
                         .hint = {}});
    }
  }
  const auto least = static_cast<int64_t>(options_.special_tokens.size() + 256);
  if (options_.vocab_size < least || options_.vocab_size > (int64_t{1} << 28)) {
    throw usage_error({.refused = "the vocabulary's size",
                       .rule = concat(least, " to 2^28: special tokens, 256 bytes, and merges"),
                       .value = std::to_string(options_.vocab_size),
                       .hint = {}});
  }
}

void BpeTrainer::add(std::string_view text) {
  check_utf8(text, "a text to learn from");
  if (text.size() >= UINT32_MAX - 1)
    throw usage_error({.refused = "a text to learn from",
                       .rule = "it has less than 4 GiB",
                       .value = {},
                       .hint = "add it in parts"});
  std::string with_blank;
  if (options_.add_prefix_space && !text.empty() && text.front() != ' ') {
    with_blank = concat(' ', text);
    text = with_blank;
  }
  std::vector<Piece> pieces;
  split_as_gpt2(text, {0, static_cast<uint32_t>(text.size())}, pieces);
  for (const Piece& piece : pieces) words_.add(text.substr(piece.begin, piece.end - piece.begin));
}

std::string BpeTrainer::tokenizer_json() const {
  Learning learning(options_, words_);
  learning.run();
  Json added = Json::array();
  for (size_t id = 0; id < options_.special_tokens.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", options_.special_tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json merges = Json::array();
  for (const auto& [left, right] : learning.merges())
    merges.push_back({learning.tokens()[left], learning.tokens()[right]});
  const std::string bytes = json_text(byte_level(options_.add_prefix_space, true));
  return concat(
      "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n\"added_tokens\": ",
      json_text(added),
      ",\n\"normalizer\": null,\n\"pre_tokenizer\": ",
      bytes,
      ",\n\"post_processor\": ",
      bytes,
      ",\n\"decoder\": ",
      bytes,
      ",\n\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
      "\"continuing_subword_prefix\": null,\n\"end_of_word_suffix\": null, \"fuse_unk\": false, "
      "\"byte_fallback\": false, \"ignore_merges\": false,\n\"vocab\": ",
      vocab_object(learning.tokens()),
      ",\n\"merges\": ",
      json_text(merges),
      "}}\n");
}

}  // namespace muster::text
