// Builds that fail: rows 71, 77 and 84.
#include <algorithm>
#include <array>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/catalogue/fragment_finder.h"

namespace muster::diagnose {
namespace {

/// Python does not find what was to be compiled when its package was installed.
bool misses_compiled_part(std::string_view line) {
  return line.find("cannot import name") != line.npos ||
         (line.find("No module named") != line.npos &&
          line.find("No module named 'torch'") == line.npos);
}

bool is_about_toolkit(std::string_view line) {
  const std::string small = small_letters(line);
  constexpr std::array<std::string_view, 4> kParts{"cuda", "nvcc", "cudnn", "nvtoolsext"};
  return std::ranges::any_of(kParts,
                             [&](std::string_view part) { return small.find(part) != small.npos; });
}

/// "a.cpp:3:7: error: ", "a.cu(3): error: ", "a.cpp(3,7): error C2065: ": the place is in a file of C or C++.
bool is_of_a_compiler(std::string_view line) {
  const size_t error = std::min(line.find(": error"), line.find(": fatal error"));
  if (error == line.npos) return false;
  const std::string_view place = line.substr(0, error);
  const size_t begin = place.find_last_not_of("0123456789:,()");
  if (begin == place.npos || begin + 2 >= place.size() || !is_digit(place[begin + 2])) return false;
  const std::string_view file = place.substr(0, begin + 1);
  constexpr std::array<std::string_view, 13> kSuffixes{
      ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".m", ".mm"};
  return std::ranges::any_of(kSuffixes,
                             [&](std::string_view suffix) { return file.ends_with(suffix); });
}

/// A compiler's line that names what is LibTorch's, or is in one of its headers.
bool is_about_libtorch(std::string_view line) {
  if (!is_of_a_compiler(line)) return false;
  for (const std::string_view name : {"torch::", "at::", "c10::", "/torch/", "/ATen/", "/c10/"}) {
    const size_t at = line.find(name);
    if (at == line.npos) continue;
    const char before = at == 0 ? ' ' : line[at - 1];
    const bool is_of_a_longer_name = is_digit(before) || before == '_' || before == ':' ||
                                     (before >= 'a' && before <= 'z') ||
                                     (before >= 'A' && before <= 'Z');
    if (name[0] == '/' || !is_of_a_longer_name) return true;
  }
  return false;
}

/// "Makefile:3: *** missing separator.  Stop.": what GNU make says of a makefile that it does not go on with.
bool is_end_of_make(std::string_view line) {
  const size_t stars = line.find(": *** ");
  if (stars == line.npos || !line.substr(stars).ends_with(".  Stop.")) return false;
  const std::string_view place = line.substr(0, stars);
  return place.find("make") != place.npos || (!place.empty() && is_digit(place.back()));
}

/// A compiler's, and no "ValueError: expected a size".
bool misses_a_sign(std::string_view line) {
  const size_t at = line.find("error: expected");
  return at != line.npos && (at == 0 || line[at - 1] == ' ');
}

constexpr Pattern kBuild[] = {
    {"Could not find a package configuration file provided by \"Torch\""},
    {"By not providing \"FindTorch.cmake\""},
    {"Could NOT find CUDA"},
    {"CUDA cannot be found"},
    {"CUDA_HOME environment variable is not set"},
    {"CUDA_TOOLKIT_ROOT_DIR not found"},
    {"Specify CUDA_TOOLKIT_ROOT_DIR"},
    {"Failed to find nvToolsExt"},
    {"CUDA::nvToolsExt"},
    {"No CMAKE_CUDA_COMPILER could be found"},
    {"Failed to detect CUDA nvcc"},  // CMakeNVCCParseImplicitInfo.cmake
    {"CMAKE_CUDA_COMPILER-NOTFOUND"},
    {"Failed to detect a default CUDA architecture"},
    {"Failed to compute shorthash for libnvrtc"},
    {"FindCUDA says CUDA version is"},
    {"does not match installed version"},
    {"detected CUDA version*mismatches"},
    {"fatal error: torch/"},
    {"fatal error: ATen/"},
    {"fatal error: c10/"},
    {"fatal error: cuda_runtime"},
    {"fatal error: cuda.h"},
    {"fatal error: cudnn.h"},
    {"fatal error: cublas_v2.h"},
    {"fatal error: nccl.h"},
    {"Cannot open include file: 'torch"},
    {"is required to use ATen"},
    {"is required to use PyTorch"},
    {"C++17 or later compatible compiler"},
    {"C++14 or later compatible compiler"},
    {"requires at least C++"},
    {"You need C++17 to compile PyTorch"},
    {"You need C++14 to compile PyTorch"},
    {"unsupported GNU version"},
    {"unsupported clang version"},
    {"nvcc: not found"},
    {"nvcc: command not found"},
    {"Ninja is required to load C++ extensions"},
    {"Error compiling objects for extension", nullptr, Depth::kPerhaps},
    {"Error building extension", nullptr, Depth::kPerhaps},
    {"Building wheel for*did not run successfully"},  // pip/_internal/exceptions.py
    {"Your compiler (g++"},
    {"The current installed version of g++"},
    {"Cannot find CUDNN"},
    {"Could NOT find CUDNN"},
    {"cuDNN not found"},
    {"identifier \"_Float"},
    {"target_link_libraries*torch"},
    {"kineto_LIBRARY-NOTFOUND"},
    {"The imported target \"torch"},
    {"Could NOT find Torch"},
    {"Can not find target to add properties to: torch"},
    {"Imported target \"torch"},
    {"nvcc fatal"},
    {"No rule to make target*lib*needed by"},
    {"Could not find nvcc"},
    {"Unable to find nvcc"},
    {"'ninja', '-v'", nullptr, Depth::kPerhaps},
    {"error: command*nvcc*failed", nullptr, Depth::kPerhaps},
    {"CMake Error*Torch"},
    {"Your installed Caffe2 version uses"},
    {"provided by \"Caffe2\""},
    {"provided by \"CUDAToolkit\""},
    {"Could not find compiler set in environment variable"},
    {"CUDA compiler identification is unknown"},
    {"No CMAKE_CXX_COMPILER could be found"},
    {"Compatibility with CMake < 3.5 has been removed"},
    {"or higher is required.  You are running version"},
    {"_FOUND to FALSE"},
    {"but the target was not found"},
    {"No module named 'torch'", nullptr, Depth::kPerhaps},
    {"unrecognized command line option"},
    {"unrecognized command-line option"},
    {"C++ versions less than"},
    {"parameter packs not expanded with"},
    {"identifier \"__builtin_"},
    {"fatal error:*: No such file or directory", nullptr, Depth::kPerhaps},
    {"fatal error:*file not found", nullptr, Depth::kPerhaps},
    {"Cannot open include file", nullptr, Depth::kPerhaps},
    {"Failed building wheel for", nullptr, Depth::kPerhaps},
    {"metadata-generation-failed", nullptr, Depth::kPerhaps},
    {"Failed to build*wheel", nullptr, Depth::kPerhaps},
    {"Failed to find C compiler"},
    {"No C compiler could be found"},
    {"Unable to find a suitable compiler"},
    {"Microsoft Visual C++ 14.0*is required"},
    {"cl.exe*not found"},
    {"command 'cl.exe' failed"},
    {"could not find*package", nullptr, Depth::kGuess},
    {"cmake*not found", nullptr, Depth::kGuess},
    {"failed building", nullptr, Depth::kGuess},
    {"could not build", nullptr, Depth::kGuess},
    {"compil*failed", nullptr, Depth::kGuess},
    {"failed to compile", nullptr, Depth::kGuess},
    {"error compiling", nullptr, Depth::kGuess},
    {"error: no instance of"},
    {"error: no instance of constructor"},
    {"is not a member of 'std'"},
    {"#error", nullptr, Depth::kGuess},
    {"setup.py bdist_wheel did not run successfully"},
    {"setup.py install for*did not run successfully"},
    {"setup.py egg_info did not run successfully"},
    {"did not run successfully"},
    {"legacy-install-failure"},
    {"error: command*failed: No such file or directory"},
    {"error: command 'x86_64"},
    {"error: command '*gcc' failed"},
    {"error: command '*g++' failed"},
    {"error: command '*c++' failed"},
    {"error: command '*clang' failed"},
    {"were not found in CMAKE_MODULE_PATH"},
    {"CXX11 ABI mismatch"},
    {"ABI mismatch"},
    {"set to NOTFOUND"},
    {"unable to find a build program"},
    {"cannot import name '*_cuda'"},
    {"cannot import name '*_ext'"},
    {"cannot import name '_C'"},
    {"cannot import name 'csrc'"},
    {"cannot import name '_ext"},
    {"(unknown location)", nullptr, Depth::kPerhaps},
    {"No module named '*_cuda'"},
    {"No module named '*_ext'"},
    {"No module named '*_cpp'"},
    {"No module named '*._C'"},
    {"No module named '_C"},
    {"No module named '*.spconv_utils'"},
    {"No module named 'MultiScaleDeformableAttention'"},
    {"name '_C' is not defined"},
    {"name '_ext' is not defined"},
    {"'which', 'c++'"},
    {"'where', 'cl'"},
    {"cannot open source file"},
    {"requires the CUDA Toolkit"},
    {"nvcc*is not recognized"},
    {"cmake: command not found"},
    {"CMake must be installed"},
    {"is not able to compile a simple test program"},
    {"CMake Error", nullptr, Depth::kPerhaps},
    {"Configuring incomplete, errors occurred", nullptr, Depth::kPerhaps},
    {"No CUDA runtime is found, using CUDA_HOME", nullptr, Depth::kPerhaps},
    {"nvcc", nullptr, Depth::kGuess},
    {"cmake", nullptr, Depth::kGuess},
    {"build*failed", nullptr, Depth::kGuess},
    {"setup.py", nullptr, Depth::kGuess},
    {"没有规则可制作目标"},
    {"没有指明目标并且找不到 makefile"},
    {"沒有規則可製作目標"},
    {"Keine Regel, um"},
    {"Aucune règle pour fabriquer"},
    {"No hay ninguna regla para construir"},
    {"Нет правила для сборки цели"},
    {"Could not import _ext"},
    {"Could not import _C"},
    {"Could not import*_cuda"},
    {"Failed to import*_cuda"},
    {"Unable to import*_cuda"},
    {"Failed to build these modules", nullptr, Depth::kPerhaps},
    {"Could not build wheels", nullptr, Depth::kPerhaps},
    {"No targets specified and no makefile found", nullptr, Depth::kPerhaps}};
constexpr Cause kBuildCauses[] = {
    {.why = "The compiled part of a Python package is not there: its build failed, was left out, "
            "or was made for another Python.",
     .step = "Build the package again in this environment (`pip install -v --no-build-isolation "
             ".`, `python setup.py develop`), and look at the first error of that build; CUDA's "
             "part needs nvcc.",
     .holds = misses_compiled_part},
    {.why = "The code is compiled with an older C++ than LibTorch's headers need.",
     .step = "Set CMAKE_CXX_STANDARD (or cxx_std_17; 20 from LibTorch 2.12 on) for the target, "
             "nvcc's as well.",
     .when = "C++1"},
    {.why = "nvcc does not take this compiler: it is newer than the toolkit knows.",
     .step = "Take an older g++ for nvcc (CMAKE_CUDA_HOST_COMPILER, `nvcc -ccbin g++-12`), or a "
             "newer toolkit.",
     .when = "unsupported GNU version"},
    {.why = "The toolkit and the CUDA that LibTorch was built with are of different versions.",
     .step = "Install the toolkit of LibTorch's version beside the other, and name it by CUDA_HOME "
             "or CUDA_TOOLKIT_ROOT_DIR.",
     .when = "mismatches"},
    {.why = "The compiler does not find a header.",
     .step = "Link the target `torch` (TORCH_LIBRARIES and TORCH_INCLUDE_DIRS), whose headers lie "
             "in include and in include/torch/csrc/api/include; CUDA's need the toolkit.",
     .when = "fatal error:"},
    {.why = "CMake was not told where LibTorch is.",
     .step = "cmake -DCMAKE_PREFIX_PATH=/absolute/path/to/libtorch, or what `python -c 'import "
             "torch; print(torch.utils.cmake_prefix_path)'` prints.",
     .when = "Torch"},
    {.why = "The build does not find the CUDA toolkit, or one that suits LibTorch.",
     .step = "Install the toolkit of LibTorch's CUDA version, put nvcc on PATH, and set CUDA_HOME; "
             "start from an empty build folder. For a build without CUDA take the LibTorch for the "
             "CPU.",
     .holds = is_about_toolkit},
    {.why =
         "A part that the build needs is not there, or is not one that it can use; the line names "
         "it.",
     .step =
         "Look at the first error of the build: what comes behind follows from it. Start from an "
         "empty build folder after each change of compiler, toolkit or LibTorch."}};

constexpr Pattern kApi[] = {{"is not a member of 'torch"},
                            {"is not a member of 'at"},
                            {"is not a member of 'c10"},
                            {"no member named*in namespace 'torch"},
                            {"no member named*in namespace 'at"},
                            {"no member named*in namespace 'c10"},
                            {"'class at::Tensor' has no member"},
                            {"'struct torch::"},
                            {"'class torch::"},
                            {"'AT_CHECK' was not declared"},
                            {"use of undeclared identifier 'AT_CHECK'"},
                            {"identifier \"AT_CHECK\" is undefined"},
                            {"fatal error: THC/"},
                            {"fatal error: TH/"},
                            {"fatal error: THCUNN/"},
                            {"'THCState"},
                            {"'torch' has not been declared"},
                            {"use of undeclared identifier 'torch'"},
                            {"'torch' does not name a type"},
                            {"no matching function for call to 'torch::"},
                            {"no matching function for call to 'at::"},
                            {"DeprecatedTypeProperties*cannot be converted"},
                            {"at::DeprecatedTypeProperties"},
                            {"Must not create a new variable from a variable"},
                            {"no known conversion for argument"},
                            {"error: reference to *is ambiguous"},
                            {"no matching function", nullptr, Depth::kGuess},
                            {"no member named", nullptr, Depth::kGuess},
                            {"has no member", nullptr, Depth::kGuess},
                            {"is not a member", nullptr, Depth::kGuess},
                            {"no matching constructor", nullptr, Depth::kGuess},
                            {"was not declared", nullptr, Depth::kGuess},
                            {"cannot convert", nullptr, Depth::kGuess},
                            {"identifier \"THC"},
                            {"'THC*was not declared"},
                            {"'TH*was not declared in this scope"},
                            {"file: 'THC/"},
                            {"file: 'TH/"},
                            {"THC/THC.h"},
                            {": error: ", is_about_libtorch, Depth::kPerhaps},
                            {": error C", is_about_libtorch, Depth::kPerhaps},
                            {"too few arguments to function", nullptr, Depth::kPerhaps},
                            {"too many arguments to function", nullptr, Depth::kPerhaps}};
constexpr Cause kApiCauses[] = {
    {.why =
         "The code uses headers (TH, THC) that LibTorch has dropped: the last with them was 1.10.",
     .step = "Take a newer version of the code, or LibTorch 1.10. THCState_getCurrentStream is now "
             "at::cuda::getCurrentCUDAStream, THCudaMalloc is c10::cuda::CUDACachingAllocator.",
     .when = "fatal error: TH"},
    {.why = "The code was written for another version of LibTorch, or an include is missing "
            "(torch/script.h for torch::jit, torch/torch.h for the rest).",
     .step = "Look the name up in the headers that are included; AT_CHECK is now TORCH_CHECK, "
             "type() is now options() or scalar_type()."}};

constexpr Pattern kBuildFailed[] = {
    {": error", is_of_a_compiler, Depth::kPerhaps},
    {": fatal error", is_of_a_compiler, Depth::kPerhaps},
    {"recipe for target*failed", nullptr, Depth::kPerhaps},
    {"subcommand failed", nullptr, Depth::kPerhaps},
    {"No rule to make target", nullptr, Depth::kPerhaps},
    {"errors detected in the compilation of", nullptr, Depth::kPerhaps},
    {"error detected in the compilation of", nullptr, Depth::kPerhaps},
    {"compilation terminated", nullptr, Depth::kPerhaps},
    {"error C2", nullptr, Depth::kPerhaps},
    {"error: identifier \"", nullptr, Depth::kPerhaps},
    {"incomplete type", nullptr, Depth::kPerhaps},
    {"does not name a type", nullptr, Depth::kPerhaps},
    {"does not name a template type", nullptr, Depth::kPerhaps},
    {"expected unqualified-id", nullptr, Depth::kPerhaps},
    {"expected primary-expression", nullptr, Depth::kPerhaps},
    {"static assertion failed", nullptr, Depth::kPerhaps},
    {".  Stop.", is_end_of_make, Depth::kPerhaps},
    {"make*: *] Error ", nullptr, Depth::kPerhaps},
    {"make*: *] 错误", nullptr, Depth::kPerhaps},
    {"make*: *] Fehler", nullptr, Depth::kPerhaps},
    {"make*: *] Erreur", nullptr, Depth::kPerhaps},
    {"make*: *] Ошибка", nullptr, Depth::kPerhaps},
    {"make*: *] エラー", nullptr, Depth::kPerhaps},
    {"FAILED: *.o", nullptr, Depth::kPerhaps},
    {"FAILED: *.cu", nullptr, Depth::kPerhaps},
    {"error: expected", misses_a_sign, Depth::kPerhaps}};
constexpr Cause kBuildFailedCauses[] = {
    {.why = "The compiler does not take the code at the place that the line names.",
     .step =
         "Mend the first error of the first file: most that follow come from it. If the file is "
         "not yours, compare the version that it was written for with the one that is installed.",
     .holds = is_of_a_compiler},
    {.why = "A step of the build failed; why, its own lines say, above this one.",
     .step = "Build again with one job and with the commands shown (`make -j1 VERBOSE=1`, `cmake "
             "--build . -j1 --verbose`, `ninja -j1 -v`), and read the first line with `error`."}};

constexpr ErrorRow kBuildRows[] = {
    {.number = 71,
     .name = "build-not-configured",
     .title = "the build does not find LibTorch or CUDA, or its compiler does not suit",
     .depth = Depth::kCause,
     .patterns = kBuild,
     .causes = kBuildCauses,
     .checks = "libtorch",
     .confirm = "which toolkit, compiler and LibTorch CMake has found (CMakeCache.txt)",
     .source = ""},
    {.number = 77,
     .name = "api-differs",
     .title = "the code does not fit LibTorch's headers",
     .depth = Depth::kCause,
     .patterns = kApi,
     .causes = kApiCauses,
     .checks = "libtorch",
     .confirm = "the name in the headers of this version",
     .source = ""},
    {.number = 84,
     .name = "build-failed",
     .title = "the code does not compile, or a step of its build fails",
     .depth = Depth::kPerhaps,
     .patterns = kBuildFailed,
     .causes = kBuildFailedCauses,
     .checks = "",
     .confirm = "the same step by itself, with its whole output",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry building_entry{"building", "builds", kBuildRows};

}  // namespace muster::diagnose
