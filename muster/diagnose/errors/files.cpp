// Files that cannot be read, and what is fetched: rows 58, 59, 73, 81 and 82.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kUnreadable[] = {
    {"failed finding central directory"},
    // serde_json's (tokenizers, safetensors) and Python's json's
    {"expected value at line*column"},
    {"EOF while parsing*at line*column"},
    {"trailing characters at line*column"},
    {"JSONDecodeError"},
    // zlib's, tarfile's, HDF5's and the decoder's of text
    {"while decompressing data"},
    {"not a gzip file"},
    {"inflate() failed"},
    {"codec can't decode byte"},
    // libpng's, Pillow's, ffmpeg's, decord's, libsndfile's; OpenCV's of what imread did not read
    {"libpng error"},
    {"broken data stream when reading"},
    {"moov atom not found"},
    {"cannot find video stream"},
    {"Format not recognised"},
    {"!_src.empty()"},
    {"!ssize.empty()"},
    {"PytorchStreamReader failed"},
    {"invalid header or archive is corrupted"},
    {"The file might be corrupted"},
    {"file in archive is not in a subdirectory"},
    {"Legacy model format is not supported"},
    {"unexpected EOF, expected"},
    {"open file failed because of errno"},
    {"open file failed, file path"},
    {"not a ZIP archive"},
    {"File is not a zip file"},
    {"invalid load key"},
    {"Ran out of input"},
    {"pickle data was truncated"},
    {"kMaxSupportedFileFormatVersion"},
    {"maximum supported version for reading"},
    {"HeaderTooLarge"},
    {"HeaderTooSmall"},
    {"InvalidHeaderDeserialization"},
    {"MetadataIncompleteBuffer"},
    {"InvalidHeaderLength"},
    {"Error while deserializing header"},
    {"Weights only load failed"},
    {"Unrecognized data format"},
    {"storage has wrong byte size"},
    {"storage has wrong size"},
    {"image file is truncated"},
    {"cannot identify image file"},
    {"Unable to open file (truncated file"},
    {"Unable to open file (file signature not found)"},
    {"git-lfs.github.com/spec"},
    {"Unable to load weights from pytorch checkpoint file"},
    {"checksum mismatch"},
    {"Magic number mismatch"},
    {"istream reader failed"},
    {"ReadAdapterInterface"},
    {"Cannot find field. (deserialize"},
    {"caffe2/serialize/", nullptr, Depth::kPerhaps},
    {"torch/csrc/jit/import", nullptr, Depth::kPerhaps},
    {"jit/serialization/import", nullptr, Depth::kPerhaps},
    {"torch::jit::*ErrorReport", nullptr, Depth::kPerhaps},
    {"torch::jit::load() received a file from"},
    {"read_bytes ==*ASSERT FAILED"},
    {"archive does not contain"},
    {"required keyword attribute"},
    {"Unrecognized type name"},
    {"Unknown type name"},
    {"Unrecognized archive format"},
    {"file is corrupt"},
    {"archive is corrupt"},
    {"not in gzip format"},
    {"bad magic number"},
    {"CRC check failed"},
    {"Bad CRC-32"},
    {"BadZipFile"},
    {"ended before the end-of-stream marker"},
    {"Corrupt or unknown file format"},
    {"corrupt", nullptr, Depth::kGuess},
    {"invalid header", nullptr, Depth::kGuess},
    {"unexpected eof", nullptr, Depth::kGuess},
    {"unexpected end", nullptr, Depth::kGuess},
    {"truncated", nullptr, Depth::kGuess},
    {"bad magic", nullptr, Depth::kGuess},
    {"invalid magic", nullptr, Depth::kGuess},
    {"failed to load*model", nullptr, Depth::kGuess},
    {"failed to read", nullptr, Depth::kGuess},
    {"unpickl", nullptr, Depth::kGuess},
    {"deserializ", nullptr, Depth::kGuess},
    {"not a valid", nullptr, Depth::kGuess},
    {"filename 'storages' not found"},
    {"unknown format or damaged"},
    {"damaged", nullptr, Depth::kGuess},
    {"bad zip", nullptr, Depth::kGuess},
    {"not a zip", nullptr, Depth::kGuess},
    {"corrupted", nullptr, Depth::kGuess}};
constexpr Cause kUnreadableCauses[] = {
    {.why = "The file is what Git LFS puts in a large file's place, or a page that says that there "
            "is no such file.",
     .step = "`head -c 200 FILE` shows which. `git lfs pull`, or fetch the file again.",
     .when = "invalid load key"},
    {.why = "The file is not there, or its name is wrong.",
     .step = "Print the path as the program sees it (its working folder may be another), and look "
             "whether each rank's machine has it.",
     .when = "open file failed"},
    {.why = "The file is of a newer LibTorch than the one that reads it.",
     .step = "Read it with the LibTorch that wrote it or a newer one, or write it anew.",
     .when = "maximum supported version"},
    {.why = "The file holds more than tensors, and the reader takes nothing else.",
     .step = "Save a state_dict alone (or safetensors); let other types in by name if you trust "
             "the file.",
     .when = "Weights only load failed"},
    {.why = "The file was cut short or is not of this format: a copy or a download that broke off, "
            "a run that ended while it wrote, weights (a state_dict) where a TorchScript archive "
            "is expected, or the reverse.",
     .step =
         "Compare its size with the original's; `unzip -t FILE` for .pt files. Fetch it again, or "
         "take the checkpoint before it. torch::jit::load reads only what torch.jit.save wrote."}};

constexpr Pattern kKeys[] = {
    {"Missing key(s) in state_dict"},
    // what Optimizer.load_state_dict reads (torch/optim/optimizer.py), and the names of PyTorch's guide to checkpoints
    {"KeyError: 'param_groups'"},
    {"KeyError: 'optimizer'"},
    {"KeyError: 'optimizer_state_dict'"},
    {"KeyError: 'model_state_dict'"},
    {"KeyError: 'state_dict'"},
    {"Unexpected key(s) in state_dict"},
    {"No such serialized tensor"},
    {"No such serialized submodule"},
    {"Missing keys in state_dict"},
    {"doesn't contain a parameter group that matches the size of optimizer's group"},
    {"loaded state dict has a different number of parameter groups"},
    {"missing key", nullptr, Depth::kGuess},
    {"unexpected keys", nullptr, Depth::kGuess},
    {"unexpected key(s)", nullptr, Depth::kGuess},
    {"unexpected key in", nullptr, Depth::kGuess},
    {"loaded state dict contains a parameter group"},
    {"parameter group", nullptr, Depth::kGuess},
    {"is in the state_dict but the state_dict only has"},
    {"in the state_dict", nullptr, Depth::kGuess},
    {"state dict", nullptr, Depth::kGuess},
    {"state_dict", nullptr, Depth::kGuess}};
constexpr Cause kKeysCauses[] = {
    {.why = "The optimizer's state is of another model or another optimizer.",
     .step =
         "Make the optimizer as it was when it was saved: the same parameters, in the same groups.",
     .when = "parameter group"},
    {.why = "The names in the file and in the model differ: a prefix (`module.` of DataParallel or "
            "DDP, `_orig_mod.` of compile), another version of the model, or a file that holds the "
            "weights under a key of their own (`state_dict`, `model`).",
     .step = "Compare some names of both sides. Take the prefix off, or load into the model before "
             "it is wrapped."}};

constexpr Pattern kDownload[] = {{"Max retries exceeded with url"},
                                 {"Temporary failure in name resolution", nullptr, Depth::kPerhaps},
                                 {"Name or service not known", nullptr, Depth::kPerhaps},
                                 {"No address associated with hostname", nullptr, Depth::kPerhaps},
                                 {"Could not resolve host"},
                                 {"NameResolutionError"},
                                 {"We couldn't connect to 'https://huggingface.co'"},
                                 {"LocalEntryNotFoundError"},
                                 {"<urlopen error"},
                                 {"HTTP Error 4"},
                                 {"HTTP Error 5"},
                                 {"Client Error: Unauthorized for url"},
                                 {"Client Error: Forbidden for url"},
                                 {"Client Error: Not Found for url"},
                                 {"Client Error: Too Many Requests"},
                                 {"Server Error*for url"},
                                 {"CERTIFICATE_VERIFY_FAILED"},
                                 {"ConnectTimeoutError"},
                                 {"ReadTimeoutError"},
                                 {"outgoing traffic has been disabled"},
                                 {"is not a valid model identifier"},
                                 {"we cannot find the requested files in the disk cache"},
                                 {"Repository Not Found for url"},
                                 {"Connection error, and we cannot find"},
                                 {"http*connection", nullptr, Depth::kGuess},
                                 {"name resolution", nullptr, Depth::kGuess},
                                 {"failed to connect to http", nullptr, Depth::kGuess},
                                 {"download*fail", nullptr, Depth::kGuess},
                                 {"fail*download", nullptr, Depth::kGuess},
                                 {"ssl*certificate", nullptr, Depth::kGuess},
                                 {"http error", nullptr, Depth::kGuess}};
constexpr Cause kDownloadCauses[] = {
    {.why = "The server wants a login, or does not let this one in.",
     .step = "Log in where the job runs (`huggingface-cli login`, a token in the environment), and "
             "accept the terms of gated files on the server's page.",
     .when = "Client Error: "},
    {.why = "The certificate of the server is not trusted here: a proxy that opens connections, an "
            "old set of certificates, or a wrong clock.",
     .step = "Look at `date`; install ca-certificates, and the certificate of your proxy.",
     .when = "CERTIFICATE_VERIFY_FAILED"},
    {.why = "The program fetches something, and this machine does not reach the server: compute "
            "nodes often have no way out.",
     .step = "Fetch it on a machine that has one, put it where the job reads it, and tell the "
             "program to stay offline (HF_HUB_OFFLINE=1); else set https_proxy. With several ranks "
             "let one fetch."}};

constexpr Pattern kPermission[] = {{"PermissionError"},
                                   {"[Errno 13] Permission denied"},
                                   {"sh: *: Permission denied"},  // a shell's, of a script
                                   {"filesystem error*Permission denied"},
                                   {"open*: Permission denied"},
                                   {"fopen*Permission denied"},
                                   {"access is denied", nullptr, Depth::kGuess},
                                   {"access denied", nullptr, Depth::kGuess},
                                   {"permission*denied", nullptr, Depth::kGuess},
                                   {"not permitted", nullptr, Depth::kGuess}};
constexpr Cause kPermissionCauses[] = {
    {.why = "The process may not read or write there: a folder of another user, a cache in a home "
            "that a container does not have, a file mounted read-only.",
     .step = "`ls -ld` on the path of the message and `id`; choose folders of your own for output "
             "and caches (`muster train --output`, HF_HOME, TORCH_HOME, TMPDIR)."}};

constexpr Pattern kMissing[] = {
    {"FileNotFoundError", nullptr, Depth::kPerhaps},
    {"Failed to find any matching files for"},  // tensorflow/core/util/tensor_bundle
    {"does not appear to have a file named"},   // transformers/utils/hub.py
    {"[Errno 2] No such file or directory", nullptr, Depth::kPerhaps},
    {"filesystem error*No such file or directory", nullptr, Depth::kPerhaps},
    {"can't open file '", nullptr, Depth::kPerhaps},
    {"No such file or directory: '", nullptr, Depth::kPerhaps},
    {"cannot open file", nullptr, Depth::kPerhaps},
    {"does not exist: No such file", nullptr, Depth::kPerhaps},
    {"No checkpoint found at", nullptr, Depth::kPerhaps},
    {"does not exist", nullptr, Depth::kGuess},
    {"cannot find*file", nullptr, Depth::kGuess},
    {"can not find*file", nullptr, Depth::kGuess},
    {"cannot find*path", nullptr, Depth::kGuess},
    {"could not find*file", nullptr, Depth::kGuess},
    {"file*not found", nullptr, Depth::kGuess},
    {"cannot open*file", nullptr, Depth::kGuess},
    {"could not open*file", nullptr, Depth::kGuess},
    {"unable to open*file", nullptr, Depth::kGuess},
    {"failed to open", nullptr, Depth::kGuess},
    {"no such file", nullptr, Depth::kGuess},
    {"not found at", nullptr, Depth::kGuess}};
constexpr Cause kMissingCauses[] = {
    {.why = "A path is wrong, or relative to another folder than the program runs in; in a "
            "container or on another machine the folder may not be mounted.",
     .step = "Print the path as the program sees it, and `ls` it on the machine and in the "
             "container that fails."}};

constexpr ErrorRow kFileRows[] = {
    {.number = 58,
     .name = "unreadable-file",
     .title = "a file cannot be read, or is not what it should be",
     .depth = Depth::kCause,
     .patterns = kUnreadable,
     .causes = kUnreadableCauses,
     .checks = "disk",
     .confirm = "the file's size against the original's; its first bytes",
     .source = "https://github.com/pytorch/pytorch/issues/31620"},
    {.number = 59,
     .name = "checkpoint-names",
     .title = "names in a checkpoint and in the model differ",
     .depth = Depth::kCause,
     .patterns = kKeys,
     .causes = kKeysCauses,
     .checks = "",
     .confirm = "the names on both sides",
     .source = ""},
    {.number = 73,
     .name = "download-failed",
     .title = "something cannot be fetched",
     .depth = Depth::kCause,
     .patterns = kDownload,
     .causes = kDownloadCauses,
     .checks = "network",
     .confirm = "`curl -I ADDRESS` on the same machine",
     .source = ""},
    {.number = 81,
     .name = "permission-denied",
     .title = "a file may not be read or written",
     .depth = Depth::kCause,
     .patterns = kPermission,
     .causes = kPermissionCauses,
     .checks = "disk",
     .confirm = "`ls -ld` on the path, as the same user",
     .source = ""},
    {.number = 82,
     .name = "file-not-found",
     .title = "a file or folder is not there",
     .depth = Depth::kPerhaps,
     .patterns = kMissing,
     .causes = kMissingCauses,
     .checks = "",
     .confirm = "`ls` on the path, where the program runs",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry files_entry{
    "files", "files of weights and data", kFileRows};

}  // namespace muster::diagnose
