// Gradients and tensors of a program: rows 36, 39 to 42, 54 and 55.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kUnused[] = {{"Expected to have finished reduction in the prior iteration"},
                               {"parameters that were not used in producing"},
                               {"Expected to mark a variable ready only once"},
                               {"Parameter at index*has been marked as ready twice"},
                               {"doesn't have any parameters that require a gradient"}};
constexpr Cause kUnusedCauses[] = {
    {.why = "A parameter takes part twice in one backward: it is shared by two passes, or "
            "recomputed by activation checkpointing.",
     .step = "Tell DDP that the graph is static, use the checkpointing that is not re-entrant, or "
             "make one forward of the two.",
     .when = "marked as ready twice"},
    {.why = "A parameter takes part twice in one backward: shared by two passes, or recomputed by "
            "activation checkpointing.",
     .step = "Tell DDP that the graph is static, or use the checkpointing that is not re-entrant.",
     .when = "ready only once"},
    {.why =
         "An output of forward has no part in the loss, though unused parameters are looked for.",
     .step = "Return only what the loss is computed from, or add the rest to it with weight 0.",
     .when = "find_unused_parameters=True` is enabled"},
    {.why = "Some parameters had no part in the loss, and DDP waits for their gradients.",
     .step = "Set find_unused_parameters (it costs a walk over the graph), or freeze or remove "
             "what is not used. TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters; Muster's DDP "
             "names them by itself."}};

constexpr Pattern kTwice[] = {{"backward through the graph a second time"}};
constexpr Cause kTwiceCauses[] = {
    {.why = "A tensor of an earlier step is part of the loss: the state of an RNN, a cached "
            "feature, a "
            "running sum; or backward is called twice on one graph.",
     .step = "detach() what is carried from step to step, and compute the loss anew before each "
             "backward. retain_graph only hides it, and costs memory."}};

constexpr Pattern kInplace[] = {{"modified by an inplace operation"},
                                {"a leaf Variable that requires grad"},
                                {"a view of a leaf Variable"},
                                {"is a view and is being modified inplace"},
                                {"is a view of a leaf*in-place"},
                                {"moved into the graph interior"}};
constexpr Cause kInplaceCauses[] = {
    {.why =
         "A tensor that backward needs was changed after it had been used: `+=`, relu_, an index "
         "assignment, or an optimizer's step between two backwards.",
     .step =
         "Use the form that makes a new tensor. Anomaly mode shows the operation whose backward "
         "failed; the change came after it. With two networks, call both backwards before "
         "the first step."}};

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
                              {"Bfloat16 is only supported on GPUs"}};
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

constexpr Pattern kDevice[] = {{"Expected all tensors to be on the same device"},
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
                               {"is not on the expected device"}};
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
                              {"selected index k out of range"}};
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

constexpr Pattern kShapes[] = {{"shapes cannot be multiplied"},
                               {"The size of tensor a*must match the size of tensor b"},
                               {"size mismatch for*copying a param"},
                               {"Given groups=*expected input"},
                               {"size mismatch, m1:"},
                               {"is invalid for input of size"},
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
                               {"expects at least a 1-dimensional tensor"}};
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

constexpr Pattern kNan[] = {{"nan values in its 0th output"},
                            {"nan values in its 1th output"},
                            {"nan values in its"},
                            {"probability tensor contains either"},
                            {"oss is nan, stopping"},
                            {"Loss became infinite or NaN"},
                            {"loss is NaN"},
                            {"non-finite loss"},
                            {"found NaN in loss"},
                            {"Loss is infinite or NaN"},
                            {"loss has become NaN"},
                            {"loss diverged"},
                            {"contains NaN or infinity"},
                            {"Current loss scale already at minimum"},
                            {"Minimum loss scale reached"},
                            {"Detected NaN"},
                            {"input contains NaN"},
                            {"The total norm of order*is non-finite"},
                            {"was found non-finite"},
                            {"loss: nan", nullptr, Depth::kPerhaps},
                            {"loss=nan", nullptr, Depth::kPerhaps},
                            {"loss nan", nullptr, Depth::kPerhaps},
                            {"to satisfy the constraint"}};
constexpr Cause kNanCauses[] = {
    {.why = "Sampling met probabilities that are negative, infinite or NaN.",
     .step = "Find the first NaN in what comes before; draw from logits in float32.",
     .when = "probability tensor"},
    {.why = "In 16 bits a value became too large, again and again, until the loss scale had "
            "nowhere to go.",
     .step = "Use bfloat16, a lower learning rate, or float32 where sums are long (losses, norms, "
             "softmax).",
     .when = "loss scale"},
    {.why = "A value became infinite or NaN: a learning rate that is too high, a division or "
            "logarithm of zero, a bad sample, or an overflow in 16 bits.",
     .step = "Find the first operation that makes it (anomaly mode, or a check after each layer); "
             "look at that batch; clip gradients, warm the learning rate up, add an epsilon under "
             "logarithms, roots and divisions."}};

constexpr Pattern kNoGrad[] = {{"does not require grad and does not have a grad_fn"},
                               {"appears to not have been used in the graph"},
                               {"grad can be implicitly created only for scalar outputs"},
                               {"optimizer got an empty parameter list"},
                               {"can't optimize a non-leaf Tensor"},
                               {"can't optimize a non-leaf"},
                               {"cannot register a hook on a tensor that doesn't require gradient"},
                               {"can't call numpy() on Tensor that requires grad"},
                               {"No inf checks were recorded for this optimizer"},
                               {"One of the differentiated Tensors does not require grad"}};
constexpr Cause kNoGradCauses[] = {
    {.why = "backward starts from a tensor with more than one element.",
     .step = "Take the mean or the sum first, or give backward a gradient of that shape.",
     .when = "scalar outputs"},
    {.why = "The optimizer was given what is no parameter of a leaf: none at all, or the result of "
            "an operation (to(device) on a parameter is one).",
     .step = "Move the module first, and give the optimizer module.parameters() after that.",
     .when = "optimi"},
    {.why = "The loss has no way back to a parameter: computed under NoGradGuard, through item(), "
            "detach() or a conversion, from inputs alone, or all parameters are frozen.",
     .step = "Print requires_grad of what goes into the loss, from its end backwards: the step "
             "where it turns false is the one. With re-entrant checkpointing one input must "
             "require a gradient."}};

constexpr ErrorRow kTensorRows[] = {
    {.number = 36,
     .name = "ddp-unused-parameters",
     .title = "DDP waits for gradients that do not come",
     .depth = Depth::kCause,
     .patterns = kUnused,
     .causes = kUnusedCauses,
     .checks = "",
     .confirm = "the parameters without a gradient after backward",
     .source = "https://github.com/pytorch/pytorch/issues/22436"},
    {.number = 39,
     .name = "backward-twice",
     .title = "backward goes through a graph a second time",
     .depth = Depth::kCause,
     .patterns = kTwice,
     .causes = kTwiceCauses,
     .checks = "",
     .confirm = "the depth of the loss's graph grows from step to step",
     .source = ""},
    {.number = 40,
     .name = "inplace-modified",
     .title = "a tensor that backward needs was changed",
     .depth = Depth::kCause,
     .patterns = kInplace,
     .causes = kInplaceCauses,
     .checks = "",
     .confirm = "anomaly mode; version counters of the saved tensors",
     .source = ""},
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
     .source = ""},
    {.number = 66,
     .name = "not-a-number",
     .title = "a value is NaN or infinite",
     .depth = Depth::kCause,
     .patterns = kNan,
     .causes = kNanCauses,
     .checks = "",
     .confirm = "the first operation whose result is not finite",
     .source = ""},
    {.number = 67,
     .name = "no-gradient",
     .title = "there is no gradient to compute",
     .depth = Depth::kCause,
     .patterns = kNoGrad,
     .causes = kNoGradCauses,
     .checks = "",
     .confirm = "requires_grad along the way from the loss to a parameter",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry tensors_entry{
    "tensors", "gradients, dtypes and devices of tensors", kTensorRows};

}  // namespace muster::diagnose
