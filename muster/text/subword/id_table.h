// The vocabulary of a model: strings to ids and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/text/subword/section.h"
#include "muster/text/vocab/token_table.h"

namespace muster::text {

class IdTable {
 public:
  /// From {"token": id, …}. Throws an environment error for an id that two tokens have, and for ids
  /// so far apart that most would be unused.
  IdTable(const FileJson& json, const std::string& where);

  uint32_t find(std::string_view token) const {
    return ids_.find(token);
  }  ///< TokenTable::kNone: none
  const std::string* token(uint32_t id) const {
    return id < tokens_.size() && tokens_[id] ? &*tokens_[id] : nullptr;
  }
  size_t size() const { return ids_.size(); }
  uint32_t id_limit() const { return static_cast<uint32_t>(tokens_.size()); }
  size_t longest_token() const { return longest_; }

 private:
  TokenTable ids_;
  std::vector<std::optional<std::string>> tokens_;  // by id
  size_t longest_ = 0;
};

}  // namespace muster::text
