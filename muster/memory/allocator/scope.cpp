#include "muster/memory/allocator/scope.h"

#include <atomic>
#include <map>
#include <mutex>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/memory/allocator/names.h"
#include "muster/memory/allocator/scope_log.h"
#include "muster/memory/allocator/scope_meter.h"
#include "muster/memory/allocator/thread_state.h"

namespace muster::memory {
namespace {

uint32_t path_id(uint32_t outer, std::string_view name) {
  if (name.empty()) {
    throw usage_error({.refused = "a memory scope without a name",
                       .rule = "a scope is named after a part of the program",
                       .hint = "memory::Scope scope(\"decoder\")"});
  }
  if (outer == 0) return name_id(name);
  std::string path = name_of(outer);
  path += '/';
  path += name;
  return name_id(path);
}

struct Limits {
  std::mutex mutex;
  std::map<std::string, int64_t> bytes;  // by path
};

Limits& limits() {
  static auto* const all = new Limits;
  return *all;
}

/// Another part of the program begins: what was the layer before is none of it.
void enter(uint32_t path) {
  if (scope_meter_runs.load(std::memory_order_relaxed)) meter_scope(this_thread_state.scope);
  this_thread_state.scope = path;
  this_thread_state.layer = 0;
  note_scope_change(path);
}

}  // namespace

Scope::Scope(std::string_view name) : outer_(this_thread_state.scope) {
  enter(path_id(outer_, name));
}

Scope::Scope(std::string_view name, GrowsTo limit) : outer_(this_thread_state.scope) {
  if (limit.bytes <= 0) {
    throw usage_error({.refused = concat("memory scope \"", name, "\""),
                       .rule = "what it may grow to is a number of bytes above 0",
                       .value = concat(limit.bytes)});
  }
  const uint32_t path = path_id(outer_, name);
  {
    const std::lock_guard lock(limits().mutex);
    limits().bytes[name_of(path)] = limit.bytes;
  }
  enter(path);
}

Scope::~Scope() { enter(outer_); }

std::string Scope::current() { return name_of(this_thread_state.scope); }

int64_t allowed_growth(uint32_t scope) {
  std::string path = name_of(scope);
  const std::lock_guard lock(limits().mutex);
  if (limits().bytes.empty()) return 0;
  while (true) {
    if (const auto found = limits().bytes.find(path); found != limits().bytes.end())
      return found->second;
    const size_t end = path.rfind('/');
    if (end == std::string::npos) return 0;
    path.resize(end);
  }
}

}  // namespace muster::memory
