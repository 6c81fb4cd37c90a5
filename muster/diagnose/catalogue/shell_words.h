// The words in which shells say how a process ended.
#pragma once

#include <string_view>

namespace muster::diagnose {

/// The word alone, or behind a time or what docker compose puts in front: "trainer-1  | Killed".
bool is_the_word(std::string_view line, std::string_view word);

/// "Killed", or zsh's "4711 killed     python train.py" (its "[1]" reads as a rank).
bool is_only_killed(std::string_view line);
bool is_only_terminated(std::string_view line);

/// A shell's word for a job of several lines: "bash: line 1:  6508 Killed".
bool is_killed_at_the_end(std::string_view line);

/// What shells say of SIGKILL where they speak another language: the word alone, or behind a job.
bool is_killed_abroad(std::string_view line);

}  // namespace muster::diagnose
