// The loader's view of LibTorch.
#include <algorithm>
#include <set>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCpuLibrary = "libtorch_cpu.so", kCoreLibrary = "libc10.so";
// The constructor of c10::Error takes a std::string: its name tells which one.
constexpr std::string_view kErrorName = "_ZN3c105ErrorC";
constexpr std::string_view kNewString = "NSt7__cxx1112basic_string", kOldString = "ESs";

/// "2.15.0" of the LibTorch whose libraries are in `folder`: torch/version.py of a wheel, or the file
/// build-version of the zip; empty if neither is there.
std::string version_of(const fs::path& folder) {
  std::error_code none;
  try {
    if (const fs::path file = folder.parent_path() / "build-version"; fs::exists(file, none))
      return std::string(trim(read_file(file)));
    const fs::path file = folder.parent_path() / "version.py";
    if (!fs::exists(file, none)) return "";
    for (const std::string& line : split(read_file(file), '\n')) {
      const size_t quote = line.find('\'');
      const size_t end = line.find('\'', quote + 1);
      if (line.starts_with("__version__") && end != std::string::npos)
        return line.substr(quote + 1, end - quote - 1);
    }
  } catch (const Error&) {  // it went away meanwhile
  }
  return "";
}

/// "new" or "old" std::string, by the names in libc10; empty if they tell nothing.
std::string abi_of(const fs::path& folder) {
  std::string bytes;
  try {
    bytes = read_file(folder / kCoreLibrary);
  } catch (const Error&) {
    return "";
  }
  for (size_t at = bytes.find(kErrorName); at != std::string::npos;
       at = bytes.find(kErrorName, at + 1)) {
    const std::string_view name =
        std::string_view(bytes).substr(at, std::min<size_t>(120, bytes.size() - at));
    const std::string_view symbol = name.substr(0, name.find('\0'));
    if (symbol.find(kNewString) != std::string_view::npos) return "new";
    if (symbol.ends_with(kOldString)) return "old";
  }
  return "";
}

std::string describe_libtorch(const fs::path& folder) {
  const std::string version = version_of(folder), abi = abi_of(folder);
  return concat(folder.string(),
                version.empty() ? "" : " (" + version + ")",
                abi == "old" ? ", old ABI of std::string" : "");
}

/// The folders of LD_LIBRARY_PATH that have a LibTorch.
CheckResult library_path(const Surroundings& surroundings) {
  CheckResult result{.name = "libtorch.path",
                     .value = "LD_LIBRARY_PATH has no LibTorch",
                     .rule = "at most one LibTorch on LD_LIBRARY_PATH"};
  std::set<fs::path> seen;
  std::vector<std::string> found;
  for (const std::string& part :
       split(surroundings.variable("LD_LIBRARY_PATH").value_or(""), ':')) {
    if (part.empty()) continue;
    const fs::path folder = surroundings.path(part);
    std::error_code none;
    if (!fs::exists(folder / kCpuLibrary, none)) continue;
    if (seen.insert(fs::weakly_canonical(folder, none)).second)
      found.push_back(describe_libtorch(folder));
  }
  if (found.empty()) return result;
  result.value = join(found, "; ");
  if (found.size() > 1) {
    result.verdict = Verdict::kWarn;
    result.hint = "the first wins, and others' libraries may mix with it: take the rest off";
  }
  return result;
}

/// Lines of ldd: "name => path (0x…)", "name => not found".
struct Loaded {
  std::string name, path;
};

std::vector<Loaded> loaded_of(const std::string& text) {
  std::vector<Loaded> all;
  for (const std::string& line : split(text, '\n')) {
    const size_t arrow = line.find(" => ");
    if (arrow == std::string::npos) continue;
    const std::string_view rest = trim(std::string_view(line).substr(arrow + 4));
    const bool is_missing = rest.starts_with("not found");
    all.push_back({.name = std::string(trim(std::string_view(line).substr(0, arrow))),
                   .path = is_missing ? "" : std::string(rest.substr(0, rest.rfind(" (")))});
  }
  return all;
}

CheckResult program_libraries(const Surroundings& surroundings) {
  const std::string program = surroundings.program.string();
  CheckResult result{.name = "libtorch.program",
                     .rule = "all libraries are found, those of LibTorch in one folder"};
  const auto text = surroundings.libraries(surroundings.program);
  if (!text) {
    result.verdict = Verdict::kWarn;
    result.value = concat(program, " is no dynamic program of this machine");
    result.hint = "for a script, name the interpreter or the library that it loads";
    return result;
  }
  std::set<std::string> folders;
  std::vector<std::string> missing;
  for (const Loaded& library : loaded_of(*text)) {
    if (library.path.empty()) missing.push_back(library.name);
    const bool is_torch =
        library.name.starts_with("libtorch") || library.name.starts_with("libc10");
    if (is_torch && !library.path.empty())
      folders.insert(fs::path(library.path).parent_path().string());
  }
  if (!missing.empty()) {
    result.verdict = Verdict::kFail;
    result.value = concat(program, " lacks ", join(missing, ", "));
    result.hint = "link with an rpath to the folder that has it, or name it in LD_LIBRARY_PATH";
  } else if (folders.size() > 1) {
    result.verdict = Verdict::kFail;
    result.value = concat(
        program, " mixes ", join(std::vector<std::string>(folders.begin(), folders.end()), ", "));
    result.hint = "one LibTorch: mend rpath and LD_LIBRARY_PATH";
  } else if (folders.empty()) {
    result.value = concat(program, " is not linked with LibTorch");
  } else {
    result.value = concat(program, " loads ", describe_libtorch(*folders.begin()));
  }
  return result;
}

std::vector<CheckResult> run_libtorch(const Surroundings& surroundings) {
  std::vector<CheckResult> results{library_path(surroundings)};
  if (!surroundings.program.empty()) results.push_back(program_libraries(surroundings));
  return results;
}

}  // namespace

extern constinit const CheckEntry libtorch_entry{
    "libtorch", "which LibTorch the loader finds, and its ABI", &run_libtorch};

}  // namespace muster::diagnose
