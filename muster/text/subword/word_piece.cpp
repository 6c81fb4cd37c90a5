#include "muster/text/subword/word_piece.h"

#include <algorithm>
#include <utility>

#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

class WordPieceModel : public Model {
 public:
  WordPieceModel(IdTable table, uint32_t unknown, std::string prefix, uint32_t longest_word)
      : Model(std::move(table)),
        unknown_(unknown),
        prefix_(std::move(prefix)),
        longest_word_(longest_word) {}

  void tokenize(std::string_view word,
                ModelRoom& room,
                std::vector<ModelToken>& out) const override {
    const auto size = static_cast<uint32_t>(word.size());
    const size_t first = out.size();
    if (count_code_points(word) > longest_word_) return out.push_back({unknown_, size});
    for (uint32_t at = 0; at < size;) {
      const ModelToken token = longest_piece(word, at, room.text);
      if (token.bytes == 0) {
        out.resize(first);
        return out.push_back({unknown_, size});
      }
      out.push_back(token);
      at += token.bytes;
    }
  }

 private:
  ModelToken longest_piece(std::string_view word, uint32_t at, std::string& piece) const {
    const size_t prefix = at > 0 ? prefix_.size() : 0;
    piece.assign(prefix_, 0, prefix);
    const size_t most = table().longest_token() > prefix ? table().longest_token() - prefix : 0;
    piece += word.substr(at, std::min(most, word.size() - at));
    while (piece.size() > prefix) {
      const auto bytes = static_cast<uint32_t>(piece.size() - prefix);
      if (at + bytes == word.size() || starts_code_point(word[at + bytes])) {
        const uint32_t id = table().find(piece);
        if (id != TokenTable::kNone) return {id, bytes};
      }
      piece.pop_back();
    }
    return {};
  }

  uint32_t unknown_;
  std::string prefix_;
  uint32_t longest_word_;
};

}  // namespace

std::unique_ptr<const Model> read_word_piece_model(Section& section) {
  IdTable table(section.need("vocab"), section.path_of("vocab"));
  const std::string unknown = section.text("unk_token");
  const uint32_t id = table.find(unknown);
  if (id == TokenTable::kNone) section.refuse("unk_token", "it is in the vocabulary", unknown);
  const std::string prefix = section.text("continuing_subword_prefix");
  const uint32_t longest = section.number("max_input_chars_per_word");
  return std::make_unique<WordPieceModel>(std::move(table), id, prefix, longest);
}

}  // namespace muster::text
