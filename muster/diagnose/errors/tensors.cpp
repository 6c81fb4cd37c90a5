// Tensors of a program: rows 41, 42, 54 and 55.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

/// Where a tensor's type lives, by its name: "torch.cuda.HalfTensor", "CUDAFloatType", "MPSFloatType"; the CPU's
/// types name none: "torch.HalfTensor", "CPUFloatType", "float".
std::string_view device_of_type(std::string_view type) {
  for (const std::string_view device :
       {"cuda", "CUDA", "MPS", "mps", "xpu", "XPU", "XLA", "HIP", "npu"}) {
    if (type.find(device) != type.npos) return device.substr(0, 1) == "c" ? "CUDA" : device;
  }
  return "CPU";
}

/// "Input type (A) and weight type (B) should be the same" (check_input_same_type_as_parameters in
/// aten/src/ATen/native/Convolution.cpp) and "type A does not equal B" (checkSameType in aten/src/ATen/TensorUtils.cpp)
/// of types that live on two devices.
bool is_of_two_devices(std::string_view line) {
  constexpr std::string_view kType = "type ";
  const size_t first = line.find(kType);
  if (first == line.npos) return false;
  for (const std::string_view between :
       {" and weight type ", " and bias type ", " does not equal "}) {
    const size_t second = line.find(between, first);
    if (second == line.npos) continue;
    const std::string_view other = line.substr(second + between.size());
    return device_of_type(line.substr(first, second - first)) !=
           device_of_type(other.substr(0, other.find(' ')));
  }
  return false;
}

constexpr Pattern kDtype[] = {{"expected scalar type*but found"},
                              {"must have the same dtype"},
                              {"Input type*and weight type*should be the same"},
                              {"to have the same dtype, but got"},
                              {"Found dtype*but expected"},
                              {"not implemented for 'Half'"},
                              {"Attempting to unscale FP16 gradients"},
                              {"not implemented for '"},
                              {"Expected object of scalar type"},
                              {"expected dtype*but got dtype"},
                              {"to have one of the following scalar types"},
                              // torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
                              {"must have the same type as input"},
                              {"Tensors must have identical type"},
                              // checkSameType of aten/src/ATen/TensorUtils.cpp
                              {"to have the same type as tensor for"},
                              {"can't be cast to the desired output type"},
                              {"to have the same dtype"},
                              {"Only Tensors of floating point"},
                              {"value cannot be converted to type"},
                              {"and bias type*should be the same"},
                              {"tensors used as indices must be"},
                              {"source and destination dtypes match"},
                              {"to be equal to src.dtype"},
                              {"Expected floating point type"},
                              {"Expected dtype"},
                              {"expected*to have dtype"},
                              {"expected scalar type"},
                              {"Expected a floating point"},
                              {"dtypes to be the same"},
                              {"only supports floating-point dtypes"},
                              {"input dtype should be either floating point or complex"},
                              {"not supported on CPUType"},
                              {"not implemented for CPUType"},
                              {"not supported on CUDAType"},
                              {"does not support bfloat16"},
                              {"only support fp16 and bf16"},
                              {"only supports fp16 and bf16"},
                              {"Bfloat16 is only supported on GPUs"},
                              {"dtype*expected", nullptr, Depth::kGuess},
                              {"expected*dtype", nullptr, Depth::kGuess},
                              {"dtype*match", nullptr, Depth::kGuess},
                              {"same dtype", nullptr, Depth::kGuess},
                              {"different dtype", nullptr, Depth::kGuess},
                              {"scalar type*expected", nullptr, Depth::kGuess},
                              {"expected*scalar type", nullptr, Depth::kGuess},
                              {"incompatible dtype", nullptr, Depth::kGuess},
                              {"unsupported dtype", nullptr, Depth::kGuess},
                              {"only support*data type", nullptr, Depth::kGuess},
                              {"only support*dtype", nullptr, Depth::kGuess},
                              {"dtype*not supported", nullptr, Depth::kGuess},
                              {"expected*float*but", nullptr, Depth::kGuess},
                              {"expected*long*but", nullptr, Depth::kGuess},
                              {"expected*half*but", nullptr, Depth::kGuess},
                              {"unsupported scalar", nullptr, Depth::kGuess},
                              {"dtype is float but Op is trying to write dtype"},
                              {"dtype*dtype", nullptr, Depth::kGuess},
                              {"type float*type half", nullptr, Depth::kGuess}};
constexpr Cause kDtypeCauses[] = {
    {.why = "This device does not know bfloat16, which needs capability 8.0.",
     .step = "Use float16 (with a gradient scaler) or float32.",
     .when = "bfloat16"},
    {.why = "Input and weights lie on different devices or have different types.",
     .step = "Move both with to(device, dtype) in the same place.",
     .when = "Input type (torch.FloatTensor) and weight type (torch.cuda"},
    {.why = "This operation has no kernel for 16 bits on the CPU.",
     .step = "Use float32 or bfloat16 on the CPU.",
     .when = "not implemented for 'Half'"},
    {.why =
         "Tensors of two dtypes meet in one operation: a half-precision model with float inputs, a "
         "layer left out of the cast, or a region outside autocast.",
     .step = "Print the dtypes of the operation's inputs. Keep weights in float32 under autocast; "
             "cast inputs where they enter; add no tensor of another dtype by hand."}};

constexpr Pattern kDevice[] = {{"Input type*and weight type*should be the same", is_of_two_devices},
                               {"and bias type*should be the same", is_of_two_devices},
                               {"to have the same type as tensor for", is_of_two_devices},
                               {"Expected all tensors to be on the same device"},
                               {"Expected object of device type cuda but got device type cpu"},
                               {"Input type (torch.FloatTensor) and weight type (torch.cuda"},
                               {"Input type (torch.cuda*and weight type (torch.FloatTensor"},
                               {"tensors on different devices"},
                               {"pointer resides on host memory and is not registered"},
                               {"indices should be either on cpu or on the same device"},
                               {"Expected object of backend"},
                               {"to have the same device as"},
                               {"different from other tensors on"},
                               {"is on CPU, but expected it to be on GPU"},
                               {"is on CPU, but expected"},
                               {"must be on the current device"},
                               {"tensors are not at the same device"},
                               {"arguments are located on different GPUs"},
                               {"but found one of them on device"},
                               {"device type for generator but found"},
                               {"device type tensor to numpy"},
                               {"must be on the same device"},
                               {"to be on the same device"},
                               {"found at least two devices"},
                               {"Expected object of device type"},
                               {"should be on the same device"},
                               {"all on the same device"},
                               {"Input type (CUDA*and weight type (CPU*should be the same"},
                               {"Input type (CPU*and weight type (CUDA*should be the same"},
                               {"Placeholder storage has not been allocated on MPS"},
                               {"Input type (MPS*and weight type*should be the same"},
                               {"all tensors must be on devices[0]"},
                               {"is not on the expected device"},
                               {"only work with single-device"},
                               {"must be a CUDA tensor"},
                               {"must be CUDA tensor"},
                               {"must be a CPU tensor"},
                               {"must be on CUDA"},
                               {"must be on GPU"},
                               {"should be on GPU"},
                               {"is not a CUDA tensor"},
                               {"expected a CUDA tensor"},
                               {"same device", nullptr, Depth::kGuess},
                               {"different devices", nullptr, Depth::kGuess},
                               {"expected*on device", nullptr, Depth::kGuess},
                               {"expected*on cuda", nullptr, Depth::kGuess},
                               {"expected*on the gpu", nullptr, Depth::kGuess},
                               {"tensors*cpu*gpu", nullptr, Depth::kGuess},
                               {"tensors*cpu*cuda", nullptr, Depth::kGuess},
                               {"must have its parameters and buffers on device"},
                               {"found*on device", nullptr, Depth::kGuess},
                               {"is on cpu", nullptr, Depth::kGuess},
                               {"is on cuda", nullptr, Depth::kGuess},
                               {"on the same gpu", nullptr, Depth::kGuess}};
constexpr Cause kDeviceCauses[] = {
    {.why = "A tensor was made over memory of the host, and says that it is on a device (from_blob "
            "with "
            "a device among its options).",
     .step = "Leave the device out of from_blob's options, and move the tensor with to(device).",
     .when = "pointer resides on host memory"},
    {.why = "A tensor stayed behind when the model was moved: one that is a plain member and not "
            "registered, an input, or one that is made inside forward.",
     .step = "register_buffer, register_parameter or register_module it; make new tensors with the "
             "options of an existing one; move inputs where they enter."}};

constexpr Pattern kIndex[] = {{"index out of range in self"},
                              {"Target*is out of bounds"},
                              {"index*is out of bounds for dimension*with size"},
                              {"Class values must be"},
                              {"all elements of target should be between 0 and 1"},
                              {"index out of range in"},
                              {"out of bounds for dimension"},
                              {"out of range for tensor of size"},
                              {"exceeds dimension size"},
                              {"elements of input should be between 0 and 1"},
                              {"Assertion `cur_target >= 0"},
                              {"index*out of bounds with size"},
                              {"is out of bounds for axis"},
                              {"selected index k out of range"},
                              {"Tried to access index"},
                              {"point to valid indices"},
                              {"index*out of", nullptr, Depth::kGuess},
                              {"indices*out of", nullptr, Depth::kGuess},
                              {"indices*valid", nullptr, Depth::kGuess},
                              {"index*bounds", nullptr, Depth::kGuess},
                              {"out of table", nullptr, Depth::kGuess},
                              {"label*out of", nullptr, Depth::kGuess},
                              {"labels must be", nullptr, Depth::kGuess},
                              {"index error", nullptr, Depth::kGuess},
                              {"out of range", nullptr, Depth::kGuess},
                              {"out of bounds", nullptr, Depth::kGuess}};
constexpr Cause kIndexCauses[] = {
    {.why = "A label is outside 0 … classes-1.",
     .step = "Compare the smallest and largest label with the width of the last layer.",
     .when = "Target*is out of bounds"},
    {.why = "A target of the binary cross-entropy is outside [0, 1].",
     .step = "Look at the smallest and largest target.",
     .when = "target should be between"},
    {.why = "An index is outside the table or the dimension that it is looked up in.",
     .step =
         "Compare the largest index with the rows of the embedding, and the longest sequence with "
         "the positions. On a device this is a device-side assert."}};

constexpr Pattern kShapes[] = {
    {"shapes cannot be multiplied"},
    {"to have same number of elements as"},
    {"to have same size as tensor for"},
    {"The size of tensor a*must match the size of tensor b"},
    {"size mismatch for*copying a param"},
    {"Given groups=*expected input"},
    {"size mismatch, m1:"},
    {"is invalid for input of size"},
    {"is invalid for input with"},               // TH's THStorage.cpp
    {"whose dimensions in the checkpoint are"},  // load_state_dict before 1.0
    {"Sizes of tensors must match except in dimension"},
    {"Expected more than 1 value per channel when training"},
    {"input.size(-1) must be equal to input_size"},
    {"must match the existing size"},
    {"must match mat2 dim"},
    {"dimensional input, got"},
    {"dimensional input for"},
    {"D (unbatched) or"},
    {"D input (got"},
    {"Kernel size can't be greater than actual input size"},
    {"Calculated padded input size per channel"},
    {"Output size is too small"},
    {"to match target batch_size"},
    {"input and target shapes do not match"},
    {"different to the input size"},
    {"to have*channels, but got"},
    {"size mismatch"},
    {"Expected size for first two dimensions of batch2"},
    {"stack expects each tensor to be equal size"},
    {"view size is not compatible"},
    {"expanded size of the tensor"},
    {"inconsistent tensor size"},
    {"non-singleton dimension"},
    {"Given normalized_shape="},
    {"running_mean should contain"},
    {"weight should have at least"},
    {"only batches of spatial targets supported"},
    {"multi-target not supported"},
    {"must have same number of dimensions"},
    {"doesn't match the broadcast shape"},
    {"number of dims don't match in permute"},
    {"expected a non-empty list of Tensors"},
    {"with negative dimension"},
    {"cannot reshape tensor of 0 elements"},
    {"Dimension out of range (expected to be in range"},
    {"Boolean value of Tensor with more than one value"},
    {"does not match the shape of the indexed tensor"},
    {"a Tensor with*elements cannot be converted to Scalar"},
    {"dimension specified as*but tensor has no dimensions"},
    {"shape mismatch:"},
    {"einsum():"},
    {"tensors must be 2-D"},
    {"matrices expected, got"},
    {"matrix and vector expected"},
    {"vector and vector expected"},
    {"tensors expected, got"},
    {"D tensor expected, got"},
    {"Expected size*but got size"},
    {"too many indices for tensor"},
    {"invalid index of a 0-dim tensor"},
    {"applied to a 0-dim tensor"},
    {"resize storage that is not resizable"},
    {"attn_mask is*but should be"},
    {"wrong matrix size"},
    {"invalid size: got"},
    {"expects at least a 1-dimensional tensor"},
    {"should also be *-D but got"},
    {"Expected hidden*size"},
    {"batch size *doesn't match hidden"},
    {"must be 1-D"},
    {"must be 2-D"},
    {"must be 3-D"},
    {"must be 4-D"},
    {"size*got", nullptr, Depth::kGuess},
    {"size*expected", nullptr, Depth::kGuess},
    {"expected*size", nullptr, Depth::kGuess},
    {"shape*got", nullptr, Depth::kGuess},
    {"shape*expected", nullptr, Depth::kGuess},
    {"expected*shape", nullptr, Depth::kGuess},
    {"dimension*got", nullptr, Depth::kGuess},
    {"dimension*expected", nullptr, Depth::kGuess},
    {"expected*dimension", nullptr, Depth::kGuess},
    {"must be *-d", nullptr, Depth::kGuess},
    {"should *be *-d", nullptr, Depth::kGuess},
    {"must have *dimension", nullptr, Depth::kGuess},
    {"size*match", nullptr, Depth::kGuess},
    {"shape*match", nullptr, Depth::kGuess},
    {"dimension*match", nullptr, Depth::kGuess},
    {"incompatible shape", nullptr, Depth::kGuess},
    {"incompatible dimension", nullptr, Depth::kGuess},
    {"inconsistent*size", nullptr, Depth::kGuess},
    {"inconsistent*shape", nullptr, Depth::kGuess},
    {"wrong shape", nullptr, Depth::kGuess},
    {"wrong number of dimensions", nullptr, Depth::kGuess},
    {"invalid shape", nullptr, Depth::kGuess},
    {"cannot be broadcast", nullptr, Depth::kGuess},
    {"could not be broadcast", nullptr, Depth::kGuess},
    {"must be a *-d", nullptr, Depth::kGuess},
    {"must have the same shape", nullptr, Depth::kGuess},
    {"same number of dimensions", nullptr, Depth::kGuess},
    {"cannot reshape", nullptr, Depth::kGuess},
    {"Expected 1-D argument"},
    {"Expected 2-D argument"},
    {"Expected 3-D argument"},
    {"match*size", nullptr, Depth::kGuess},
    {"match*shape", nullptr, Depth::kGuess},
    {"match*dimension", nullptr, Depth::kGuess},
    {"expected 3D tensor"},
    {"expected 4D tensor"},
    {"Need input of dimension"},
    {"expected*d tensor", nullptr, Depth::kGuess},
    {"input of dimension", nullptr, Depth::kGuess},
    {"wrong dimension", nullptr, Depth::kGuess}};
constexpr Cause kShapesCauses[] = {
    {.why = "The checkpoint is of another model: other widths or another number of classes.",
     .step = "Build the model with the options that it was saved with, or leave the layer out when "
             "loading.",
     .when = "copying a param"},
    {.why = "A batch norm had one value per channel: the last batch has one sample.",
     .step = "Leave the last incomplete batch out (drop_last), or take another batch size.",
     .when = "more than 1 value per channel"},
    {.why = "The shapes of the operands do not fit.",
     .step =
         "Print the shape in front of the layer that fails: the size of the image, the flattened "
         "features, or a channel too many are usual."}};

constexpr ErrorRow kTensorRows[] = {
    {.number = 41,
     .name = "dtype-mismatch",
     .title = "dtypes do not fit",
     .depth = Depth::kCause,
     .patterns = kDtype,
     .causes = kDtypeCauses,
     .checks = "",
     .confirm = "dtypes of the operation's inputs",
     .source = ""},
    {.number = 54,
     .name = "index-out-of-range",
     .title = "an index or a label is outside its range",
     .depth = Depth::kCause,
     .patterns = kIndex,
     .causes = kIndexCauses,
     .checks = "",
     .confirm = "the largest index against the size that it is looked up in",
     .source = ""},
    {.number = 55,
     .name = "shape-mismatch",
     .title = "shapes do not fit",
     .depth = Depth::kCause,
     .patterns = kShapes,
     .causes = kShapesCauses,
     .checks = "",
     .confirm = "shapes of the operation's inputs",
     .source = ""},
    {.number = 42,
     .name = "device-mismatch",
     .title = "tensors are on different devices",
     .depth = Depth::kCause,
     .patterns = kDevice,
     .causes = kDeviceCauses,
     .checks = "",
     .confirm = "members of the module against what is registered",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry tensors_entry{
    "tensors", "dtypes, devices and shapes of tensors", kTensorRows};

}  // namespace muster::diagnose
