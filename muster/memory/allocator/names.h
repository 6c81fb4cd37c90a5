// Names of scopes, operators and layers as numbers that fit into the header of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::memory {

/// Names are kept for the life of the process; at most 2^20 of them: those behind that are all
/// kManyNames. 0 is the empty name. Any thread.
inline constexpr uint32_t kMostNames = uint32_t{1} << 20;
inline constexpr std::string_view kManyNames = "(one of too many names)";

uint32_t name_id(std::string_view name);
std::string name_of(uint32_t id);

/// name_id() of an operator, found in this thread's own table if it was asked for before: no lock.
uint32_t operator_id(const char* name);

/// Layers have numbers of their own, below kMostLayers, since bytes are counted by them. 0: none;
/// layers beyond the last number share it.
inline constexpr uint32_t kMostLayers = 4096;
uint32_t layer_id(std::string_view name);
std::string layer_of(uint32_t id);
/// How many there are, the 0 included.
uint32_t layer_count();

}  // namespace muster::memory
