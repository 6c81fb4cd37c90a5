// Names for the parts of a program, so that bytes can be told by who made them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::memory {

/// What a scope may keep from iteration to iteration without being a leak: a replay buffer, a cache.
struct GrowsTo {
  int64_t bytes = 0;
};

/// While it lives, CPU blocks that this thread allocates are the scope's: `memory::Scope
/// scope("decoder");`. Scopes nest, "train/decoder", and end in the reverse order of their
/// beginning. What a backward allocates is the scope's in which its forward ran, where operators
/// are recorded (Level::kTags). About 0.2 us; for parts of a program, not for single operators. A
/// name is kept for the life of the process: no step numbers in it.
class Scope {
 public:
  explicit Scope(std::string_view name);
  Scope(std::string_view name, GrowsTo limit);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The path of this thread's open scopes; "" outside.
  static std::string current();

 private:
  uint32_t outer_;
};

/// What `scope`, or a scope that it is in, said that it may grow to; 0 where none did.
int64_t allowed_growth(uint32_t scope);

}  // namespace muster::memory
