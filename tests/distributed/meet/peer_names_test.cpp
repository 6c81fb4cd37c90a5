// LibTorch's questions for names of peers come to Muster, and nobody else's are answered otherwise.
#include "muster/distributed/meet/peer_names.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>

namespace muster::distributed {
namespace {

const void* code_of(const char* name) { return ::dlsym(RTLD_DEFAULT, name); }

const void* file_of(const void* code) {
  Dl_info library{};
  return ::dladdr(code, &library) != 0 ? library.dli_fbase : nullptr;
}

// The first of that name is what every library of the process calls.
TEST(PeerNames, AreAskedForInThisProgram) {
  ASSERT_NE(code_of("getnameinfo"), nullptr);
  EXPECT_EQ(file_of(code_of("getnameinfo")), file_of(reinterpret_cast<const void*>(&file_of)));
}

TEST(PeerNames, AreAskedForByLibTorchAlone) {
  EXPECT_FALSE(is_in_libtorch(reinterpret_cast<const void*>(&code_of)));
  EXPECT_FALSE(is_in_libtorch(code_of("getaddrinfo")));
  EXPECT_FALSE(is_in_libtorch(nullptr));
  EXPECT_TRUE(is_in_libtorch(code_of("_ZNK4c10d8TCPStore4reprB5cxx11Ev")));
}

TEST(PeerNames, OfOthersAreLibcs) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(80);
  const auto libcs = reinterpret_cast<decltype(&::getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  for (const int flags : {0, NI_NUMERICHOST | NI_NUMERICSERV}) {
    char host[NI_MAXHOST], service[NI_MAXSERV], their_host[NI_MAXHOST], their_service[NI_MAXSERV];
    const auto* of = reinterpret_cast<const sockaddr*>(&address);
    ASSERT_EQ(::getnameinfo(of, sizeof address, host, sizeof host, service, sizeof service, flags),
              0);
    ASSERT_EQ(libcs(of,
                    sizeof address,
                    their_host,
                    sizeof their_host,
                    their_service,
                    sizeof their_service,
                    flags),
              0);
    EXPECT_STREQ(host, their_host);
    EXPECT_STREQ(service, their_service);
  }
}

}  // namespace
}  // namespace muster::distributed
