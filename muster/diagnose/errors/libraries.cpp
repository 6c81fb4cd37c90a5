// cuDNN and cuBLAS: rows 10 to 16.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kCudnnInit[] = {{"CUDNN_STATUS_NOT_INITIALIZED"},
                                  {"probably because cuDNN failed to initialize"},
                                  {"cuDNN error: initialization"},
                                  {"CUDNN error(1)"},
                                  {"cudnnCreate"},
                                  {"Could not create cudnn handle"},
                                  {"Could not initialize cudnn"},
                                  {"Failed to initialize cudnn"},
                                  {"Failed to create cudnn handle"}};
constexpr Cause kCudnnInitCauses[] = {
    {.why = "cuDNN could not make its handle, most often because the device has no memory left for "
            "it (some hundred MiB).",
     .step = "Free memory before the first convolution: a smaller batch or model, no other process "
             "on the device. If memory is free, look for a second cuDNN on LD_LIBRARY_PATH, and "
             "compare the driver with the CUDA version of this LibTorch."}};

constexpr Pattern kNoAlgorithm[] = {{"CUDNN_STATUS_ALLOC_FAILED"},
                                    {"Unable to find a valid cuDNN algorithm"},
                                    {"GET was unable to find an engine"},
                                    {"FIND was unable to find an engine"},
                                    {"no valid convolution algorithms available in CuDNN"},
                                    {"No execution plans support the graph"},
                                    {"No execution plans built"},
                                    {"No valid execution plans built"},
                                    {"No valid engine configs"},
                                    {"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
                                    {"CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
                                    {"Failed to find any convolution algorithm"},
                                    {"cuDNN isn't found"},
                                    {"cudnn*algo", nullptr, Depth::kGuess},
                                    {"find*algorithm", nullptr, Depth::kGuess},
                                    {"find an engine", nullptr, Depth::kGuess},
                                    {"engine config", nullptr, Depth::kGuess}};
constexpr Cause kNoAlgorithmCauses[] = {
    {.why =
         "No algorithm of cuDNN fits: its workspace does not fit into the memory that is free, or "
         "none takes this dtype and layout on this device.",
     .step =
         "Run the operation with batch 1. If it passes, memory is short: a smaller batch, "
         "benchmarking off. If not, make the tensors contiguous, use float32, or switch cuDNN off "
         "(at::globalContext().setUserEnabledCuDNN(false)) to see LibTorch's own kernel."}};

constexpr Pattern kCudnnFailed[] = {{"CUDNN_STATUS_EXECUTION_FAILED"},
                                    {"CUDNN_STATUS_INTERNAL_ERROR"},
                                    {"CUDNN_STATUS_MAPPING_ERROR"},
                                    {"miopenStatus"},
                                    {"cudnn_frontend*execute*failed"},
                                    {"cuDNN launch failure"},
                                    {"cudnn Pool*launch failed"},
                                    {"cudnn*fail", nullptr, Depth::kGuess},
                                    {"cudnn*error", nullptr, Depth::kGuess},
                                    {"CUDNN error(8)"},
                                    {"CUDNN error(4)"},
                                    {"Failed to call cudnnRNN"},
                                    {"Failed to call ThenRnn"},
                                    {"CUDNN_STATUS_SUCCESS (8 vs. 0)"},
                                    {"CUDNN_STATUS_SUCCESS (4 vs. 0)"},
                                    {"A call to cuDNN failed"}};
constexpr Cause kCudnnFailedCauses[] = {
    {.why =
         "cuDNN met an error of the device: that of an earlier kernel which is reported only now, "
         "a lack of memory, or a cuDNN that does not suit the driver or the device.",
     .step =
         "Run once with CUDA_LAUNCH_BLOCKING=1: the first operation that fails then is the one. "
         "If it is this one, halve the batch, then try with cuDNN off."}};

constexpr Pattern kCudnnParam[] = {{"CUDNN_STATUS_BAD_PARAM"},
                                   {"CUDNN_STATUS_NOT_SUPPORTED"},
                                   {"Expected contiguous tensor, but got non-contiguous"},
                                   {"CUDNN_STATUS_INVALID_VALUE"},
                                   {"cudnn_frontend*BAD_PARAM"},
                                   {"cuDNN requires contiguous"},
                                   {"cudnn RNN backward can only be called in training mode"},
                                   {"CUDNN error(3)"},
                                   {"CUDNN error(9)"},
                                   {"CUDNN_STATUS_SUCCESS (3 vs. 0)"},
                                   {"CUDNN_STATUS_SUCCESS (9 vs. 0)"}};
constexpr Cause kCudnnParamCauses[] = {
    {.why =
         "cuDNN does not take this input: not contiguous, empty, mixed dtypes, or more than 2^31 "
         "elements.",
     .step =
         "Print shape, strides and dtype of the operation's inputs; call contiguous(), cast them "
         "alike, guard against empty batches, or split the batch."}};

constexpr Pattern kCudnnVersions[] = {{"SUBLIBRARY_VERSION_MISMATCH"},
                                      {"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"},
                                      {"CUDNN_STATUS_VERSION_MISMATCH"},
                                      {"cuDNN version incompatibility"},
                                      {"Loaded runtime CuDNN library*but source was compiled with"},
                                      {"CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING"},
                                      {"Could not load library libcudnn"},
                                      {"Unable to load any of {libcudnn"},
                                      {"Cannot load symbol cudnn"},
                                      {"Could not load symbol cudnn"},
                                      {"libcudnn*undefined symbol"},
                                      {"CuDNN library needs to have matching major version"},
                                      {"Loaded runtime CuDNN library"},
                                      {"Loaded runtime cuDNN library*but source was compiled"},
                                      {"cudnn*version", nullptr, Depth::kGuess},
                                      {"cudnn*compatib", nullptr, Depth::kGuess},
                                      {"Could not locate cudnn"},
                                      {"Unable to load cuDNN"},  // XLA's
                                      {"Could not load*cudnn*dll"},
                                      {"libcudnn", nullptr, Depth::kGuess},
                                      {"libcudnn*cannot open shared object file"},
                                      {"Could not load dynamic library 'libcudnn"},
                                      {"libcudnn*not found"}};
constexpr Cause kCudnnVersionsCauses[] = {
    {.why = "Libraries of two versions of cuDNN are in the process: some from the wheel, some from "
            "the system or from LD_LIBRARY_PATH.",
     .step = "Start with LD_DEBUG=libs and look where each libcudnn_*.so comes from; take the "
             "second folder off LD_LIBRARY_PATH, or remove the system's package."}};

constexpr Pattern kCublasInit[] = {{"CUBLAS_STATUS_NOT_INITIALIZED"},
                                   {"CUBLAS_STATUS_ALLOC_FAILED"},
                                   {"CUSOLVER_STATUS_NOT_INITIALIZED"},
                                   {"CUSOLVER_STATUS_ALLOC_FAILED"},
                                   {"CUBLAS_STATUS_LICENSE_ERROR"},
                                   {"HIPBLAS_STATUS_NOT_INITIALIZED"},
                                   {"HIPBLAS_STATUS_ALLOC_FAILED"},
                                   {"rocblas_status_memory_error"},
                                   {"cublas runtime error : resource allocation failed"},
                                   {"cublas runtime error : library not initialized"},
                                   {"CUBLAS error(1)"},
                                   {"CUBLAS error(3)"},
                                   {"failed to create cublas handle"},
                                   {"cublasCreate failed"},
                                   {"Could not create cublas handle"},
                                   {"failed to initialize cublas"}};
constexpr Cause kCublasInitCauses[] = {
    {.why =
         "The device has no memory left for cuBLAS, whose handle and workspace take some ten MiB "
         "beside the tensors.",
     .step =
         "Free memory before the first product: a smaller batch or model, no other process on the "
         "device. If memory is free, an earlier kernel failed: compare the largest index with the "
         "rows of each embedding, on the CPU or with CUDA_LAUNCH_BLOCKING=1.",
     .when = "CUBLAS_STATUS_ALLOC_FAILED"},
    {.why = "cuBLAS could not make its handle: the device has no memory left for it, or an earlier "
            "kernel failed, often because an index (a token, a label) is outside its table.",
     .step = "First compare the largest index with the rows of each embedding, on the CPU or with "
             "CUDA_LAUNCH_BLOCKING=1. If they are right, free memory: a smaller batch, no other "
             "process on the device."}};

constexpr Pattern kCublasFailed[] = {{"CUBLAS_STATUS_EXECUTION_FAILED"},
                                     {"CUBLAS_STATUS_INVALID_VALUE"},
                                     {"CUBLAS_STATUS_INTERNAL_ERROR"},
                                     {"CUBLAS_STATUS_NOT_SUPPORTED"},
                                     {"CUBLAS_STATUS_ARCH_MISMATCH"},
                                     {"CUSOLVER_STATUS_EXECUTION_FAILED"},
                                     {"CUSOLVER_STATUS_INTERNAL_ERROR"},
                                     {"CUBLAS_STATUS_MAPPING_ERROR"},
                                     {"CUSOLVER_STATUS_INVALID_VALUE"},
                                     {"CUSOLVER_STATUS_ARCH_MISMATCH"},
                                     {"HIPBLAS_STATUS_"},
                                     {"rocblas_status_internal_error"},
                                     {"HIPBLASLT_STATUS"},
                                     {"cublasLt*failed"},
                                     {"cublas runtime error"},
                                     {"CUBLAS failure in"},
                                     {"cublas*fail", nullptr, Depth::kGuess},
                                     {"cublas*error", nullptr, Depth::kGuess},
                                     {"blas*launch failed", nullptr, Depth::kGuess},
                                     {"CUBLAS error("},
                                     {"cublas call failed"},
                                     {"CUBLAS_STATUS_SUCCESS ("},
                                     {"StreamExecutor without BLAS support"},
                                     {"cublas*status", nullptr, Depth::kGuess},
                                     {"cuBLAS API failed with status"}};
constexpr Cause kCublasFailedCauses[] = {
    {.why = "This device does not know this dtype (bfloat16 and TF32 need capability 8.0), or the "
            "libraries of two CUDA versions are mixed.",
     .step = "Try float32. If it passes, use float16 or float32 on this device; else look at which "
             "libcublas is loaded.",
     .when = "CUDA_R_16BF"},
    {.why =
         "A matrix product failed: an earlier kernel did and this is where it is reported, shapes "
         "do not fit, memory is short, or libcublas is not the one that LibTorch was built with.",
     .step =
         "Run the same step on the CPU in float32, which names a wrong shape or index; then with "
         "CUDA_LAUNCH_BLOCKING=1. Unset LD_LIBRARY_PATH once to be sure of the wheel's "
         "libcublas."}};

constexpr Pattern kFft[] = {{"CUFFT_INTERNAL_ERROR"},
                            {"CUFFT_ALLOC_FAILED"},
                            {"CUFFT_EXEC_FAILED"},
                            {"CUFFT_INVALID"},
                            {"CUSPARSE_STATUS_"},
                            {"CURAND_STATUS_"},
                            {"cuFFT error"},
                            {"cusparse error"},
                            {"curand*failed"},
                            {"CUSPARSELT_STATUS"},
                            {"cufft*fail", nullptr, Depth::kGuess},
                            {"cufft*error", nullptr, Depth::kGuess},
                            {"cusparse*fail", nullptr, Depth::kGuess},
                            {"cusparse*error", nullptr, Depth::kGuess},
                            {"curand*fail", nullptr, Depth::kGuess},
                            {"curand*error", nullptr, Depth::kGuess},
                            {"cusolver*fail", nullptr, Depth::kGuess},
                            {"cusolver*error", nullptr, Depth::kGuess}};
constexpr Cause kFftCauses[] = {
    {.why = "cuFFT could not make its plan or its workspace: it is older than the device (CUDA "
            "11.7 and before on cards of capability 8.9), memory is short, the size in 16 bits is "
            "no power of two, or libcufft is not the one of this LibTorch.",
     .step = "Take a LibTorch of a newer CUDA; transform in float32; free memory, or make the plan "
             "cache smaller.",
     .when = "CUFFT"},
    {.why = "A library of CUDA met an error: memory that is short, an earlier kernel's error, or a "
            "library of another CUDA version.",
     .step = "Run with CUDA_LAUNCH_BLOCKING=1; unset LD_LIBRARY_PATH once, so that the wheel's "
             "libraries are taken."}};

constexpr ErrorRow kLibraryRows[] = {
    {.number = 10,
     .name = "cudnn-not-initialized",
     .title = "cuDNN does not start",
     .depth = Depth::kLate,
     .patterns = kCudnnInit,
     .causes = kCudnnInitCauses,
     .checks = "libtorch, driver",
     .confirm = "less than 300 MiB are free, or two sets of libcudnn are mapped",
     .source = "https://github.com/haotian-liu/LLaVA/issues/392"},
    {.number = 11,
     .name = "cudnn-no-algorithm",
     .title = "cuDNN finds no algorithm",
     .depth = Depth::kLate,
     .patterns = kNoAlgorithm,
     .causes = kNoAlgorithmCauses,
     .checks = "libtorch",
     .confirm = "the same operation passes at batch 1",
     .source = "https://github.com/marqo-ai/marqo/issues/101"},
    {.number = 12,
     .name = "cudnn-execution-failed",
     .title = "cuDNN fails while it computes",
     .depth = Depth::kLate,
     .patterns = kCudnnFailed,
     .causes = kCudnnFailedCauses,
     .checks = "driver, variables",
     .confirm = "with CUDA_LAUNCH_BLOCKING=1 another operation fails first",
     .source = ""},
    {.number = 13,
     .name = "cudnn-bad-param",
     .title = "cuDNN refuses the input",
     .depth = Depth::kCause,
     .patterns = kCudnnParam,
     .causes = kCudnnParamCauses,
     .checks = "",
     .confirm = "strides and dtypes of the operation's inputs",
     .source = ""},
    {.number = 14,
     .name = "cudnn-versions",
     .title = "two versions of cuDNN are mixed",
     .depth = Depth::kCause,
     .patterns = kCudnnVersions,
     .causes = kCudnnVersionsCauses,
     .checks = "libtorch",
     .confirm = "mapped libcudnn_* of the process lie in two folders",
     .source = "https://github.com/pytorch/pytorch/issues/185512"},
    {.number = 15,
     .name = "cublas-not-initialized",
     .title = "cuBLAS does not start",
     .depth = Depth::kLate,
     .patterns = kCublasInit,
     .causes = kCublasInitCauses,
     .checks = "driver, variables",
     .confirm = "the largest index against the rows of the embedding; free memory",
     .source = "https://github.com/EleutherAI/lm-evaluation-harness/issues/1689"},
    {.number = 16,
     .name = "cublas-execution-failed",
     .title = "cuBLAS fails while it computes",
     .depth = Depth::kLate,
     .patterns = kCublasFailed,
     .causes = kCublasFailedCauses,
     .checks = "libtorch, variables",
     .confirm = "the same step on the CPU in float32",
     .source = ""},
    {.number = 68,
     .name = "cufft-failed",
     .title = "cuFFT, cuSPARSE or cuRAND fails",
     .depth = Depth::kLate,
     .patterns = kFft,
     .causes = kFftCauses,
     .checks = "libtorch, driver",
     .confirm = "the same operation in float32 on the CPU",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry libraries_entry{
    "libraries", "cuDNN and cuBLAS", kLibraryRows};

}  // namespace muster::diagnose
