// Tensors of a program: rows 41 and 42.
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
                              {"type float*type half", nullptr, Depth::kGuess},
                              {"with a bool tensor is not supported"},
                              {"can't convert np.ndarray of type"},
                              {"is only applicable to index tensor"},
                              {"batch must contain tensors"},
                              {"only supports boolean masks"},
                              {"expected BoolTensor"},
                              {"must be a ByteTensor"},
                              {"got torch.DoubleTensor"},
                              {" dtype", nullptr, Depth::kGuess},
                              {"scalar type", nullptr, Depth::kGuess},
                              {"bool tensor", nullptr, Depth::kGuess},
                              {"fp16", nullptr, Depth::kGuess},
                              {"bf16", nullptr, Depth::kGuess},
                              {"bfloat16", nullptr, Depth::kGuess},
                              {"float16", nullptr, Depth::kGuess},
                              {"longtensor", nullptr, Depth::kGuess},
                              {"floattensor", nullptr, Depth::kGuess},
                              {"Input must have float"},
                              {"has type*that does not match expected type"},
                              {"Tensor conversion requested dtype"},
                              {"data type*not understood"},
                              {"Unexpected input data type"}};
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
                               {"on the same gpu", nullptr, Depth::kGuess},
                               {"cannot be accessed from Triton"},
                               {"DeviceType, but got tensor with"},
                               {"to numpy. Use Tensor.cpu()"},
                               {"input must be contiguous and on cuda"},
                               {"must be on the same device and the same dtype"},
                               {"must be contiguous*cuda"},
                               {"not on the right device"},
                               {"on cuda", nullptr, Depth::kGuess},
                               {"on cpu", nullptr, Depth::kGuess},
                               {"on gpu", nullptr, Depth::kGuess},
                               {"cuda tensor", nullptr, Depth::kGuess},
                               {"cpu tensor", nullptr, Depth::kGuess},
                               {"gpu tensor", nullptr, Depth::kGuess},
                               {"wrong device", nullptr, Depth::kGuess},
                               {"device type", nullptr, Depth::kGuess},
                               {"cpu*but*cuda", nullptr, Depth::kGuess},
                               {"cuda*but*cpu", nullptr, Depth::kGuess}};
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

constexpr ErrorRow kTensorRows[] = {{.number = 41,
                                     .name = "dtype-mismatch",
                                     .title = "dtypes do not fit",
                                     .depth = Depth::kCause,
                                     .patterns = kDtype,
                                     .causes = kDtypeCauses,
                                     .checks = "",
                                     .confirm = "dtypes of the operation's inputs",
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
    "tensors", "dtypes and devices of tensors", kTensorRows};

}  // namespace muster::diagnose
