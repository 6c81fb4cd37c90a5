#include "muster/memory/allocator/process_bytes.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/kernel_file.h"

namespace muster::memory {
namespace {

/// The next word, which is taken off.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

/// Of a line "7f00-7f10 rwxp 00000000 00:00 0   [name]"; 0 of other mappings.
int64_t made_code_in(std::string_view line) {
  const std::string_view range = take_word(line), may = take_word(line);
  if (may.size() < 3 || may[2] != 'x') return 0;
  take_word(line);  // the offset
  take_word(line);  // the device
  take_word(line);  // the inode
  const std::string_view name = take_word(line);
  const bool made = name.empty() || name.starts_with("[anon") || name.starts_with("/memfd:");
  if (!made) return 0;
  uint64_t from = 0, to = 0;
  const char* const end = range.data() + range.size();
  const auto first = std::from_chars(range.data(), end, from, 16);
  if (first.ec != std::errc() || first.ptr == end) return 0;
  const auto second = std::from_chars(first.ptr + 1, end, to, 16);
  return second.ec == std::errc() && to > from ? static_cast<int64_t>(to - from) : 0;
}

}  // namespace

HeapBytes heap_bytes() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const struct mallinfo2 heap = mallinfo2();
  return {.in_use = static_cast<int64_t>(heap.uordblks + heap.hblkhd),
          .from_system = static_cast<int64_t>(heap.arena + heap.hblkhd)};
#else
  return {};
#endif
}

/// By statm, "2480 512 …" in pages: status, which says the same in words, takes twice as long.
ProcessBytes process_bytes() {
  const UniqueFd fd(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t count = fd ? ::read(fd.get(), text, sizeof text) : -1;
  if (count <= 0) return {};
  int64_t pages[2] = {0, 0};
  std::string_view line(text, static_cast<size_t>(count));
  for (int64_t& number : pages) {
    const std::string_view word = take_word(line);
    std::from_chars(word.data(), word.data() + word.size(), number);
  }
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {.resident = pages[1] * page, .mapped = pages[0] * page};
}

int64_t made_code_bytes_of(std::string_view maps) {
  int64_t sum = 0;
  while (!maps.empty()) {
    const size_t end = maps.find('\n');
    sum += made_code_in(maps.substr(0, end));
    maps.remove_prefix(end == std::string_view::npos ? maps.size() : end + 1);
  }
  return sum;
}

int64_t made_code_bytes() {
  return made_code_bytes_of(read_kernel_file("/proc/self/maps").value_or(""));
}

}  // namespace muster::memory
