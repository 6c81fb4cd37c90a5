// Memory of devices and of the host: rows 1 to 7 and 9.
#include "muster/diagnose/catalogue/error_row.h"
#include "muster/diagnose/catalogue/out_of_memory_text.h"

namespace muster::diagnose {
namespace {

constexpr double kMiB = 1024.0 * 1024;
// What the driver keeps for itself, so that "free" is not quite free.
constexpr double kDriverKeeps = 128 * kMiB;
constexpr double kSmallDevice = 3 * 1024 * kMiB;
// Above this a size is a mistake, not a wish: 1 TiB.
constexpr double kAbsurd = 1024.0 * 1024 * kMiB;

bool is_larger_than_device(std::string_view line) {
  const OutOfMemoryText text = out_of_memory_text(line);
  return text.asked && text.total && *text.asked > *text.total;
}

bool is_held_by_others(std::string_view line) {
  const OutOfMemoryText text = out_of_memory_text(line);
  if (!text.asked || !text.total || !text.free || !text.own) return false;
  const double others = *text.total - *text.free - *text.own;
  return others >= *text.asked && others >= 0.15 * *text.total;
}

bool is_in_pieces(std::string_view line) {
  const OutOfMemoryText text = out_of_memory_text(line);
  if (!text.asked || !text.idle || *text.idle < *text.asked) return false;
  // A few idle blocks are there on any full device: what they would give is not worth a setting.
  return !text.allocated || *text.idle >= 0.05 * (*text.allocated + *text.idle);
}

bool is_free_enough(std::string_view line) {
  const OutOfMemoryText text = out_of_memory_text(line);
  return text.asked && text.free && *text.free >= *text.asked + kDriverKeeps;
}

bool is_small_device(std::string_view line) {
  const OutOfMemoryText text = out_of_memory_text(line);
  return text.total && *text.total < kSmallDevice;
}

bool is_absurd(std::string_view line) {
  const size_t at = line.find("tried to allocate ");
  if (at == std::string_view::npos) return false;
  const auto bytes = read_bytes_text(line.substr(at + 18));
  return bytes && *bytes >= kAbsurd;
}

/// A line of Python's own, and not the end of another name (OutOfMemoryError).
bool is_memory_error(std::string_view line) {
  const size_t at = line.find("MemoryError");
  return (at == 0 || (at != line.npos && line[at - 1] == ' ')) && line.find("CUDA") == line.npos;
}

/// Said as an error, and not as advice.
bool is_said_to_have_failed(std::string_view line) {
  if (line.find("if ") != line.npos || line.find("If ") != line.npos) return false;
  return line.find("rror") != line.npos || line.find("ERROR") != line.npos ||
         line.find("failed") != line.npos || line.find("xception") != line.npos;
}

constexpr Pattern kOutOfMemory[] = {
    {"CUDA out of memory"},
    {"torch*OutOfMemoryError"},
    {"c10*OutOfMemoryError"},
    {"cudaErrorMemoryAllocation"},
    {"CUDA_ERROR_OUT_OF_MEMORY"},
    {"CUDA error: out of memory"},
    {"HIP out of memory"},
    {"cuda*is out of memory"},
    {"cuda runtime error (2) : out of memory"},
    {"GPU*out of memory"},
    {"CUDA*: out of memory"},
    {"Cuda failure*out of memory"},
    {"Failed to CUDA calloc"},
    {"cudaMalloc*out of memory"},
    {"MPS backend out of memory"},
    {"XPU out of memory"},
    {"hipErrorOutOfMemory"},
    // Muster's own words, and those of its fake devices.
    {"fake out of memory. Tried to allocate"},
    {"out of memory in the first step"},
    {"is out of memory at the start"},
    {"is out of memory after step"},
    {"a batch size that fits: not even"},
    {"CUDA driver error: out of memory"},
    {"OOM when allocating tensor"},
    {"RESOURCE_EXHAUSTED: Out of memory"},
    {"Failed to allocate memory for requested buffer of size"},
    {"NPU out of memory"},
    {"MUSA out of memory"},
    {"out_of_memory: CUDA error"},
    {"not enough GPU video memory"},
    {"CUDA runtime error: out of memory"},
    {"HIP error: out of memory"},
    {"error=2 : out of memory"},
    {"cuda runtime error (2)"},
    {"Allocation on device"},
    {"CUDA error 2:"},
    {"Resource exhausted: OOM"},
    {"HSA_STATUS_ERROR_OUT_OF_RESOURCES"},
    {"out of memory", is_said_to_have_failed, Depth::kPerhaps},
    {"Tried to allocate*total capacity"},
    {"No available memory for the cache blocks"},
    {"ResourceExhaustedError"},
    {"RESOURCE_EXHAUSTED: Failed to allocate"},
    {"CUDA error(2)"},
    {"RESOURCE_EXHAUSTED", nullptr, Depth::kPerhaps},
    {"not enough gpu memory", nullptr, Depth::kGuess},
    {"not enough*vram", nullptr, Depth::kGuess},
    {"gpu memory*not enough", nullptr, Depth::kGuess},
    {"insufficient gpu memory", nullptr, Depth::kGuess},
    {"insufficient*gpu*memory", nullptr, Depth::kGuess},
    {"memory allocation failed on device", nullptr, Depth::kGuess},
    {"allocat*on gpu", nullptr, Depth::kGuess},
    {"allocat*cuda", nullptr, Depth::kGuess},
    {"allocat*device memory", nullptr, Depth::kGuess},
    {"ran out of memory trying to allocate*Current allocation summary",
     nullptr,
     Depth::kAsRow,
     true},
    {"ran out of memory trying to allocate"},
    {"CUDA_OUT_OF_MEMORY"},
    {"CL_OUT_OF_RESOURCES"},
    {"CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {"vk::Device::allocateMemory"},
    {"ErrorOutOfDeviceMemory"},
    {"ERROR_OUT_OF_DEVICE_MEMORY"},
    {"insufficient VRAM"},
    {"less than desired GPU memory utilization"},
    {"larger than the maximum number of tokens that can be stored in KV cache"},
    {"kv cache", nullptr, Depth::kGuess},
    {"vram", nullptr, Depth::kGuess}};
constexpr Cause kOutOfMemoryCauses[] = {
    {.why = "The request alone is larger than the device.",
     .step =
         "Look at the shapes of the operation named in the traceback: a batch, a sequence or an "
         "image that is far too large, or a product of two large dimensions (attention, "
         "cdist, one-hot). Cut it into pieces.",
     .holds = is_larger_than_device},
    {.why = "Other processes hold most of the device.",
     .step = "`nvidia-smi` lists them; in a container it may not. End what is left of earlier "
             "runs, or take another device with CUDA_VISIBLE_DEVICES.",
     .holds = is_held_by_others},
    {.why = "What this process holds, and one thing more, is larger than the device.",
     .step = "Take a smaller batch (gradient accumulation keeps the update the same), "
             "activation checkpointing, 16-bit tensors or shards of the weights. If it grows from "
             "step to step, something is kept: losses summed without item(), lists of tensors, "
             "evaluation without NoGradGuard."}};

constexpr Pattern kInPieces[] = {{"CUDA out of memory", is_in_pieces}};
constexpr Cause kInPiecesCauses[] = {
    {.why = "The allocator has enough idle memory, but in pieces that are too small "
            "(fragmentation).",
     .step = "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_ALLOC_CONF from "
             "LibTorch 2.9). Batches of a few fixed shapes help as well; if the setting is on "
             "already, take a smaller batch."}};

constexpr Pattern kThoughFree[] = {{"CUDA out of memory", is_free_enough}};
constexpr Cause kThoughFreeCauses[] = {
    {.why = "More was free than asked for, so another limit refused: a memory fraction that "
            "was set for the process, blocks that wait for another stream, or a process that had "
            "taken the memory for a moment.",
     .step = "Try the step again after a synchronisation. If that passes, allocate on the stream "
             "that uses the tensor, or call recordStream less; look for setMemoryFraction; "
             "under WSL and Windows lower the limit of the other programs."}};

constexpr Pattern kThrash[] = {{"pytorch allocator cache flushes since last step"},
                               {"num_alloc_retries"},
                               {"cudaMalloc retries:", [](std::string_view line) {
                                  return line.find("cudaMalloc retries: 0") == line.npos;
                                }}};
constexpr Cause kThrashCauses[] = {
    {.why = "The device is nearly full: the allocator gives its idle blocks back to the driver and "
            "asks for them again, which can make steps several times slower.",
     .step = "Take a batch that is smaller by a tenth, and watch num_alloc_retries, which should "
             "stand still."}};

constexpr Pattern kNvmlAssert[] = {{"NVML_SUCCESS ==*INTERNAL ASSERT FAILED"}};
constexpr Cause kNvmlAssertCauses[] = {
    {.why = "The driver's library could not be asked about the device while LibTorch was about to "
            "say that it is out of memory: there (MIG, Jetson, a container without NVML, a driver "
            "that was upgraded) the true error is hidden.",
     .step =
         "Treat it as out of memory first: a smaller batch. Then see whether `nvidia-smi` works "
         "here, and whether CUDA_VISIBLE_DEVICES names the MIG device by its UUID."}};

constexpr Pattern kWrongDevice[] = {{"There is an imbalance between your GPUs"},
                                    {"CUDA out of memory", is_small_device}};
constexpr Cause kWrongDeviceCauses[] = {
    {.why = "The device is small, perhaps not the one that was meant: CUDA numbers devices by "
            "speed, `nvidia-smi` by their place on the bus.",
     .step = "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, and choose with CUDA_VISIBLE_DEVICES. If it is the "
             "right one, its memory is just not enough: a smaller batch or model."}};

constexpr Pattern kHostMemory[] = {{"DefaultCPUAllocator: can't allocate memory"},
                                   {"DefaultCPUAllocator: not enough memory"},
                                   {"posix_memalign(&data, gAlignment, nbytes) == 0"},
                                   {"CPU out of memory. Tried to allocate"},
                                   {"numpy*Unable to allocate*for an array with shape"},
                                   {"[Errno 12] Cannot allocate memory"},
                                   {"unable to mmap*Cannot allocate memory"},
                                   {"fork: Cannot allocate memory"},
                                   {"MemoryError: Unable to allocate"},
                                   {"MemoryError", is_memory_error},
                                   {"enforce fail at alloc_cpu.cpp"},
                                   {"enforce fail at CPUAllocator.cpp"},
                                   {"Cannot allocate memory"},
                                   {"ArrayMemoryError"},
                                   {"virtual memory exhausted"},
                                   {"paging file is too small"},
                                   {"Couldn't open shared file mapping*1455"},
                                   {"cudaHostAlloc*out of memory"},
                                   {"page allocation failure"},
                                   {"ENOMEM"},
                                   {"out of dynamic memory in"},
                                   {"node was low on resource: memory"},
                                   {"node had condition: [MemoryPressure]"},
                                   {"cannot allocate", nullptr, Depth::kGuess},
                                   {"could not allocate", nullptr, Depth::kGuess},
                                   {"failed to allocate", nullptr, Depth::kGuess},
                                   {"unable to allocate", nullptr, Depth::kGuess},
                                   {"allocation failed", nullptr, Depth::kGuess},
                                   {"not enough memory", nullptr, Depth::kGuess},
                                   {"insufficient memory", nullptr, Depth::kGuess},
                                   {"out of dynamic memory", nullptr, Depth::kGuess},
                                   {"out of host memory", nullptr, Depth::kGuess},
                                   {"cc1plus: out of memory allocating"},
                                   {"c++: fatal error: Killed"},
                                   {"g++: internal compiler error: Killed"},
                                   {"gcc: internal compiler error: Killed"},
                                   {"memory exhausted", nullptr, Depth::kGuess},
                                   {"out of ram", nullptr, Depth::kGuess},
                                   {"std::bad_alloc: out of memory"},
                                   {"Java heap space"},
                                   {"JavaScript heap out of memory"}};
constexpr Cause kHostMemoryCauses[] = {
    {.why = "Windows has no more memory to promise: its paging file is too small.",
     .step = "Make the paging file larger, or start fewer loader workers.",
     .when = "1455"},
    {.why = "The size is absurd (more than 1 TiB): a shape that overflowed, a negative number "
            "read as a large one, or a product of two dimensions that should have been a sum.",
     .step = "Print the shapes in front of the failing operation.",
     .holds = is_absurd},
    {.why = "The host is out of memory, or a limit of the process or its control group is.",
     .step = "Compare the request with the limits below. Fewer loader workers, less prefetching, a "
             "smaller batch; load large files in pieces or mapped."}};

constexpr Pattern kBadAlloc[] = {{"std::bad_alloc"},
                                 {"std::bad_array_new_length"},
                                 {"std::length_error"},
                                 {"larger than max_size()"},
                                 {"basic_string::_M_create"},
                                 {"basic_string::_S_create"},
                                 {"bad allocation", nullptr, Depth::kPerhaps},
                                 {"bad_alloc", nullptr, Depth::kGuess},
                                 {"length_error", nullptr, Depth::kGuess},
                                 {"vector::_M_default_append"},
                                 {"vector::_M_fill_insert"},
                                 {"vector::_M_realloc"},
                                 {"vector::reserve"},
                                 {"basic_string::append"},
                                 {"vector<T> too long"},
                                 {"vector too long", nullptr, Depth::kPerhaps},
                                 {"string too long", nullptr, Depth::kPerhaps}};
constexpr Cause kBadAllocCauses[] = {
    {.why = "A string or vector has a size that cannot be: objects of another ABI are in the "
            "process, or "
            "a size was read from memory that holds something else.",
     .step =
         "See which libtorch and libstdc++ are loaded (`muster doctor --program FILE`), and build "
         "all parts with one compiler, one LibTorch, and one of Debug and Release.",
     .when = "length_error"},
    {.why =
         "Two copies of the C++ library, or objects of another ABI, are in the process: a size is "
         "read from where none is. This is likely if it fails at once, while memory is free.",
     .step =
         "See which libtorch and libstdc++ are loaded (`muster doctor --program FILE`), and build "
         "all parts with one compiler and one LibTorch.",
     .when = "torch::jit::load"},
    {.why = "A container asked for more than the process may have: an address-space limit (ulimit "
            "-v), a full machine, or a size that is wrong (a file cut short, a negative number, "
            "objects of another ABI if it fails at once).",
     .step =
         "See the limits below; run with `catch throw std::bad_alloc` in gdb to find the size."}};

constexpr ErrorRow kMemoryRows[] = {
    {.number = 1,
     .name = "cuda-out-of-memory",
     .title = "a device is out of memory",
     .depth = Depth::kCause,
     .patterns = kOutOfMemory,
     .causes = kOutOfMemoryCauses,
     .checks = "visible-devices",
     .confirm = "the numbers of the message: asked, free, held by this process, idle",
     .source = "https://github.com/pytorch/pytorch/issues/29554"},
    {.number = 2,
     .name = "cuda-fragmentation",
     .title = "a device's memory is in pieces",
     .depth = Depth::kCause,
     .patterns = kInPieces,
     .causes = kInPiecesCauses,
     .checks = "variables",
     .confirm = "the largest idle block is smaller than the request, all of them are larger",
     .source = "https://github.com/pytorch/pytorch/issues/173049"},
    {.number = 3,
     .name = "cuda-out-of-memory-though-free",
     .title = "out of memory, though enough is free",
     .depth = Depth::kCause,
     .patterns = kThoughFree,
     .causes = kThoughFreeCauses,
     .checks = "variables",
     .confirm = "the same step passes when it is tried again after a synchronisation",
     .source = "https://github.com/pytorch/pytorch/issues/189504"},
    {.number = 4,
     .name = "cuda-allocator-thrash",
     .title = "steps are slow: the allocator's cache is flushed again and again",
     .depth = Depth::kPerhaps,
     .patterns = kThrash,
     .causes = kThrashCauses,
     .checks = "",
     .confirm = "num_alloc_retries grows from step to step",
     .source = "https://github.com/mosaicml/composer/pull/1998",
     .counts_as_warning = true},
    {.number = 5,
     .name = "nvml-assert",
     .title = "an assertion of NVML hides an out-of-memory",
     .depth = Depth::kCause,
     .patterns = kNvmlAssert,
     .causes = kNvmlAssertCauses,
     .checks = "driver, visible-devices",
     .confirm = "cudaMemGetInfo has less free than was asked for",
     .source = "https://github.com/pytorch/pytorch/issues/185240"},
    {.number = 6,
     .name = "wrong-device",
     .title = "the device is not the one that was meant",
     .depth = Depth::kCause,
     .patterns = kWrongDevice,
     .causes = kWrongDeviceCauses,
     .checks = "visible-devices",
     .confirm = "PCI ids by CUDA and by NVML differ in their order",
     .source = ""},
    {.number = 7,
     .name = "host-out-of-memory",
     .title = "the host is out of memory",
     .depth = Depth::kCause,
     .patterns = kHostMemory,
     .causes = kHostMemoryCauses,
     .checks = "memory, limits",
     .confirm = "the request against MemAvailable and the control group's limit",
     .source = "https://github.com/pytorch/pytorch/pull/20618"},
    {.number = 9,
     .name = "bad-alloc",
     .title = "a size that cannot be had (std::bad_alloc, std::length_error)",
     .depth = Depth::kCause,
     .patterns = kBadAlloc,
     .causes = kBadAllocCauses,
     .checks = "limits, memory, libtorch",
     .confirm = "RLIMIT_AS, and the size that was asked for",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry allocation_entry{
    "allocation", "memory of devices and of the host", kMemoryRows};

}  // namespace muster::diagnose
