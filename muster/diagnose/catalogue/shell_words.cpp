#include "muster/diagnose/catalogue/shell_words.h"

namespace muster::diagnose {

bool is_the_word(std::string_view line, std::string_view word) {
  const size_t last = line.find_last_not_of(" \t\r.");
  line = line.substr(0, last == line.npos ? 0 : last + 1);
  if (!line.ends_with(word)) return false;
  line.remove_suffix(word.size());
  // a bar of tqdm ends in no line end: "… 4.5it/s, loss=0.5]Killed"
  const bool is_bar = line.find("it/s") != line.npos || line.find("s/it") != line.npos;
  if (is_bar && line.ends_with(']')) return true;
  return line.ends_with(" | ") || line.find_first_not_of(" \t0123456789-:.,+TZ[]") == line.npos;
}

bool is_only_killed(std::string_view line) {
  const size_t at = line.find_first_not_of(" 0123456789+-");
  if (at != 0 && at != line.npos && line.substr(at).starts_with("killed ")) return true;
  return is_the_word(line, "Killed");
}

bool is_killed_at_the_end(std::string_view line) {
  const size_t end = line.find_last_not_of(" \t\r");
  return end != line.npos && line.substr(0, end + 1).ends_with(" Killed");
}

bool is_only_terminated(std::string_view line) { return is_the_word(line, "Terminated"); }

bool is_killed_abroad(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == line.npos) return false;
  return line.find(' ', first) == line.npos || line.find(": line ") != line.npos ||
         line.find(": 行 ") != line.npos || line.find("Zeile ") != line.npos ||
         line.find("ligne ") != line.npos;
}

}  // namespace muster::diagnose
