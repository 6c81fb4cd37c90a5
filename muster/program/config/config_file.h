// `--config FILE`: a command's flags from a TOML file, and back.
//
//   epochs = 3                       # --epochs 3; batch_size and batch-size name --batch-size
//   explain = true                   # --explain; false leaves the flag away (see said_off())
//   data-dir = "../mnist"            # a path: relative to the folder of the file
//   [model]                          # --model mlp:hidden=64
//   name = "mlp"
//   hidden = 64
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

namespace CLI {
class App;
}

namespace muster::program {

/// A flag that a config file may give.
struct ConfigKey {
  std::string name;        ///< "batch-size": the flag without its hyphens
  bool is_switch = false;  ///< takes no value: true or false in the file
  bool is_spec = false;    ///< name:key=value,… : may be a table with `name` and the parameters
  bool is_path = false;    ///< relative to the file's folder
  char separator = ',';    ///< joins an array; '\0': the flag is given once per item
  char item_separator = '+';  ///< joins an array within a spec: milestones=30+60
};

/// Which flags of a command are more than plain values.
struct ConfigKinds {
  std::span<const std::string_view> specs;
  std::span<const std::string_view> paths;
};

/// Where a config file says something of a flag.
struct ConfigPlace {
  std::string flag;   ///< "optimizer"
  std::string param;  ///< "momentum", of a table; empty: the flag itself
  std::string place;  ///< "run.toml:5:1"
};

/// How the errors of a library name what a flag says: {"data", "dataset"}.
struct ConfigOwner {
  std::string_view flag;
  std::string_view kind;
};

/// `error` with the place in front, if it is about something that a config file said: a flag by its
/// name, or "KIND …", "unknown KIND …" of an owner, the latter with the parameter's own place.
Error placed(const Error& error,
             std::span<const ConfigPlace> places,
             std::span<const ConfigOwner> owners);

/// The keys of a command: all its long flags but --help and --config. An option that may be given
/// several times takes an array, item by item.
std::vector<ConfigKey> config_keys(const CLI::App& app, const ConfigKinds& kinds);

/// The file as words of a command line, in the order of the file: "--epochs=3", "--explain",
/// "--model=mlp:hidden=64". Throws a usage error that says FILE:LINE:COLUMN for a syntax error, an
/// unknown key (with the nearest one), a key given twice (as a_b and a-b), or a value that the flag
/// cannot have. Whether the value is a good one is the flag's to say.
std::vector<std::string> config_arguments(const std::filesystem::path& file,
                                          std::span<const ConfigKey> keys,
                                          std::vector<ConfigPlace>* places = nullptr);

/// The same for the text of a file. Pure; any thread.
std::vector<std::string> parse_config(std::string_view text,
                                      const std::filesystem::path& file,
                                      std::span<const ConfigKey> keys,
                                      std::vector<ConfigPlace>* places = nullptr);

/// `args` with `--config FILE` replaced by what the file says, before all else. A flag of the
/// command line wins: what the file says of it is left out. Throws as config_arguments does, and
/// for --config without a file or twice. Words after "--" are left alone. `places` gets those of the
/// flags that the file decides.
std::vector<std::string> with_config(std::span<const std::string> args,
                                     std::span<const ConfigKey> keys,
                                     std::vector<ConfigPlace>* places = nullptr);

/// A config whose arguments are `args` again (in its own order: values first, then specs); paths
/// become absolute. Throws a usage error for a word that is no flag among `keys` or a value that
/// TOML cannot hold (not UTF-8).
std::string config_toml(std::span<const std::string> args, std::span<const ConfigKey> keys);

/// Writes it atomically.
void write_config_toml(const std::filesystem::path& file,
                       std::span<const std::string> args,
                       std::span<const ConfigKey> keys);

}  // namespace muster::program
