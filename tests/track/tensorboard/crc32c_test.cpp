#include "muster/track/tensorboard/crc32c.h"

#include <string>

#include <gtest/gtest.h>

#include "muster/base/file.h"
#include "muster/base/json.h"

#include "tests/support/golden.h"

namespace muster::track {
namespace {

// RFC 3720, appendix B.4. The RFC prints the bytes as sent, lowest first.
TEST(Crc32c, GivesTheKnownAnswersOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up;
  for (char c = 0; c < 32; ++c) up += c;
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(std::string(up.rbegin(), up.rend())), 0x113fdb5cu);
  std::string read_command(48, '\0');  // an iSCSI SCSI Read (10) command
  read_command[0] = 0x01, read_command[1] = '\xc0', read_command[16] = 0x14;
  read_command[22] = 0x04, read_command[27] = 0x14, read_command[31] = 0x18;
  read_command[32] = 0x28, read_command[40] = 0x02;
  EXPECT_EQ(crc32c(read_command), 0xd9963a56u);
}

TEST(Crc32c, MasksAsTensorBoardDoes) {
  const Json golden = test::read_golden("tensorboard");  // items() keeps no temporary alive
  for (const auto& [text, crc] : golden.at("masked_crc32c").items()) {
    EXPECT_EQ(masked_crc32c(text), crc.get<uint32_t>()) << text;
  }
}

}  // namespace
}  // namespace muster::track
