// The words of messages, as they are compared with those of known ones. Private to the room.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace muster::diagnose {

/// Adds the words of a line, and the pairs of neighbours ("out_memory"): in small letters, of files only their names, without
/// numbers but for a few that say how a process ended, without the plural's s and the commonest words. The rules are
/// those of scripts/learn_words.py, which learns with them.
void add_message_words(std::string_view line, std::set<std::string>& words);

}  // namespace muster::diagnose
