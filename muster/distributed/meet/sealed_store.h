// A store of which only the ranks of one job can write what they believe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "muster/base/job_key.h"

namespace muster::distributed {

// Note [Sealed store]
// Whoever reaches the port of a TCPStore may read, list and write everything in it: on one machine
// that is every user. So what the ranks of a job write carries a seal that needs the job's key
// (job_key.h), over the name and the value. A value without one counts as none where ranks look
// whether there is one (`compareSet`: heartbeats, verdicts), and is an error where they need it
// (`get`: addresses of the meeting). Numbers (`add`) have no seal; they only decide who is last.
// A seal has no date: what a rank once wrote under a name a stranger may put back there, an old
// heartbeat for one, which a rank then takes for silence. So a stranger can still disturb a job that
// meets, hide a rank's heartbeats, and repeat them; it cannot end a running job by a verdict that no
// rank has pronounced.

class SealedStore final : public c10d::Store {
 public:
  SealedStore(c10::intrusive_ptr<c10d::Store> inner, const JobKey& key);

  c10::intrusive_ptr<Store> clone() override;
  using Store::set;
  void set(const std::string& name, const std::vector<uint8_t>& value) override;
  using Store::compareSet;
  std::vector<uint8_t> compareSet(const std::string& name,
                                  const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  /// Throws an environment error for a value without this job's seal.
  std::vector<uint8_t> get(const std::string& name) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& names) override;
  void multiSet(const std::vector<std::string>& names,
                const std::vector<std::vector<uint8_t>>& values) override;

  int64_t add(const std::string& name, int64_t value) override { return inner_->add(name, value); }
  bool deleteKey(const std::string& name) override { return inner_->deleteKey(name); }
  bool check(const std::vector<std::string>& names) override { return inner_->check(names); }
  int64_t getNumKeys() override { return inner_->getNumKeys(); }
  void wait(const std::vector<std::string>& names) override { inner_->wait(names); }
  void wait(const std::vector<std::string>& names,
            const std::chrono::milliseconds& timeout) override {
    inner_->wait(names, timeout);
  }
  const std::chrono::milliseconds& getTimeout() const noexcept override {
    return inner_->getTimeout();
  }
  void setTimeout(const std::chrono::milliseconds& timeout) override {
    inner_->setTimeout(timeout);
  }
  /// `append` would break the seal.
  bool hasExtendedApi() const override { return false; }

 private:
  uint64_t tag(const std::string& name, const uint8_t* value, size_t size) const;
  /// An empty value stays empty: to c10d it is the same as none.
  std::vector<uint8_t> seal(const std::string& name, const std::vector<uint8_t>& value) const;
  std::optional<std::vector<uint8_t>> open(const std::string& name,
                                           std::vector<uint8_t> sealed) const;

  const c10::intrusive_ptr<c10d::Store> inner_;
  const JobKey key_;
};

}  // namespace muster::distributed
