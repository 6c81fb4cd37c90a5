// Calls that CUDA refuses: rows 61 to 65.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kUnknown[] = {
    {"CUDA unknown error"},
    {"CUDA error: unknown error"},
    {"CUDA driver error: unknown error"},
    {"CUDA_ERROR_UNKNOWN"},
    {"cudaErrorUnknown"},
    {"cuda runtime error (30)"},
    {"error=30 : unknown error"},
    {"CUDA*error 30"},
    {"CUDA*: unknown error"},
    {"CUDA*error 999"},
    {"Error 999: unknown error"},
    {"CUDA_ERROR_NOT_INITIALIZED"},
    {"cuda*DeviceCount*initialization error"},
    {"cuDeviceGetCount*initialization error"},
    {"cuInit*initialization error"},
    {"cuda*: initialization error"},
    {"OS call failed or operation not supported on this OS"},
    {"cudaErrorOperatingSystem"},
    {"CUDA_ERROR_OPERATING_SYSTEM"},
    {"named symbol not found"},
    {"cuInit*failed"},
    {"cuda*initializ", nullptr, Depth::kGuess},
    {"cuda*fail", nullptr, Depth::kGuess},
    {"gpu*initializ", nullptr, Depth::kGuess},
    {"cudaError_t 3 : \"initialization error\""},
    {"Unexpected error from cudaGetDeviceCount", nullptr, Depth::kPerhaps},
    {"GPUassert: unknown error", nullptr, Depth::kPerhaps}};
constexpr Cause kUnknownCauses[] = {
    {.why = "CUDA could not start for a reason that it does not name: the module nvidia_uvm is not "
            "loaded or lost its state (after the machine slept, after an update), its device files "
            "are missing in a container, or CUDA_VISIBLE_DEVICES was changed after the program had "
            "begun.",
     .step = "Unload and load the module (`rmmod nvidia_uvm; modprobe nvidia_uvm`) or reboot; see "
             "that /dev/nvidia-uvm is there. If `nvidia-smi` works and no program of CUDA does, it "
             "is this."}};

constexpr Pattern kInvalid[] = {{"CUDA error: invalid argument"},
                                // cudaGetErrorString of 12, 21, 712 and 713
                                {"invalid pitch argument"},
                                {"invalid copy direction for memcpy"},
                                {"requested memory range is already mapped"},
                                {"pointer does not correspond to a registered memory region"},
                                {"CUDA driver error: invalid argument"},
                                {"CUDA_ERROR_INVALID_VALUE"},
                                {"cudaErrorInvalidValue"},
                                {"cuda runtime error (11)"},
                                {"error=11 : invalid argument"},
                                {"CUDA*: invalid argument"},
                                {"cudaErrorInvalidMemcpyDirection"},
                                {"cudaErrorInvalidPitchValue"},
                                {"hipErrorInvalidValue"},
                                {"CUDA error: operation not supported"},
                                {"CUDA driver error: operation not supported"},
                                {"cudaErrorNotSupported"},
                                {"CUDA_ERROR_NOT_SUPPORTED"},
                                {"cudaErrorNotPermitted"},
                                {"CUDA error: operation not permitted"},
                                {"CUDA_ERROR_NOT_PERMITTED"},
                                {"CUDA*: operation not supported"},
                                {"invalid device pointer"},
                                {"GPUassert: invalid argument"},
                                {"CUDA error(1)"}};
constexpr Cause kInvalidCauses[] = {
    {.why = "This device, driver or container does not know the call: virtual memory (expandable "
            "segments), memory pools, pinning, sharing between processes (virtual GPUs, WSL, "
            "Windows, containers).",
     .step = "Take settings of the allocator back one by one (PYTORCH_CUDA_ALLOC_CONF, "
             "NCCL_CUMEM_ENABLE=0), then update the driver.",
     .when = "not supported"},
    {.why = "A call of CUDA got an argument that it does not take: an extension or a library of "
            "another CUDA, memory that was freed or pinned twice, a pointer of the host where one "
            "of the device is expected, or an empty tensor.",
     .step = "Start with CUDA_LAUNCH_BLOCKING=1 to find the call; then see that LibTorch, "
             "extensions and driver are of one CUDA."}};

constexpr Pattern kHandle[] = {
    {"invalid resource handle"},
    {"operation cannot be performed in the present state"},  // cudaErrorIllegalState
    {"cudaErrorInvalidResourceHandle"},
    {"CUDA_ERROR_INVALID_HANDLE"},
    {"invalid device context"},
    {"CUDA_ERROR_INVALID_CONTEXT"},
    {"cudaErrorDeviceUninitialized"},
    {"context is destroyed"},
    {"CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {"cudaErrorContextIsDestroyed"},
    {"Event device type CUDA does not match"},
    {"Event device*does not match"},
    {"Stream*does not match device"},
    {"CUDA error(400)"}};
constexpr Cause kHandleCauses[] = {
    {.why = "A stream, an event or a handle is used on a device other than its own, in a process "
            "other than its own (after fork), or after its device was reset.",
     .step = "Select the device (c10::cuda::CUDAGuard) in each thread before the first call; make "
             "streams, events and handles where they are used."}};

constexpr Pattern kPeer[] = {{"peer access is not supported between these two devices"},
                             {"peer mapping resources exhausted"},
                             {"cudaErrorTooManyPeers"},
                             {"CUDA_ERROR_TOO_MANY_PEERS"},
                             {"peer access has not been enabled"},
                             {"cudaErrorPeerAccess"},
                             {"CUDA_ERROR_PEER_ACCESS"},
                             {"mapping of buffer object failed"},
                             {"cudaErrorMapBufferObjectFailed"},
                             {"cudaIpcOpenMemHandle*failed"},
                             {"cudaIpcGetMemHandle*failed"},
                             {"P2P access is not supported between"},
                             {"peer access*not supported"},
                             {"enable access between nodes"},
                             {"enable peer access*failed"},
                             {"peer access*failed"}};
constexpr Cause kPeerCauses[] = {
    {.why = "A device may map eight others at most at one time.",
     .step = "Let each process see the devices that it uses (CUDA_VISIBLE_DEVICES), one rank per "
             "device.",
     .when = "exhausted"},
    {.why = "Two devices cannot reach each other's memory: they hang on different processors, the "
            "IOMMU or ACS is on, a virtual machine, or cards that do not have it (GeForce).",
     .step =
         "`nvidia-smi topo -p2p r` shows who reaches whom. NCCL_P2P_DISABLE=1 goes by the host."}};

constexpr Pattern kCapture[] = {{"operation not permitted when stream is capturing"},
                                // cudaGetErrorString of 902, 904 and 910
                                {"merge of separate capture sequences"},
                                {"dependency created on uncaptured work"},
                                {"the graph update was not performed"},
                                {"cudaErrorStreamCapture"},
                                {"CUDA_ERROR_STREAM_CAPTURE"},
                                {"during capture"},
                                {"while capturing"},
                                {"during CUDA graph capture"},
                                {"captures_underway"},
                                {"during capturing stage"},
                                {"must be captured on a non-default stream"},
                                {"operation would make the legacy stream depend on a capturing"},
                                {"stream is capturing"},
                                {"capture sequence contains"},
                                {"graph capture*fail"},
                                {"outside graph capture"},
                                {"Capture CUDA graph failed"},
                                {"capture*graph*failed"},
                                {"inside a CUDA graph"},
                                {"CUDA graphs*not supported"},
                                {"cuda graph", nullptr, Depth::kGuess},
                                {"cudagraph", nullptr, Depth::kGuess},
                                {"stream*captur", nullptr, Depth::kGuess}};
constexpr Cause kCaptureCauses[] = {
    {.why = "While a CUDA graph was captured, something was called that a graph cannot hold: a "
            "synchronisation (item(), copies to the host), an allocation outside of the pool, "
            "another thread's call, or a random generator that was not registered.",
     .step = "Warm up three steps on a side stream before the capture; keep item(), prints and "
             "host copies out of it; capture with mode thread_local if other threads (NCCL's "
             "watchdog, loaders) use CUDA."}};

constexpr ErrorRow kCallRows[] = {
    {.number = 61,
     .name = "cuda-unknown-error",
     .title = "CUDA does not start, and does not say why",
     .depth = Depth::kCause,
     .patterns = kUnknown,
     .causes = kUnknownCauses,
     .checks = "driver, visible-devices",
     .confirm = "whether /dev/nvidia-uvm is there, and a small program of CUDA works",
     .source = "https://github.com/pytorch/pytorch/issues/49081",
     .counts_as_warning = true},
    {.number = 62,
     .name = "cuda-invalid-argument",
     .title = "CUDA refuses a call's argument",
     .depth = Depth::kLate,
     .patterns = kInvalid,
     .causes = kInvalidCauses,
     .checks = "driver, libtorch",
     .confirm = "with CUDA_LAUNCH_BLOCKING=1 the call that fails first",
     .source = ""},
    {.number = 63,
     .name = "invalid-resource-handle",
     .title = "a stream or handle is used where it does not belong",
     .depth = Depth::kCause,
     .patterns = kHandle,
     .causes = kHandleCauses,
     .checks = "",
     .confirm = "the device that is selected in the thread that fails",
     .source = ""},
    {.number = 64,
     .name = "no-peer-access",
     .title = "a device cannot reach another one's memory",
     .depth = Depth::kCause,
     .patterns = kPeer,
     .causes = kPeerCauses,
     .checks = "driver",
     .confirm = "`nvidia-smi topo -p2p r`",
     .source = ""},
    {.number = 65,
     .name = "graph-capture",
     .title = "a CUDA graph cannot be captured",
     .depth = Depth::kCause,
     .patterns = kCapture,
     .causes = kCaptureCauses,
     .checks = "",
     .confirm = "the same step without a graph",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry calls_entry{"calls", "calls that CUDA refuses", kCallRows};

}  // namespace muster::diagnose
