// What comes from the network: row 73.
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kDownload[] = {{"Max retries exceeded with url"},
                                 {"Temporary failure in name resolution", nullptr, Depth::kPerhaps},
                                 {"Name or service not known", nullptr, Depth::kPerhaps},
                                 {"No address associated with hostname", nullptr, Depth::kPerhaps},
                                 {"Could not resolve host"},
                                 {"NameResolutionError"},
                                 {"We couldn't connect to 'https://huggingface.co'"},
                                 {"could not connect to*http"},
                                 {"couldn't connect to*http"},
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
                                 {"http error", nullptr, Depth::kGuess},
                                 {"gated repo"},
                                 {"GatedRepoError"},
                                 {"RepositoryNotFoundError"},
                                 {"HfHubHTTPError"},
                                 {"401 Client Error"},
                                 {"403 Client Error"},
                                 {"404 Client Error"},
                                 {"Read timed out", nullptr, Depth::kPerhaps},
                                 {"ReadTimeout", nullptr, Depth::kPerhaps},
                                 {"ConnectTimeout", nullptr, Depth::kPerhaps},
                                 {"HTTPSConnectionPool"},
                                 {"HTTPConnectionPool"},
                                 {"('Connection aborted.'"},
                                 {"Cannot retrieve the public link"},
                                 {"Too many users have viewed or downloaded"},
                                 {"unable to access 'https"},
                                 {"Failed to connect to github.com"},
                                 {"HTTPError", nullptr, Depth::kPerhaps},
                                 {"URLError", nullptr, Depth::kPerhaps},
                                 {"IncompleteRead"},
                                 {"SSLError", nullptr, Depth::kPerhaps},
                                 {"Could not fetch"},
                                 {"is not a local folder and is not a valid"},
                                 {"Network is unreachable", nullptr, Depth::kPerhaps},
                                 {"huggingface", nullptr, Depth::kGuess},
                                 {"connection error", nullptr, Depth::kGuess},
                                 {"max retries", nullptr, Depth::kGuess}};
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

constexpr ErrorRow kFetchRows[] = {{.number = 73,
                                    .name = "download-failed",
                                    .title = "something cannot be fetched",
                                    .depth = Depth::kCause,
                                    .patterns = kDownload,
                                    .causes = kDownloadCauses,
                                    .checks = "network",
                                    .confirm = "`curl -I ADDRESS` on the same machine",
                                    .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry fetching_entry{
    "fetching", "what is fetched from the network", kFetchRows};

}  // namespace muster::diagnose
