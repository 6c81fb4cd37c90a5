// Completions for shells, written from what the commands say of themselves. Pure.
#pragma once

#include <span>
#include <string>

#include "muster/program/line/command_text.h"

namespace muster::cli {

/// A script to be sourced by bash, or put into share/bash-completion/completions/muster.
std::string bash_completion(std::span<const program::CommandText> commands);

/// A file _muster for a folder of zsh's $fpath.
std::string zsh_completion(std::span<const program::CommandText> commands);

/// For fish's completions/muster.fish.
std::string fish_completion(std::span<const program::CommandText> commands);

}  // namespace muster::cli
