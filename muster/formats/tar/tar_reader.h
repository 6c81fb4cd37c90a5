// What lies where in a tar archive. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/formats/tar/byte_source.h"

namespace muster::formats {

enum class TarKind {
  kFile,
  kLink,  ///< hard or symbolic: without contents
  kOther  ///< folders, devices, pipes, and what nobody knows
};

struct TarMember {
  std::string name;  ///< bytes, as they stand in the archive
  TarKind kind = TarKind::kFile;
  int64_t begin = 0;   ///< of the first header that is about it alone
  int64_t header = 0;  ///< where its own header is, behind those that extend it
  int64_t offset = 0;  ///< of its contents
  int64_t size = 0;    ///< of its contents
  int64_t end = 0;  ///< of its last block: [begin, end) is the member in another archive, too …
  bool has_globals = false;  ///< … unless a global header before it says more than a comment
};

/// "x.tar: member cat/1.jpg at offset 512".
std::string place_of(std::string_view archive, const TarMember& member);

/// Reads the headers of an archive one after the other, and of contents no more than contents() asks for.
/// ustar, GNU's long names, pax headers, sizes above 8 GiB by either way, and archives of before 1988.
///
/// Throws an environment error that names the archive and an offset for: an archive that is compressed, cut
/// short, or without the zeros at its end; a header whose checksum does not fit, or whose numbers are none;
/// extended headers of more than 1 MiB; sparse members, and parts of archives in volumes; and an archive
/// behind the end of another one, whose members would go unseen.
///
/// Source: IEEE Std 1003.1-2017, pax; GNU tar 1.34, "Basic Tar Format". Names, offsets and sizes of files are
/// those of Python's tarfile.
class TarReader {
 public:
  /// `bytes` outlive it; `name` stands in errors.
  TarReader(const ByteSource& bytes, std::string name);

  /// False behind the last member. `member` is valid as long as nothing is thrown.
  bool next(TarMember& member);

  /// Of the member that next() gave last. Throws an environment error for one of more than `most` bytes.
  std::string contents(const TarMember& member, int64_t most);

 private:
  /// What headers in front of a member say of it.
  struct Extended {
    std::optional<std::string> name;
    std::optional<int64_t> size;
    bool is_sparse = false;
    bool says_more = false;  // than a comment
  };

  std::string_view window(int64_t offset, int64_t size);
  std::string_view header_at(int64_t offset);
  std::string extension(std::string_view what, int64_t size);
  void read_records(std::string_view records, Extended& into) const;
  void take_member(std::string_view header, const Extended& extended, TarMember& member);
  void check_end();
  [[noreturn]] void refuse(int64_t offset, std::string rule, std::string value = "") const;

  const ByteSource& bytes_;
  std::string name_;
  int64_t at_ = 0;  // of the next header
  int64_t members_ = 0;
  Extended global_;
  std::string window_;
  int64_t window_begin_ = 0;
};

}  // namespace muster::formats
