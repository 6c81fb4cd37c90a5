#include "muster/text/subword/model.h"

#include "muster/text/subword/bpe_model.h"
#include "muster/text/subword/word_piece.h"

namespace muster::text {

std::unique_ptr<const Model> read_model(const FileJson& json,
                                        const std::string& where,
                                        bool bytes) {
  Section section(json, where);
  // Files of the first years name no type.
  const std::string type = section.optional_text("type").value_or(
      section.find("merges") != nullptr ? "BPE" : "WordPiece");
  std::unique_ptr<const Model> model;
  if (type == "BPE") {
    model = read_bpe_model(section, bytes);
  } else if (type == "WordPiece" && !bytes) {
    model = read_word_piece_model(section);
  } else if (type == "WordPiece") {
    section.refuse("type", "a model behind ByteLevel is BPE", type);
  } else {
    section.refuse("type", "Muster knows the models BPE and WordPiece", type);
  }
  section.end();
  return model;
}

}  // namespace muster::text
