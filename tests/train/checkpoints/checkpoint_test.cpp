#include "muster/train/checkpoints/checkpoint.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"

#include "tests/support/error_of.h"
#include "tests/support/folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

train::Checkpoint example(int64_t step) {
  train::Checkpoint checkpoint;
  checkpoint.position = {.step = step, .epoch = 2, .samples = 384};
  checkpoint.world_size = 2;
  checkpoint.global_batch = 128;
  checkpoint.best_step = 60;
  checkpoint.plan = {{"model", "cnn"}};
  checkpoint.loop = {{"loss_sum", 0.1}};
  checkpoint.model = {{"w", torch::full({3}, static_cast<double>(step))}};
  checkpoint.optimizer = {{"momentum/w", torch::ones({3})}};
  checkpoint.rng = {{"rank.0", torch::ones({4}, torch::kByte)}};
  return checkpoint;
}

std::string error_of(const std::function<void()>& callable) {
  return test::muster_error_of(callable).what();
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const test::Folder folder;
  const fs::path path = train::write_checkpoint(folder.path(), example(120));
  EXPECT_EQ(path, folder.path() / "checkpoints" / "step-120");
  const train::Checkpoint back = train::read_checkpoint(train::find_checkpoint(folder.path()));
  EXPECT_EQ(back.position, example(120).position);
  EXPECT_EQ(back.world_size, 2);
  EXPECT_EQ(back.global_batch, 128);
  EXPECT_EQ(back.best_step, 60);
  EXPECT_EQ(back.folder, path);
  EXPECT_TRUE(back.has_checksum);
  EXPECT_EQ(back.plan, example(120).plan);
  EXPECT_EQ(back.loop, example(120).loop);
  EXPECT_TRUE(torch::equal(back.model[0].second, example(120).model[0].second));
  EXPECT_EQ(back.rng[0].first, "rank.0");
}

TEST(Checkpoint, TheSameStepMayBeWrittenAgain) {
  const test::Folder folder;
  train::write_checkpoint(folder.path(), example(7));
  train::Checkpoint again = example(7);
  again.model[0].second = torch::full({3}, 99.0);
  train::write_checkpoint(folder.path(), again);
  const train::Checkpoint back = train::read_checkpoint(train::find_checkpoint(folder.path()));
  EXPECT_TRUE(torch::equal(back.model[0].second, again.model[0].second));
  int entries = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder.path() / "checkpoints"))
    ++entries;
  EXPECT_EQ(entries, 1);
}

TEST(Checkpoint, LatestNamesTheNewestAndOldOnesAreRemoved) {
  const test::Folder folder;
  for (const int64_t step : {10, 20, 30, 40}) train::write_checkpoint(folder.path(), example(step));
  fs::create_directory(folder.path() / "checkpoints" / ".unfinished-50-other-1");
  train::remove_old_checkpoints(folder.path(), 2);
  EXPECT_EQ(train::find_checkpoint(folder.path()).filename(), "step-40");
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoints" / "step-30"));
  EXPECT_FALSE(fs::exists(folder.path() / "checkpoints" / "step-20"));
  // Whoever writes it may be another process.
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoints" / ".unfinished-50-other-1"));
}

TEST(Checkpoint, OnesBehindLatestAreNotThoseThatMakeItOld) {
  const test::Folder folder;
  for (const int64_t step : {10, 20, 30, 40}) train::write_checkpoint(folder.path(), example(step));
  train::write_checkpoint(folder.path(), example(15));
  train::remove_old_checkpoints(folder.path(), 1);
  EXPECT_THAT(train::checkpoint_steps(folder.path()), ::testing::ElementsAre(40, 30, 20, 15));
}

TEST(Checkpoint, TheBestEpochOfEachThatStaysStays) {
  const test::Folder folder;
  for (const auto& [step, best] :
       std::map<int64_t, int64_t>{{10, 10}, {20, 20}, {30, 20}, {40, 20}, {50, 50}, {60, 50}}) {
    train::Checkpoint checkpoint = example(step);
    checkpoint.best_step = best;
    train::write_checkpoint(folder.path(), checkpoint);
    train::remove_old_checkpoints(folder.path(), 2);
    const std::vector<int64_t> steps = train::checkpoint_steps(folder.path());
    EXPECT_THAT(steps, ::testing::Contains(best)) << step;
    const std::vector<int64_t> kept{50, 40, 20}, kept_after{60, 50};
    if (step >= 50) {
      EXPECT_EQ(steps, step == 50 ? kept : kept_after);
    }
  }
}

TEST(Checkpoint, UnderAnotherStepsNameIsRefused) {
  const test::Folder folder;
  const fs::path path = train::write_checkpoint(folder.path(), example(53));
  fs::rename(path, path.parent_path() / "step-93");
  EXPECT_THAT(error_of([&] { train::read_checkpoint(path.parent_path() / "step-93"); }),
              HasSubstr("step-N holds the state after N steps (got state.json of step 53)"));
  fs::rename(path.parent_path() / "step-93", path.parent_path() / "kept");
  EXPECT_EQ(train::read_checkpoint(path.parent_path() / "kept").position.step, 53);
}

TEST(Checkpoint, TheFolderOfItsRunIsFoundHoweverItIsNamed) {
  const test::Folder folder;
  const fs::path path = train::write_checkpoint(folder.path(), example(7));
  EXPECT_EQ(train::run_of(path), folder.path());
  EXPECT_EQ(train::run_of(path / ""), folder.path());
  EXPECT_EQ(train::read_checkpoint(path / "").folder, path);
  fs::copy(path, folder.path() / "copy");
  EXPECT_EQ(train::run_of(folder.path() / "copy"), std::nullopt);
}

/// As an earlier version wrote it.
void make_format_2(const fs::path& checkpoint, const Json& loop, const Json& plan) {
  Json state = parse_json(read_file(checkpoint / "state.json"), "state.json");
  state.erase("checksum");
  state.erase("best_step");
  state["format"] = 2;
  state["loop"] = loop;
  state["plan"] = plan;
  write_file_atomic(checkpoint / "state.json", state.dump());
}

TEST(Checkpoint, OfFormat2IsReadAndKnownToHaveNoChecksum) {
  const test::Folder folder;
  const fs::path path = train::write_checkpoint(folder.path(), example(120));
  make_format_2(path, {{"best", {{"best_epoch", 1}}}}, {{"steps_per_epoch", 50}});
  const train::Checkpoint back = train::read_checkpoint(path);
  EXPECT_FALSE(back.has_checksum);
  EXPECT_EQ(back.best_step, 100);  // after the second epoch
  make_format_2(path, {{"best", {{"best_epoch", -1}}}}, {{"steps_per_epoch", 50}});
  EXPECT_EQ(train::read_checkpoint(path).best_step, -1);
}

TEST(Checkpoint, TheBestEpochThatOneOfFormat2KnowsStaysToo) {
  const test::Folder folder;
  for (const int64_t step : {50, 100, 110, 120})
    make_format_2(train::write_checkpoint(folder.path(), example(step)),
                  {{"best", {{"best_epoch", 1}}}},
                  {{"steps_per_epoch", 50}});
  train::remove_old_checkpoints(folder.path(), 1);
  EXPECT_THAT(train::checkpoint_steps(folder.path()), ::testing::ElementsAre(120, 100));
}

TEST(Checkpoint, DamageIsNamed) {
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "rng.safetensors"}) {
    const test::Folder folder;
    const fs::path path = train::write_checkpoint(folder.path(), example(1));
    const std::string whole = read_file(path / name);

    std::string altered = whole;
    altered.back() ^= 1;
    write_file_atomic(path / name, altered);
    EXPECT_THAT(error_of([&] { train::read_checkpoint(path); }), HasSubstr(name + " was altered"));

    write_file_atomic(path / name, whole.substr(0, whole.size() / 2));
    EXPECT_THAT(error_of([&] { train::read_checkpoint(path); }), HasSubstr(name + " has"));

    fs::remove(path / name);
    EXPECT_THAT(error_of([&] { train::read_checkpoint(path); }), HasSubstr(name + " is missing"));
  }
}

TEST(Checkpoint, AnyOtherDigitInTheStateFileIsRefused) {
  const test::Folder folder;
  const fs::path path = train::write_checkpoint(folder.path(), example(1));
  const std::string whole = read_file(path / "state.json");
  for (size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] < '0' || whole[at] > '9') continue;
    std::string altered = whole;
    altered[at] = whole[at] == '9' ? '0' : static_cast<char>(whole[at] + 1);
    write_file_atomic(path / "state.json", altered);
    EXPECT_THAT(error_of([&] { train::read_checkpoint(path); }), HasSubstr("cannot be used")) << at;
  }
}

TEST(Checkpoint, AStateFileWithoutAFieldIsRefused) {
  const test::Folder folder;
  const fs::path path = train::write_checkpoint(folder.path(), example(1));
  Json state = parse_json(read_file(path / "state.json"), "state.json");
  const Json whole = state;
  for (const auto& [key, value] : whole.items()) {
    Json without = state;
    without.erase(key);
    write_file_atomic(path / "state.json", without.dump());
    EXPECT_THAT(error_of([&] { train::read_checkpoint(path); }), HasSubstr("cannot be used"))
        << key;
    if (!value.is_number()) continue;
    without[key] = "text";
    without.erase("checksum");
    write_file_atomic(path / "state.json", formats::with_checksum(without.dump()));
    EXPECT_THAT(error_of([&] { train::read_checkpoint(path); }), HasSubstr("wrong type")) << key;
  }
}

TEST(Checkpoint, TheOneBeforeADamagedOneIsFound) {
  const test::Folder folder;
  for (const int64_t step : {1, 2, 3}) train::write_checkpoint(folder.path(), example(step));
  fs::remove(folder.path() / "checkpoints" / "step-3" / "model.safetensors");
  fs::remove(folder.path() / "checkpoints" / "step-2" / "state.json");
  EXPECT_EQ(train::checkpoint_before(folder.path(), 3)->filename(), "step-1");
  EXPECT_EQ(train::checkpoint_before(folder.path(), 1), std::nullopt);
}

TEST(Checkpoint, AFolderThatLostLatestOffersTheNewestThatIsWhole) {
  const test::Folder folder;
  for (const int64_t step : {1, 2, 3}) train::write_checkpoint(folder.path(), example(step));
  fs::remove(folder.path() / "latest");
  fs::remove(folder.path() / "checkpoints/step-3/model.safetensors");
  EXPECT_THAT(
      error_of([&] { train::load_checkpoint(folder.path()); }),
      AllOf(HasSubstr("nothing to resume in"),
            HasSubstr("whole: --resume " + (folder.path() / "checkpoints/step-2").string())));
}

TEST(Checkpoint, ADamagedOneThatIsNamedOffersTheOneBeforeItElseTheNewest) {
  const test::Folder folder;
  for (const int64_t step : {1, 2, 3}) train::write_checkpoint(folder.path(), example(step));
  const fs::path all = folder.path() / "checkpoints";
  fs::remove(all / "step-1/state.json");
  fs::remove(all / "step-3/state.json");
  const auto error_at = [&](const char* step) {
    return error_of([&] { train::load_checkpoint(all / step); });
  };
  for (const char* step : {"step-1", "step-3", "step-3/"}) {
    EXPECT_THAT(error_at(step),
                AllOf(HasSubstr("state.json is missing"),
                      HasSubstr("whole: --resume " + (all / "step-2").string())))
        << step;
  }
}

TEST(Checkpoint, WhatIsWholeIsFoundWithoutLatestAndBeforeADamagedOne) {
  const test::Folder folder;
  EXPECT_FALSE(train::find_whole(folder.path()).checkpoint);
  write_file_atomic(folder.path() / "metrics.csv", "epoch,loss\n");
  EXPECT_EQ(train::find_whole(folder.path()).remark, "") << "killed in its first epoch";
  write_file_atomic(folder.path() / "metrics.csv", "epoch,loss\n1,0.5\n");
  EXPECT_THAT(train::find_whole(folder.path()).remark, HasSubstr("no checkpoint of it"));
  for (const int64_t step : {1, 2, 3}) train::write_checkpoint(folder.path(), example(step));
  const auto found = [&](int64_t step, const std::string& remark) {
    const train::FoundCheckpoint found = train::find_whole(folder.path());
    ASSERT_TRUE(found.checkpoint);
    EXPECT_EQ(found.checkpoint->position.step, step);
    EXPECT_THAT(found.remark, HasSubstr(remark));
    EXPECT_EQ(found.remark.empty(), remark.empty());
  };
  found(3, "");
  fs::remove(folder.path() / "latest");
  found(3, "no file `latest`: --resume auto takes the newest that is whole");
  train::name_step(folder.path() / "latest", 2);
  found(2, "");
  write_file_atomic(folder.path() / "checkpoints/step-2/state.json", "no JSON");
  found(1, "is not valid JSON");  // step-3 is behind what the run had said to be its newest
  fs::remove(folder.path() / "latest");
  fs::remove(folder.path() / "checkpoints/step-3/rng.safetensors");
  found(1, "no file `latest`");
  train::name_step(folder.path() / "latest", 2);
  fs::remove_all(folder.path() / "checkpoints/step-1");
  EXPECT_THAT(error_of([&] { train::find_whole(folder.path()); }), HasSubstr("not valid JSON"));
}

TEST(Checkpoint, AFolderWithoutARunIsRefused) {
  const test::Folder folder;
  EXPECT_THAT(error_of([&] { train::find_checkpoint(folder.path()); }),
              HasSubstr("nothing to resume in"));
  write_file_atomic(folder.path() / "latest", "../../etc\n");
  EXPECT_THAT(error_of([&] { train::find_checkpoint(folder.path()); }), HasSubstr("step-N"));
  train::write_checkpoint(folder.path(), example(4));
  write_file_atomic(folder.path() / "latest", "\n");
  EXPECT_THAT(error_of([&] { train::find_checkpoint(folder.path()); }),
              HasSubstr("is whole: --resume " + (folder.path() / "checkpoints/step-4").string()));
}

TEST(Checkpoint, AnUnwritablePlaceLeavesTheEarlierOneIntact) {
  const test::Folder folder;
  train::write_checkpoint(folder.path(), example(1));
  // A file where the next checkpoint's temporary folder must go: refused for root as well.
  std::ofstream(folder.path() / "checkpoints" / ("step-2")) << "in the way";
  EXPECT_THAT(error_of([&] {
                fs::rename(folder.path() / "checkpoints", folder.path() / "aside");
                std::ofstream(folder.path() / "checkpoints") << "in the way";
                train::write_checkpoint(folder.path(), example(2));
              }),
              HasSubstr("checkpoint folder"));
  fs::remove(folder.path() / "checkpoints");
  fs::rename(folder.path() / "aside", folder.path() / "checkpoints");
  EXPECT_EQ(train::read_checkpoint(train::find_checkpoint(folder.path())).position.step, 1);
}

}  // namespace
}  // namespace muster
