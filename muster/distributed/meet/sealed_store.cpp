#include "muster/distributed/meet/sealed_store.h"

#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::distributed {

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> inner, const JobKey& key)
    : inner_(std::move(inner)), key_(key) {}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(inner_->clone(), key_);
}

/// The length of the name stands first, so that no byte of it can pass for one of the value.
uint64_t SealedStore::tag(const std::string& name, const uint8_t* value, size_t size) const {
  std::string bytes = concat(name.size(), ' ', name);
  bytes.append(reinterpret_cast<const char*>(value), size);
  return key_.tag(bytes);
}

std::vector<uint8_t> SealedStore::seal(const std::string& name,
                                       const std::vector<uint8_t>& value) const {
  if (value.empty()) return {};
  const uint64_t tag = this->tag(name, value.data(), value.size());
  std::vector<uint8_t> sealed = value;
  sealed.resize(value.size() + sizeof tag);
  std::memcpy(sealed.data() + value.size(), &tag, sizeof tag);
  return sealed;
}

std::optional<std::vector<uint8_t>> SealedStore::open(const std::string& name,
                                                      std::vector<uint8_t> sealed) const {
  if (sealed.empty()) return sealed;
  uint64_t tag = 0;
  if (sealed.size() <= sizeof tag) return std::nullopt;
  const size_t size = sealed.size() - sizeof tag;
  std::memcpy(&tag, sealed.data() + size, sizeof tag);
  if (tag != this->tag(name, sealed.data(), size)) return std::nullopt;
  sealed.resize(size);
  return sealed;
}

void SealedStore::set(const std::string& name, const std::vector<uint8_t>& value) {
  inner_->set(name, seal(name, value));
}

std::vector<uint8_t> SealedStore::compareSet(const std::string& name,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  return open(name, inner_->compareSet(name, seal(name, expected), seal(name, desired)))
      .value_or(std::vector<uint8_t>());
}

std::vector<uint8_t> SealedStore::get(const std::string& name) {
  if (auto value = open(name, inner_->get(name))) return *std::move(value);
  throw environment_error(
      {.refused = concat("what the job's store holds under ", name),
       .rule = "each rank signs what it writes with the job's key, and this is not signed so",
       .hint = "another program, maybe of another user, writes to this job's port: choose another "
               "one (--master-port)"});
}

std::vector<std::vector<uint8_t>> SealedStore::multiGet(const std::vector<std::string>& names) {
  std::vector<std::vector<uint8_t>> values;
  for (const std::string& name : names) values.push_back(get(name));
  return values;
}

void SealedStore::multiSet(const std::vector<std::string>& names,
                           const std::vector<std::vector<uint8_t>>& values) {
  for (size_t i = 0; i < names.size(); ++i) set(names[i], values.at(i));
}

}  // namespace muster::distributed
