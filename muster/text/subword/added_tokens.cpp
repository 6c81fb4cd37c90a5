#include "muster/text/subword/added_tokens.h"

#include <algorithm>

#include "muster/base/text.h"
#include "muster/text/unicode/properties.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

size_t without_space_at_end(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = last_code_point(text);
    if (!is_white_space(c.value)) break;
    text.remove_suffix(c.bytes);
  }
  return text.size();
}

size_t space_at_start(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const CodePoint c = first_code_point(text.substr(bytes));
    if (!is_white_space(c.value)) break;
    bytes += c.bytes;
  }
  return bytes;
}

AddedToken read_added_token(const FileJson& json, const std::string& where) {
  Section section(json, where);
  AddedToken token;
  token.id = section.number("id");
  token.content = section.text("content");
  if (token.content.empty()) section.refuse("content", "it is not empty");
  token.single_word = section.boolean("single_word");
  token.lstrip = section.boolean("lstrip");
  token.rstrip = section.boolean("rstrip");
  token.normalized = section.boolean("normalized");
  token.special = section.boolean("special");
  section.end();
  return token;
}

}  // namespace

void TokenFinder::add(const AddedToken& token, std::string content) {
  patterns_.push_back({std::move(content), &token});
  std::stable_sort(patterns_.begin(), patterns_.end(), [](const Pattern& a, const Pattern& b) {
    return a.content.size() > b.content.size();
  });
  by_byte_.assign(256, {});
  for (uint32_t i = 0; i < patterns_.size(); ++i)
    by_byte_[static_cast<uint8_t>(patterns_[i].content[0])].push_back(i);
}

const TokenFinder::Pattern* TokenFinder::match_at(std::string_view text, size_t at) const {
  for (const uint32_t i : by_byte_[static_cast<uint8_t>(text[at])]) {
    if (text.substr(at).starts_with(patterns_[i].content)) return &patterns_[i];
  }
  return nullptr;
}

void TokenFinder::split(const AlignedText& all, const Piece& piece, std::vector<Piece>& out) const {
  const std::string_view text = all.text(piece);
  const auto put = [&](size_t begin, size_t end, uint32_t id) {
    if (begin < end)
      out.push_back({piece.begin + static_cast<uint32_t>(begin),
                     piece.begin + static_cast<uint32_t>(end),
                     id});
  };
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const Pattern* pattern = match_at(text, at);
    if (pattern == nullptr) {
      ++at;
      continue;
    }
    const AddedToken& token = *pattern->token;
    size_t begin = at, end = at + pattern->content.size();
    at = end;
    if (token.single_word) {
      const bool left =
          begin > 0 && is_word_character(last_code_point(text.substr(0, begin)).value);
      const bool right =
          end < text.size() && is_word_character(first_code_point(text.substr(end)).value);
      if (left || right) continue;
    }
    if (token.lstrip) begin = std::max(without_space_at_end(text.substr(0, begin)), done);
    if (token.rstrip) end += space_at_start(text.substr(end));
    put(done, begin, Piece::kNoToken);
    put(begin, end, token.id);
    done = end;
    at = std::max(at, end);
  }
  put(done, text.size(), Piece::kNoToken);
}

void AddedTokens::read(const FileJson& json,
                       const std::string& where,
                       const IdTable& model,
                       const NormalizerChain& normalizers) {
  if (!json.is_array()) refuse_value(where, "it is a list");
  const auto model_size = static_cast<uint32_t>(model.size());
  uint32_t next = model_size;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string path = concat(where, "[", i, "]");
    AddedToken token = read_added_token(json[i], path);
    if (ids_.contains(token.content)) refuse_value(path, "a token is added once", token.content);
    uint32_t id = model.find(token.content);
    if (id == TokenTable::kNone) id = next;
    if (token.id != id) {
      refuse_value(concat(path, ".id"),
                   concat("the id of \"",
                          token.content,
                          "\" is ",
                          id,
                          ": the model's, or the next one behind all"),
                   std::to_string(token.id));
    }
    if (tokens_.contains(id)) refuse_value(concat(path, ".id"), "an id has one token");
    next = std::max(next, id + 1);
    ids_[token.content] = id;
    tokens_[id] = std::move(token);
  }
  for (const bool special : {true, false}) {  // of two that look the same, special ones first
    for (auto& [id, token] : tokens_) {
      if (token.special != special) continue;
      if (!token.normalized) {
        plain_.add(token, token.content);
        continue;
      }
      std::string content = text::normalized(normalizers, token.content);
      if (content.empty())
        refuse_value(where, "an added token is not empty when it is normalized", token.content);
      token.content = content;  // which is what it is decoded to, there as well
      normalized_.add(token, std::move(content));
    }
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto at = ids_.find(content);
  return at == ids_.end() ? nullptr : token(at->second);
}

const AddedToken* AddedTokens::token(uint32_t id) const {
  const auto at = tokens_.find(id);
  return at == tokens_.end() ? nullptr : &at->second;
}

}  // namespace muster::text
