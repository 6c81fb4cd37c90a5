// SQLite's C API with owners and errors of ours. Only for the sources of this room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster::tune {

/// Of errors where a storage cannot be written.
inline constexpr const char* kWriteHint =
    "a study's file and its folder need to be there and writable; --storage FILE names another";

/// A compiled statement. Texts that are bound must stay until the next reset() or run(). Columns
/// and parameters are counted as SQLite does: parameters from 1, columns from 0. One thread, and
/// not longer than its Database. Everything throws as Database does.
class Statement {
 public:
  Statement() = default;

  Statement& bind(int index, int64_t value);
  Statement& bind(int index, double value);  ///< NaN is stored as NULL
  Statement& bind(int index, std::string_view text);
  Statement& bind_null(int index);

  /// True: a row is there. False: none is left, and the statement is reset.
  bool step();
  /// For statements without rows: step and reset.
  void run();
  void reset();

  bool is_null(int column) const;
  int64_t integer(int column) const;
  double number(int column) const;
  std::string_view text(int column) const;  ///< until the next step

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(class Database& database, sqlite3_stmt* statement);

  Database* database_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// A connection to one file. Not copied, not moved: statements point to it. Members throw
/// - usage errors for a file that is not there, is no SQLite database, or is damaged;
/// - environment errors for one that cannot be read or written, is full, or is locked by another
///   program beyond `patience_s` (StorageLocked); nothing of the transaction under way is stored
///   then.
class Database {
 public:
  /// kWrite makes a file that is not there. kRead needs no right to write, neither to the file nor
  /// to its folder: see Note [Reading without writing].
  enum class Access { kRead, kWrite };

  Database(const std::filesystem::path& file, Access access, double patience_s = 10);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Statement prepare(std::string_view sql);
  /// Several statements without parameters; rows are passed over.
  void run(const char* sql);
  int64_t last_rowid() const;
  bool in_transaction() const;
  Statement& begin() { return begin_; }
  Statement& commit() { return commit_; }
  const std::filesystem::path& file() const { return file_; }
  double patience_s() const { return patience_s_; }

  /// Throws the error behind SQLite's result `code`.
  [[noreturn]] void fail(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  /// A folder that goes with its owner.
  struct Remove {
    void operator()(std::filesystem::path* folder) const;
  };

  int open(const std::string& name, int flags);
  void open_to_read();
  bool can_be_read();
  void open_copy();

  std::filesystem::path file_;
  Access access_;
  double patience_s_;
  std::unique_ptr<std::filesystem::path, Remove> copy_;  // of what could not be read in its place
  std::unique_ptr<sqlite3, Close> database_;
  Statement begin_, commit_;  // of transactions; after the connection, so that they go first
};

/// From its construction to commit(); without it everything is rolled back. Takes the write lock at
/// once, so that only the start waits for others.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit();

 private:
  Database* database_;
};

}  // namespace muster::tune
