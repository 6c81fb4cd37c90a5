#include "muster/track/tensorboard/tensorboard.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/track/tensorboard/hparams.h"

#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/support/short_files.h"

namespace muster::track {
namespace {

const Json& tensorboard_golden() {
  static const Json json = test::read_golden("tensorboard");
  return json;
}

namespace fs = std::filesystem;

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    out += "0123456789abcdef"[static_cast<uint8_t>(byte) >> 4];
    out += "0123456789abcdef"[static_cast<uint8_t>(byte) & 15];
  }
  return out;
}

TensorBoardOptions fixed_time(double seconds = 1700000000.5) {
  return {.clock = [seconds] { return seconds; }};
}

/// Lengths of the whole records of a file; fails if they do not fill it.
std::vector<size_t> records(const std::string& bytes) {
  std::vector<size_t> out;
  size_t at = 0;
  while (at < bytes.size()) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | static_cast<uint8_t>(bytes[at + static_cast<size_t>(i)]);
    const std::string payload = bytes.substr(at + 12, length);
    EXPECT_EQ(bytes.substr(at, length + 16), to_record(payload));
    out.push_back(length);
    at += length + 16;
  }
  EXPECT_EQ(at, bytes.size());
  return out;
}

TEST(TensorBoardWriter, WritesTheBytesThatTensorBoardWrites) {
  const Json expected = tensorboard_golden()["records"];
  const test::Folder folder;
  TensorBoardOptions options = fixed_time();
  options.purge_step = 7;
  TensorBoardWriter writer(folder.path(), options);
  writer.add_scalar("loss/train", 0.1, 300, 1700000001.25);
  writer.add_scalar("loss/train", 0.0, 0, 1700000001.25);
  writer.add_text("note", "# größe", 3, 1700000001.25);
  writer.add_histogram("w", std::vector<double>{0.5, 0.75, 0.5}, 4, 1700000001.25);
  std::string all;
  for (const auto& [name, hex] : expected.items()) all += hex.get<std::string>();
  EXPECT_EQ(to_hex(read_file(writer.path())), all);
}

TEST(TensorBoardWriter, DescribesHyperparametersAsTheHparamsPlugin) {
  const HParams hparams{{"lr", 0.1}, {"nesterov", true}, {"model", std::string("mlp")}};
  const std::vector<std::string> tags{"accuracy/test"};
  EXPECT_EQ(to_hex(experiment_content(hparams, tags)),
            tensorboard_golden()["experiment"].get<std::string>());
}

TEST(TensorBoardWriter, EachProcessOfARunGetsAFileBehindTheEarlierOnes) {
  const test::Folder folder;
  std::vector<fs::path> paths;
  for (const double time : {1700000000.5, 1700000000.9, 1600000000.0, 1700000009.0}) {
    paths.push_back(TensorBoardWriter(folder.path(), fixed_time(time)).path());
  }
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end()));
  EXPECT_EQ(std::set(paths.begin(), paths.end()).size(), 4u);
  EXPECT_EQ(paths[0].filename().string().rfind("events.out.tfevents.1700000000.", 0), 0u);
  EXPECT_EQ(paths[2].filename().string().rfind("events.out.tfevents.1700000002.", 0), 0u);
}

TEST(TensorBoardWriter, NamesFilesAsTensorBoardDoes) {
  EXPECT_EQ(event_file_name(5, "host", 42, 0), "events.out.tfevents.0000000005.host.42.0");
}

TEST(TensorBoardWriter, AnEventIsInTheFileWhenTheCallReturns) {
  const test::Folder folder;
  TensorBoardWriter writer(folder.path());
  for (size_t n = 1; n < 5; ++n) {
    EXPECT_EQ(records(read_file(writer.path())).size(), n);
    writer.add_scalar("loss", 1, 1);
  }
}

TEST(TensorBoardWriter, ABufferIsWrittenWholeWhenFullOnFlushAndAtTheEnd) {
  const test::Folder folder;
  fs::path path;
  {
    TensorBoardWriter writer(folder.path(), {.buffer_bytes = 200});
    path = writer.path();
    writer.add_scalar("loss", 1, 1);
    EXPECT_EQ(records(read_file(path)).size(), 1u);
    writer.flush();
    EXPECT_EQ(records(read_file(path)).size(), 2u);
    for (int i = 0; i < 20; ++i) writer.add_scalar("loss", 1, 1);
    const size_t held = 22 - records(read_file(path)).size();
    EXPECT_LT(held, 6u);
    writer.add_scalar("loss", 1, 1);
  }
  EXPECT_EQ(records(read_file(path)).size(), 23u);
}

TEST(TensorBoardWriter, MendsWhatIsNotUtf8) {
  const test::Folder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_text("a\xff", "b\xfe", 0);
  writer.add_scalar("c\xc3", 0, 0);
  const std::string bytes = read_file(writer.path());
  for (const char* mended : {"a\xef\xbf\xbd/text_summary", "b\xef\xbf\xbd", "c\xef\xbf\xbd"}) {
    EXPECT_NE(bytes.find(mended), std::string::npos);
  }
  EXPECT_EQ(records(bytes).size(), 3u);
}

TEST(TensorBoardWriter, RefusesWhatHasNoTagBeforeAnythingIsWritten) {
  const test::Folder folder;
  TensorBoardWriter writer(folder.path());
  EXPECT_THROW(writer.add_scalar("", 0, 0), Error);
  EXPECT_THROW(writer.add_text("", "x", 0), Error);
  EXPECT_THROW(writer.add_histogram("w", std::vector<float>{}, 0), Error);
  EXPECT_THROW(writer.add_image("i", {1, 1, 3, {}}, 0), Error);
  EXPECT_EQ(records(read_file(writer.path())).size(), 1u);
}

TEST(TensorBoardWriter, AFolderThatCannotBeIsAnEnvironmentError) {
  const test::Folder folder;
  write_file_atomic(folder.path() / "file", "");
  try {
    TensorBoardWriter writer(folder.path() / "file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  }
}

TEST(TensorBoardWriter, AFullDiskIsOneEnvironmentErrorAndLeavesWholeRecords) {
  const test::Folder folder;
  TensorBoardWriter writer(folder.path());
  writer.add_scalar("loss", 1, 1);
  const size_t before = fs::file_size(writer.path());
  {
    const test::ShortFiles limit(before + 20);
    try {
      writer.add_scalar("loss", 2, 2);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
      EXPECT_NE(std::string(error.what()).find(writer.path().string()), std::string::npos);
    }
    EXPECT_EQ(fs::file_size(writer.path()), before);
  }
  writer.add_scalar("loss", 3, 3);  // there is room again
  EXPECT_EQ(records(read_file(writer.path())).size(), 3u);
}

}  // namespace
}  // namespace muster::track
