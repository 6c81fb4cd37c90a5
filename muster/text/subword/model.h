// The section `model` of a tokenizer file: words to tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/text/subword/id_table.h"
#include "muster/text/subword/merge.h"
#include "muster/text/subword/section.h"

namespace muster::text {

/// Room of one thread.
struct ModelRoom {
  Merger merger;
  std::string text;
};

/// Safe from any threads at once.
class Model {
 public:
  explicit Model(IdTable table) : table_(std::move(table)) {}
  virtual ~Model() = default;

  /// Appends the tokens of `word`, which is not empty, to `out`.
  virtual void tokenize(std::string_view word,
                        ModelRoom& room,
                        std::vector<ModelToken>& out) const = 0;

  const IdTable& table() const { return table_; }

 private:
  IdTable table_;
};

/// `bytes`: words come as bytes, each of which is a letter of GPT-2's alphabet in the vocabulary.
/// Throws an environment error for what Muster does not know.
std::unique_ptr<const Model> read_model(const FileJson& json, const std::string& where, bool bytes);

}  // namespace muster::text
