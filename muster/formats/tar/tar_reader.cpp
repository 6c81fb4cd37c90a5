#include "muster/formats/tar/tar_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {
namespace {

using namespace std::string_view_literals;

constexpr int64_t kTarBlock = 512;
constexpr int64_t kMostExtension = 1 << 20;
/// What is read at once: a header, the small contents behind it, and the next header.
constexpr int64_t kTarWindow = 4096;
/// Behind the end of an archive, where another one is looked for: twice the record of most.
constexpr int64_t kLookedBehind = 20 * kTarBlock * 2;

/// Where the fields of a header are.
struct TarField {
  size_t at, size;
  std::string_view of(std::string_view header) const { return header.substr(at, size); }
};
constexpr TarField kNameField{0, 100}, kSizeField{124, 12}, kSumField{148, 8}, kTypeField{156, 1},
    kMagicField{257, 6}, kPrefixField{345, 155};

/// Up to the first zero.
std::string_view text_of(std::string_view field) { return field.substr(0, field.find('\0')); }

/// Octal digits between blanks; or, behind a byte of 128, the number itself, most significant byte first.
std::optional<int64_t> tar_number(std::string_view field) {
  if (static_cast<uint8_t>(field[0]) == 0x80) {
    uint64_t number = 0;
    for (const char byte : field.substr(1)) {
      if (number >> 55 != 0) return std::nullopt;
      number = number << 8 | static_cast<uint8_t>(byte);
    }
    return static_cast<int64_t>(number);
  }
  int64_t number = 0;  // 12 digits are 36 bits
  for (const char digit : trim(text_of(field))) {
    if (digit < '0' || digit > '7') return std::nullopt;
    number = number * 8 + (digit - '0');
  }
  return number;
}

bool is_zero(std::string_view header) {
  return std::ranges::all_of(header, [](char byte) { return byte == '\0'; });
}

/// Its checksum is the sum of its bytes, with blanks for the sum itself; old programs took bytes as signed.
bool has_its_sum(std::string_view header) {
  const auto said = tar_number(kSumField.of(header));
  if (!said) return false;
  int64_t bytes = 0, with_signs = 0;
  for (size_t at = 0; at < header.size(); ++at) {
    const bool is_sum = at >= kSumField.at && at < kSumField.at + kSumField.size;
    const char byte = is_sum ? ' ' : header[at];
    bytes += static_cast<uint8_t>(byte);
    with_signs += static_cast<int8_t>(byte);
  }
  return *said == bytes || *said == with_signs;
}

/// What the first bytes are of, where they are no tar.
std::string_view compressed_kind(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return "gzip";
  if (start.starts_with("BZh")) return "bzip2";
  if (start.starts_with("\xfd"
                        "7zXZ"))
    return "xz";
  if (start.starts_with("\x28\xb5\x2f\xfd")) return "zstd";
  if (start.starts_with("PK\x03\x04")) return "zip";
  return "";
}

std::string name_in(std::string_view header) {
  const std::string_view name = text_of(kNameField.of(header));
  const std::string_view prefix = text_of(kPrefixField.of(header));
  const bool is_posix = kMagicField.of(header) == "ustar\0"sv;
  return is_posix && !prefix.empty() ? concat(prefix, '/', name) : std::string(name);
}

TarKind kind_of(char type, const std::string& name) {
  switch (type) {
    case '0':
    case '7':  // in one piece
      return TarKind::kFile;
    case '\0':  // before POSIX a slash made it a folder
      return name.ends_with('/') ? TarKind::kOther : TarKind::kFile;
    case '1':
    case '2':
      return TarKind::kLink;
    default:
      return TarKind::kOther;
  }
}

/// Links, devices, folders and pipes have none, whatever their size says.
bool has_contents(char type, TarKind kind) {
  return kind == TarKind::kFile || !((type >= '1' && type <= '6') || type == '\0');
}

int64_t in_blocks(int64_t size) { return (size + kTarBlock - 1) / kTarBlock * kTarBlock; }

}  // namespace

std::string place_of(std::string_view archive, const TarMember& member) {
  return concat(archive, ": member ", member.name, " at offset ", member.header);
}

TarReader::TarReader(const ByteSource& bytes, std::string name)
    : bytes_(bytes), name_(std::move(name)) {
  const std::string_view kind = compressed_kind(window(0, std::min<int64_t>(bytes.size(), 8)));
  if (kind.empty()) return;
  throw environment_error(
      {.refused = concat("tar archive ", name_),
       .rule = "it is not compressed, so that each member can be read by itself",
       .value = concat(kind, ", by its first bytes"),
       .hint = "unpack it once: gunzip, unxz, unzstd; images are compressed "
               "already"});
}

bool TarReader::next(TarMember& member) {
  Extended extended = global_;
  int64_t begin = at_;
  for (bool is_extended = false;; is_extended = true) {
    const std::string header(header_at(at_));  // the window moves
    if (is_zero(header)) {
      if (is_extended) refuse(at_, "a member follows its extended header", "the archive's end");
      check_end();
      return false;
    }
    if (!has_its_sum(header)) {
      refuse(at_,
             members_ == 0 && !is_extended
                 ? "a tar archive begins with a header, whose checksum is right"
                 : "a header's checksum is right");
    }
    const char type = kTypeField.of(header)[0];
    const auto size = tar_number(kSizeField.of(header));
    if (!size) refuse(at_, "a header says the size of its member");
    switch (type) {
      case 'L':
        extended.name = text_of(extension("long name", *size));
        continue;
      case 'K':
        extension("long name of a link", *size);
        continue;
      case 'x':
      case 'X':
        read_records(extension("extended header", *size), extended);
        continue;
      case 'g':
        read_records(extension("global header", *size), global_);
        extended = global_;
        begin = at_;
        continue;
      default:
        take_member(header, extended, member);
        member.begin = begin;
        return true;
    }
  }
}

void TarReader::take_member(std::string_view header, const Extended& extended, TarMember& member) {
  const char type = kTypeField.of(header)[0];
  const std::string short_name = name_in(header);
  member.name = extended.name.value_or(short_name);
  member.kind = kind_of(type, short_name);
  member.header = at_;
  member.offset = at_ + kTarBlock;
  const int64_t size = extended.size.value_or(tar_number(kSizeField.of(header)).value_or(0));
  member.size = has_contents(type, member.kind) ? size : 0;
  const auto refuse_member = [&](const char* rule, std::string value, const char* hint) {
    throw environment_error({.refused = place_of(name_, member),
                             .rule = rule,
                             .value = std::move(value),
                             .hint = hint});
  };
  if (type == 'S' || extended.is_sparse)
    refuse_member("sparse members are not read", "", "make the archive without tar's --sparse");
  if (type == 'M')
    refuse_member("archives in several volumes are not read", "", "make it anew as one file");
  if (member.size > bytes_.size() - member.offset) {
    refuse_member("its contents lie within the archive",
                  concat("cut short: ",
                         member.size,
                         " bytes, of which the file has ",
                         bytes_.size() - member.offset),
                  "get the archive again from where it came");
  }
  at_ = member.end = member.offset + in_blocks(member.size);
  member.has_globals = global_.says_more;
  ++members_;
}

std::string TarReader::contents(const TarMember& member, int64_t most) {
  if (member.size > most) {
    throw environment_error({.refused = place_of(name_, member),
                             .rule = concat("it has at most ", most, " bytes"),
                             .value = std::to_string(member.size)});
  }
  return std::string(window(member.offset, member.size));
}

/// The contents of a header that is about another one, whose header is the next.
std::string TarReader::extension(std::string_view what, int64_t size) {
  if (size > kMostExtension)
    refuse(at_, concat("a ", what, " has at most ", kMostExtension, " bytes"), concat(size));
  if (size > bytes_.size() - at_ - kTarBlock)
    refuse(at_, concat("a ", what, " lies within the archive"), "cut short");
  std::string text(window(at_ + kTarBlock, size));
  at_ += kTarBlock + in_blocks(size);
  return text;
}

/// "30 path=a/very/long/name.jpg\n": the length of the record, its own digits included.
void TarReader::read_records(std::string_view records, Extended& into) const {
  while (!records.empty() && records[0] != '\0') {
    const size_t blank = records.substr(0, 20).find(' ');
    const auto length = to_int(records.substr(0, std::min(blank, records.size())));
    const bool fits = blank != std::string_view::npos && length &&
                      *length > static_cast<int64_t>(blank) + 1 &&
                      *length <= static_cast<int64_t>(records.size());
    const std::string_view record = fits ? records.substr(0, static_cast<size_t>(*length)) : "";
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals < blank || record.back() != '\n')
      refuse(at_, "the extended header in front is made of records LENGTH KEY=VALUE");
    const std::string_view key = record.substr(blank + 1, equals - blank - 1);
    const std::string_view value = record.substr(equals + 1, record.size() - equals - 2);
    into.says_more = into.says_more || key != "comment";
    if (key == "path") {
      into.name = value.substr(0, value.find_last_not_of('/') + 1);
    } else if (key == "size") {
      into.size = to_int(value);
      if (into.size.value_or(-1) < 0)
        refuse(at_, "the extended header in front says a size", concat('"', value, '"'));
    } else if (key.starts_with("GNU.sparse.")) {
      into.is_sparse = true;
    }
    records.remove_prefix(record.size());
  }
}

/// Programs read no further than the first zeros, so archives that were written one behind the other lose
/// all but the first.
void TarReader::check_end() {
  const int64_t end = std::min(bytes_.size(), at_ + kLookedBehind);
  for (int64_t at = at_ + kTarBlock; at + kTarBlock <= end; at += kTarBlock) {
    const std::string_view header = window(at, kTarBlock);
    if (is_zero(header) || !has_its_sum(header)) continue;
    throw environment_error({.refused = concat("tar archive ", name_),
                             .rule = "nothing follows its end",
                             .value = concat("another archive at offset ", at),
                             .hint = "keep the archives in files of their own; to join them: "
                                     "tar --concatenate"});
  }
}

std::string_view TarReader::header_at(int64_t offset) {
  const int64_t left = bytes_.size() - offset;
  if (left >= kTarBlock) return window(offset, kTarBlock);
  refuse(std::min(offset, bytes_.size()),
         "an archive ends with a block of zeros",
         bytes_.size() == 0
             ? std::string("an empty file")
             : concat("cut short behind ", members_, members_ == 1 ? " member" : " members"));
}

/// These bytes, which are within the source. Valid until the next call.
std::string_view TarReader::window(int64_t offset, int64_t size) {
  const auto end = window_begin_ + static_cast<int64_t>(window_.size());
  if (offset < window_begin_ || offset + size > end) {
    window_.resize(
        static_cast<size_t>(std::max(size, std::min(kTarWindow, bytes_.size() - offset))));
    bytes_.read(offset, window_);
    window_begin_ = offset;
  }
  return std::string_view(window_).substr(static_cast<size_t>(offset - window_begin_),
                                          static_cast<size_t>(size));
}

void TarReader::refuse(int64_t offset, std::string rule, std::string value) const {
  throw environment_error({.refused = concat("damaged tar archive ", name_, ", offset ", offset),
                           .rule = std::move(rule),
                           .value = std::move(value),
                           .hint = "get it again from where it came, or make it anew"});
}

}  // namespace muster::formats
