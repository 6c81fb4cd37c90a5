// Writes dicts, lists, texts and whole numbers as Python's pickle does. No LibTorch here. Private to
// the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster::memory {

// Note [Pickle by hand]
// torch::jit::Pickler takes the whole value as IValues, some 1 KB for each event, at a time when
// memory has run out; and it ends a list with one APPENDS for all of its items, which the viewer in
// the browser hands to one call of a function: too many arguments for it beyond some 100 thousand.
// Six opcodes of protocol 2 are enough here, written as they come, with items in batches of 1000 as
// CPython's own pickler has them. Source: Lib/pickletools.py of CPython.

/// One value: begin, fill, end(). `write` gets the bytes in pieces of some KB.
class PickleWriter {
 public:
  using Write = std::function<void(std::string_view)>;

  explicit PickleWriter(Write write);

  /// A value, where one is due: in a list, behind a key, or the whole.
  void number(int64_t value);
  void text(std::string_view text);  ///< UTF-8; a text that came before is only named
  void begin_list();
  void end_list();
  void begin_dict();
  void end_dict();

  /// In a dict, before its value.
  void key(std::string_view name) { text_of_key(name); }
  void entry(std::string_view name, int64_t value) { key(name), number(value); }
  void entry(std::string_view name, std::string_view value) { key(name), text(value); }

  /// A number for the value that has just ended, with which `again` writes it once more: one object
  /// for the reader.
  uint32_t remember();
  void again(uint32_t remembered);

  /// The end; nothing may follow.
  void end();

 private:
  struct Open {
    bool is_list = false;
    size_t items = 0;
  };

  void value_begins();
  void text_of_key(std::string_view name);
  void put_text(std::string_view text);
  void op(char code) { put(std::string_view(&code, 1)); }
  void put(std::string_view bytes);
  void put_u32(uint32_t value);
  void flush();

  Write write_;
  std::string buffer_;
  std::vector<Open> open_;
  uint32_t remembered_ = 0;
  std::unordered_map<std::string, uint32_t> texts_;
};

}  // namespace muster::memory
