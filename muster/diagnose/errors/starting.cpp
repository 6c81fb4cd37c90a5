// Builds and jobs that do not start: rows 70 to 72.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kJob[] = {{"There are not enough slots available"},
                            {"srun: error: Unable to create step"},
                            {"srun: error: Unable to allocate resources"},
                            {"Batch job submission failed"},
                            {"Requested node configuration is not available"},
                            {"Invalid generic resource (gres) specification"},
                            {"Invalid account or account/partition"},
                            {"Unable to confirm allocation for job"},
                            {"More processors requested than permitted"},
                            {"nodes are available: *Insufficient"},
                            {"Insufficient nvidia.com/gpu"},
                            {"FailedScheduling"},
                            {"execve(): *: No such file or directory"},
                            {"slurmstepd: error: execve()"},
                            {"mpirun was unable to launch"},
                            {"mpirun was unable to find"},
                            {"ORTE was unable to reliably start"},
                            {"mpiexec noticed"},
                            {"Permission denied (publickey"},
                            {"Host key verification failed"},
                            {"could not select*scheduler"},
                            {"PMI2_Init failed"},
                            {"PMIx_Init failed"},
                            {"OPAL ERROR: Unreachable"},
                            {"was not built with Slurm support"},
                            {"orte_init failed"},
                            {"ImagePullBackOff"},
                            {"ErrImagePull"},
                            {"manifest unknown"}};
constexpr Cause kJob[] = {
    {.why = "No machine has what the job asks for, now or ever.",
     .step = "Ask for less per node (devices, memory, cores), or another partition; `sinfo -o '%P "
             "%G %m %c'` or `kubectl describe nodes` shows what there is.",
     .when = "nsufficient"},
    {.why = "More processes were asked for than there are slots.",
     .step = "Give the hosts more slots (`--host a:4`), or --oversubscribe where that is meant.",
     .when = "not enough slots"},
    {.why = "This MPI does not know the scheduler's way of starting processes.",
     .step = "`srun --mpi=list` shows the ways; take one that this MPI was built with, or start by "
             "mpirun inside the allocation.",
     .when = "_Init failed"},
    {.why = "ssh does not let the launcher in.",
     .step = "`ssh HOST true` without a password from the machine that launches.",
     .when = "Permission denied (publickey"},
    {.why = "The scheduler or the launcher refused the job before the program began.",
     .step = "The line names what it refuses: a program that is not there on that machine, a "
             "partition, an account, a resource's name."}};

constexpr Pattern kBuild[] = {{"Could not find a package configuration file provided by \"Torch\""},
                              {"By not providing \"FindTorch.cmake\""},
                              {"Could NOT find CUDA"},
                                                            {"CUDA cannot be found"},
                              {"CUDA_HOME environment variable is not set"},
                              {"CUDA_TOOLKIT_ROOT_DIR not found"},
                              {"Specify CUDA_TOOLKIT_ROOT_DIR"},
                              {"Failed to find nvToolsExt"},
                              {"CUDA::nvToolsExt"},
                              {"No CMAKE_CUDA_COMPILER could be found"},
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
                              {"Error compiling objects for extension"},
                              {"Error building extension"},
                              {"Your compiler (g++"},
                              {"The current installed version of g++"},
                              {"Cannot find CUDNN"},
                              {"Could NOT find CUDNN"},
                              {"cuDNN not found"},
                              {"identifier \"_Float"},
                              {"target_link_libraries*torch"},
                              {"kineto_LIBRARY-NOTFOUND"},
                              {"The imported target \"torch"}};
constexpr Cause kBuild[] = {
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
             "CPU."}};

constexpr Pattern kOpenMp[] = {{"OMP: Error #15"},
                               {"but found libiomp5"},
                               {"but found libomp"},
                               {"MKL_THREADING_LAYER=INTEL is incompatible"},
                               {"OMP: Error #13"},
                               {"KMP_DUPLICATE_LIB_OK"}};
constexpr Cause kOpenMp[] = {
    {.why = "Two copies of OpenMP's run time are in the process: LibTorch brings one, and MKL, "
            "OpenCV, numpy or conda another.",
     .step = "Let one remain: take both libraries from one source, or link all against the same "
             "libiomp5 or libgomp. KMP_DUPLICATE_LIB_OK=TRUE lets it go on at the risk of wrong "
             "results; MKL_THREADING_LAYER=GNU is safe for MKL with libgomp."}};

constexpr ErrorRow kStartRows[] = {
    {.number = 70,
     .name = "job-not-started",
     .title = "the scheduler or the launcher refuses the job",
     .depth = Depth::kCause,
     .patterns = kJob,
     .causes = kJobCauses,
     .checks = "",
     .confirm = "the scheduler's own words for the same request",
     .source = ""},
    {.number = 71,
     .name = "build-not-configured",
     .title = "the build does not find LibTorch or CUDA, or its compiler does not suit",
     .depth = Depth::kCause,
     .patterns = kBuild,
     .causes = kBuildCauses,
     .checks = "libtorch",
     .confirm = "which toolkit, compiler and LibTorch CMake has found (CMakeCache.txt)",
     .source = ""},
    {.number = 72,
     .name = "openmp-twice",
     .title = "two copies of OpenMP are loaded",
     .depth = Depth::kCause,
     .patterns = kOpenMp,
     .causes = kOpenMpCauses,
     .checks = "libtorch",
     .confirm = "/proc/PID/maps has libiomp5, libomp or libgomp twice",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry starting_entry{
    "starting", "builds and jobs that do not start", kStartRows};

}  // namespace muster::diagnose
