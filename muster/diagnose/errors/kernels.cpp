// Kernels that fail on the device: rows 17 to 20 and 27.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kAssert[] = {{"device-side assert triggered"},
                               {"cudaErrorAssert"},
                               {"CUDA_ERROR_ASSERT"},
                               {"block: [*thread: [*Assertion*failed"},
                               {"Assertion `srcIndex < srcSelectDimSize`"},
                               {"Assertion*index out of bounds"},
                               {"block: [*Assertion `"},
                               {"hipErrorAssert"},
                               {"Assertion `t >= 0 && t < n_classes"},
                               {"cuda runtime error (59)"},
                               {"cuda runtime error (710)"},
                               {"kernel*assert", nullptr, Depth::kGuess},
                               {"device assert", nullptr, Depth::kGuess},
                               {"CUDA error(710)"},
                               {"cudaSuccess (59 vs. 0)"}};
constexpr Cause kAssertCauses[] = {
    {.why = "A label is outside 0 … classes-1 (the loss checks it: t >= 0 && t < n_classes).",
     .step = "Compare the smallest and largest label with the width of the last layer, and what is "
             "to be left out with ignore_index. 255 or -1 in masks, and labels from 1, are usual.",
     .when = "t >= 0*n_classes"},
    {.why = "An index is outside the table that it is looked up in: a token beyond the "
            "vocabulary, a position beyond the longest sequence, an index into a smaller tensor.",
     .step =
         "Compare the largest index with the rows of the embedding (tokenizer and model may not "
         "belong together), and the longest sequence with the positions.",
     .when = "srcIndex < srcSelectDimSize"},
    {.why = "An index is outside the tensor that it is looked up in.",
     .step =
         "Compare the largest and smallest index of the operation with the size of the dimension.",
     .when = "index out of bounds"},
    {.why = "A target of the binary cross-entropy is outside [0, 1].",
     .step = "Look at the smallest and largest target; before a sigmoid use "
             "binary_cross_entropy_with_logits.",
     .when = "input_val*zero*one"},
    {.why = "Probabilities are negative, infinite or NaN where samples are drawn.",
     .step = "Find the first NaN: logits in 16 bits overflow; draw from logits in float32.",
     .when = "probability tensor contains"},
    {.why = "An assertion in a kernel failed: as a rule an index or a label is outside its range, "
            "or a "
            "probability is NaN.",
     .step = "The line with `Assertion` above the error names the condition. Run the same batch on "
             "the CPU, where the error names index and size."}};

constexpr Pattern kIllegal[] = {{"illegal memory access was encountered"},
                                {"cudaErrorIllegalAddress"},
                                {"CUDA_ERROR_ILLEGAL_ADDRESS"},
                                {"invalid program counter"},
                                {"CUDA_ERROR_INVALID_PC"},
                                {"cudaErrorInvalidPc"},
                                {"not supported on global/shared address space"},
                                {"cudaErrorInvalidAddressSpace"},
                                {"CUDA_ERROR_INVALID_ADDRESS_SPACE"},
                                {"an illegal instruction was encountered"},
                                {"cudaErrorIllegalInstruction"},
                                {"CUDA_ERROR_ILLEGAL_INSTRUCTION"},
                                {"Memory access fault by GPU node"},
                                {"Warp Illegal Address"},
                                {"Warp Out-of-range Address"},
                                {"hipErrorIllegalAddress"},
                                {"Invalid __global__ read of size"},
                                {"Invalid __global__ write of size"},
                                {"Invalid __shared__ read of size"},
                                {"Invalid __shared__ write of size"},
                                {"cuda runtime error (77)"},
                                {"cuda runtime error (700)"},
                                {"CUDA error 700"},
                                {"cuda runtime error (715)"},
                                {"cuda runtime error (73)"},
                                {"illegal*access", nullptr, Depth::kGuess},
                                {"invalid*address", nullptr, Depth::kGuess},
                                {"invalid*memory", nullptr, Depth::kGuess},
                                {"memory fault", nullptr, Depth::kGuess},
                                {"page fault", nullptr, Depth::kGuess},
                                {"CUDA error(700)"},
                                {"cudaSuccess (77 vs. 0)"},
                                {"cudaSuccess (700 vs. 0)"},
                                {"Cuda error: 77["},
                                {"Cuda error: 700["}};
constexpr Cause kIllegalCauses[] = {
    {.why = "A kernel touched memory that is not its own: a custom kernel or extension built for "
            "another LibTorch, a tensor freed while another stream used it, a 32-bit index in a "
            "tensor of more than 2^31 elements; rarely the hardware.",
     .step =
         "Start anew with CUDA_LAUNCH_BLOCKING=1 to find the kernel. Then compute-sanitizer with "
         "PYTORCH_NO_CUDA_MEMORY_CACHING=1 names the access. Look for Xid 31 or 13 in dmesg."}};

constexpr Pattern kMisaligned[] = {{"misaligned address"},
                                   {"CUDA_ERROR_MISALIGNED_ADDRESS"},
                                   {"unspecified launch failure"},
                                   {"CUDA_ERROR_LAUNCH_FAILED"},
                                   {"cudaErrorLaunchFailure"},
                                   {"cudaErrorMisalignedAddress"},
                                   {"the launch timed out and was terminated"},
                                   {"CUDA_ERROR_LAUNCH_TIMEOUT"},
                                   {"cudaErrorLaunchTimeout"},
                                   {"hipErrorLaunchFailure"},
                                   {"cuda runtime error (719)"},
                                   {"cuda runtime error (74)"},
                                   {"cuda runtime error (716)"},
                                   {"CUDA error 719"},
                                   {"CUDA error 716"},
                                   {"cuda runtime error (6)"},
                                   {"cuda runtime error (702)"},
                                   {"CUDA error(719)"},
                                   {"cudaSuccess (4 vs. 0)"},
                                   {"cudaSuccess (719 vs. 0)"}};
constexpr Cause kMisalignedCauses[] = {
    {.why = "A kernel ended abnormally. This can be a wild access, a launch that ran into the "
            "display's time limit, or failing hardware.",
     .step = "Start anew with CUDA_LAUNCH_BLOCKING=1 to find the kernel, and look for Xid lines in "
             "dmesg; the same program on another card tells hardware from code.",
     .when = "launch failure"},
    {.why = "A kernel that reads several elements at once was given a tensor that starts between "
            "them: a view with an odd offset, or an extension built for another LibTorch.",
     .step = "clone() the views that the failing operation takes. Build extensions anew with this "
             "LibTorch and its CUDA."}};

constexpr Pattern kNoKernel[] = {{"no kernel image is available"},
                                 {"is not compatible with the current PyTorch installation"},
                                 {"CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                 {"cudaErrorNoKernelImageForDevice"},
                                 {"device kernel image is invalid"},
                                 {"invalid device symbol"},  // cudaErrorInvalidSymbol
                                 {"PTX JIT compilation was disabled"},
                                 {"invalid device function"},
                                 {"cudaErrorInvalidDeviceFunction"},
                                 {"a PTX JIT compilation failed"},
                                 {"cudaErrorInvalidPtx"},
                                 {"CUDA_ERROR_INVALID_PTX"},
                                 {"CUDA_ERROR_INVALID_IMAGE"},
                                 {"CUDA_ERROR_INVALID_SOURCE"},
                                 {"cudaErrorInvalidKernelImage"},
                                 {"invalid value for --gpu-architecture"},
                                 {"Unsupported gpu architecture"},
                                 {"is not defined for option 'gpu-name'"},
                                 {"only supports Ampere GPUs or newer"},
                                 {"requires A100 or H100 GPUs"},
                                 {"requires device with capability"},
                                 {"CUDNN_STATUS_ARCH_MISMATCH"},
                                 {"hipErrorNoBinaryForGpu"},
                                 {"hipErrorInvalidDeviceFunction"},
                                 {"TensileLibrary*No such file"},
                                 {"Cannot read*TensileLibrary"},
                                 {"PyTorch no longer supports this GPU"},
                                 {"minimum cuda capability supported"},
                                 {"cuda capability supported by this version"},
                                 {"cuda runtime error (8)"},
                                 {"cuda runtime error (48)"},
                                 {"cuda runtime error (209)"},
                                 {"cuda runtime error (98)"},
                                 {"CUDA error 209"},
                                 {"Unknown CUDA arch"},
                                 {"HSA_STATUS_ERROR_INVALID_ISA"},
                                 {"TensileLibrary", nullptr, Depth::kPerhaps},
                                 {"compute capability", nullptr, Depth::kGuess},
                                 {"not compatible with*gpu", nullptr, Depth::kGuess},
                                 {"arch*not supported", nullptr, Depth::kGuess},
                                 {"unsupported gpu arch", nullptr, Depth::kGuess},
                                 {"gfx*not supported", nullptr, Depth::kGuess},
                                 {"not compiled*sm_", nullptr, Depth::kGuess},
                                 {"too old to be supported by"},
                                 {"only supports devices of CUDA"},
                                 {"requires compute capability"},
                                 {"cuda capability", nullptr, Depth::kGuess},
                                 {"older gpu", nullptr, Depth::kGuess},
                                 {"too old", nullptr, Depth::kGuess},
                                 {"CUDA error(209)"},
                                 {"cudaSuccess (8 vs. 0)"},
                                 {"cudaSuccess (48 vs. 0)"},
                                 {"cudaSuccess (209 vs. 0)"},
                                 {"SM version specified by .target is higher"},
                                 {"only supports Ampere"},
                                 {"provided PTX was compiled for"},
                                 {"which is of cuda capability"},
                                 {"ampere", nullptr, Depth::kGuess},
                                 {"which is of compute capability"},
                                 {"this version of PyTorch was built for"},
                                 {"does not support the current version of Torch/CUDA"},
                                 {"Unsupported CUDA architecture"},
                                 {"unsupported compute capability"},
                                 {"is not supported by this build"},
                                 {"cuda arch", nullptr, Depth::kGuess},
                                 {"compute_", nullptr, Depth::kGuess}};
constexpr Cause kNoKernelCauses[] = {
    {.why =
         "The binary has no code for this device: LibTorch, or an extension, was built for other "
         "architectures (a new card with an old build, or a card that new builds have dropped).",
     .step =
         "Compare the device's capability (sm_NN) with the list that the build supports; take a "
         "LibTorch for it, or build the extension with TORCH_CUDA_ARCH_LIST."}};

constexpr Pattern kLaunch[] = {{"invalid configuration argument"},
                               {"__global__ function call is not configured"},
                               {"cudaErrorInvalidConfiguration"},
                               {"too many resources requested for launch"},
                               {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                               {"cudaErrorLaunchOutOfResources"},
                               {"too many blocks in cooperative launch"},
                               {"cudaErrorCooperativeLaunchTooLarge"},
                               {"OutOfResources: out of resource"},
                               {"out of resource: shared memory"},
                               {"uses too much shared data"},
                               {"canUse32BitIndexMath"},
                               {"must fit into 32-bit index math"},
                               {"numel needs to be smaller than int32_t max"},
                               {"hipErrorInvalidConfiguration"},
                               {"cuda runtime error (9)"},
                               {"cuda runtime error (7)"},
                               {"cuda runtime error (701)"},
                               {"CUDA error 9:"},
                               {"launch*config", nullptr, Depth::kGuess},
                               {"too many resources", nullptr, Depth::kGuess},
                               {"launch*invalid", nullptr, Depth::kGuess},
                               {"kernel launch blocks must be positive"},
                               {"kernel launch", nullptr, Depth::kGuess},
                               {"cudaSuccess (9 vs. 0)"},
                               {"CUDA error(9)"}};
constexpr Cause kLaunchCauses[] = {
    {.why = "A kernel uses more registers or shared memory than a block of this device has.",
     .step = "Build the extension for this device, with fewer threads per block or launch bounds.",
     .when = "too many resources"},
    {.why =
         "A kernel was launched over nothing, or over more than a grid holds: an empty batch, or "
         "more than 2^31 elements (a batch of 65,536 in some kernels).",
     .step = "Guard against empty inputs, and split the batch. An extension built for another "
             "LibTorch is the next suspect."}};

constexpr ErrorRow kKernelRows[] = {
    {.number = 17,
     .name = "device-side-assert",
     .title = "an assertion failed in a kernel",
     .depth = Depth::kCause,
     .patterns = kAssert,
     .causes = kAssertCauses,
     .checks = "variables",
     .confirm = "the same batch on the CPU",
     .source = "https://github.com/pytorch/pytorch/issues/55027",
     .counts_as_warning = true},
    {.number = 18,
     .name = "illegal-memory-access",
     .title = "a kernel touched memory that is not its own",
     .depth = Depth::kCause,
     .patterns = kIllegal,
     .causes = kIllegalCauses,
     .checks = "variables, driver",
     .confirm = "compute-sanitizer with caching off; Xid 31 or 13 in dmesg",
     .source = "https://github.com/pytorch/pytorch/issues/45294"},
    {.number = 19,
     .name = "misaligned-address",
     .title = "a kernel ended abnormally",
     .depth = Depth::kCause,
     .patterns = kMisaligned,
     .causes = kMisalignedCauses,
     .checks = "variables, driver",
     .confirm = "storage offsets of the operation's inputs; Xid lines in dmesg",
     .source = ""},
    {.number = 20,
     .name = "no-kernel-image",
     .title = "the build has no code for this device",
     .depth = Depth::kCause,
     .patterns = kNoKernel,
     .causes = kNoKernelCauses,
     .checks = "driver",
     .confirm = "the device's capability against the architectures of the build",
     .source = "",
     .counts_as_warning = true},
    {.number = 27,
     .name = "invalid-launch",
     .title = "a kernel cannot be launched like this",
     .depth = Depth::kCause,
     .patterns = kLaunch,
     .causes = kLaunchCauses,
     .checks = "",
     .confirm = "the number of elements of the operation's inputs",
     .source = "https://github.com/pytorch/pytorch/issues/48573"}};

}  // namespace

extern constinit const ErrorFamilyEntry kernels_entry{
    "kernels", "kernels that fail on the device", kKernelRows};

}  // namespace muster::diagnose
