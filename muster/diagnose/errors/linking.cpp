// Linking and loading: rows 43 to 45 and 47.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kNotLinked[] = {{"not linked with support for cuda devices"},
                                  {"Torch not compiled with CUDA enabled"},
                                  {"Cannot initialize CUDA without ATen_cuda library"},
                                  {"Torch is not linked against CUDA"},
                                  {"DeviceGuardImpl for cuda is not available"},
                                  {"was compiled without CUDA"},
                                  {"Not compiled with GPU support"},
                                  {"Not compiled with CUDA support"},
                                  {"without ATen_cuda library"},
                                  {"package doesn't have NCCL built in"},
                                  {"package doesn't have*built in"},
                                  {"NCCL is not available"},
                                  {"not built with CUDA"},
                                  {"CUDA support not enabled"}};
constexpr Cause kNotLinkedCauses[] = {
    {.why = "This LibTorch has no NCCL: it is a build for the CPU, for Windows or for macOS.",
     .step = "Take gloo (or Muster's shm) there, or a build with CUDA on Linux.",
     .when = "built in"},
    {.why = "This is a LibTorch for the CPU only.",
     .step = "Take the build for your CUDA version.",
     .when = "not compiled with CUDA enabled"},
    {.why =
         "libtorch_cuda is not in the process: the linker dropped it because nothing refers to it, "
         "or this is a LibTorch for the CPU only.",
     .step = "Link with -Wl,--no-as-needed -ltorch_cuda (LibTorch's and Muster's CMake targets do "
             "it). On Windows add /INCLUDE for it, or load torch_cuda.dll."}};

constexpr Pattern kReference[] = {{"undefined reference to*c10::"},
                                  {"undefined reference to*at::"},
                                  {"undefined reference to*torch::"},
                                  {"undefined reference to*std::__cxx11"},
                                  {"undefined reference to*c10d::"},
                                  {"unresolved external symbol*c10::"},
                                  {"unresolved external symbol*torch::"},
                                  {"undefined reference to*@GLIBCXX"},
                                  {"undefined reference to*nccl"},
                                  {"undefined reference to*GOMP_"},
                                  {"undefined reference to*caffe2::"},
                                  {"needed by*libtorch*not found"},
                                  {"needed by*libc10*not found"},
                                  {"cannot find -ltorch"},
                                  {"cannot find -lc10"},
                                  {"undefined reference to*cud"},
                                  {"undefined reference to*cublas"},
                                  {"undefined reference to*cuda"},
                                  {"undefined reference to*cv::"},
                                  {"cannot find -lcu"},
                                  {"cannot find -lnv"},
                                  {"cannot find -lcaffe2"},
                                  {"cannot find -lmkl"},
                                  {"cannot find -l"},
                                  {"DSO missing from command line"},
                                  {"undefined reference to"},
                                  {"unresolved external symbol"},
                                  {"unresolved externals"},
                                  {"Undefined symbols for architecture"},
                                  {"cannot open file 'torch"},
                                  {"cannot open file 'c10"},
                                  {"symbol(s) not found for architecture"},
                                  {"ptxas fatal*Unresolved extern"},
                                  {"recompile with -fPIC"},
                                  {"file not recognized"},
                                  {"skipping incompatible"},
                                  {"is incompatible with i386:x86-64"},
                                  {"error LNK"},
                                  {"fatal error LNK"},
                                  {"relocation truncated to fit"}};
constexpr Cause kReferenceCauses[] = {
    {.why = "Libraries that were linked want a newer libstdc++ than the linker found.",
     .step =
         "Link with the compiler that LibTorch needs (GCC 9 or later), and let no older libstdc++ "
         "come first (conda's, -L flags).",
     .when = "@GLIBCXX"},
    {.why = "A library of LibTorch is missing on the linker's line, or it was built with the "
            "other ABI of std::string (names with __cxx11 on one side only).",
     .step =
         "Link all of TORCH_LIBRARIES (torch, torch_cpu, c10) behind your objects. Builds up to "
         "2.6 came with both ABIs: take the cxx11 one, or compile with "
         "-D_GLIBCXX_USE_CXX11_ABI=0."}};

constexpr Pattern kSymbol[] = {{"undefined symbol: _ZN"},
                               {"undefined symbol:*c10"},
                               {"symbol lookup error"},
                               {"GLIBCXX_*not found"},
                               {"CXXABI_*not found"},
                               {"`GLIBC_*not found"},
                               {"undefined symbol:*torch"},
                               {"undefined symbol: nccl"},
                               {"undefined symbol: cu"},
                               {"error while loading shared libraries:"},
                               {"cannot load library*lib"},
                               {"ImportError: lib*cannot open shared object file"},
                               {"libtorch*cannot open shared object file"},
                               {"libcud*cannot open shared object file"},
                               {"libcu*so*cannot open shared object file"},
                               {"undefined symbol:"},
                               {"DLL load failed"},
                               {"[WinError 126]"},
                               {"[WinError 127]"},
                               {"[WinError 193]"},
                               {"Library not loaded:"},
                               {"Symbol not found:"},
                               {"cannot allocate memory in static TLS block"},
                               {"cannot enable executable stack"},
                               {"wrong ELF class"},
                               {"invalid ELF header"},
                               {"Intel MKL FATAL ERROR: Cannot load"},
                               {"INTEL MKL ERROR:*mkl"},
                               {"cannot open shared object file: No such file"},
                               {"version `GLIBC"},
                               {"could not be located in the dynamic link library"},
                               {"file too short"},
                               {"procedure entry point"},
                               {"Error loading shared library"},
                               {"Error relocating"},
                               {"failed to map segment from shared object"},
                               {"cannot restore segment prot"},
                               {"image not found"},
                               {"ELF load command"},
                               {"PTX JIT compiler library"},
                               {"cudaErrorJitCompilerNotFound"},
                               {"Incompatible library version"},
                               {"cannot dynamically load executable"},
                               {"cannot dynamically load position-independent"},
                               {"0xC0000135"},
                               {"-1073741515"},
                               {"0xC000007B"},
                               {"0xC0000139"},
                               {"DllNotFoundException"},
                               {"BadImageFormatException"},
                               {"UnsatisfiedLinkError"},
                               {"Could not load file or assembly"},
                               {"doesn't contain*reference to*libtorch"},
                               {"Unable to load shared library"},
                               {"Failed to load native component"},
                               {"failed to load shared library"},
                               {"Failed to load library"},
                               {"cannot load shared object"},
                               {"failed to load dynlib"},
                               {"unable to load DLL"},
                               {"0x8007007E"},
                               {"0x8007007F"}};
constexpr Cause kSymbolCauses[] = {
    {.why = "The driver's library is not here: no driver, or a container that was started without "
            "its devices.",
     .step = "`nvidia-smi` in the same place; in a container --gpus all.",
     .when = "libcuda.so.1*cannot open shared object file"},
    {.why = "No room is left for the thread-local data of a library that is loaded late.",
     .step = "Load it first: LD_PRELOAD=/path/to/libgomp.so.1 (or whichever the message names), or "
             "import torch before others.",
     .when = "static TLS block"},
    {.why = "The libstdc++ that is loaded is older than the one that a library was built with.",
     .step = "Let a newer one come first: that of the compiler or of conda (`conda install -c "
             "conda-forge libstdcxx-ng`), by rpath or LD_LIBRARY_PATH.",
     .when = "GLIBCXX_*not found"},
    {.why = "The system's C library is older than the one that a library was built for.",
     .step =
         "Use a build for this system (the manylinux wheel), or a container with a newer system.",
     .when = "`GLIBC_*not found"},
    {.why = "A library that the program needs is not where the loader looks.",
     .step = "`muster doctor --program FILE` shows which. Set the rpath when you link, or "
             "LD_LIBRARY_PATH.",
     .when = "cannot open shared object file"},
    {.why =
         "A library was built with another LibTorch than the one that is loaded, which lacks the "
         "symbol: another version, or the other ABI of std::string (RKSs at a name's end).",
     .step =
         "Build the extension anew against the LibTorch that is loaded; see that only one is on "
         "LD_LIBRARY_PATH and rpath."}};

constexpr Pattern kOperator[] = {{"Could not run '*with arguments from the '*backend"},
                                 {"No such operator"},
                                 {"Unknown builtin op"},
                                 {"operator torchvision::nms does not exist"},
                                 {"Didn't find engine for operation quantized"},
                                 {"not currently implemented for the MPS device"},
                                 {"Unknown type name '__torch__"},
                                 {"Couldn't find an operator for"},
                                 {"does not exist for this backend"},
                                 {"Could not find schema for"},
                                 {"Tried to instantiate class"},
                                 {"no kernel registered for"},
                                 {"Could not run '*with arguments from"},
                                 {"is not yet supported on this device"},
                                 {"operator torchvision::"},
                                 {"the derivative for*is not implemented"},
                                 {"is not supported for the MPS"}};
constexpr Cause kOperatorCauses[] = {
    {.why = "torchvision is the build for the CPU, or of another version than torch.",
     .step = "Install the pair that belongs together, from the same index (cuNNN).",
     .when = "'torchvision::"},
    {.why = "No kernel of this operator is registered for these tensors: its library is not loaded "
            "(the linker dropped it), or the operator does not exist for this device or layout.",
     .step = "Load or link the operator's library as a whole (-Wl,--no-as-needed, or WHOLE_ARCHIVE "
             "for a static one); else move the tensors to a device that the message lists."}};

constexpr ErrorRow kLinkingRows[] = {
    {.number = 43,
     .name = "cuda-not-linked",
     .title = "the program is not linked with CUDA",
     .depth = Depth::kCause,
     .patterns = kNotLinked,
     .causes = kNotLinkedCauses,
     .checks = "libtorch, driver",
     .confirm = "whether libtorch_cuda is mapped; loading it by dlopen mends it",
     .source = "https://github.com/pytorch/pytorch/issues/42018",
     .counts_as_warning = true},
    {.number = 44,
     .name = "undefined-reference",
     .title = "the program does not link",
     .depth = Depth::kCause,
     .patterns = kReference,
     .causes = kReferenceCauses,
     .checks = "libtorch",
     .confirm = "the demangled names on both sides (nm -DC)",
     .source = "https://github.com/pytorch/pytorch/issues/13541"},
    {.number = 45,
     .name = "undefined-symbol",
     .title = "the program does not start: libraries do not fit",
     .depth = Depth::kCause,
     .patterns = kSymbol,
     .causes = kSymbolCauses,
     .checks = "libtorch",
     .confirm = "TORCH_VERSION against the version that is loaded; ldd",
     .source = "https://github.com/pytorch/pytorch/issues/87279"},
    {.number = 47,
     .name = "operator-missing",
     .title = "an operator has no kernel for these tensors",
     .depth = Depth::kCause,
     .patterns = kOperator,
     .causes = kOperatorCauses,
     .checks = "libtorch",
     .confirm = "what the dispatcher has registered for the operator",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry linking_entry{
    "linking", "linking and loading", kLinkingRows};

}  // namespace muster::diagnose
