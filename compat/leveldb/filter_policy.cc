// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/leveldb/filter_policy.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compat/leveldb/coding.h"
#include "compat/leveldb/convert.h"
#include "compat/leveldb/own_objects.h"

namespace leveldb {
namespace {

// The 32-bit hash of LevelDB's filters.
uint32_t FilterHash(const Slice& key) {
  constexpr uint32_t kSeed = 0xbc9f1d34;
  constexpr uint32_t kMultiplier = 0xc6a4a793;
  const char* data = key.data();
  size_t left = key.size();
  uint32_t hash = kSeed ^ static_cast<uint32_t>(left * kMultiplier);
  for (; left >= 4; data += 4, left -= 4) {
    hash = (hash + varve::compat::DecodeFixed32(data)) * kMultiplier;
    hash ^= hash >> 16;
  }
  if (left > 0) {
    uint32_t last = 0;
    for (size_t i = 0; i < left; ++i) {
      last |= static_cast<uint32_t>(static_cast<unsigned char>(data[i]))
              << (8 * i);
    }
    hash = (hash + last) * kMultiplier;
    hash ^= hash >> 24;
  }
  return hash;
}

// LevelDB's Bloom filter: a bit array, then a byte with the number of probes. A
// database does not call it, since the engine has its own. Programs call it, as
// does TableBuilder.
class BloomFilter final
    : public varve::compat::OwnObject<BloomFilter, FilterPolicy> {
 public:
  explicit BloomFilter(int bits_per_key)
      : bits_per_key_(std::max(bits_per_key, 0)),
        // The best number of probes is ln 2 times the bits per key.
        probes_(
            std::clamp(static_cast<int>(bits_per_key * 0.69), 1, kMaxProbes)) {}

  int bits_per_key() const { return bits_per_key_; }

  const char* Name() const override { return "leveldb.BuiltinBloomFilter2"; }

  void CreateFilter(const Slice* keys, int count,
                    std::string* filter) const override {
    const size_t wanted = static_cast<size_t>(std::max(count, 0)) *
                          static_cast<size_t>(bits_per_key_);
    const size_t bytes = (std::max<size_t>(wanted, 64) + 7) / 8;
    const size_t begin = filter->size();
    filter->resize(begin + bytes, '\0');
    filter->push_back(static_cast<char>(probes_));
    char* bits = filter->data() + begin;
    for (int i = 0; i < count; ++i) {
      Probe(keys[i], bytes * 8, probes_, [bits](uint32_t bit) {
        bits[bit / 8] = static_cast<char>(bits[bit / 8] | 1 << (bit % 8));
        return true;
      });
    }
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.size() < 2) return false;
    const size_t bytes = filter.size() - 1;
    const int probes = static_cast<unsigned char>(filter.data()[bytes]);
    if (probes > kMaxProbes) return true;  // Of a format to come.
    return Probe(key, bytes * 8, probes, [bits = filter.data()](uint32_t bit) {
      return (bits[bit / 8] >> (bit % 8) & 1) != 0;
    });
  }

 private:
  static constexpr int kMaxProbes = 30;

  // Calls visit() with each bit of the key, until it returns false. Returns
  // what it returned last.
  template <typename Visit>
  static bool Probe(const Slice& key, size_t bit_count, int probes,
                    Visit visit) {
    uint32_t hash = FilterHash(key);
    const uint32_t step = hash >> 17 | hash << 15;
    for (int i = 0; i < probes; ++i, hash += step) {
      if (!visit(static_cast<uint32_t>(hash % bit_count))) return false;
    }
    return true;
  }

  const int bits_per_key_;
  const int probes_;
};

}  // namespace

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) {
  return new BloomFilter(bits_per_key);
}

}  // namespace leveldb

namespace varve::compat {
namespace {

class ProgramFilterPolicy final : public FilterPolicy {
 public:
  explicit ProgramFilterPolicy(const leveldb::FilterPolicy* target)
      : target_(target),
        name_(target->Name() != nullptr ? target->Name() : "") {}

  const char* Name() const override { return name_.c_str(); }

  void CreateFilter(const std::vector<Slice>& keys,
                    std::string* filter) const override {
    std::vector<leveldb::Slice> converted;
    converted.reserve(keys.size());
    for (const Slice& key : keys) converted.push_back(ToLevelDb(key));
    target_->CreateFilter(converted.data(), static_cast<int>(converted.size()),
                          filter);
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    return target_->KeyMayMatch(ToLevelDb(key), ToLevelDb(filter));
  }

 private:
  const leveldb::FilterPolicy* const target_;
  const std::string name_;
};

}  // namespace

std::shared_ptr<const FilterPolicy> MakeFilterPolicy(
    const leveldb::FilterPolicy* target) {
  if (target == nullptr) return nullptr;
  if (const auto* bloom = leveldb::BloomFilter::Find(target)) {
    return NewBloomFilterPolicy(bloom->bits_per_key());
  }
  return std::make_shared<ProgramFilterPolicy>(target);
}

}  // namespace varve::compat
