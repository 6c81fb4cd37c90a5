// What a program on LibTorch does that LibTorch does not take: rows 74 to 76, 78 to 80 and 83.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr bool is_not_zero(std::string_view line) { return line.find("status 0") == line.npos; }

constexpr Pattern kFailed[] = {
    {"srun: error*Exited with exit code"},
    {"DUE TO TASK FAILURE"},
    {"Primary job  terminated normally, but"},
    {"mpirun detected that one or more processes exited"},
    {"MPI_ABORT was invoked on rank"},
    {"Horovod has been shut down", nullptr, Depth::kPeer},
    {"MPI communication peer process has unexpectedly disconnected", nullptr, Depth::kPeer},
    {"DataLoader worker*exited unexpectedly"},
    {"Pin memory thread exited unexpectedly"},
    {"terminated with exit code"},
    {"ProcessExitedException"},
    {"Microsoft C++*c10::Error"},
    {"CrashLoopBackOff"},
    {"Back-off restarting failed container"},
    {"ssh exited with exit code 1"},
    {"0xC0000409"},
    {"-1073740791"},
    {"exception in a background process"},
    {"See stack trace for root cause"},
    {"Got fatal signal from worker", nullptr, Depth::kPeer},
    {"Engine core initialization failed"},
    {"ActorDiedError"},
    {"The actor died unexpectedly"},
    {"worker died unexpectedly"},
    {"application called MPI_Abort"},
    {"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"},
    {"Worker exit type: SYSTEM_ERROR"},
    {"traceback : To enable traceback see"},
    {"background workers are no longer alive"},
    {"Background workers died"},  // nnU-Net
    {"background worker is 6 feet under"},
    {"[process exited with code"},
    {"terminated or timed out after"},
    {"有未经处理的异常"},
    {"no longer alive", nullptr, Depth::kGuess},
    {"terminated or timed out", nullptr, Depth::kGuess},
    {"worker*died", nullptr, Depth::kGuess},
    {"worker*is dead", nullptr, Depth::kGuess},
    {"worker*crashed", nullptr, Depth::kGuess},
    {"process*exited with", nullptr, Depth::kGuess},
    {"process*died", nullptr, Depth::kGuess},
    {"process*crashed", nullptr, Depth::kGuess},
    {"ChildFailedError", nullptr, Depth::kPerhaps},
    {"failed (exitcode: ", nullptr, Depth::kPerhaps},
    {"Root Cause (first observed failure)", nullptr, Depth::kPerhaps},
    {"exitcode  : *(pid", nullptr, Depth::kPerhaps},
    {"job failed, log is in", nullptr, Depth::kPerhaps},
    {"Command exited with status", is_not_zero, Depth::kPerhaps},
    {"' panicked at", nullptr, Depth::kPerhaps},
    {"returned non-zero exit status", nullptr, Depth::kPerhaps},
    {"exited with non-zero", nullptr, Depth::kPerhaps},
    {"See root cause above", nullptr, Depth::kPerhaps},
    {"terminated with the following error", nullptr, Depth::kPerhaps},
    {"Process completed with exit code", nullptr, Depth::kPerhaps},
    {"Worker group failed", nullptr, Depth::kPerhaps},
    {"subprocess-exited-with-error", nullptr, Depth::kPerhaps},
    {"exited with code 1", nullptr, Depth::kPerhaps},
    {"exited with status 1", nullptr, Depth::kPerhaps},
    {"Exit code: 1", nullptr, Depth::kPerhaps},
    {"` failed on ", nullptr, Depth::kPerhaps},
    {"command failed with exit", nullptr, Depth::kPerhaps},
    {"unhandled exception", nullptr, Depth::kGuess},
    {"torchelastic.worker.status.FAILED"},
    {"BrokenProcessPool"},
    {"ProcessRaisedException"},
    {"WorkerCrashedError"},
    {"LocalRayletDiedError"},
    {"worker process has died"},
    {"worker has died"},
    {"terminated abruptly", nullptr, Depth::kPerhaps},
    {"mpirun has exited due to process rank"},
    {"Your MPI job will now abort", nullptr, Depth::kPerhaps},
    {"MPI_FINALIZE was invoked", nullptr, Depth::kPerhaps},
    {"MPI_ERR", nullptr, Depth::kPerhaps},
    {"Fatal error in MPI_"},
    {"Fatal error in PMPI_"},
    {"exits with return code = 1", nullptr, Depth::kPerhaps},
    {"Engine process failed to start", nullptr, Depth::kPerhaps},
    {"EngineDeadError", nullptr, Depth::kPerhaps}};
constexpr Cause kFailedCauses[] = {
    {.why = "An exception of LibTorch was not caught, and Windows does not print what it says.",
     .step = "Catch c10::Error (or std::exception) in main and print what(), or look at it in the "
             "debugger.",
     .when = "Microsoft C++*c10::Error"},
    {.why = "A worker that loads data ended by itself; its own error went with it.",
     .step = "Load without workers once (num_workers=0), which shows the error. On Windows the "
             "main script must start under `if __name__ == \"__main__\"`; on Linux see whether the "
             "kernel killed it (dmesg).",
     .when = "DataLoader worker"},
    {.why =
         "The container ends as soon as it starts; its own words are in the log of the run before.",
     .step = "`kubectl logs --previous POD`, then `muster doctor` on it.",
     .when = "Back-off"},
    {.why = "One process failed by itself and the launcher ended the others. What it said is not "
            "here, or is not one of the known errors.",
     .step = "Find that rank's own log (`srun --output=%x-%t.log`, `mpirun --output-filename`, "
             "`torchrun --log-dir`), and the first error in it; the last lines that speak of a "
             "failure stand below."}};

constexpr Pattern kAborted[] = {
    {"Aborted*(core dumped)", nullptr, Depth::kPerhaps},
    {"terminate called without an active exception", nullptr, Depth::kPerhaps},
    {"interrupted by signal 6", nullptr, Depth::kPerhaps},
    {"exit code 134", nullptr, Depth::kPerhaps},
    {"exit code: 134", nullptr, Depth::kPerhaps},
    {"status 134", nullptr, Depth::kPerhaps},
    {"exited with code 134", nullptr, Depth::kPerhaps},
    {"return code = -6", nullptr, Depth::kPerhaps},
    {"failed (exitcode: -6)", nullptr, Depth::kPerhaps},
    {"exitcode*: -6", nullptr, Depth::kPerhaps},
    {"exit code -6", nullptr, Depth::kPerhaps},
    {"died with <Signals.SIGABRT", nullptr, Depth::kPerhaps},
    {"signal SIGABRT", nullptr, Depth::kPerhaps},
    {"Signal 6 (SIGABRT) received", nullptr, Depth::kPerhaps},
    {"SIGABRT (@", nullptr, Depth::kPerhaps},
    {"SIGABRT: abort", nullptr, Depth::kPerhaps},
    {"abort() has been called", nullptr, Depth::kPerhaps},
    {"Fatal Python error: Aborted", nullptr, Depth::kPerhaps},
    {"due to signal 6", nullptr, Depth::kPerhaps},
    {"exited on signal 6", nullptr, Depth::kPerhaps},
    {"zsh: abort", nullptr, Depth::kPerhaps}};
constexpr Cause kAbortedCauses[] = {
    {.why = "A std::thread was destroyed that could still be joined: the program returned, or an "
            "exception passed, while a "
            "thread ran.",
     .step = "Join it on every way out (std::jthread does), and look for an error above that led "
             "out early.",
     .when = "terminate called without an active exception"},
    {.why = "The program ended itself (SIGABRT): an exception that nobody caught, a failed "
            "assertion or check, or a heap that "
            "glibc found corrupted.",
     .step = "Its reason stands in the lines before. If there is none, `gdb --args PROGRAM`, "
             "`run`, `bt` shows who called abort."}};

constexpr Pattern kAssertion[] = {{"INTERNAL ASSERT FAILED*please report a bug to PyTorch"},
                                  {"ASSERT FAILED*please report a bug to PyTorch"},
                                  {"please report a bug to PyTorch"},
                                  {"torch/csrc*assertion"},
                                  {"aten/src*assertion"},
                                  {"c10/*assertion `"},
                                  {"internal assert", nullptr, Depth::kGuess}};
constexpr Cause kAssertionCauses[] = {
    {.why = "A module is used that was not loaded: torch::jit::load threw, or was not called.",
     .step = "Check what load returned before the first forward.",
     .when = "_ivalue_INTERNAL ASSERT"},
    {.why = "LibTorch met a state that its authors had held to be impossible: a use that is not "
            "checked, parts of two LibTorchs in one process, or a defect of LibTorch.",
     .step = "See that headers and libraries are of one version (`muster doctor --program FILE`). "
             "Then look for the expression before ASSERT FAILED among PyTorch's issues, and try "
             "the newest version."}};

constexpr Pattern kUndefined[] = {{"found an undefined Tensor"},
                                  {"an undefined Tensor"},
                                  {"tensor does not have a device"},
                                  {"that doesn't have storage"},
                                  {"Storage that is invalid"},
                                  {"Accessing empty ModuleHolder"},
                                  {"undefined tensor"},
                                  {"Expected a proper Tensor but got None"},
                                  {"Tensor that does not have storage"},
                                  {"Cannot copy out of meta tensor"},
                                  {"null tensor", nullptr, Depth::kGuess},
                                  {"uninitialized tensor", nullptr, Depth::kGuess},
                                  {"empty tensor", nullptr, Depth::kGuess},
                                  {"tensor*undefined", nullptr, Depth::kGuess},
                                  {"tensor*not initialized", nullptr, Depth::kGuess}};
constexpr Cause kUndefinedCauses[] = {
    {.why = "A module holder is empty: declared with nullptr and never given a module.",
     .step = "Give it one in the constructor (register_module(\"fc\", torch::nn::Linear(…))).",
     .when = "ModuleHolder"},
    {.why = "A tensor that was never given a value is used: a gradient before backward or of a "
            "parameter that had no part in the loss, a member that was not initialised, or what a "
            "function returned in a case that was not thought of.",
     .step = "Test `tensor.defined()` before the operation that fails."}};

constexpr Pattern kScript[] = {{"Expected a value of type*for argument"},
                               {"missing value for argument"},
                               {"argument(s) but received"},
                               {"argument(s) for operator*but received"},
                               {"Method*is not defined"},
                               {"Unknown keyword argument"},
                               {"Expected Tensor but got"},
                               {"isTensor() INTERNAL ASSERT"},
                               {"isTuple() INTERNAL ASSERT"},
                               {"isTensorList() INTERNAL ASSERT"},
                               {"Expected Tuple but got"},
                               {"Expected GenericList but got"},
                               {"Expected GenericDict but got"},
                               {"is_tensor_list*INTERNAL ASSERT"},
                               {"torchscript", nullptr, Depth::kGuess},
                               {"script method", nullptr, Depth::kGuess},
                               {"forward()*missing", nullptr, Depth::kGuess},
                               {"arguments but found*positional"},
                               {"Expected at most*arguments but found"},
                               {"Expected at least*arguments"},
                               {"Arguments for call are not valid"}};
constexpr Cause kScriptCauses[] = {
    {.why = "What a script returns is of another type than the program takes: a tuple or a "
            "dictionary where a tensor is expected, for instance.",
     .step = "Ask the value first (`value.tagKind()`), then take toTuple()->elements() or "
             "toGenericDict().",
     .when = "but got"},
    {.why = "A method of a script was called with other arguments than it has.",
     .step = "Compare the call with the method's schema "
             "(`module.get_method(\"forward\").function().getSchema()`)."}};

constexpr Pattern kSingular[] = {{"matrix is singular"},
                                 {"is singular"},
                                 {"U(*is zero, singular"},
                                 {"not positive-definite"},
                                 {"Cholesky decomposition was not successful"},
                                 {"is not positive definite"},
                                 {"failed to converge"},
                                 {"did not converge"},
                                 {"leading minor of order"},
                                 {"illegal argument*in call to lapack"},
                                 {"MAGMA*singular"},
                                 {"could not be completed because the input matrix"},
                                 {"not positive", nullptr, Depth::kGuess},
                                 {"ill-conditioned", nullptr, Depth::kGuess},
                                 {"LinAlgError"},
                                 {"Singular matrix"},
                                 {"array is not positive definite"},
                                 {"singular", nullptr, Depth::kGuess},
                                 {"converge", nullptr, Depth::kGuess}};
constexpr Cause kSingularCauses[] = {
    {.why = "A decomposition has no result: a matrix is singular, not positive definite, or has "
            "NaN in it.",
     .step = "Look for NaN in the input first; then add a small multiple of the identity, take "
             "float64, or the pseudo-inverse."}};

constexpr Pattern kArithmetic[] = {{"Floating point exception"},
                                   {"Floating exception"},
                                   {"trap divide error"},
                                   {"SIGFPE (@"},
                                   {"signal SIGFPE"},
                                   {"Signal 8 (SIGFPE) received"},
                                   {"failed (exitcode: -8)"},
                                   {"exited with code 136"},
                                   // SIGFPE in the words of DeepSpeed and of other launchers
                                   {"return code = -8"},
                                   {"return code: -8"},
                                   {"return code -8"},
                                   {"exit code: -8"},
                                   {"exit code -8"},
                                   {"exitcode -8"},
                                   {"exit code 136"},
                                   {"died with <Signals.SIGFPE"},
                                   {"Arithmetic exception"},
                                   {"0xC0000094"},
                                   {"interrupted by signal 8"},
                                   {"division by zero", nullptr, Depth::kGuess},
                                   {"divide by zero", nullptr, Depth::kGuess}};
constexpr Cause kArithmeticCauses[] = {
    {.why = "An integer was divided by zero, or by -1 the smallest there is (it has this name "
            "though no floating point is in it): as a rule a size that is 0: an empty batch or "
            "image, no classes, no processors seen.",
     .step = "`gdb --args PROGRAM`, `run`, `bt` shows the division. Check the sizes that go in; a "
             "library that divides while it is loaded does not suit this processor."}};

constexpr ErrorRow kProgramRows[] = {
    {.number = 74,
     .name = "process-failed",
     .title = "a process failed; its own words are not here, or not known",
     .depth = Depth::kPerhaps,
     .patterns = kFailed,
     .causes = kFailedCauses,
     .checks = "",
     .confirm = "the failed rank's own log",
     .source = ""},
    {.number = 83,
     .name = "aborted",
     .title = "the program ended itself (SIGABRT)",
     .depth = Depth::kPerhaps,
     .patterns = kAborted,
     .causes = kAbortedCauses,
     .checks = "",
     .confirm = "the stack in a debugger",
     .source = ""},
    {.number = 75,
     .name = "arithmetic-error",
     .title = "an integer was divided by zero (SIGFPE)",
     .depth = Depth::kEnd,
     .patterns = kArithmetic,
     .causes = kArithmeticCauses,
     .checks = "",
     .confirm = "the stack in a debugger",
     .source = ""},
    {.number = 76,
     .name = "libtorch-assertion",
     .title = "an assertion in LibTorch failed",
     .depth = Depth::kPerhaps,
     .patterns = kAssertion,
     .causes = kAssertionCauses,
     .checks = "libtorch",
     .confirm = "the same program with one LibTorch of another version",
     .source = ""},
    {.number = 78,
     .name = "undefined-tensor",
     .title = "a tensor or module is empty",
     .depth = Depth::kCause,
     .patterns = kUndefined,
     .causes = kUndefinedCauses,
     .checks = "",
     .confirm = "`defined()` of the operation's inputs",
     .source = ""},
    {.number = 79,
     .name = "script-call",
     .title = "a script is called, or its result taken, in another way than it was written",
     .depth = Depth::kCause,
     .patterns = kScript,
     .causes = kScriptCauses,
     .checks = "",
     .confirm = "the method's schema",
     .source = ""},
    {.number = 80,
     .name = "singular-matrix",
     .title = "a matrix cannot be decomposed",
     .depth = Depth::kCause,
     .patterns = kSingular,
     .causes = kSingularCauses,
     .checks = "",
     .confirm = "the smallest singular value, in float64 on the CPU",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry program_entry{
    "program", "programs and LibTorch", kProgramRows};

}  // namespace muster::diagnose
