#include "muster/text/subword/normal_forms.h"

#include <algorithm>

#include "muster/text/unicode/normal_form.h"
#include "muster/text/unicode/utf8.h"

namespace muster::text {
namespace {

/// Note [Normal forms and offsets]: what `tokenizers` records for each new code point. Of a
/// decomposition the first part takes the place of the old code point and the others are inserted;
/// the order by combining class moves code points together with what was recorded; a composite
/// adds what its two parts did, less one. A part of the text that begins with an ASCII character
/// and goes on without any is closed under all this, since no composite ends in one.
class NormalFormStep : public Normalizer {
 public:
  explicit NormalFormStep(NormalForm form) : form_(form) {}

  bool leaves_ascii() const override { return true; }

  void apply(const AlignedText& from,
             const Piece& piece,
             Rewriter& out,
             NormalizerRoom& room) const override {
    const std::string_view text = from.text();
    uint32_t at = piece.begin;
    while (at < piece.end) {
      const auto ascii = static_cast<uint32_t>(ascii_prefix(from.text({at, piece.end})));
      uint32_t next = at + ascii;
      if (next == piece.end) return out.keep(at, next);
      if (ascii > 0) out.keep(at, next - 1);
      const uint32_t begin = ascii > 0 ? next - 1 : next;
      while (next < piece.end && static_cast<uint8_t>(text[next]) >= 0x80) ++next;
      decompose_part(text.substr(begin, next - begin), room);
      if (form_ == NormalForm::kNfc || form_ == NormalForm::kNfkc) compose_part(room);
      if (is_as_before(text.substr(begin, next - begin), room)) {
        out.keep(begin, next);
      } else {
        out.change(piece, begin, 0, room.changes);
      }
      at = next;
    }
  }

 private:
  void decompose_part(std::string_view text, NormalizerRoom& room) const {
    const bool by_compatibility = form_ == NormalForm::kNfkc || form_ == NormalForm::kNfkd;
    room.changes.clear();
    room.classes.clear();
    Decomposition parts;
    while (!text.empty()) {
      const CodePoint c = first_code_point(text);
      text.remove_prefix(c.bytes);
      const size_t count = decompose(c.value, by_compatibility, parts);
      for (size_t i = 0; i < count; ++i) insert_in_order(parts[i], i == 0 ? 0 : 1, room);
    }
  }

  static bool is_as_before(std::string_view text, const NormalizerRoom& room) {
    for (const Change& change : room.changes) {
      if (text.empty()) return false;
      const CodePoint c = first_code_point(text);
      if (c.value != change.c || change.change != 0) return false;
      text.remove_prefix(c.bytes);
    }
    return text.empty();
  }

  /// Behind all of its class or a lower one, back to the last starter.
  static void insert_in_order(char32_t c, int change, NormalizerRoom& room) {
    const int its_class = combining_class(c);
    size_t at = room.changes.size();
    while (its_class > 0 && at > 0 && room.classes[at - 1] > its_class) --at;
    room.changes.insert(room.changes.begin() + static_cast<ptrdiff_t>(at), {c, change});
    room.classes.insert(room.classes.begin() + static_cast<ptrdiff_t>(at), its_class);
  }

  static void compose_part(NormalizerRoom& room) {
    std::vector<Change>& out = room.composed;
    out.clear();
    ptrdiff_t starter = -1;
    int last_class = -1;  // of what stands between the starter and the next code point
    for (size_t i = 0; i < room.changes.size(); ++i) {
      const Change& next = room.changes[i];
      const int its_class = room.classes[i];
      if (starter >= 0 && last_class < its_class) {
        Change& first = out[static_cast<size_t>(starter)];
        if (const char32_t composite = text::compose(first.c, next.c)) {
          first = {composite, first.change + next.change - 1};
          continue;
        }
      }
      if (its_class == 0) {
        starter = static_cast<ptrdiff_t>(out.size());
        last_class = -1;
      } else {
        last_class = its_class;
      }
      out.push_back(next);
    }
    room.changes.swap(out);
  }

  NormalForm form_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normal_form(NormalForm form) {
  return std::make_unique<NormalFormStep>(form);
}

}  // namespace muster::text
