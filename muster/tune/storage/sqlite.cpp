#include "muster/tune/storage/sqlite.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "muster/base/text.h"
#include "muster/tune/storage/storage.h"

namespace muster::tune {
namespace {

std::string locked_for(double waited_s) {
  return concat("it is locked by another program, for more than ", shortest(waited_s), " s by now");
}

StorageLocked locked(const std::filesystem::path& file, double patience_s) {
  return {ErrorKind::kEnvironment,
          {.refused = concat("cannot write ", file.string()),
           .rule = locked_for(patience_s),
           .hint = concat("`fuser ", file.string(), "` names it; nothing is lost")}};
}

Error not_written(const std::filesystem::path& file,
                  const char* said,
                  int os_error,
                  const char* hint = "") {
  const bool full = os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG;
  return environment_error(
      {.refused = concat("cannot write ", file.string()),
       .rule = os_error != 0 ? errno_text(os_error) : said,
       .hint = full ? "free some space; what was stored before is intact" : hint});
}

Error not_a_study(const std::filesystem::path& file, const char* said) {
  return usage_error({.refused = concat(file.string(), " cannot be read as a study"),
                      .rule = said,
                      .hint = file.extension() == ".toml"
                                  ? "this looks like the study's file: name its storage, STUDY.db"
                                  : "name a file that `muster tune` or Optuna wrote"});
}

/// Why the system refused: SQLite keeps it per file, and not always for the connection.
int os_error_of(sqlite3* database) {
  if (database == nullptr) return 0;
  if (const int error = sqlite3_system_errno(database); error != 0) return error;
  sqlite3_file* log = nullptr;
  int error = 0;
  sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != nullptr && log->pMethods != nullptr)
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  if (error == 0) sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error;
}

}  // namespace

StorageLocked StorageLocked::after(double waited_s) const {
  ErrorText said = text();
  said.rule = locked_for(waited_s);
  return {kind(), std::move(said)};
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Statement::Statement(Database& database, sqlite3_stmt* statement)
    : database_(&database), statement_(statement) {}

Statement& Statement::bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::bind(int index, double value) {
  sqlite3_bind_double(statement_.get(), index, value);
  return *this;
}

Statement& Statement::bind(int index, std::string_view text) {
  // An empty view may have no address, which SQLite takes for NULL.
  const char* begin = text.data() != nullptr ? text.data() : "";
  sqlite3_bind_text64(statement_.get(), index, begin, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_null(int index) {
  sqlite3_bind_null(statement_.get(), index);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    try {
      database_->fail(code);
    } catch (...) {
      sqlite3_reset(statement_.get());
      throw;
    }
  }
  sqlite3_reset(statement_.get());
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::number(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Database::Database(const std::filesystem::path& file, Access access, double patience_s)
    : file_(file), access_(access), patience_s_(patience_s) {
  if (access == Access::kRead) {
    open_to_read();
  } else {
    const int code = open(file.string(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (code != SQLITE_OK) fail(code);
  }
  // A file may come from anyone: what its schema says runs nothing but SQLite's harmless functions.
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  run("PRAGMA cell_size_check = ON");
  begin_ = prepare("BEGIN IMMEDIATE");
  commit_ = prepare("COMMIT");
}

Database::~Database() = default;

int Database::open(const std::string& name, int flags) {
  sqlite3* opened = nullptr;
  // No lock for threads inside: a connection belongs to one.
  const int code = sqlite3_open_v2(name.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  database_.reset(opened);
  if (code != SQLITE_OK) return code;
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_timeout(opened, static_cast<int>(std::lround(patience_s_ * 1000)));
  return SQLITE_OK;
}

// Note [Reading without writing]
// A reader of a database with a write-ahead log wants to make files beside it, which a medium that
// cannot be written and the folder of another user refuse. Then nobody writes just now, or the
// files would be there and do. Without a log the database is all there is: SQLite reads it as one
// that does not change ("immutable"). With a log, of a tuner that was killed, what it holds would
// be missing: database and log are copied and read there.
// Who may write opens the file as who writes does, and is kept from it by query_only: a connection that
// is open to read alone makes the files as well, but the last one to close removes them only if it may
// write the database, into which it brings what the log has.
// Who may not write the database makes no files beside it either, though the folder may let them: they
// would be theirs, and the owner's next tuner could not write them. Where the files are there, somebody
// has the database open, and they are read as they are.

void Database::open_to_read() {
  std::error_code ignored;
  const bool may_open = ::faccessat(AT_FDCWD, file_.c_str(), W_OK, AT_EACCESS) == 0 ||
                        std::filesystem::exists(file_.string() + "-shm", ignored);
  if (may_open) {
    const int code = open(file_.string(), SQLITE_OPEN_READWRITE);  // or read alone, if it must be
    if (code == SQLITE_OK && can_be_read()) return run("PRAGMA query_only = ON");
  }
  const auto log_bytes = std::filesystem::file_size(file_.string() + "-wal", ignored);
  if (!ignored && log_bytes > 0) return open_copy();
  std::string name = "file:";
  for (const char c : std::filesystem::absolute(file_).string()) {
    static constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#') {
      name += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      name += c;
    }
  }
  const int again = open(name + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  if (again != SQLITE_OK) fail(again);
}

/// False if reading fails for want of a right to write; other faults show when it is used.
bool Database::can_be_read() {
  const int code = sqlite3_exec(
      database_.get(), "SELECT 1 FROM sqlite_master LIMIT 1", nullptr, nullptr, nullptr);
  const int kind = code & 0xFF;
  return kind != SQLITE_CANTOPEN && kind != SQLITE_READONLY && kind != SQLITE_PERM;
}

void Database::open_copy() {
  std::string folder = (std::filesystem::temp_directory_path() / "muster-study-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw not_written(folder, "no folder", errno);
  copy_.reset(new std::filesystem::path(folder));
  const auto copy = *copy_ / "study.db";
  std::error_code error_code;
  std::filesystem::copy_file(file_, copy, error_code);
  if (!error_code)
    std::filesystem::copy_file(file_.string() + "-wal", copy.string() + "-wal", error_code);
  if (error_code) {
    throw environment_error({.refused = concat("cannot copy ", file_.string(), " to read it"),
                             .rule = errno_text(error_code.value())});
  }
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all, error_code);
  std::filesystem::permissions(
      copy.string() + "-wal", std::filesystem::perms::owner_all, error_code);
  const int code = open(copy.string(), SQLITE_OPEN_READWRITE);
  if (code != SQLITE_OK) fail(code);
}

void Database::Remove::operator()(std::filesystem::path* folder) const {
  std::error_code ignored;
  std::filesystem::remove_all(*folder, ignored);
  delete folder;
}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(),
                                      sql.data(),
                                      static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT,
                                      &statement,
                                      nullptr);
  if (code != SQLITE_OK) fail(code);
  return {*this, statement};
}

void Database::run(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

int64_t Database::last_rowid() const { return sqlite3_last_insert_rowid(database_.get()); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }

void Database::fail(int code) const {
  const char* said = database_ ? sqlite3_errmsg(database_.get()) : sqlite3_errstr(code);
  const int os_error = os_error_of(database_.get());
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw locked(file_, patience_s_);
    case SQLITE_FULL:
      throw not_written(file_, said, os_error == 0 ? ENOSPC : os_error);
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
      throw not_written(file_, said, os_error);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      throw not_written(file_, said, os_error, kWriteHint);
    case SQLITE_CANTOPEN:
      throw environment_error({.refused = concat("cannot open ", file_.string()),
                               .rule = os_error != 0 ? errno_text(os_error) : said,
                               .hint = access_ == Access::kWrite ? kWriteHint : ""});
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:  // no such column: the schema was altered
    case SQLITE_MISMATCH:
    case SQLITE_FORMAT:
    case SQLITE_TOOBIG:
    case SQLITE_AUTH:
      throw not_a_study(file_, said);
    case SQLITE_CONSTRAINT:
      throw environment_error({.refused = concat("cannot write ", file_.string()),
                               .rule = concat("another program wrote to the study: ", said)});
    default:
      throw internal_error({.refused = concat("SQLite fails on ", file_.string()), .rule = said});
  }
}

Transaction::Transaction(Database& database) : database_(&database) { database.begin().run(); }

Transaction::~Transaction() {
  if (database_ == nullptr || !database_->in_transaction()) return;
  try {
    database_->run("ROLLBACK");
  } catch (const Error&) {
    // SQLite has rolled back already, or does so when the file is opened again.
  }
}

void Transaction::commit() {
  database_->commit().run();
  database_ = nullptr;
}

}  // namespace muster::tune
