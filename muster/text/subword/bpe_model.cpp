#include "muster/text/subword/bpe_model.h"

#include <utility>

#include "muster/base/text.h"
#include "muster/text/subword/byte_alphabet.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

constexpr uint32_t kNoId = TokenTable::kNone;

class BpeModel : public Model {
 public:
  BpeModel(IdTable table, MergeTable merges, BpeOptions options)
      : Model(std::move(table)), merges_(std::move(merges)), options_(std::move(options)) {
    if (options_.unknown) unknown_ = this->table().find(*options_.unknown);
    for (uint32_t byte = 0; byte < 256; ++byte) {
      static constexpr char kDigits[] = "0123456789ABCDEF";
      fallback_[byte] =
          this->table().find(concat("<0x", kDigits[byte >> 4], kDigits[byte & 15], ">"));
      for (size_t place = 0; place < kPlaces; ++place) {
        std::string unit;
        append_utf8(unit, options_.bytes ? kByteLetters[byte] : static_cast<char32_t>(byte & 0x7F));
        first_ids_[place][byte] = this->table().find(decorated(unit, place));
      }
    }
  }

  void tokenize(std::string_view word,
                ModelRoom& room,
                std::vector<ModelToken>& out) const override {
    if (options_.whole_words_first) {
      const uint32_t id = table().find(options_.bytes ? byte_letters(word) : std::string(word));
      if (id != kNoId) return out.push_back({id, static_cast<uint32_t>(word.size())});
    }
    append_units(word, room, out);
    room.merger.merge(merges_, out);
  }

 private:
  // Where a unit stands in its word: what is put before and behind it depends on that.
  static constexpr size_t kLast = 1, kNotFirst = 2, kPlaces = 4;

  std::string decorated(std::string_view unit, size_t place) const {
    return concat((place & kNotFirst) != 0 ? options_.prefix : "",
                  unit,
                  (place & kLast) != 0 ? options_.suffix : "");
  }

  void append_units(std::string_view word, ModelRoom& room, std::vector<ModelToken>& out) const {
    ModelToken pending{kNoId, 0};  // of what is unknown
    const auto end_unknown = [&] {
      if (pending.id != kNoId) out.push_back(std::exchange(pending, {kNoId, 0}));
    };
    for (size_t at = 0; at < word.size();) {
      const auto byte = static_cast<uint8_t>(word[at]);
      const bool single = options_.bytes || byte < 0x80;
      const uint32_t bytes = single ? 1 : first_code_point(word.substr(at)).bytes;
      const size_t place = (at > 0 ? kNotFirst : 0) | (at + bytes == word.size() ? kLast : 0);
      const std::string_view unit = word.substr(at, bytes);
      at += bytes;
      const uint32_t id = single ? first_ids_[place][byte] : find_unit(unit, place, room);
      if (id != kNoId) {
        end_unknown();
        out.push_back({id, bytes});
        continue;
      }
      if (options_.byte_fallback && append_bytes(unit, place, out)) continue;
      if (!options_.unknown) continue;  // left out, as there
      if (pending.id != kNoId && options_.fuse_unknown) {
        pending.bytes += bytes;
      } else {
        end_unknown();
        pending = {unknown_, bytes};
      }
    }
    end_unknown();
  }

  uint32_t find_unit(std::string_view unit, size_t place, ModelRoom& room) const {
    if (options_.prefix.empty() && options_.suffix.empty()) return table().find(unit);
    room.text.clear();
    if ((place & kNotFirst) != 0) room.text += options_.prefix;
    room.text += unit;
    if ((place & kLast) != 0) room.text += options_.suffix;
    return table().find(room.text);
  }

  bool append_bytes(std::string_view unit, size_t place, std::vector<ModelToken>& out) const {
    const std::string all =
        decorated(options_.bytes ? byte_letters(unit) : std::string(unit), place);
    for (const char byte : all) {
      if (fallback_[static_cast<uint8_t>(byte)] == kNoId) return false;
    }
    for (const char byte : all) out.push_back({fallback_[static_cast<uint8_t>(byte)], 1});
    return true;
  }

  MergeTable merges_;
  BpeOptions options_;
  uint32_t unknown_ = kNoId;
  std::array<std::array<uint32_t, 256>, kPlaces> first_ids_{};
  std::array<uint32_t, 256> fallback_{};
};

/// "left right", or ["left", "right"].
std::pair<std::string, std::string> read_pair(const FileJson& json, const std::string& where) {
  if (json.is_array()) {
    if (json.size() != 2) refuse_value(where, "a merge is of two tokens");
    return {text_of(json[0], where), text_of(json[1], where)};
  }
  const std::string& text = text_of(json, where);
  const size_t blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos)
    refuse_value(where, "a merge is two tokens with a blank between them", text);
  return {text.substr(0, blank), text.substr(blank + 1)};
}

MergeTable read_merges(Section& section, const IdTable& table, const BpeOptions& options) {
  const FileJson& list = section.need("merges");
  const std::string where = section.path_of("merges");
  if (!list.is_array()) refuse_value(where, "it is a list");
  MergeTable merges(list.size());
  for (size_t rank = 0; rank < list.size(); ++rank) {
    const std::string path = concat(where, "[", rank, "]");
    const auto [left, right] = read_pair(list[rank], path);
    if (right.size() < options.prefix.size())
      refuse_value(path, "the second token begins with continuing_subword_prefix", right);
    const std::string both = left + right.substr(options.prefix.size());
    const auto id_of = [&](const std::string& token) {
      const uint32_t id = table.find(token);
      if (id == kNoId) refuse_value(path, "the tokens of a merge are in the vocabulary", token);
      return id;
    };
    const uint32_t left_id = id_of(left), right_id = id_of(right);
    merges.insert(left_id, right_id, {static_cast<uint32_t>(rank), id_of(both)});
  }
  return merges;
}

}  // namespace

std::unique_ptr<const Model> read_bpe_model(Section& section, bool bytes) {
  BpeOptions options;
  options.bytes = bytes;
  options.unknown = section.optional_text("unk_token");
  options.prefix = section.optional_text("continuing_subword_prefix").value_or("");
  options.suffix = section.optional_text("end_of_word_suffix").value_or("");
  options.fuse_unknown = section.boolean("fuse_unk", false);
  options.byte_fallback = section.boolean("byte_fallback", false);
  options.whole_words_first = section.boolean("ignore_merges", false);
  const FileJson* dropout = section.find("dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0))
    section.refuse("dropout", "Muster encodes without dropout: it is null or 0");
  IdTable table(section.need("vocab"), section.path_of("vocab"));
  if (options.unknown && table.find(*options.unknown) == kNoId)
    section.refuse("unk_token", "it is in the vocabulary", *options.unknown);
  if (bytes && options.byte_fallback)
    section.refuse("byte_fallback", "it is false where ByteLevel makes letters of all bytes");
  MergeTable merges = read_merges(section, table, options);
  return std::make_unique<BpeModel>(std::move(table), std::move(merges), std::move(options));
}

}  // namespace muster::text
