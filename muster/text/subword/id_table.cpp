#include "muster/text/subword/id_table.h"

#include <algorithm>

#include "muster/base/text.h"

namespace muster::text {

IdTable::IdTable(const FileJson& json, const std::string& where) {
  if (!json.is_object()) refuse_value(where, "it is an object of tokens and their ids");
  const size_t limit = json.size() * 4 + 65536;
  size_t bytes = 0;
  for (const auto& [token, id] : json.items()) bytes += token.size();
  ids_.reserve(json.size(), bytes);
  for (const auto& [token, value] : json.items()) {
    const std::string path = concat(where, "[\"", token.substr(0, 80), "\"]");
    const uint32_t id = number_of(value, path);
    if (id >= limit) {
      refuse_value(
          path, concat("ids of ", json.size(), " tokens are below ", limit), std::to_string(id));
    }
    if (id >= tokens_.size()) tokens_.resize(std::max<size_t>(id + 1, json.size()));
    if (tokens_[id])
      refuse_value(path, concat("an id has one token, and this one is \"", *tokens_[id], "\""));
    tokens_[id] = token;
    ids_.insert(token, id);
    longest_ = std::max(longest_, token.size());
  }
}

}  // namespace muster::text
