// Driver, device and processes that come and go: rows 21 to 26, 46 and 53.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kTooOld[] = {{"driver version is insufficient"},
                               {"NVIDIA driver on your system is too old"},
                               {"forward compatibility was attempted on non supported HW"},
                               {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
                               {"cudaErrorInsufficientDriver"},
                               {"unsupported display driver / cuda driver combination"},
                               {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                               {"cudaErrorSystemDriverMismatch"},
                               {"cudaErrorCompatNotSupportedOnDevice"},
                               {"PTX was compiled with an unsupported toolchain"},
                               {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                               {"cudaErrorUnsupportedPtxVersion"},
                               {"nvidia-container-cli: requirement error"},
                               {"unsatisfied condition: cuda"},
                               {"unsatisfied condition: driver"},
                               {"cudaErrorCallRequiresNewerDriver"},
                               {"API call is not supported in the installed CUDA driver"},
                               {"Please update your GPU driver"},
                               {"cuda runtime error (35)"},
                               {"cuda runtime error (803)"},
                               {"cuda runtime error (804)"},
                               {"CUDA error 35:"},
                               {"CUDA driver is too old"},
                               {"driver*too old", nullptr, Depth::kGuess},
                               {"driver*insufficient", nullptr, Depth::kGuess},
                               {"driver*version", nullptr, Depth::kGuess},
                               {"update your*driver", nullptr, Depth::kGuess},
                               {"incompatible driver", nullptr, Depth::kGuess},
                               {"does not match DSO version"},
                               {"driver does not support CUDA"},
                               {"CUDA error(35)"},
                               {"cudaSuccess (35 vs. 0)"},
                               {"driver*does not support", nullptr, Depth::kGuess},
                               {"driver*not support", nullptr, Depth::kGuess}};
constexpr Cause kTooOldCauses[] = {
    {.why = "A library for forward compatibility (cuda-compat) is loaded on a card that does not "
            "know it, or beside a driver that is too old.",
     .step =
         "Take the compat folder off LD_LIBRARY_PATH (in containers /usr/local/cuda/compat), or "
         "update the driver.",
     .when = "forward compatibility"},
    {.why = "The driver is older than the CUDA that this LibTorch was built with.",
     .step = "Update the driver, or take a LibTorch for an older CUDA."}};

constexpr Pattern kMismatch[] = {{"Driver/library version mismatch"},
                                 {"NVML_ERROR_LIB_RM_VERSION_MISMATCH"},
                                 {"API mismatch: the client has the version"},
                                 {"Failed to initialize NVML: Function Not Found"}};
constexpr Cause kMismatchCauses[] = {
    {.why = "The driver's packages were upgraded, and its kernel module is still the old one.",
     .step = "Reboot, or unload and load the nvidia modules while no process uses the device. Hold "
             "the package so that unattended upgrades leave it alone."}};

constexpr Pattern kFabric[] = {{"system not yet initialized"},
                               {"CUDA_ERROR_SYSTEM_NOT_READY"},
                               {"cudaErrorSystemNotReady"},
                               {"cuda runtime error (802)"}};
constexpr Cause kFabricCauses[] = {
    {.why =
         "The devices are joined by an NVSwitch, and its fabric manager does not run, or is not of "
         "the driver's version.",
     .step =
         "Install the nvidia-fabricmanager of exactly the driver's version, start it, and see "
         "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q -i 0 | grep -A2 Fabric`."}};

constexpr Pattern kBusy[] = {{"CUDA-capable devices are busy or unavailable"},
                             {"CUDA-capable device(s) is/are busy or unavailable"},
                             {"cudaErrorDevicesUnavailable"},
                             {"cudaErrorDeviceUnavailable"},
                             {"CUDA_ERROR_DEVICE_UNAVAILABLE"},
                             {"exclusive-thread device already in use"},
                             // cudaGetErrorString of 805 to 808
                             {"MPS client failed to connect"},
                             {"MPS server is not ready to accept new MPS client"},
                             {"hardware resources required to create MPS client"},
                             {"cudaErrorDeviceAlreadyInUse"},
                             {"CUDA error: device already in use"},
                             {"cuda runtime error (46)"},
                             {"Return value 46 from 'cuda"},
                             {"gpu*in use", nullptr, Depth::kGuess},
                             {"gpu*busy", nullptr, Depth::kGuess},
                             {"device*in use", nullptr, Depth::kGuess},
                             {"device*busy", nullptr, Depth::kGuess}};
constexpr Cause kBusyCauses[] = {
    {.why =
         "The device lets one process in at a time (compute mode Exclusive_Process), and another "
         "has it; or the driver or a virtual GPU's licence is not in order.",
     .step =
         "`nvidia-smi` shows the compute mode and who is there. Free the device, take another, or "
         "set the default mode (`nvidia-smi -c 0`)."}};

constexpr Pattern kFork[] = {{"Cannot re-initialize CUDA in forked subprocess"},
                             {"CUDA error: initialization error"},
                             {"cuda runtime error (3) : initialization error"},
                             {"cudaErrorInitializationError"},
                             {"CUDA driver error: initialization error"},
                             {"error=3 : initialization error"},
                             {"cuda runtime error (3)"},
                             {"can't create new processes if CUDA is already initialized"},
                             {"already initialized*fork", nullptr, Depth::kGuess},
                             {"fork*cuda", nullptr, Depth::kGuess},
                             {"cuda*fork", nullptr, Depth::kGuess},
                             {"processes*cuda*initialized", nullptr, Depth::kGuess}};
constexpr Cause kForkCauses[] = {
    {.why = "The process was forked from one that used CUDA already; CUDA does not survive a fork.",
     .step = "Start workers before the first use of CUDA, or by spawn or exec. Loaders should make "
             "CPU tensors. Muster's loader uses threads, which have no such trouble."}};

constexpr Pattern kFault[] = {{"uncorrectable ECC error"},
                              {"CUDA_ERROR_ECC_UNCORRECTABLE"},
                              {"GPU is lost"},
                              {"fallen off the bus"},
                              {"NVRM: Xid"},
                              {"Uncorrectable NVLink error"},
                              {"uncorrectable NVLink"},
                              {"cudaErrorECCUncorrectable"},
                              {"CUDA_ERROR_NVLINK_UNCORRECTABLE"},
                              {"cudaErrorNvlinkUncorrectable"},
                              {"hardware stack error"},
                              {"CUDA_ERROR_HARDWARE_STACK_ERROR"},
                              {"cudaErrorHardwareStackError"},
                              {"RmInitAdapter failed"},
                              {"Unable to determine the device handle for GPU"},
                              {"cudaErrorContained"},
                              {"CUDA_ERROR_CONTAINED"},
                              {"GPU requires reset"},
                              {"NV_ERR_RESET_REQUIRED"},
                              {"rm_init_adapter failed"},
                              {"cuda runtime error (39)"},
                              {"cuda runtime error (214)"},
                              {"severity=Uncorrected"},
                              {"SXid"},
                              {"[Hardware Error]"},
                              {"HW Exception by GPU"},
                              {"Failed to initialize the NVIDIA GPU at"},
                              {"uncorrectable", nullptr, Depth::kGuess},
                              {"gpu*lost", nullptr, Depth::kGuess}};
constexpr Cause kFaultCauses[] = {
    {.why = "The card fell off the bus: power, heat, a riser or the card itself.",
     .step = "Take the machine out of use and reboot it; see temperatures and power in `nvidia-smi "
             "-q`. If it comes again, the card or its slot is to be changed.",
     .when = "fallen off the bus"},
    {.why = "The device's memory had an error that could not be corrected.",
     .step =
         "Reset the device or reboot; `nvidia-smi -q -d ECC,ROW_REMAPPER` tells whether rows are "
         "used up. If it comes again, the card is to be changed.",
     .when = "ECC"},
    {.why = "The driver reported an error of the device by an Xid.",
     .step =
         "Look the number up in NVIDIA's Xid catalogue: 13 and 31 are programs' accesses, 48, 63, "
         "64, 94 and 95 memory, 74 NVLink, 79 the bus."}};

constexpr Pattern kShutdown[] = {
    {"driver shutting down"}, {"cudaErrorCudartUnloading"}, {"CUDA_ERROR_DEINITIALIZED"}};
constexpr Cause kShutdownCauses[] = {
    {.why =
         "A tensor, stream or module that is global or static is destroyed after CUDA has ended, "
         "while the process exits. Results are complete as a rule.",
     .step = "Make it a local of main, or reset it before main returns; join threads that use the "
             "device."}};

/// What nvidia-container-cli says of the host is of the host, whatever libraries or devices it names.
bool is_said_by_container_cli(std::string_view line) {
  return line.find("nvidia-container-cli:") != line.npos;
}

constexpr Pattern kNoDevice[] = {
    {"no CUDA-capable device is detected"},
    {"No CUDA GPUs are available"},
    {"Found no NVIDIA driver on your system"},
    {"CUDA driver initialization failed"},
    {"invalid device ordinal"},
    {"CUDA_ERROR_NO_DEVICE"},
    {"cudaErrorNoDevice"},
    {"couldn't communicate with the NVIDIA driver"},
    {"NVIDIA-SMI has failed"},
    {"could not select device driver*gpu"},
    {"Attempting to deserialize object on a CUDA device"},
    {"CUDA_ERROR_INVALID_DEVICE"},
    {"cudaErrorInvalidDevice"},
    {"Failed to initialize NVML: Unknown Error"},
    {"NVML: Driver Not Loaded"},
    {"nvml error: driver not loaded"},
    {"No devices were found"},
    {"NVML Shared Library Not Found"},
    {"load library failed: libnvidia-ml.so"},
    {"only supported with GPUs, no GPUs found"},
    {"CUDA_ERROR_STUB_LIBRARY"},
    {"cudaErrorStubLibrary"},
    {"CUDA driver is a stub library"},
    {"cuda runtime error (38)"},
    {"cuda runtime error (10)"},
    {"no NVIDIA GPU*detected"},
    {"No HIP GPUs are available"},
    {"GPU access blocked by the operating system"},
    {"Cannot access accelerator device when none is available"},
    {"device >= 0 && device < num_gpus"},
    {"device_index < num_devices"},
    {"Invalid device id"},
    {"Invalid CUDA 'device="},
    {"cuda runtime error (100)"},
    {"cuda runtime error (101)"},
    {"Can't initialize NVML"},
    {"Torch is not able to use GPU"},
    {"is not able to access any compute device"},
    {"device type at start of device string"},
    {"Invalid device string"},
    {"NVMLError_DriverNotLoaded"},
    {"NVMLError_LibraryNotFound"},
    {"couldn't find libnvidia-ml"},
    {"Module nvidia not found"},
    {"Unable to load the kernel module 'nvidia"},
    {"Unable to load the 'nvidia*kernel module"},
    {"could not insert 'nvidia", nullptr, Depth::kPerhaps},
    {"NVRM: No NVIDIA"},
    {"The NVIDIA probe routine", nullptr, Depth::kPerhaps},
    {"no CUDA GPU*found"},
    {"no usable CUDA device"},
    {"Failed to initialize NVML"},
    {"nvidia-container-cli:*error", is_said_by_container_cli},
    {"unknown or invalid runtime name: nvidia"},
    {"unresolvable CDI devices"},
    {"nvmlInit*failed"},
    {"Failed to initiali*e the CUDA runtime"},
    {"failed to initiali*e CUDA"},
    {"cudaGetDeviceCount*== cudaSuccess' failed"},
    {"cudaGetDeviceCount*failed"},
    {"CUDA failed to initialize"},
    {"requires a GPU"},
    {"no gpu found", nullptr, Depth::kGuess},
    {"find any*gpu", nullptr, Depth::kGuess},
    {"no GPU is available"},
    {"No CUDA devices"},
    {"Torch device type CUDA did not initialise"},
    {"No supported gpu backend found"},
    {"Couldn't open CUDA library libcuda"},
    {"failed to find libcuda"},
    {"Unknown runtime specified nvidia"},
    {"libcuda.so.1: cannot open shared object file: No such file"},
    {"capabilities: [[compute"},
    {"capabilities: [[gpu"},
    {"no*gpu*found", nullptr, Depth::kGuess},
    {"no*gpu*available", nullptr, Depth::kGuess},
    {"no*gpu*detected", nullptr, Depth::kGuess},
    {"no*cuda*device", nullptr, Depth::kGuess},
    {"gpu*not available", nullptr, Depth::kGuess},
    {"gpu*not found", nullptr, Depth::kGuess},
    {"gpu*not detected", nullptr, Depth::kGuess},
    {"cuda*not available", nullptr, Depth::kGuess},
    {"cuda*unavailable", nullptr, Depth::kGuess},
    {"cuda*not found on this", nullptr, Depth::kGuess},
    {"no gpu", nullptr, Depth::kGuess},
    {"no supported gpu", nullptr, Depth::kGuess},
    {"requires cuda", nullptr, Depth::kGuess},
    {"nvidia*not found", nullptr, Depth::kGuess},
    {"no nvidia", nullptr, Depth::kGuess},
    {"is_available() is False"},
    {"is_available() returns False"},
    {"is_available()*returned False"},
    {"Torch not able to use GPU"},
    {"cudaGetDeviceCount returned 100"},
    {"cudaGetDeviceCount returned 38"},
    {"0 active drivers ([])"},
    {"Failed to infer device type"},
    {"CUDA error(100)"},
    {"cudaSuccess (38 vs. 0)"},
    {"cudaSuccess (100 vs. 0)"},
    {"cudaSuccess (10 vs. 0)"},
    {"Could not find cuda drivers on your machine", nullptr, Depth::kPerhaps},
    {"GPU will not be used", nullptr, Depth::kPerhaps},
    {"no cuda runtime", nullptr, Depth::kGuess},
    {"no gpus", nullptr, Depth::kGuess},
    {"gpu*not usable", nullptr, Depth::kGuess},
    {"cuda*not detected", nullptr, Depth::kGuess},
    {"any gpu", nullptr, Depth::kGuess},
    {"NVIDIA Driver was not detected", nullptr, Depth::kAsRow, true},
    {"NVIDIA driver was not found"},
    {"No GPU detected", nullptr, Depth::kPerhaps},
    {"No GPU was detected", nullptr, Depth::kPerhaps},
    {"GPU device not found", nullptr, Depth::kPerhaps},
    {"Failed to get device handle for gpu"},
    {"nvidia-smi: command not found"},
    {"'nvidia-smi' is not recognized"}};
constexpr Cause kNoDeviceCauses[] = {
    {.why = "The container has lost its devices: systemd took the rights away when it read its "
            "units again.",
     .step = "Start the container anew; pass the devices by name (--device /dev/nvidia0 …), or "
             "let docker use cgroupfs.",
     .when = "Failed to initialize NVML: Unknown Error"},
    {.why = "A library for building without a driver (a stub) is loaded instead of the driver's.",
     .step = "Take the folder `stubs` off LD_LIBRARY_PATH and rpath.",
     .when = "stub"},
    {.why = "A device was named that is not there: fewer are visible than there are ranks, or the "
            "number "
            "is one of before CUDA_VISIBLE_DEVICES.",
     .step =
         "Devices are numbered from 0 among the visible ones. Use LOCAL_RANK, and start no more "
         "ranks than there are devices.",
     .when = "invalid device ordinal"},
    {.why = "A checkpoint of a device is read where there is none.",
     .step = "Read it to the CPU (map_location).",
     .when = "Attempting to deserialize"},
    {.why = "The process sees no device: no driver, a container without --gpus, an empty or wrong "
            "CUDA_VISIBLE_DEVICES, or a job without a device.",
     .step =
         "`nvidia-smi` in the same place. In a container: --gpus all; in Slurm: --gres=gpu:1; see "
         "CUDA_VISIBLE_DEVICES below."}};

constexpr ErrorRow kDriverRows[] = {
    {.number = 21,
     .name = "driver-too-old",
     .title = "the driver is too old",
     .depth = Depth::kCause,
     .patterns = kTooOld,
     .causes = kTooOldCauses,
     .checks = "driver, libtorch",
     .confirm = "the driver's version against the runtime's; a mapped compat library",
     .source = "https://github.com/vllm-project/vllm/issues/4940",
     .counts_as_warning = true},
    {.number = 22,
     .name = "driver-library-mismatch",
     .title = "the driver's module and library differ",
     .depth = Depth::kCause,
     .patterns = kMismatch,
     .causes = kMismatchCauses,
     .checks = "driver",
     .confirm = "/proc/driver/nvidia/version against the version of libnvidia-ml",
     .source = "",
     .counts_as_warning = true},
    {.number = 23,
     .name = "fabric-not-ready",
     .title = "the fabric manager does not run",
     .depth = Depth::kCause,
     .patterns = kFabric,
     .causes = kFabricCauses,
     .checks = "driver",
     .confirm = "the service's state, and its version against the driver's",
     .source = "https://github.com/pytorch/pytorch/issues/35710",
     .counts_as_warning = true},
    {.number = 24,
     .name = "devices-busy",
     .title = "the devices are busy or unavailable",
     .depth = Depth::kLate,
     .patterns = kBusy,
     .causes = kBusyCauses,
     .checks = "driver, visible-devices",
     .confirm = "NVML's compute mode and list of processes",
     .source = ""},
    {.number = 25,
     .name = "fork-after-cuda",
     .title = "a process was forked after CUDA had begun",
     .depth = Depth::kCause,
     .patterns = kFork,
     .causes = kForkCauses,
     .checks = "",
     .confirm = "the parent had a context when it forked",
     .source = "https://github.com/pytorch/pytorch/issues/40403"},
    {.number = 26,
     .name = "device-fault",
     .title = "the hardware failed",
     .depth = Depth::kCause,
     .patterns = kFault,
     .causes = kFaultCauses,
     .checks = "driver",
     .confirm = "NVML's ECC counters and remapped rows; the last Xid in dmesg",
     .source = "https://docs.nvidia.com/deploy/xid-errors/"},
    {.number = 53,
     .name = "no-device",
     .title = "no device is to be seen",
     .depth = Depth::kCause,
     .patterns = kNoDevice,
     .causes = kNoDeviceCauses,
     .checks = "driver, visible-devices",
     .confirm = "device files, the driver's module, CUDA_VISIBLE_DEVICES",
     .source = "",
     .counts_as_warning = true},
    {.number = 46,
     .name = "driver-shutting-down",
     .title = "something outlives CUDA at the end of the process",
     .depth = Depth::kPerhaps,
     .patterns = kShutdown,
     .causes = kShutdownCauses,
     .checks = "",
     .confirm = "a stack through __run_exit_handlers",
     .source = "https://github.com/pytorch/pytorch/pull/74258"}};

}  // namespace

extern constinit const ErrorFamilyEntry device_entry{
    "device", "the driver and the device itself", kDriverRows};

}  // namespace muster::diagnose
